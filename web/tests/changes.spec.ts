import type { Page } from "@playwright/test";
import { expect, type Gateway, shop, signIn, test } from "./fixtures";

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
  await page.getByRole("button", { name: "More ways back for routes/catalog" }).click();
  await page.getByRole("menuitem", { name: `Roll back to before #${revision}` }).click();
  const dialog = page.getByRole("dialog");
  await expect(dialog.locator(".removed")).toHaveText(/oops/);
  await expect(dialog.locator(".added")).toHaveText(/\/catalog\/\*/);
  await dialog.getByRole("button", { name: "Roll back" }).click();
  await expect(page.getByText(`routes/catalog rolled back to before #${revision}`)).toBeVisible();
  expect(await gateway.call("GET", "/routes/catalog")).toMatchObject({ value: { uri: "/catalog/*" } });
  expect(await gateway.call("GET", "/routes/orders")).toMatchObject({ value: { uri: "/orders-2/*" } });
  await page.getByRole("button", { name: /^Undo Ctrl/ }).click();
  await expect(page.getByText("Restored", { exact: true })).toBeVisible();
  expect(await gateway.call("GET", "/routes/catalog")).toMatchObject({ value: { uri: "/oops" } });
});

/** Writes, and answers the revision. */
const write = async (gateway: Gateway, method: string, path: string, value?: unknown): Promise<number> => ((await gateway.call("POST", "/transactions", { changes: [{ method, path, value }] })) as { revision: number }).revision;
const undo = async (page: Page, gateway: Gateway, revision: number, name: string) => {
  await signIn(page, gateway, `/changes/${revision}`);
  await page.getByRole("button", { name: `Undo change #${revision} of ${name}` }).click();
  return page.getByRole("dialog");
};

test("one change is undone, and what came later stays", async ({ page, gateway }) => {
  await shop(gateway);
  const revision = await write(gateway, "PATCH", "/routes/catalog", { uri: "/oops", plugins: { cors: null } });
  const later = await write(gateway, "PATCH", "/routes/catalog", { desc: "kept", labels: { team: "kept" } });
  const dialog = await undo(page, gateway, revision, "routes/catalog");
  await expect(dialog).toContainText(`Later changes of this object stay: #${later}.`);
  await expect(dialog.locator(".removed")).toHaveText(/oops/);
  await expect(dialog).not.toContainText("kept");
  await dialog.getByRole("button", { name: `Undo #${revision}` }).click();
  await expect(page.getByText(`Change #${revision} of routes/catalog undone`)).toBeVisible();
  const { value } = (await gateway.call("GET", "/routes/catalog")) as { value: Record<string, unknown> };
  expect(value).toMatchObject({ uri: "/catalog/*", desc: "kept", labels: { team: "kept" }, plugins: { cors: {} } });
  await page.getByRole("button", { name: /^Undo Ctrl/ }).click();
  await expect(page.getByText("Restored", { exact: true })).toBeVisible();
  expect(await gateway.call("GET", "/routes/catalog")).toMatchObject({ value: { uri: "/oops", desc: "kept" } });
});

test("an undo is refused where a later change made the same field something else, and the rollback says what it reverts", async ({ page, gateway }) => {
  await shop(gateway);
  const revision = await write(gateway, "PATCH", "/routes/catalog", { uri: "/one" });
  const other = await write(gateway, "PATCH", "/routes/catalog", { desc: "x" });
  const later = await write(gateway, "PATCH", "/routes/catalog", { uri: "/two" });
  await write(gateway, "PATCH", "/routes/off", { desc: "of another object" });
  const dialog = await undo(page, gateway, revision, "routes/catalog");
  await expect(dialog.getByRole("alert")).toHaveText(`#${later} changed uri again. Undo that first, or roll back to before #${revision}.`);
  await expect(dialog.getByRole("button", { name: `Undo #${revision}` })).toBeDisabled();
  await dialog.getByRole("button", { name: `Roll back to before #${revision}` }).click();
  await expect(dialog).toContainText(`Also reverts #${other}, #${later}.`);
  await dialog.getByRole("button", { name: "Roll back", exact: true }).click();
  await expect(page.getByText(`routes/catalog rolled back to before #${revision}`)).toBeVisible();
  const { value } = (await gateway.call("GET", "/routes/catalog")) as { value: Record<string, unknown> };
  expect(value).toMatchObject({ uri: "/catalog/*" });
  expect(value).not.toHaveProperty("desc");
});

test("a creation, a deletion and a change of a secret are undone", async ({ page, gateway }) => {
  await shop(gateway);
  const created = await write(gateway, "PUT", "/routes/new", { uri: "/new", upstream_id: "orders" });
  let dialog = await undo(page, gateway, created, "routes/new");
  await dialog.getByRole("button", { name: `Undo #${created}` }).click();
  await expect(page.getByText(`Change #${created} of routes/new undone`)).toBeVisible();
  expect(await gateway.call("GET", "/routes/new")).not.toHaveProperty("value");
  await gateway.put("/consumers/anna", { username: "anna", plugins: { "key-auth": { key: "first-key" } } });
  const changed = await write(gateway, "PUT", "/consumers/anna", { username: "anna", plugins: { "key-auth": { key: "second-key" } } });
  dialog = await undo(page, gateway, changed, "consumers/anna");
  await dialog.getByRole("button", { name: `Undo #${changed}` }).click();
  await expect(page.getByText(`Change #${changed} of consumers/anna undone`)).toBeVisible();
  expect(JSON.stringify(await gateway.call("GET", "/consumers/anna"))).toContain("first-key");
  const deleted = await write(gateway, "DELETE", "/routes/off");
  dialog = await undo(page, gateway, deleted, "routes/off");
  await dialog.getByRole("button", { name: `Undo #${deleted}` }).click();
  await expect(page.getByText(`Change #${deleted} of routes/off undone`)).toBeVisible();
  expect(await gateway.call("GET", "/routes/off")).toMatchObject({ value: { name: "off" } });
});

test("a change of a secret is not undone across later changes, which would write its mask", async ({ page, gateway }) => {
  await gateway.put("/consumers/anna", { username: "anna", plugins: { "key-auth": { key: "first-key" } } });
  const revision = await write(gateway, "PUT", "/consumers/anna", { username: "anna", plugins: { "key-auth": { key: "second-key" } } });
  await write(gateway, "PUT", "/consumers/anna", { username: "anna", desc: "x", plugins: { "key-auth": { key: "second-key" } } });
  const dialog = await undo(page, gateway, revision, "consumers/anna");
  await expect(dialog.getByRole("alert")).toContainText("of secrets");
  await expect(dialog.getByRole("button", { name: `Undo #${revision}` })).toBeDisabled();
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

test("the history says which fields changed, and is filtered by object, author and time", async ({ page, gateway }) => {
  await shop(gateway);
  await gateway.call("PATCH", "/routes/catalog", { uri: "/catalog-2/*", plugins: { "limit-count": { count: 7 } } });
  await signIn(page, gateway, "/changes");
  const rows = page.locator(".history li");
  await expect(rows.first()).toContainText("uri, plugins › limit-count › count");
  await expect(rows.first().locator("time")).toHaveAttribute("title", /20\d\d/);
  await page.getByLabel("Object, such as routes/shop").fill("routes/off");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/object=routes%2Foff/);
  await expect(rows.first()).toContainText("routes/off");
  for (const text of await rows.allTextContents()) expect(text).toContain("routes/off");
  await page.getByLabel("Object, such as routes/shop").fill("upstreams");
  await page.keyboard.press("Enter");
  await expect(rows.first()).toContainText("upstreams/orders");
  await page.getByLabel("Author or address").fill("nobody-like-that");
  await page.keyboard.press("Enter");
  await expect(page.getByText("No matches")).toBeVisible();
  await page.getByRole("button", { name: "Clear search and filters" }).click();
  await expect(rows.first()).toContainText("routes/catalog");
  await page.getByLabel("Until").fill("2020-01-01T00:00");
  await page.getByLabel("Author or address").focus();
  await expect(page.getByText("No matches")).toBeVisible();
});

test("a comparison with a revision that is not there says so", async ({ page, gateway }) => {
  await shop(gateway);
  const { stored } = (await gateway.call("GET", "/revision")) as { stored: number };
  await signIn(page, gateway, `/changes/compare?from=${stored}&to=9999`);
  await expect(page.getByRole("alert")).toHaveText(`Revision 9999 does not exist: the newest is ${stored}.`);
  await expect(page.getByText("No differences.")).toHaveCount(0);
  await page.getByLabel("From revision").fill("abc");
  await page.getByRole("button", { name: "Compare" }).click();
  await expect(page.getByRole("alert")).toContainText("abc is not a revision.");
  await page.getByLabel("From revision").fill(String(stored));
  await page.getByLabel("to", { exact: true }).fill(String(stored));
  await page.getByRole("button", { name: "Compare" }).click();
  await expect(page.getByRole("alert")).toContainText(`Both are revision ${stored}`);
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
