import type { Page } from "@playwright/test";
import { expect, shop, signIn, test, VIEWER_KEY } from "./fixtures";

const source = (page: Page) => page.locator(".code .cm-content");
const text = async (page: Page) => (await source(page).locator(".cm-line").allTextContents()).join("\n");

async function save(page: Page): Promise<void> {
  await page.getByRole("button", { name: /^Review and save/ }).click();
  await page.getByRole("dialog").getByRole("button", { name: /^Save/ }).click();
  await expect(page.getByRole("dialog")).toHaveCount(0);
}

/** Replaces the whole source. Chromium gives text that replaces a coloured selection a style of its own, which the policy blocks: empty first. */
async function write(page: Page, value: string): Promise<void> {
  await source(page).click();
  await page.keyboard.press("Control+A");
  await page.keyboard.press("Backspace");
  await page.keyboard.insertText(value);
}

test("a route is made with the form", async ({ page, gateway }) => {
  await gateway.put("/upstreams/orders", { nodes: { "127.0.0.1:1980": 1 } });
  await signIn(page, gateway, "/routes");
  await page.getByRole("button", { name: "New route" }).first().click();
  await page.locator("#new-id").fill("shop");
  await page.getByLabel("Name", { exact: true }).fill("The shop");
  await page.getByLabel("Path", { exact: true }).fill("/shop/*");
  await page.getByRole("button", { name: "GET", exact: true }).click();
  await page.getByRole("button", { name: "Add node" }).click();
  await page.getByLabel("Host", { exact: true }).last().fill("127.0.0.1");
  await page.getByLabel("Port").fill("1980");
  await expect(page.getByText("Valid", { exact: false }).first()).toBeVisible();
  await save(page);
  await expect(page).toHaveURL(/\/routes\/shop$/);
  const { value } = (await gateway.call("GET", "/routes/shop")) as { value: Record<string, unknown> };
  expect(value).toMatchObject({ name: "The shop", uri: "/shop/*", methods: ["GET"], upstream: { nodes: { "127.0.0.1:1980": 1 } } });
});

test("form and source are in step, in both directions", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes/catalog");
  await page.getByLabel("Path", { exact: true }).fill("/from-the-form");
  await expect.poll(() => text(page)).toContain("/from-the-form");
  await write(page, '{"uri": "/from-the-source", "upstream_id": "orders"}');
  await expect(page.getByLabel("Path", { exact: true })).toHaveValue("/from-the-source");
});

test("YAML is another form of the same object", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes/catalog");
  await page.getByRole("button", { name: "YAML" }).click();
  await expect.poll(() => text(page)).toContain("uri: /catalog/*");
  await write(page, "uri: /yaml\nupstream_id: orders\n");
  await expect(page.getByLabel("Path", { exact: true })).toHaveValue("/yaml");
});

test("a syntax error is named with its line, and the form waits", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes/catalog");
  await write(page, '{\n  "uri": "/a",\n  oops\n}');
  await expect(page.getByText("The source has a syntax error in line 3")).toBeVisible();
  await expect(page.getByLabel("Path", { exact: true })).toBeDisabled();
  await expect(page.getByRole("button", { name: /^Review and save/ })).toBeDisabled();
});

test("what is not valid is said by the gateway at the field", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes/catalog");
  await page.getByLabel("Priority", { exact: true }).fill("high");
  await expect(page.getByText("Not valid")).toBeVisible();
  await expect(page.locator('.field[data-path="/priority"] .fault')).toContainText("priority");
});

test("a field of a plugin that is not valid is marked at the plugin", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes/catalog");
  await page.getByRole("button", { name: "limit-count", exact: true }).click();
  await page.locator('.field[data-path="/plugins/limit-count/count"] input').fill("-1");
  await expect(page.locator('.plugin[data-path="/plugins/limit-count"]')).toHaveClass(/wrong/);
  await expect(page.locator('.field[data-path="/plugins/limit-count/count"] .fault')).toContainText("count");
});

test("a reference to nothing is refused before saving", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes/catalog");
  await page.getByLabel("Upstream ID", { exact: true }).fill("missing");
  await expect(page.getByText(/upstream id \[missing\]/)).toBeVisible();
});

test("the review shows what changes, and nothing is written before", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes/catalog");
  await page.getByLabel("Path", { exact: true }).fill("/new-path");
  await page.getByRole("button", { name: /^Review and save/ }).click();
  const dialog = page.getByRole("dialog");
  await expect(dialog.locator(".removed")).toContainText("/catalog/*");
  await expect(dialog.locator(".added")).toContainText("/new-path");
  const stored = (await gateway.call("GET", "/routes/catalog")) as { value: { uri: string } };
  expect(stored.value.uri).toBe("/catalog/*");
  await dialog.getByRole("button", { name: "Back" }).click();
  await save(page);
  expect(((await gateway.call("GET", "/routes/catalog")) as { value: { uri: string } }).value.uri).toBe("/new-path");
});

test("a plugin is added, edited and switched off", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes/orders");
  await page.getByRole("button", { name: "Add plugin" }).click();
  await page.getByRole("combobox", { name: "Search plugins" }).fill("limit-req");
  await page.keyboard.press("Enter");
  await page.locator('.field[data-path="/plugins/limit-req/rate"] input').fill("10");
  await page.locator('.field[data-path="/plugins/limit-req/burst"] input').fill("5");
  await page.locator('.field[data-path="/plugins/limit-req/key"] input').fill("remote_addr");
  await page.getByRole("switch", { name: "key-auth is enabled" }).uncheck();
  await save(page);
  const { value } = (await gateway.call("GET", "/routes/orders")) as { value: { plugins: Record<string, unknown> } };
  expect(value.plugins).toMatchObject({ "limit-req": { rate: 10, burst: 5, key: "remote_addr" }, "key-auth": { _meta: { disable: true } } });
});

test("an object is deleted and comes back with undo", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes/catalog");
  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Delete" }).click();
  await expect(page).toHaveURL(/\/routes$/);
  expect(await gateway.call("GET", "/routes/catalog")).toMatchObject({ message: "Key not found" });
  await page.keyboard.press("Control+Z");
  await expect(page.getByText("Restored")).toBeVisible();
  expect(await gateway.call("GET", "/routes/catalog")).toMatchObject({ value: { name: "catalog" } });
});

test("undo after another change says to roll back instead", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes?peek=off");
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await expect(page.getByText("off deleted")).toBeVisible();
  await gateway.put("/routes/other", { uri: "/other", upstream_id: "orders" });
  await page.getByRole("button", { name: /^Undo/ }).click();
  await expect(page.getByText(/roll back in Changes instead/)).toBeVisible();
});

test("a consumer without credentials has an empty list, one that is gone has none", async ({ page, gateway }) => {
  await gateway.put("/consumers/empty", { username: "empty" });
  await signIn(page, gateway, "/consumers/empty/credentials");
  await expect(page.getByText("A credential is one way")).toBeVisible();
  await expect(page.getByText("This object does not exist")).toHaveCount(0);
  await page.goto(page.url().replace("/empty/", "/gone/"));
  await expect(page.getByText("This object does not exist")).toBeVisible();
});

test("a consumer comes back with its credentials", async ({ page, gateway }) => {
  await gateway.put("/consumers/jack", { username: "jack" });
  await gateway.put("/consumers/jack/credentials/one", { plugins: { "key-auth": { key: "k" } } });
  await signIn(page, gateway, "/consumers?peek=jack");
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await page.getByRole("button", { name: /^Undo/ }).click();
  await expect(page.getByText("Restored")).toBeVisible();
  expect(await gateway.call("GET", "/consumers/jack/credentials/one")).toMatchObject({ value: { plugins: { "key-auth": { key: "k" } } } });
});

test("a change of another object meanwhile is no conflict", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes/catalog");
  await page.getByLabel("Description", { exact: true }).fill("mine");
  await gateway.put("/routes/other", { uri: "/other", upstream_id: "orders" });
  await save(page);
  expect(await gateway.call("GET", "/routes/catalog")).toMatchObject({ value: { desc: "mine" } });
});

test("a change of the same object is shown three-way, and both are kept", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes/catalog");
  await page.getByLabel("Path", { exact: true }).fill("/mine");
  await gateway.call("PATCH", "/routes/catalog", { uri: "/theirs", priority: 7 });
  await page.getByRole("button", { name: /^Review and save/ }).click();
  const dialog = page.getByRole("dialog");
  await expect(dialog.getByRole("heading", { name: /was changed meanwhile/ })).toBeVisible();
  await expect(dialog).toContainText("/catalog/*");
  const merge = dialog.getByRole("button", { name: "Merge and review" });
  await expect(merge).toBeDisabled();
  await dialog.getByRole("radio", { name: "Yours" }).check();
  await merge.click();
  await dialog.getByRole("button", { name: /^Save/ }).click();
  await expect(page.getByText("catalog saved")).toBeVisible();
  expect(await gateway.call("GET", "/routes/catalog")).toMatchObject({ value: { uri: "/mine", priority: 7 } });
});

test("a change that comes between the review and the save is a conflict as well", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes/catalog");
  await page.getByLabel("Path", { exact: true }).fill("/mine");
  await page.getByRole("button", { name: /^Review and save/ }).click();
  const dialog = page.getByRole("dialog");
  await dialog.locator(".added").waitFor();
  await gateway.call("PATCH", "/routes/catalog", { uri: "/theirs" });
  await dialog.getByRole("button", { name: /^Save/ }).click();
  await expect(dialog.getByRole("heading", { name: /was changed meanwhile/ })).toBeVisible();
  expect(await gateway.call("GET", "/routes/catalog")).toMatchObject({ value: { uri: "/theirs" } });
});

test("an object that was deleted meanwhile can be created again", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes/off");
  await page.getByLabel("Description", { exact: true }).fill("still wanted");
  await gateway.call("DELETE", "/routes/off");
  await page.getByRole("button", { name: /^Review and save/ }).click();
  await expect(page.getByText("deleted this object")).toBeVisible();
  await page.getByRole("button", { name: /^Create it again/ }).click();
  await expect(page.getByRole("dialog")).toHaveCount(0);
  expect(await gateway.call("GET", "/routes/off")).toMatchObject({ value: { desc: "still wanted" } });
});

test("leaving with changes asks first", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes/catalog");
  await page.getByLabel("Description", { exact: true }).fill("unsaved");
  await page.getByRole("link", { name: "Services" }).click();
  await expect(page.getByRole("dialog")).toContainText("Discard your changes?");
  await page.getByRole("button", { name: "Cancel" }).click();
  await expect(page.getByLabel("Description", { exact: true })).toHaveValue("unsaved");
  await page.getByRole("link", { name: "Services" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Discard changes" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "Services" })).toBeVisible();
});

test("a duplicate begins with the fields of its model", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes/catalog");
  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Duplicate" }).click();
  await expect(page.getByLabel("Path", { exact: true })).toHaveValue("/catalog/*");
  await page.getByLabel("ID").first().fill("copy");
  await save(page);
  expect(await gateway.call("GET", "/routes/copy")).toMatchObject({ value: { uri: "/catalog/*" } });
});

const MADE: [string, string, string, Record<string, unknown>, (page: Page) => Promise<void>][] = [
  ["services", "/services/+new", "/services/s", { name: "s" }, async (page) => { await page.getByLabel("ID").first().fill("s"); await write(page, '{"name": "s", "upstream": {"nodes": {"127.0.0.1:1980": 1}}}'); }],
  ["upstreams", "/upstreams/+new", "/upstreams/u", { type: "chash", key: "uri" }, async (page) => { await page.getByLabel("ID").first().fill("u"); await write(page, '{"type": "chash", "key": "uri", "nodes": {"127.0.0.1:1980": 1}}'); }],
  ["consumers", "/consumers/+new", "/consumers/jack", { desc: "x" }, async (page) => { await page.getByLabel("Username").fill("jack"); await page.getByLabel("Description", { exact: true }).fill("x"); }],
  ["credentials", "/consumers/anna/credentials/+new", "/consumers/anna/credentials/k", { plugins: { "key-auth": { key: "secret" } } }, async (page) => { await page.getByLabel("ID").first().fill("k"); await write(page, '{"plugins": {"key-auth": {"key": "secret"}}}'); }],
  ["consumer groups", "/consumer_groups/+new", "/consumer_groups/g", { plugins: { cors: {} } }, async (page) => { await page.getByLabel("ID").first().fill("g"); await write(page, '{"plugins": {"cors": {}}}'); }],
  ["global rules", "/global_rules/+new", "/global_rules/r", { plugins: { "request-id": {} } }, async (page) => { await page.getByLabel("ID").first().fill("r"); await write(page, '{"plugins": {"request-id": {}}}'); }],
  ["plugin configs", "/plugin_configs/+new", "/plugin_configs/p", { plugins: { gzip: {} } }, async (page) => { await page.getByLabel("ID").first().fill("p"); await write(page, '{"plugins": {"gzip": {}}}'); }],
  ["protos", "/protos/+new", "/protos/p", { content: 'syntax = "proto3";' }, async (page) => { await page.getByLabel("ID").first().fill("p"); await page.getByLabel(/^Definition/).fill('syntax = "proto3";'); }],
  ["plugin metadata", "/plugin_metadata/+new", "/plugin_metadata/http-logger", { log_format: { a: "$host" } }, async (page) => { await page.getByRole("combobox", { name: /^Plugin/ }).selectOption("http-logger"); await write(page, '{"log_format": {"a": "$host"}}'); }],
  ["secrets", "/secrets/+new", "/secrets/vault/v", { prefix: "kv" }, async (page) => { await page.getByRole("combobox", { name: /^Manager/ }).selectOption("vault"); await page.getByLabel("ID").first().fill("v"); await write(page, '{"uri": "http://127.0.0.1:8200", "prefix": "kv", "token": "t"}'); }],
];

for (const [kind, start, path, expected, fill] of MADE) {
  test(`the life of ${kind}: made, read again, deleted`, async ({ page, gateway }) => {
    if (kind === "credentials") await gateway.put("/consumers/anna", { username: "anna" });
    await signIn(page, gateway, start);
    await fill(page);
    await save(page);
    expect(await gateway.call("GET", path)).toMatchObject({ value: expected });
    await signIn(page, gateway, path);
    await page.getByRole("button", { name: "More actions" }).click();
    await page.getByRole("menuitem", { name: "Delete" }).click();
    await expect(page.getByText(/deleted$/)).toBeVisible();
    expect(await gateway.call("GET", path)).toMatchObject({ message: "Key not found" });
  });
}

test("markup in a stored field is text", async ({ page, gateway }) => {
  const evil = '<img src=x onerror="document.title=1"><script>alert(1)</script>';
  await gateway.put("/upstreams/orders", { nodes: { "127.0.0.1:1980": 1 }, desc: evil });
  await gateway.put("/routes/evil", { name: evil, desc: evil, uri: "/evil", upstream_id: "orders", labels: { evil: "<b>x</b>" }, plugins: { mocking: { response_example: evil } } });
  await signIn(page, gateway, "/routes?peek=evil&cols=name,desc,labels");
  await expect(page.getByRole("complementary")).toContainText("onerror");
  await signIn(page, gateway, "/routes/evil");
  await expect(page.getByLabel("Description", { exact: true })).toHaveValue(evil);
  await signIn(page, gateway, "/changes");
  expect(await page.locator("img, script:not([src])").count()).toBe(0);
});

test("a consumer's credentials are on its page, for viewers as well", async ({ page, gateway }) => {
  await gateway.put("/consumers/anna", { username: "anna" });
  await signIn(page, gateway, "/consumers/anna");
  const section = page.getByRole("region", { name: "Credentials" });
  await expect(section).toContainText("No credentials");
  await section.getByRole("link", { name: "Add credential" }).click();
  await expect(page).toHaveURL(/\/consumers\/anna\/credentials\/\+new|%2Bnew/);
  await gateway.put("/consumers/anna/credentials/main", { plugins: { "key-auth": { key: "anna-key" } } });
  await signIn(page, gateway, "/consumers/anna", VIEWER_KEY);
  await expect(section.getByRole("link", { name: "Add credential" })).toHaveCount(0);
  await expect(section).toContainText("key-auth");
  await section.getByRole("link", { name: "main" }).click();
  await expect(page).toHaveURL(/\/consumers\/anna\/credentials\/main$/);
  await expect(page.locator("body")).not.toContainText("anna-key");
});

test("an upstream in use is not deleted, and its users are links; a deleted route says what it served", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/upstreams/orders");
  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Delete" }).click();
  const dialog = page.getByRole("dialog");
  await expect(dialog).toContainText("upstreams/orders was not deleted: 3 objects use it.");
  await expect(dialog.getByRole("link")).toHaveText(["routes/catalog", "routes/off", "routes/orders"]);
  await dialog.getByRole("link", { name: "routes/off" }).click();
  await expect(page).toHaveURL(/\/routes\/off$/);
  await expect(dialog).toHaveCount(0);
  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Delete" }).click();
  await expect(page.getByText("Route off deleted. It was disabled.")).toBeVisible();
  await page.getByRole("row", { name: /orders/ }).click();
  await page.keyboard.press("Delete");
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await expect(page.getByText("Route orders deleted. It served /orders/*.")).toBeVisible();
});

test("what is stored is looked at, too: a route to an upstream that is gone is warned of", async ({ page, gateway }) => {
  await gateway.put("/routes/split", { uri: "/split", upstream: { nodes: { "127.0.0.1:1980": 1 } }, plugins: { "traffic-split": { rules: [{ weighted_upstreams: [{ upstream_id: "nowhere", weight: 1 }, { weight: 9 }] }] } } });
  await signIn(page, gateway, "/routes/split");
  await expect(page.getByText(/upstream nowhere does not exist/)).toBeVisible();
  await shop(gateway);
  await page.goto(`${gateway.console}/routes/orders`);
  await expect(page.getByLabel("Path", { exact: true })).toHaveValue("/orders/*");
  await expect(page.locator(".bar-top [role=status]")).toHaveCount(0);
});

test("a viewer is told that nothing may be created, and an ID alone is not left without a question", async ({ page, gateway }) => {
  await signIn(page, gateway, "/routes/+new", VIEWER_KEY);
  await expect(page.getByRole("heading", { name: "You may not create anything" })).toBeVisible();
  await signIn(page, gateway, "/routes/+new");
  await page.locator("#new-id").fill("only-this");
  await page.getByRole("link", { name: "Services", exact: true }).click();
  await expect(page.getByRole("dialog")).toContainText("Discard your changes?");
});

test("an invalid object is not reviewed: its first wrong field gets the focus", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes/orders");
  await page.getByLabel("Host", { exact: true }).fill("http://a.test");
  const fault = page.locator(".fault").first();
  await expect(fault).toContainText('"http://a.test" does not have the form');
  await expect(fault).not.toContainText("^");
  await page.getByRole("button", { name: /^Review and save/ }).click();
  await expect(page.getByLabel("Host", { exact: true })).toBeFocused();
  await expect(page.getByRole("dialog")).toHaveCount(0);
});

test("creating an object asks for nothing that is not there", async ({ page, gateway }) => {
  await shop(gateway);
  const failed: string[] = [];
  page.on("response", (response) => { if (response.status() >= 400) failed.push(`${response.request().method()} ${response.status()} ${new URL(response.url()).pathname}`); });
  await signIn(page, gateway, "/routes/+new");
  failed.length = 0;
  await page.locator("#new-id").fill("made");
  await page.getByLabel("Upstream ID").fill("orders");
  await expect(page.getByRole("status").getByText("Valid", { exact: false })).toBeVisible();
  await page.keyboard.press("Control+s");
  await page.getByRole("dialog").getByRole("button", { name: /^Save/ }).click();
  await expect(page.getByText("made saved")).toBeVisible();
  expect(failed).toEqual([]);
});

test("only what identifies a consumer is offered for a credential", async ({ page, gateway }) => {
  await gateway.put("/consumers/anna", { username: "anna" });
  await signIn(page, gateway, "/consumers/anna/credentials/+new");
  await page.locator("#new-id").fill("empty");
  await expect(page.getByText(/it has no plugins and no effect/)).toBeVisible();
  await page.getByRole("button", { name: "Add plugin" }).click();
  await expect(page.getByRole("option", { name: /key-auth/ }).first()).toBeVisible();
  await expect(page.getByRole("option", { name: /limit-count/ })).toHaveCount(0);
});

test("without streams, there is no form for a stream route", async ({ page, gateway }) => {
  await signIn(page, gateway, "/stream_routes");
  await expect(page.getByText("Stream proxying is off.")).toBeVisible();
  await expect(page.getByRole("button", { name: "New stream route" })).toHaveCount(0);
  await page.goto(`${gateway.console}/stream_routes/+new`);
  await expect(page.getByText(/apisix\.stream_proxy in config\.yaml/)).toBeVisible();
  await expect(page.locator("#new-id")).toHaveCount(0);
});
