import type { Page } from "@playwright/test";
import { ADMIN_KEY, expect, type Gateway, shop, signIn, test, VIEWER_KEY } from "./fixtures";

/** As when the gateway restarts or somebody signs out in another tab. */
async function endSession(page: Page): Promise<void> {
  await page.context().clearCookies();
  await expect(page.locator("#key")).toBeVisible({ timeout: 20_000 });
}

async function enter(page: Page, key = ADMIN_KEY): Promise<void> {
  await page.locator("#key").fill(key);
  await page.keyboard.press("Enter");
  await expect(page.locator("main.page")).toBeVisible();
}

const description = (page: Page) => page.getByLabel("Description", { exact: true });
const route = async (gateway: Gateway) => ((await gateway.call("GET", "/routes/catalog")) as { value: Record<string, unknown> }).value;

test("what was typed comes back after the end of the session, without secrets", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes/catalog");
  await description(page).fill("half an hour of work");
  await page.getByRole("button", { name: "Add plugin" }).click();
  await page.getByRole("combobox", { name: "Search plugins" }).fill("csrf");
  await page.keyboard.press("Enter");
  await expect(page.locator('[data-path="/plugins/csrf/key"] input')).toBeFocused();
  await page.keyboard.type("very secret");
  await endSession(page);
  expect(await page.evaluate(() => JSON.stringify({ ...sessionStorage, ...localStorage }))).not.toContain("very secret");
  await enter(page);
  const question = page.getByRole("alert").filter({ hasText: "not saved" });
  await expect(question).toContainText("Secrets among them were not kept");
  await expect(description(page)).toHaveValue("");
  // Somebody changed it in the meantime.
  await gateway.call("PATCH", "/routes/catalog", { priority: 7 });
  await page.reload();
  await question.getByRole("button", { name: "Restore" }).click();
  await expect(description(page)).toHaveValue("half an hour of work");
  await expect(question).toHaveCount(0);
  await page.getByRole("button", { name: "Remove csrf" }).click();
  await page.keyboard.press("Control+S");
  await page.getByRole("dialog").getByRole("button", { name: /^Save/ }).click();
  await expect(page.getByText("catalog saved")).toBeVisible();
  expect(await route(gateway)).toMatchObject({ desc: "half an hour of work", priority: 7 });
  await page.reload();
  await expect(description(page)).toHaveValue("half an hour of work");
  await expect(question).toHaveCount(0);
});

test("a new object comes back with its ID; another person is not asked", async ({ page, gateway }) => {
  await signIn(page, gateway, "/upstreams/+new");
  await page.locator("#new-id").fill("billing");
  await description(page).fill("of billing");
  await endSession(page);
  await enter(page, VIEWER_KEY);
  await expect(page.getByRole("alert")).toHaveCount(0);
  await endSession(page);
  await enter(page);
  await page.getByRole("button", { name: "Restore" }).click();
  await expect(page.locator("#new-id")).toHaveValue("billing");
  await expect(description(page)).toHaveValue("of billing");
});

test("signing out asks where something is not saved, and then forgets it", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes/catalog");
  await description(page).fill("precious");
  await page.getByRole("button", { name: "Sign out" }).click();
  await expect(page.getByRole("dialog")).toContainText("Discard your changes?");
  await page.keyboard.press("Enter");
  await expect(description(page)).toHaveValue("precious");
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Discard changes" }).click();
  await enter(page);
  await expect(description(page)).toHaveValue("");
  await expect(page.getByRole("alert")).toHaveCount(0);
});
