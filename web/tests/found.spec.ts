// What a user looks for is found: by its identifier, and once it is there.
import { expect, shop, signIn, test } from "./fixtures";

test("the palette finds objects by their identifier", async ({ page, gateway }) => {
  await gateway.put("/routes/p-mock", { name: "other", uri: "/a", upstream: { nodes: { "127.0.0.1:1980": 1 } } });
  await gateway.put("/consumers/anna", { username: "anna" });
  await signIn(page, gateway);
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox").fill("P-MO");
  await expect(page.getByRole("option", { name: /other \(p-mock\)/ })).toBeVisible();
  await page.getByRole("combobox").fill("anna");
  await page.getByRole("option", { name: /anna/ }).click();
  await expect(page).toHaveURL(/consumers\/anna/);
});

test("an upstream that was just made can be chosen in an open form", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes/orders");
  await page.getByRole("button", { name: "Add plugin" }).click();
  await page.getByRole("searchbox").or(page.getByPlaceholder(/plugin/i)).last().fill("traffic-split");
  await page.keyboard.press("Enter");
  await expect(page.getByText("Choose an upstream.")).toBeVisible();
  await gateway.put("/upstreams/fresh", { nodes: { "127.0.0.1:1981": 1 } });
  await expect(page.locator(".split-share option", { hasText: "fresh" }).first()).toBeAttached({ timeout: 15_000 });
});

test("an object leads to its history", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes/orders");
  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "History" }).click();
  await expect(page).toHaveURL(/changes\?object=routes%2Forders/);
  await expect(page.locator(".history li").first()).toBeVisible();
});

test("secrets are dots until their field or line has the cursor", async ({ page, gateway }) => {
  await gateway.put("/consumers/anna", { username: "anna", plugins: { "key-auth": { key: "key-of-anna" } } });
  await signIn(page, gateway, "/consumers/anna");
  await expect(page.locator(".plugin-row")).toContainText("•••");
  await expect(page.locator(".plugin-row")).not.toContainText("key-of-anna");
  const security = (selector: string) => page.locator(selector).first().evaluate((element) => getComputedStyle(element).getPropertyValue("-webkit-text-security"));
  await page.getByRole("button", { name: "key-auth", exact: true }).click();
  const field = '[data-path="/plugins/key-auth/key"] input';
  expect(await security(field)).toBe("disc");
  await page.locator(field).focus();
  expect(await security(field)).toBe("none");
  await expect(page.locator(".cm-line .veiled")).toHaveText("key-of-anna");
  expect(await security(".cm-line .veiled")).toBe("disc");
  await page.locator(".cm-line .veiled").click();
  expect(await security(".cm-line .veiled")).toBe("none");
});

test("the first steps go on where the user is", async ({ page, gateway }) => {
  await signIn(page, gateway);
  const primary = page.locator(".first .button.primary");
  await expect(primary).toHaveAttribute("href", /upstreams/);
  await gateway.put("/upstreams/orders", { nodes: { "127.0.0.1:1980": 1 } });
  await expect(primary).toHaveAttribute("href", /routes/, { timeout: 15_000 });
});

test("a key of a consumer is one form away", async ({ page, gateway }) => {
  await gateway.put("/consumers/anna", { username: "anna" });
  await signIn(page, gateway, "/consumers/anna");
  await page.getByRole("link", { name: "Add API key" }).click();
  await page.locator("#new-id").fill("first");
  await page.locator('[data-path="/plugins/key-auth/key"] input').fill("key-of-anna");
  await page.getByRole("button", { name: "Review and save" }).click();
  await page.getByRole("dialog").getByRole("button", { name: /^Save/ }).click();
  await expect(page).toHaveURL(/consumers\/anna\/credentials\/first/);
});
