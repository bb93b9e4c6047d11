import { ADMIN_KEY, expect, shop, signIn, test, VIEWER_KEY } from "./fixtures";

test("a wrong key is refused, with where to find the right one", async ({ page, gateway }) => {
  await page.goto(`${gateway.console}/`);
  await page.locator("#key").fill("wrong");
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByRole("alert")).toContainText("does not accept this key");
  await expect(page.getByRole("alert")).toContainText("data/admin.key");
});

test("an admin key opens the console", async ({ page, gateway }) => {
  await signIn(page, gateway);
  await expect(page.getByRole("heading", { level: 1, name: "Overview" })).toBeVisible();
  await expect(page).toHaveTitle("Overview · Tidegate");
});

test("the key is in no storage of the browser, and a reload asks for it again", async ({ page, gateway, context }) => {
  await signIn(page, gateway);
  const stored = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie]));
  expect(stored).not.toContain(ADMIN_KEY);
  expect(JSON.stringify(await context.cookies())).not.toContain(ADMIN_KEY);
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
