import { expect, shop, signIn, test } from "./fixtures";

test("the catalogue has every plugin and searches them", async ({ page, gateway }) => {
  await signIn(page, gateway, "/plugins");
  await expect(page.locator("tbody tr")).toHaveCount(Object.keys((await gateway.call("GET", "/plugins?all=true")) as object).length);
  await page.getByRole("searchbox").fill("limit-");
  await expect(page.locator("tbody tr").first()).toContainText("limit");
  await page.getByRole("searchbox").fill("");
  await page.getByRole("button", { name: "Authentication" }).click();
  await expect(page.locator("tbody")).toContainText("key-auth");
  await expect(page.locator("tbody")).not.toContainText("limit-count");
});

test("a plugin has its fields, and leads to the routes that use it", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/plugins/limit-count");
  await expect(page.getByRole("rowheader", { name: /^time_window/ })).toContainText("required, or an alternative");
  await expect(page.getByRole("row", { name: /^time_window/ })).toContainText("length of the window in seconds");
  const used = page.locator(".facts > div", { hasText: "Used by" });
  await expect(used.getByRole("link")).toHaveText(["routes/catalog"]);
  await expect(page.locator(".facts > div", { hasText: "May be used on" })).not.toContainText("Stream routes");
  await page.locator("main").getByRole("link", { name: "Routes", exact: true }).click();
  await expect(page.locator(".tbody .tr")).toHaveCount(1);
});

test("an unknown plugin", async ({ page, gateway }) => {
  await signIn(page, gateway, "/plugins/no-such-plugin");
  await expect(page.getByText("Unknown plugin no-such-plugin")).toBeVisible();
});

test("the overview leads the first steps, and then shows what there is", async ({ page, gateway }) => {
  await signIn(page, gateway, "/");
  await expect(page.getByRole("heading", { name: "Publish your first API" })).toBeVisible();
  await shop(gateway);
  await expect(page.getByRole("heading", { name: "Publish your first API" })).toHaveCount(0);
  await expect(page.locator(".strip")).toContainText("Routes3");
  await expect(page.locator(".history")).toContainText("routes/off");
});
