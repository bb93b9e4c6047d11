import { expect, shop, signIn, test } from "./fixtures";

test("the route that a request matches, the others with their reasons, and what would run", async ({ page, gateway }) => {
  await shop(gateway);
  await gateway.put("/routes/all", { name: "all", uri: "/*", upstream_id: "orders" });
  await signIn(page, gateway, "/explain");
  await page.getByLabel("URL").fill("http://shop.example.com/orders/1");
  await page.keyboard.press("Enter");
  await expect(page.locator(".verdict")).toContainText("Matches orders");
  await expect(page.getByRole("row", { name: /shadowed all/ })).toBeVisible();
  await expect(page.locator(".chain")).toContainText("key-auth");
  await expect(page).toHaveURL(/url=http/);
});

test("a request that no route matches", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/explain?url=http%3A%2F%2Fx%2Fnothing");
  await expect(page.locator(".verdict")).toContainText("the gateway would answer 404");
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
  await expect(page.locator(".verdict")).toContainText("Matches blue");
  await page.getByLabel("Headers, one per line").fill("X-Team: red");
  await page.getByRole("button", { name: "Explain", exact: true }).click();
  await expect(page.locator(".verdict")).toContainText("404");
  await expect(page.getByRole("row", { name: /no match/ })).toContainText("vars");
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
