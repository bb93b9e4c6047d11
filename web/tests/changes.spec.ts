import { expect, shop, signIn, test } from "./fixtures";

test("the history shows who changed what, and one change field by field", async ({ page, gateway }) => {
  await shop(gateway);
  await gateway.call("PATCH", "/routes/catalog", { uri: "/catalog-2/*" });
  await signIn(page, gateway, "/changes");
  const first = page.locator(".history li").first();
  await expect(first).toContainText("updated");
  await expect(first).toContainText("routes/catalog");
  await expect(first).toContainText("ops");
  await first.getByRole("link").first().click();
  await expect(page.locator(".removed")).toContainText("/catalog/*");
  await expect(page.locator(".added")).toContainText("/catalog-2/*");
});

test("a bad change is undone with a preview", async ({ page, gateway }) => {
  await shop(gateway);
  const { revision } = (await gateway.call("POST", "/transactions", { changes: [{ method: "PATCH", path: "/routes/catalog", value: { uri: "/oops" } }] })) as { revision: number };
  await signIn(page, gateway, `/changes/${revision}`);
  await page.getByRole("button", { name: "Undo this and later changes" }).click();
  const dialog = page.getByRole("dialog");
  await expect(dialog.locator(".added")).toContainText("/catalog/*");
  await dialog.getByRole("button", { name: "Roll back" }).click();
  await expect(page.getByText(/Rolled back to/)).toBeVisible();
  expect(await gateway.call("GET", "/routes/catalog")).toMatchObject({ value: { uri: "/catalog/*" } });
  await page.getByRole("button", { name: /^Undo Ctrl/ }).click();
  await expect(page.getByText("Restored")).toBeVisible();
  expect(await gateway.call("GET", "/routes/catalog")).toMatchObject({ value: { uri: "/oops" } });
});

test("one object goes back to an earlier version, with a preview, and the others stay", async ({ page, gateway }) => {
  await shop(gateway);
  const changes = [{ method: "PATCH", path: "/routes/catalog", value: { uri: "/oops" } }, { method: "PATCH", path: "/routes/orders", value: { uri: "/orders-2/*" } }];
  const { revision } = (await gateway.call("POST", "/transactions", { changes })) as { revision: number };
  await signIn(page, gateway, `/changes/${revision}`);
  await page.getByRole("button", { name: `Restore routes/catalog as it was before #${revision}` }).click();
  const dialog = page.getByRole("dialog");
  await expect(dialog.locator(".removed")).toHaveText(/oops/);
  await expect(dialog.locator(".added")).toHaveText(/\/catalog\/\*/);
  await dialog.getByRole("button", { name: "Roll back" }).click();
  await expect(page.getByText(/Rolled back to routes\/catalog/)).toBeVisible();
  expect(await gateway.call("GET", "/routes/catalog")).toMatchObject({ value: { uri: "/catalog/*" } });
  expect(await gateway.call("GET", "/routes/orders")).toMatchObject({ value: { uri: "/orders-2/*" } });
  await page.getByRole("button", { name: /^Undo Ctrl/ }).click();
  await expect(page.getByText("Restored", { exact: true })).toBeVisible();
  expect(await gateway.call("GET", "/routes/catalog")).toMatchObject({ value: { uri: "/oops" } });
});

test("a rollback to what is there already says so", async ({ page, gateway }) => {
  await shop(gateway);
  const { stored } = (await gateway.call("GET", "/revision")) as { stored: number };
  await signIn(page, gateway, `/changes/${stored}`);
  await page.getByRole("button", { name: `Roll back to #${stored}` }).click();
  await expect(page.getByRole("dialog")).toContainText("already the same");
});

test("checkpoints are made, rolled back to and deleted", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/changes/checkpoints");
  await page.getByRole("button", { name: "New checkpoint" }).click();
  await page.getByLabel("Name").fill("before-the-release");
  await page.keyboard.press("Enter");
  await expect(page.getByText("Checkpoint before-the-release created")).toBeVisible();
  await gateway.call("DELETE", "/routes/off");
  await page.getByRole("button", { name: "Roll back" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Roll back" }).click();
  await expect(page.getByText("Rolled back to before-the-release")).toBeVisible();
  expect(await gateway.call("GET", "/routes/off")).toMatchObject({ value: { name: "off" } });
  await page.getByRole("button", { name: "Delete checkpoint before-the-release" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await expect(page.locator(".history li")).toHaveCount(0);
});

test("a name that cannot be one is refused by the gateway", async ({ page, gateway }) => {
  await signIn(page, gateway, "/changes/checkpoints");
  await page.getByRole("button", { name: "New checkpoint" }).click();
  await page.getByLabel("Name").fill("12");
  await page.getByRole("button", { name: "Create" }).click();
  await expect(page.getByRole("alert")).toBeVisible();
});

test("two revisions are compared, whatever happened between them", async ({ page, gateway }) => {
  await shop(gateway);
  const { stored } = (await gateway.call("GET", "/revision")) as { stored: number };
  await gateway.call("PATCH", "/routes/catalog", { uri: "/x" });
  await gateway.call("PATCH", "/routes/catalog", { uri: "/y" });
  await gateway.put("/routes/new", { uri: "/new", upstream_id: "orders" });
  await gateway.call("DELETE", "/routes/new");
  await signIn(page, gateway, `/changes/compare?from=${stored}&to=${stored + 4}`);
  await expect(page.locator(".changed section")).toHaveCount(1);
  await expect(page.locator(".removed")).toContainText("/catalog/*");
  await expect(page.locator(".added")).toContainText("/y");
});

test("the history of one object", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/changes?key=%2Froutes%2Fcatalog");
  await expect(page.locator(".history li").first()).toContainText("routes/catalog");
  for (const entry of await page.locator(".history li").allTextContents()) expect(entry).toContain("routes/catalog");
});

test("a secret in a change is masked", async ({ page, gateway }) => {
  await gateway.put("/consumers/anna", { username: "anna", plugins: { "key-auth": { key: "top-secret-key" } } });
  const { stored } = (await gateway.call("GET", "/revision")) as { stored: number };
  await signIn(page, gateway, `/changes/${stored}`);
  await expect(page.locator(".added")).toContainText("***");
  await expect(page.locator("body")).not.toContainText("top-secret-key");
});
