// Everything without a pointer.
import { expect, shop, signIn, test } from "./fixtures";

test("the palette goes to screens", async ({ page, gateway }) => {
  await signIn(page, gateway);
  await page.keyboard.press("Control+K");
  await page.keyboard.type("upstr");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { level: 1, name: "Upstreams" })).toBeVisible();
});

test("the palette finds objects by name", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway);
  await page.keyboard.press("Control+K");
  await page.keyboard.type("catal");
  await expect(page.getByRole("option", { name: "catalog route" })).toBeVisible();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { level: 1, name: "catalog" })).toBeVisible();
});

test("Escape closes the palette and gives the focus back", async ({ page, gateway }) => {
  await signIn(page, gateway);
  await page.getByRole("button", { name: "Command palette" }).focus();
  await page.keyboard.press("Control+K");
  await expect(page.getByRole("dialog")).toBeVisible();
  await page.keyboard.press("Escape");
  await expect(page.getByRole("dialog")).toHaveCount(0);
  await expect(page.getByRole("button", { name: "Command palette" })).toBeFocused();
});

test("letters go to screens, and a question mark shows the keys", async ({ page, gateway }) => {
  await signIn(page, gateway);
  await page.keyboard.press("g");
  await page.keyboard.press("r");
  await expect(page.getByRole("heading", { level: 1, name: "Routes" })).toBeVisible();
  await page.keyboard.press("g");
  await page.keyboard.press("c");
  await expect(page.getByRole("heading", { level: 1, name: "Changes" })).toBeVisible();
  await page.keyboard.press("?");
  await expect(page.getByRole("dialog", { name: "Keyboard shortcuts" })).toBeVisible();
});

test("j and k move, o shows, e edits", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes?sort=name");
  await expect(page.locator(".tbody .tr")).toHaveCount(3);
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.keyboard.press("k");
  await page.keyboard.press("o");
  await expect(page.getByRole("complementary", { name: "Details of off" })).toBeVisible();
  await page.keyboard.press("j");
  await expect(page.getByRole("complementary", { name: "Details of orders" })).toBeVisible();
  await page.keyboard.press("e");
  await expect(page.getByRole("heading", { level: 1, name: "orders" })).toBeVisible();
});

test("a slash searches, x selects, Delete deletes, Ctrl-Z takes it back", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes");
  await page.keyboard.press("/");
  await page.keyboard.type("off");
  await expect(page.locator(".tbody .tr")).toHaveCount(1);
  await page.keyboard.press("Enter");
  await page.keyboard.press("x");
  await expect(page.getByRole("checkbox", { name: "Select off" })).toBeChecked();
  await page.keyboard.press("Delete");
  await expect(page.getByText("off deleted")).toBeVisible();
  await page.keyboard.press("Control+Z");
  await expect(page.getByText("Restored")).toBeVisible();
});

test("a route is made from nothing with the keyboard alone", async ({ page, gateway }) => {
  await gateway.put("/upstreams/orders", { nodes: { "127.0.0.1:1980": 1 } });
  await signIn(page, gateway, "/routes");
  await expect(page.locator(".empty")).toBeVisible();
  await page.keyboard.press("n");
  await page.getByLabel("ID").first().focus();
  await page.keyboard.type("keys");
  await page.keyboard.press("Tab");
  await page.keyboard.type("By keys");
  for (let i = 0; i < 12 && !(await page.getByLabel("Path", { exact: true }).evaluate((element) => element === document.activeElement)); i++) await page.keyboard.press("Tab");
  await page.keyboard.press("Control+A");
  await page.keyboard.type("/keys");
  await page.keyboard.press("Control+S");
  await expect(page.getByRole("dialog").getByRole("button", { name: /^Save/ })).toBeFocused();
  await page.keyboard.press("Control+Enter");
  await expect(page.getByText("keys saved")).toBeVisible();
});

test("after signing in the focus is in the content, and the navigation can be skipped", async ({ page, gateway }) => {
  await signIn(page, gateway, "/changes");
  await expect(page.locator("main")).toBeFocused();
  await page.getByRole("navigation", { name: "Console" }).getByRole("link", { name: "Tidegate" }).focus();
  await page.keyboard.press("Shift+Tab");
  await expect(page.getByRole("link", { name: "Skip to content" })).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(page.locator("main")).toBeFocused();
});

test("a menu opens, moves and closes with arrows and Escape", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes");
  await page.getByRole("button", { name: "Columns" }).focus();
  await page.keyboard.press("ArrowDown");
  await expect(page.getByRole("menuitemcheckbox").first()).toBeFocused();
  await page.keyboard.press("ArrowDown");
  await expect(page.getByRole("menuitemcheckbox").nth(1)).toBeFocused();
  await page.keyboard.press("Escape");
  await expect(page.getByRole("button", { name: "Columns" })).toBeFocused();
});

test("the palette explains a URL", async ({ page, gateway }) => {
  await signIn(page, gateway);
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox").fill("explain http://shop.example.com/orders/1");
  await expect(page.getByRole("option").first()).toContainText("Explain http://shop.example.com/orders/1");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/\/explain\?url=http%3A%2F%2Fshop\.example\.com%2Forders%2F1/);
  await page.keyboard.press("Escape");
  await page.locator("h1").click();
  await page.keyboard.press("g");
  await page.keyboard.press("l");
  await expect(page).toHaveURL(/\/ssls$/);
});
