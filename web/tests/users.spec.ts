import { expect, signIn, test, VIEWER_KEY } from "./fixtures";

const PASSWORD = "correct horse battery";

test("an admin creates a user, who signs in, and takes the role away again", async ({ page, gateway, browser }) => {
  // Other tests may have left some.
  for (const { name } of ((await gateway.call("GET", "/users")) as { list: { name: string }[] }).list) await gateway.call("DELETE", `/users/${name}`);
  await signIn(page, gateway);
  await page.keyboard.press("Control+K");
  await page.getByRole("combobox").fill("user");
  await page.getByRole("option", { name: /^Users/ }).click();
  await expect(page.getByText("No users yet")).toBeVisible();
  await page.keyboard.press("n");
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("User").fill("ve ra");
  await dialog.getByRole("button", { name: "Create user" }).click();
  await expect(dialog.getByText(/a space cannot be in it/)).toBeVisible();
  await expect(dialog.getByLabel("User")).toHaveAttribute("aria-invalid", "true");
  await expect(dialog.getByText("Enter a password of at least 12 characters.")).toBeVisible();
  await dialog.getByLabel("User").fill("vera");
  await dialog.getByLabel("Role").selectOption("editor");
  await dialog.getByLabel("Password").fill("too short");
  await dialog.getByRole("button", { name: "Create user" }).click();
  await expect(dialog.getByText("The password has 9 of at least 12 characters.")).toBeVisible();
  await expect(dialog.getByLabel("Password")).toBeFocused();
  await dialog.getByLabel("Password").fill(PASSWORD);
  await dialog.getByRole("button", { name: "Create user" }).click();
  await expect(page.getByRole("row", { name: /vera/ })).toContainText("Editor");

  const other = await (await browser.newContext()).newPage();
  await other.goto(`${gateway.console}/`);
  await other.getByRole("button", { name: "Sign in with a password" }).click();
  await expect(other.getByText("Admins create users on the page Users.")).toBeVisible();
  await other.getByLabel("User").fill("vera");
  await other.getByLabel("Password").fill(PASSWORD);
  await other.keyboard.press("Enter");
  await expect(other.locator(".side .who")).toContainText("vera");
  await expect(other.locator(".side .who")).toContainText("Editor");
  await expect(other.getByRole("link", { name: "Users" })).toHaveCount(0);

  const act = async (name: string) => {
    await page.getByRole("button", { name: "Actions for vera" }).click();
    await page.getByRole("menuitem", { name }).click();
  };
  await act("Sign out everywhere");
  await page.getByRole("dialog").getByRole("button", { name: "Sign out everywhere" }).click();
  await expect(other.locator("#key")).toBeVisible();
  await act("Change role or password");
  await dialog.getByLabel("Role").selectOption("viewer");
  await dialog.getByLabel("May see which consumer").check();
  await dialog.getByRole("button", { name: "Save user" }).click();
  await expect(page.getByRole("row", { name: /vera/ })).toContainText("Viewer · sees consumers");
  expect(await gateway.call("GET", "/users/vera")).toMatchObject({ role: "viewer", consumer_names: true });
  // Its password is still the same.
  await other.getByRole("button", { name: "Sign in with a password" }).click();
  await other.getByLabel("User").fill("vera");
  await other.getByLabel("Password").fill(PASSWORD);
  await other.keyboard.press("Enter");
  await expect(other.locator(".side .who")).toContainText("Viewer");

  await page.getByRole("button", { name: "New user" }).click();
  await dialog.getByLabel("User").fill("vera");
  await dialog.getByLabel("Password").fill(PASSWORD);
  await dialog.getByRole("button", { name: "Create user" }).click();
  await expect(dialog.getByRole("alert")).toContainText("A user vera exists already");
  await page.keyboard.press("Escape");
  await act("Delete");
  // The button that does no harm has the focus.
  await page.keyboard.press("Enter");
  await expect(page.getByRole("row", { name: /vera/ })).toBeVisible();
  await act("Delete");
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await expect(page.getByText("No users yet")).toBeVisible();
  await expect(other.locator("#key")).toBeVisible();
  await other.context().close();
});

test("who is no admin is offered no users", async ({ page, gateway }) => {
  await signIn(page, gateway, "/users", VIEWER_KEY);
  await expect(page.getByText("Users are managed with role admin.")).toBeVisible();
  await expect(page.getByRole("navigation").getByRole("link", { name: "Users" })).toHaveCount(0);
  await page.keyboard.press("Control+K");
  await page.getByRole("combobox").fill("users");
  await expect(page.getByRole("option", { name: /^Users/ })).toHaveCount(0);
});

test("at 390 pixels the menu says who is signed in, and signs out", async ({ page, gateway }) => {
  await page.setViewportSize({ width: 390, height: 844 });
  await signIn(page, gateway);
  await page.getByRole("button", { name: "Menu" }).click();
  const menu = page.getByRole("navigation");
  await expect(menu).toContainText("ops");
  await expect(menu).toContainText(/Revision \d+/);
  await menu.getByRole("button", { name: "中文" }).click();
  await menu.getByRole("button", { name: "English" }).click();
  await page.keyboard.press("Escape");
  await expect(menu).toBeHidden();
  await page.getByRole("button", { name: "Menu" }).click();
  await menu.getByRole("button", { name: "Sign out" }).click();
  await expect(page.locator("#key")).toBeVisible();
});
