// Requests appear as they end, without their credentials.
import { expect, type Gateway, signIn, test, VIEWER_KEY } from "./fixtures";

async function routes(gateway: Gateway): Promise<void> {
  await gateway.put("/routes/fine", { uri: "/fine/*", plugins: { mocking: { response_example: "x" } } });
  await gateway.put("/routes/broken", { uri: "/broken", plugins: { mocking: { response_status: 503, response_example: "x" } } });
}

/** Sent until it is shown: what ends before the stream is open is not. */
const watching = { timeout: 15_000 };

test("a request is shown as it ends, with its phases and without its credentials", async ({ page, gateway }) => {
  await routes(gateway);
  await signIn(page, gateway, "/traffic");
  await expect(page.getByRole("status").filter({ hasText: "Watching" })).toBeVisible(watching);
  await fetch(`${gateway.proxy}/fine/1?token=in-query`, { headers: { authorization: "Bearer in-header", cookie: "sid=in-cookie" } });
  const row = page.getByRole("row", { name: /\/fine\/1/ }).first();
  await expect(row).toContainText("200");
  await row.getByRole("button").click();
  const details = page.getByRole("complementary", { name: "Request" });
  await expect(details.locator(".waterfall")).toContainText("Gateway and client");
  await expect(details).toContainText("***");
  for (const secret of ["in-query", "in-header", "in-cookie"]) await expect(page.locator("body")).not.toContainText(secret);
  await details.getByRole("link", { name: "Explain this request" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "Explain" })).toBeVisible();
  await expect(page).toHaveURL(/fine/);
});

test("filters are in the address, and the failed stay", async ({ page, gateway }) => {
  await routes(gateway);
  await signIn(page, gateway, "/traffic");
  await page.getByRole("textbox", { name: "Status: 404, 5xx" }).fill("5xx");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/status=5xx/);
  await expect(page.getByRole("status").filter({ hasText: "Watching" })).toBeVisible(watching);
  await fetch(`${gateway.proxy}/fine/unseen`);
  await fetch(`${gateway.proxy}/broken`);
  await expect(page.getByRole("row", { name: /\/broken/ }).first()).toBeVisible(watching);
  await expect(page.getByRole("row", { name: /unseen/ })).toHaveCount(0);
  await page.getByRole("button", { name: "Failed" }).click();
  await expect(page).toHaveURL(/view=failed/);
  await page.reload();
  await expect(page.getByRole("row", { name: /\/broken/ }).first()).toBeVisible(watching);
});

test("it pauses, also by the keyboard", async ({ page, gateway }) => {
  await routes(gateway);
  await signIn(page, gateway, "/traffic");
  await page.keyboard.press("p");
  await expect(page.getByRole("status").filter({ hasText: "Paused" })).toBeVisible();
  await page.getByRole("button", { name: "Continue" }).click();
  await expect(page.getByRole("status").filter({ hasText: "Watching" })).toBeVisible(watching);
});

test("a viewer sees requests and no consumers", async ({ page, gateway }) => {
  await gateway.put("/consumers/jo", { username: "jo", plugins: { "key-auth": { key: "jo-key" } } });
  await gateway.put("/routes/keyed", { uri: "/keyed", plugins: { "key-auth": {}, mocking: { response_example: "x" } } });
  await signIn(page, gateway, "/traffic", VIEWER_KEY);
  await expect(page.getByRole("status").filter({ hasText: "Watching" })).toBeVisible(watching);
  await expect(page.getByRole("textbox", { name: "Consumer" })).toHaveCount(0);
  await fetch(`${gateway.proxy}/keyed`, { headers: { apikey: "jo-key" } });
  const row = page.getByRole("row", { name: /\/keyed/ }).first();
  await expect(row).toContainText("200");
  await expect(row).not.toContainText("jo");
});

test("a filter says when it is not applied yet, and what it takes", async ({ page, gateway }) => {
  await signIn(page, gateway, "/traffic");
  const status = page.getByRole("textbox", { name: "Status: 404, 5xx" });
  await status.fill("5xx");
  await expect(page.locator("#traffic-status")).toHaveText("Press Enter");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/status=5xx/);
  await expect(page.locator("#traffic-status")).toHaveCount(0);
  await expect(page.getByText("No requests fit the filters")).toBeVisible();
  await status.fill("abc");
  await expect(page.locator("#traffic-status")).toHaveText("404 or 5xx");
  await page.getByRole("textbox", { name: "At least ms" }).fill("-3");
  await expect(page.locator("#traffic-min_ms")).toHaveText("A number, 0 or more");
  // What is not taken is not kept in the field as if it were.
  await page.keyboard.press("Escape");
  await status.press("Escape");
  await expect(status).toHaveValue("5xx");
  await page.getByRole("button", { name: "Clear filters" }).click();
  await expect(page).not.toHaveURL(/status=/);
});
