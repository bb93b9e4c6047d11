import { expect, shop, signIn, test } from "./fixtures";

test("what is added has the focus, and Tab goes from field to field", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/upstreams/+new");
  await expect(page.locator("#new-id")).toBeFocused();
  await page.keyboard.type("two");
  await page.getByRole("button", { name: "Add node" }).press("Enter");
  await page.keyboard.type("127.0.0.1");
  await page.keyboard.press("Tab");
  await page.keyboard.type("1981");
  await expect(page.getByLabel("Host", { exact: true })).toHaveValue("127.0.0.1");
  await expect(page.getByLabel("Port", { exact: true })).toHaveValue("1981");
  await expect(page.locator('[data-path="/nodes"] > .control > .clear')).toHaveCount(0);
  await page.goto(`${gateway.console}/routes/catalog`);
  await page.getByRole("button", { name: "limit-count", exact: true }).click();
  const field = (name: string) => page.locator(`[data-path="/plugins/limit-count/${name}"] input`);
  await field("count").focus();
  await page.keyboard.press("Tab");
  await expect(field("time_window")).toBeFocused();
  await page.keyboard.press("Control+A");
  await page.keyboard.type("30");
  await expect(field("time_window")).toHaveValue("30");
  await expect(page.locator('[data-path="/plugins/limit-count/time_window"]')).toContainText("in seconds");
  await page.getByRole("button", { name: "Add plugin" }).click();
  await page.keyboard.type("canary");
  await expect(page.locator("#plugin-list [role=option]")).toContainText("traffic-split");
  await page.getByRole("combobox", { name: "Search plugins" }).fill("nothing of the kind");
  await expect(page.getByText("No plugin matches.")).toBeVisible();
  await page.getByRole("combobox", { name: "Search plugins" }).fill("request-id");
  await page.keyboard.press("Enter");
  await expect(page.getByLabel("header_name")).toBeFocused();
});

test("an ID that exists is named before anything is written", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/upstreams/+new");
  await page.keyboard.type("orders");
  await page.getByLabel("Name", { exact: true }).fill("mine");
  await expect(page.getByRole("status").filter({ hasText: "ID exists" })).toBeVisible();
  await expect(page.getByText("The ID orders exists already.")).toBeVisible();
  await expect(page.getByRole("button", { name: "Review and save" })).toBeDisabled();
  await page.keyboard.press("Control+S");
  await expect(page.getByRole("dialog")).toHaveCount(0);
  await page.locator("#new-id").fill("a b/c");
  await expect(page.getByText("An ID has letters, digits")).toBeVisible();
  await page.locator("#new-id").fill("others");
  await expect(page.getByRole("button", { name: "Review and save" })).toBeEnabled();
});

test("warnings count in the header, and messages do not move the form", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes/catalog");
  const path = page.getByLabel("Path", { exact: true });
  const before = await path.boundingBox();
  await page.getByLabel("Host", { exact: true }).fill("http://shop.example.com");
  await expect(page.getByText("without http:// and path")).toBeVisible();
  expect((await path.boundingBox())?.y).toBe(before?.y);
  await page.getByRole("button", { name: "Discard" }).click();
  await page.locator('[data-path="/uri"] input').fill("no-slash");
  await expect(page.getByText("A path begins with /")).toBeVisible();
  await page.getByRole("button", { name: "Discard" }).click();
  await gateway.put("/upstreams/idle", { nodes: { "127.0.0.1:1": 1 } });
  await page.goto(`${gateway.console}/upstreams/idle`);
  await page.getByLabel("Weight", { exact: true }).fill("0");
  await expect(page.getByRole("status").filter({ hasText: /Valid, (one|\d+) warning/ })).toBeVisible();
  await expect(page.locator(".problems .warn")).toContainText(/weight/);
});

test("what is pasted under the other syntax stays; a name that comes twice is not valid", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes/off");
  const source = page.locator(".cm-content");
  const type = async (text: string) => {
    await source.click();
    await page.keyboard.press("Control+A");
    await page.keyboard.press("Delete");
    await page.keyboard.insertText(text);
  };
  await type("uri: /yaml\nupstream_id: orders\n");
  await expect(page.getByText("The form waits")).toBeVisible();
  await page.getByRole("button", { name: "YAML" }).click();
  await expect(source).toContainText("uri: /yaml");
  await expect(page.getByLabel("Path", { exact: true })).toHaveValue("/yaml");
  await page.getByRole("button", { name: "JSON" }).click();
  await type('{"uri": "/a", "uri": "/b", "upstream_id": "orders"}');
  await expect(page.locator(".source-bar")).toContainText('"uri" comes twice');
  await type('{"uri": "/a", "priority": 12345678901234567890, "upstream_id": "orders"}');
  await expect(page.locator(".source-bar")).toContainText("too large for this page");
  await type('{"uri": "/a", "uris": ["/b"], "upstream_id": "orders"}');
  await expect(page.locator(".problems .bad").first()).toHaveText("A route has either uri or uris. Remove one of them.");
});

test("Enter in the review saves; Enter in a question does no harm", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes");
  await page.getByRole("row", { name: /catalog/ }).click();
  await page.keyboard.press("Delete");
  await expect(page.getByRole("dialog")).toContainText("Delete catalog?");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("dialog")).toHaveCount(0);
  await expect(page.getByRole("row", { name: /catalog/ })).toBeVisible();
  await page.keyboard.press("Control+Z");
  await expect(page.getByText("There is nothing to undo here.")).toBeVisible();
  await page.goto(`${gateway.console}/routes/catalog`);
  await page.getByLabel("Description", { exact: true }).fill("by keyboard");
  await page.keyboard.press("Control+S");
  await expect(page.getByRole("dialog").getByRole("button", { name: /^Save/ })).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(page.getByText("catalog saved")).toBeVisible();
});

test("fields of plugins say what they mean and in which unit, in both languages", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes/catalog");
  await page.getByRole("button", { name: "limit-count", exact: true }).click();
  const help = (name: string) => page.locator(`[data-path="/plugins/limit-count/${name}"] .help-text`);
  await expect(help("time_window")).toHaveText("length of the window in seconds");
  await expect(help("count")).toContainText("requests per window");
  await page.locator("footer").getByRole("button", { name: "中文" }).click();
  await expect(help("time_window")).toContainText("秒");
  await page.locator("footer").getByRole("button", { name: "English" }).click();
});

test("a plugin that was just added is not complete rather than wrong, and each message comes once", async ({ page, gateway }) => {
  await gateway.put("/consumers/jo", { username: "jo" });
  await signIn(page, gateway, "/consumers/jo");
  await page.getByRole("button", { name: "Add plugin" }).click();
  await page.keyboard.type("key-auth");
  await page.keyboard.press("Enter");
  const plugin = page.locator('.plugin[data-path="/plugins/key-auth"]');
  await expect(plugin.getByLabel("key *")).toBeFocused();
  await expect(page.getByRole("status").filter({ hasText: "Not complete yet" })).toBeVisible();
  await expect(plugin).not.toHaveClass(/wrong/);
  await expect(page.locator(".fault, .problems .bad")).toHaveCount(0);
  // Left as it is, it is wrong, which is said where it is.
  await page.getByLabel("Description", { exact: true }).focus();
  await expect(plugin).toHaveClass(/wrong/);
  await expect(page.locator(".fault")).toHaveCount(1);
  await expect(page.locator(".problems .bad")).toHaveCount(0);
  await plugin.getByLabel("key *").fill("a-long-key-of-jo");
  await expect(page.getByRole("status").filter({ hasText: /^Valid/ })).toBeVisible();
});

test("nodes without a port and paths with a name behind the star are warned of", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes/catalog");
  await page.locator('[data-path="/uri"] input').fill("/b*c");
  await expect(page.locator(".problems .warn")).toContainText("/b*c");
  await gateway.put("/upstreams/bare", { nodes: { "127.0.0.1:1980": 1 } });
  await page.getByRole("button", { name: "Discard" }).click();
  await page.goto(`${gateway.console}/upstreams/bare`);
  await page.getByLabel("Port", { exact: true }).fill("");
  await expect(page.locator(".problems .warn")).toContainText("Node 127.0.0.1 has no port: 80 is used.");
});

test("a field that is not JSON keeps the object from being saved, and discarding shows what is stored", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes/catalog");
  await page.getByLabel("More fields…").first().selectOption("vars");
  const field = page.getByRole("textbox", { name: "Conditions" });
  await expect(field).toBeFocused();
  // What is typed first belongs between the brackets.
  await page.keyboard.type('["arg_x", "==", "1"]');
  await expect(field).toHaveValue('[["arg_x", "==", "1"]]');
  const review = page.getByRole("button", { name: /^Review and save/ });
  await expect(review).toBeEnabled();
  await field.fill("arg_x == 1[]");
  await expect(page.getByText(/^Not valid JSON: Unexpected token/)).toBeVisible();
  await expect(field).toHaveAttribute("aria-invalid", "true");
  await expect(page.getByRole("status").getByText("Not valid", { exact: true })).toBeVisible();
  await expect(review).toBeDisabled();
  await page.keyboard.press("Control+s");
  await expect(page.getByRole("dialog")).toHaveCount(0);
  await page.getByRole("button", { name: "Discard" }).click();
  await expect(field).toHaveCount(0);
  await expect(page.getByText("Not valid", { exact: true })).toHaveCount(0);
});

test("a node that is none is named at its field, and cannot be saved", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/upstreams/orders");
  const port = page.getByLabel("Port");
  await port.fill("abc");
  await expect(page.getByText("127.0.0.1: abc is not a port. A port is a number from 1 to 65535.")).toBeVisible();
  await expect(port).toHaveAttribute("aria-invalid", "true");
  await expect(page.getByRole("button", { name: /^Review and save/ })).toBeDisabled();
  await port.fill("8080");
  await page.getByLabel("Host", { exact: true }).fill("http://a.example");
  await expect(page.getByText("http://a.example is not a host: write a.example, and choose the scheme in Scheme.")).toBeVisible();
  await expect(page.getByLabel("Type", { exact: true })).toHaveValue("0");
});

test("traffic is split by weights in a form", async ({ page, gateway }) => {
  await shop(gateway);
  await gateway.put("/upstreams/canary", { nodes: { "127.0.0.1:1981": 1 } });
  await signIn(page, gateway, "/routes/catalog");
  await page.getByRole("button", { name: "Add plugin" }).click();
  await page.getByRole("combobox", { name: "Search plugins" }).fill("canary");
  await page.keyboard.press("Enter");
  const plugin = page.locator('[data-path="/plugins/traffic-split"]');
  await plugin.getByLabel("Upstream").first().selectOption("canary");
  await plugin.getByLabel("Weight").first().fill("3");
  await expect(plugin.locator(".plugin-row")).toContainText("canary 25 % · its own upstream 75 %");
  await page.keyboard.press("Control+s");
  await page.getByRole("dialog").getByRole("button", { name: /^Save/ }).click();
  await expect(page.getByText("catalog saved")).toBeVisible();
  expect(await gateway.call("GET", "/routes/catalog")).toMatchObject({ value: { plugins: { "traffic-split": { rules: [{ weighted_upstreams: [{ upstream_id: "canary", weight: 3 }, { weight: 9 }] }] } } } });
  await page.locator('[data-path="/plugins/limit-count"]').getByRole("button", { name: "limit-count", exact: true }).click();
  await expect(page.getByText(/consumer_name per consumer/)).toBeVisible();
});
