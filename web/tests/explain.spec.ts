import { expect, shop, signIn, test } from "./fixtures";

test("the route that a request matches, the others with their reasons, and what would run", async ({ page, gateway }) => {
  await shop(gateway);
  await gateway.put("/routes/all", { name: "all", uri: "/*", upstream_id: "orders" });
  await signIn(page, gateway, "/explain");
  await page.getByLabel("URL").fill("http://shop.example.com/orders/1");
  await page.keyboard.press("Enter");
  // Its route wants a key, which the question does not have.
  await expect(page.locator(".verdict")).toContainText("Answered here with 401 by key-auth");
  await expect(page.locator(".verdict")).toHaveClass(/none/);
  await expect(page.locator(".verdict")).toContainText("Matches orders");
  await expect(page.getByRole("row", { name: /shadowed all/ })).toBeVisible();
  await expect(page.locator(".chain")).toContainText("key-auth");
  await expect(page).toHaveURL(/url=http/);
});

test("a request that no route matches", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/explain?url=http%3A%2F%2Fx%2Fnothing");
  await expect(page.locator(".verdict")).toContainText("Answered here with 404");
});

test("headers, method and address of the client are part of the question", async ({ page, gateway }) => {
  await gateway.put("/routes/blue", { uri: "/a", methods: ["POST"], vars: [["http_x_team", "==", "blue"]], remote_addrs: ["10.0.0.7"], upstream: { nodes: { "127.0.0.1:1980": 1 } } });
  await signIn(page, gateway, "/explain");
  await page.getByLabel("Method").selectOption("POST");
  await page.getByLabel("URL").fill("/a");
  await page.getByRole("button", { name: "Headers and more" }).click();
  await page.getByLabel("Headers, one per line").fill("X-Team: blue");
  await page.getByLabel("Client address").fill("10.0.0.7");
  await page.getByRole("button", { name: "Explain", exact: true }).click();
  await expect(page.locator(".verdict")).toContainText("Reaches routes/blue");
  await expect(page.locator(".verdict")).not.toHaveClass(/none/);
  await page.getByLabel("Headers, one per line").fill("X-Team: red");
  await page.getByRole("button", { name: "Explain", exact: true }).click();
  await expect(page.locator(".verdict")).toContainText("404");
  await expect(page.getByRole("row", { name: /no match/ })).toContainText('The condition http_x_team == "blue" does not hold.');
});

test("a route whose plugin answers reaches no upstream, and a disabled one is named", async ({ page, gateway }) => {
  await gateway.put("/routes/maintenance", { name: "maintenance", uri: "/a", plugins: { "fault-injection": { abort: { http_status: 404, percentage: 100 } }, "limit-count": { count: 1, time_window: 60 } }, upstream: { nodes: { "127.0.0.1:1980": 1 } } });
  await gateway.put("/routes/old", { name: "old", uri: "/a", status: 0, upstream: { nodes: { "127.0.0.1:1980": 1 } } });
  await signIn(page, gateway, "/explain?url=http%3A%2F%2Fx%2Fa");
  await expect(page.locator(".verdict")).toContainText("Answered here with 404 by fault-injection");
  await expect(page.locator(".verdict")).toHaveClass(/none/);
  await expect(page.locator(".chain")).toContainText("answers 404");
  await expect(page.locator(".chain-plugin.off")).toContainText("limit-count");
  await expect(page.locator(".chain")).not.toContainText("127.0.0.1:1980");
  await expect(page.getByRole("row", { name: /disabled old/ })).toContainText("The route is disabled.");
  await page.evaluate(() => localStorage.setItem("tidegate.language", "zh"));
  await page.reload();
  await expect(page.locator(".verdict")).toContainText("由 fault-injection 直接返回 404");
  await expect(page.locator("main")).not.toContainText("disabled");
});

test("shares of the traffic, and what may answer before", async ({ page, gateway }) => {
  const upstream = { nodes: { "127.0.0.1:1980": 1 } };
  await gateway.put("/upstreams/canary", upstream);
  await gateway.put("/routes/shop", { name: "shop", uri: "/a", upstream, plugins: { "limit-count": { count: 1, time_window: 60, rejected_code: 429 }, "traffic-split": { rules: [{ weighted_upstreams: [{ upstream_id: "canary", weight: 1 }, { weight: 4 }] }] } } });
  await signIn(page, gateway, "/explain?url=http%3A%2F%2Fx%2Fa");
  await expect(page.locator(".verdict")).toContainText("May be answered by limit-count (429)");
  await expect(page.locator(".verdict")).toContainText("20 %");
  await expect(page.locator(".verdict")).toContainText("80 %");
});

test("a question that cannot be asked is refused with the reason", async ({ page, gateway }) => {
  await signIn(page, gateway, "/explain?url=http%3A%2F%2Fx%2Fa%20b");
  await expect(page.getByRole("alert")).toContainText("spaces");
});

test("a route leads to the explanation of a request to it", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes?peek=orders");
  await page.getByRole("link", { name: "Explain a request to this route" }).click();
  await expect(page.locator(".verdict")).toContainText("Matches orders");
});

test("at 390 pixels the reason is on the screen", async ({ page, gateway }) => {
  await shop(gateway);
  await page.setViewportSize({ width: 390, height: 844 });
  await signIn(page, gateway, "/explain?url=http%3A%2F%2Fother.example.com%2Forders%2F1");
  const reason = page.locator(".only-narrow p").first();
  await expect(reason).toContainText("host");
  const box = await reason.boundingBox();
  expect((box?.x ?? 999) + (box?.width ?? 999)).toBeLessThanOrEqual(390);
});

test("the same question is asked again, and by itself after a change", async ({ page, gateway }) => {
  const route = { uri: "/a", upstream: { nodes: { "127.0.0.1:1980": 1 } } };
  await gateway.put("/routes/one", route);
  await signIn(page, gateway, "/explain?url=http%3A%2F%2Fx%2Fa");
  await expect(page.locator(".verdict")).toContainText("Reaches routes/one");
  const asked = page.waitForRequest((request) => request.url().endsWith("/explain"));
  await page.getByRole("button", { name: "Explain", exact: true }).click();
  await asked;
  await gateway.put("/routes/one", { ...route, status: 0 });
  await expect(page.locator(".verdict")).toContainText("404", { timeout: 15_000 });
});

test("headers and bodies stay out of the address", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/explain");
  await page.getByLabel("URL").fill("http://shop.example.com/orders/1");
  await page.getByRole("button", { name: "Headers and more" }).click();
  await page.getByLabel("Headers, one per line").fill("no header");
  await expect(page.getByRole("alert")).toContainText("Not a header: no header");
  await expect(page.getByRole("button", { name: "Explain", exact: true })).toBeDisabled();
  await page.getByLabel("Headers, one per line").fill("apikey: secret-of-anna");
  await page.getByRole("button", { name: "Explain", exact: true }).click();
  await expect(page.locator(".verdict")).toContainText("401");
  expect(page.url()).not.toContain("secret-of-anna");
  await page.reload();
  await expect(page.locator(".notice")).toContainText("Enter them again");
  await expect(page.locator(".verdict")).toHaveCount(0);
});
