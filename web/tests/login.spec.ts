import { ADMIN_KEY, expect, shop, signIn, start, test, VIEWER_KEY } from "./fixtures";

test("a wrong key is refused, and where to find the right one stands there before", async ({ page, gateway }) => {
  await page.goto(`${gateway.console}/`);
  await page.locator("#key").fill("wrong");
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await expect(page.getByRole("alert")).toContainText("does not accept this key");
  await expect(page.getByText("data/admin.key")).toBeVisible();
  await page.getByRole("button", { name: "Sign in with a password" }).click();
  await expect(page.getByText("The password is not kept.")).toBeVisible();
  await page.getByRole("button", { name: "中文" }).click();
  await expect(page.getByRole("heading", { level: 1 })).not.toContainText("Sign in");
  await page.getByRole("button", { name: "English" }).click();
  await page.getByRole("button", { name: /^Theme/ }).click();
  await expect(page.locator("html")).toHaveAttribute("data-theme", "light");
});

test("an admin key opens the console", async ({ page, gateway }) => {
  await signIn(page, gateway);
  await expect(page.getByRole("heading", { level: 1, name: "Overview" })).toBeVisible();
  await expect(page).toHaveTitle("Overview · Tidegate");
});

test("the key is in no storage of the browser, and a reload stays signed in", async ({ page, gateway, context }) => {
  await signIn(page, gateway);
  const stored = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie]));
  expect(stored).not.toContain(ADMIN_KEY);
  expect(stored).not.toContain("tidegate_session");
  const [cookie] = await context.cookies();
  expect(cookie).toMatchObject({ name: expect.stringMatching(/^tidegate_session_[0-9a-f]{8}$/), httpOnly: true, sameSite: "Strict" });
  expect(JSON.stringify(await context.cookies())).not.toContain(ADMIN_KEY);
  await page.reload();
  await expect(page.getByRole("heading", { level: 1, name: "Overview" })).toBeVisible();
  await context.clearCookies();
  await page.reload();
  await expect(page.locator("#key")).toBeVisible();
});

test("a deep link is where the console is after signing in", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes/catalog");
  await expect(page.getByRole("heading", { level: 1, name: "catalog" })).toBeVisible();
});

test("signing out forgets everything", async ({ page, gateway }) => {
  await signIn(page, gateway);
  await page.getByRole("button", { name: "Sign out" }).click();
  await expect(page.locator("#key")).toHaveValue("");
  await page.keyboard.press("Control+K");
  await expect(page.getByRole("dialog")).toHaveCount(0);
});

test("a user signs in with a password, and changes what an editor may", async ({ page, gateway }) => {
  await shop(gateway);
  await gateway.call("PUT", "/users/jo", { role: "editor", password: "correct horse battery" });
  await page.goto(`${gateway.console}/routes/catalog`);
  await page.getByRole("button", { name: "Sign in with a password" }).click();
  await page.getByLabel("User").fill("jo");
  await page.getByLabel("Password").fill("wrong horse battery");
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await expect(page.getByRole("alert")).toContainText("Wrong user or password");
  await page.getByLabel("Password").fill("correct horse battery");
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await expect(page.getByRole("heading", { level: 1, name: "catalog" })).toBeVisible();
  await page.getByLabel("Name", { exact: true }).fill("catalogue");
  await page.keyboard.press("Control+S");
  await page.getByRole("dialog").getByRole("button", { name: /Save/ }).click();
  await expect(page.getByRole("dialog")).toHaveCount(0);
  await page.goto(`${gateway.console}/changes`);
  await expect(page.locator(".history li").first()).toContainText("jo");
});

test("a user with a scope has its objects, and makes new ones with its labels", async ({ page, gateway }) => {
  await shop(gateway);
  await gateway.call("PUT", "/users/pat", { role: "editor", password: "correct horse battery", scope: { team: "web" } });
  await page.goto(`${gateway.console}/routes`);
  await page.getByRole("button", { name: "Sign in with a password" }).click();
  await page.getByLabel("User").fill("pat");
  await page.getByLabel("Password").fill("correct horse battery");
  await page.keyboard.press("Enter");
  await expect(page.getByText("catalog", { exact: true }).first()).toBeVisible();
  await expect(page.getByText("orders", { exact: true })).toHaveCount(0);
  const nav = page.getByRole("navigation", { name: "Console" });
  await expect(nav.getByRole("link", { name: "Explain" })).toHaveCount(0);
  await expect(nav.getByRole("link", { name: /Global rules/ })).toHaveCount(0);
  await page.goto(`${gateway.console}/upstreams/+new`);
  await expect(page.locator(".cm-content")).toContainText('"team": "web"');
  await page.goto(`${gateway.console}/routes/orders`);
  await expect(page.getByRole("alert")).toBeVisible();
  await page.goto(`${gateway.console}/`);
  await expect(page.getByRole("heading", { level: 1, name: "Overview" })).toBeVisible();
  await expect(page.getByRole("alert")).toHaveCount(0);
});

test("who is deleted is signed out", async ({ page, gateway }) => {
  await gateway.call("PUT", "/users/jo", { role: "viewer", password: "correct horse battery" });
  await page.goto(`${gateway.console}/`);
  await page.getByRole("button", { name: "Sign in with a password" }).click();
  await page.getByLabel("User").fill("jo");
  await page.getByLabel("Password").fill("correct horse battery");
  await page.keyboard.press("Enter");
  await expect(page.locator("main.page")).toBeVisible();
  await gateway.call("DELETE", "/users/jo");
  await expect(page.locator("#key")).toBeVisible();
});

test("a viewer sees, and is offered no change", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes", VIEWER_KEY);
  await expect(page.getByText("catalog", { exact: true })).toBeVisible();
  await expect(page.getByRole("button", { name: "New route" })).toHaveCount(0);
  await page.goto("about:blank");
  await signIn(page, gateway, "/routes/catalog", VIEWER_KEY);
  await expect(page.getByText("Read-only")).toBeVisible();
  await expect(page.getByLabel("Name", { exact: true })).toBeDisabled();
});

test("a viewer is told that explain needs another key", async ({ page, gateway }) => {
  await signIn(page, gateway, "/explain", VIEWER_KEY);
  await expect(page.getByText("Explain needs a key of role admin.")).toBeVisible();
});

test("an address that names nothing says so", async ({ page, gateway }) => {
  await signIn(page, gateway, "/nothing/here");
  await expect(page.getByRole("heading", { level: 1, name: "Page not found" })).toBeVisible();
});

test("the page has a Content-Security-Policy without inline scripts and cannot be framed", async ({ request, gateway }) => {
  const response = await request.get(`${gateway.console}/`);
  const policy = response.headers()["content-security-policy"] ?? "";
  expect(policy).toContain("script-src 'self'");
  expect(policy).toContain("frame-ancestors 'none'");
  expect(policy).not.toContain("unsafe");
  expect(await response.text()).not.toMatch(/<script(?![^>]*src=)|<style| style=| on\w+=/);
});

test("a user changes the own password and stays signed in", async ({ page, gateway }) => {
  const [before, after] = ["correct horse battery", "another battery of horses"];
  await gateway.put("/users/changer", { role: "viewer", password: before });
  await page.context().clearCookies();
  const enter = async (password: string) => {
    await page.goto(`${gateway.console}/routes`);
    await page.getByRole("button", { name: "Sign in with a password" }).click();
    await page.getByLabel("User").fill("changer");
    await page.getByLabel("Password").fill(password);
    await page.keyboard.press("Enter");
  };
  await enter(before);
  await page.getByRole("button", { name: "Password" }).click();
  const dialog = page.getByRole("dialog", { name: "Change your password" });
  await dialog.getByLabel("Current password").fill("not the password");
  await dialog.getByLabel("New password").fill(after);
  await dialog.getByRole("button", { name: "Change password" }).click();
  await expect(dialog.getByRole("alert")).toContainText("the current password is wrong");
  await dialog.getByLabel("Current password").fill(before);
  await page.keyboard.press("Enter");
  await expect(dialog).toHaveCount(0);
  await page.reload();
  await expect(page.getByRole("heading", { level: 1, name: "Routes" })).toBeVisible();
  await page.context().clearCookies();
  await enter(before);
  await expect(page.getByRole("alert")).toContainText("Wrong user or password");
  await page.getByLabel("Password").fill(after);
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { level: 1, name: "Routes" })).toBeVisible();
  await gateway.call("DELETE", "/users/changer");
});

test("where the gateway keeps no users, no password is asked for", async ({ page }) => {
  const { gateway, stop } = await start(() => "  role: traditional\n  role_traditional: {config_provider: yaml}\n");
  try {
    await page.goto(`${gateway.console}/`);
    await expect(page.locator("#key")).toBeVisible();
    await expect(page.getByRole("button", { name: "Sign in with a password" })).toHaveCount(0);
  } finally {
    await stop();
  }
});
