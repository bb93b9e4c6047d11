import { expect, shop, signIn, test } from "./fixtures";

const rows = ".tbody .tr";

test("an empty list teaches what the objects are for", async ({ page, gateway }) => {
  await signIn(page, gateway, "/routes");
  await expect(page.getByRole("heading", { name: "Routes: none yet" })).toBeVisible();
  await expect(page.getByText("A route matches requests by host")).toBeVisible();
});

test("a search is in the address and survives signing in again", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes");
  await expect(page.locator(rows)).toHaveCount(3);
  await page.getByRole("searchbox").fill("cata");
  await expect(page.locator(rows)).toHaveCount(1);
  await expect(page).toHaveURL(/q=cata/);
  await expect(page.getByTestId("count")).toHaveText("1 of 3");
  await signIn(page, gateway, "/routes?q=cata");
  await expect(page.locator(rows)).toHaveCount(1);
});

test("nothing found offers to clear the filters", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes?q=nothing-of-this-name");
  await page.getByRole("button", { name: "Clear search and filters" }).click();
  await expect(page.locator(rows)).toHaveCount(3);
});

test("labels and plugins filter", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes");
  await page.getByRole("button", { name: "Filter by Label" }).click();
  await page.getByRole("menuitem", { name: "team:web" }).click();
  await expect(page.locator(rows)).toHaveCount(1);
  await expect(page).toHaveURL(/label=team%3Aweb/);
  await page.getByRole("button", { name: "Remove filter Label team:web" }).click();
  await page.getByRole("button", { name: "Filter by Plugin" }).click();
  await page.getByRole("menuitem", { name: "key-auth" }).click();
  await expect(page.locator(rows)).toHaveCount(1);
  await expect(page.locator(rows)).toContainText("orders");
});

test("columns sort up, down and not", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes");
  const heading = page.getByRole("columnheader", { name: "Name" });
  const first = page.locator(`${rows} .name`).first();
  await heading.getByRole("button").click();
  await expect(heading).toHaveAttribute("aria-sort", "ascending");
  await expect(first).toHaveText("catalog");
  await heading.getByRole("button").click();
  await expect(first).toHaveText("orders");
  await expect(page).toHaveURL(/sort=-name/);
  await heading.getByRole("button").click();
  await expect(page).not.toHaveURL(/sort/);
});

test("columns are chosen in the address", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes");
  await page.getByRole("button", { name: "Columns" }).click();
  await page.getByRole("menuitemcheckbox", { name: "Status" }).click();
  await expect(page.getByRole("columnheader", { name: "Status" })).toBeVisible();
  await page.keyboard.press("Escape");
  await expect(page).toHaveURL(/cols=.*status/);
  await signIn(page, gateway, "/routes?cols=name,status");
  await expect(page.getByRole("columnheader")).toHaveCount(3);
});

test("details open beside the list, with the last changes", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes");
  await page.getByText("catalog", { exact: true }).click();
  const details = page.getByRole("complementary", { name: "Details of catalog" });
  await expect(details).toContainText("limit-count");
  await expect(details).toContainText("ops");
  await expect(page).toHaveURL(/peek=catalog/);
  await page.keyboard.press("Escape");
  await expect(details).toHaveCount(0);
});

test("a change that another client makes appears without a reload", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes");
  await expect(page.locator(rows)).toHaveCount(3);
  await gateway.put("/routes/late", { name: "late", uri: "/late", upstream_id: "orders" });
  await expect(page.locator(rows)).toHaveCount(4);
});

test("several rows are deleted in one change, and come back with undo", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes");
  await page.getByRole("checkbox", { name: "Select off" }).check();
  await page.getByRole("checkbox", { name: "Select catalog" }).check();
  await page.getByRole("button", { name: "Delete 2" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await expect(page.locator(rows)).toHaveCount(1);
  await page.getByRole("button", { name: /^Undo/ }).click();
  await expect(page.locator(rows)).toHaveCount(3);
});

test("an object that others refer to stays, and the gateway says why", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/upstreams?peek=orders");
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await expect(page.getByRole("dialog")).toContainText("upstreams/orders was not deleted: 3 objects use it.");
  await page.getByRole("dialog").locator("footer").getByRole("button", { name: "Close" }).click();
  await expect(page.locator(rows)).toHaveCount(1);
});

for (const kind of ["services", "consumers", "consumer_groups", "ssls", "global_rules", "plugin_configs", "plugin_metadata", "protos", "secrets"]) {
  test(`the list of ${kind} is there while it is empty`, async ({ page, gateway }) => {
    await signIn(page, gateway, `/${kind}`);
    await expect(page.locator(".empty")).toBeVisible();
  });
}

test("stream routes say how to have them while the stream proxy is off", async ({ page, gateway }) => {
  await signIn(page, gateway, "/stream_routes");
  await expect(page.getByRole("alert")).toContainText("apisix.stream_proxy");
});

test("a screen whose file cannot be had says so, and a new attempt loads the page again", async ({ page, gateway }) => {
  await shop(gateway);
  await page.route("**/assets/list-screen-*.js", (route) => route.abort());
  await signIn(page, gateway);
  await page.getByRole("navigation").getByRole("link", { name: /^Routes/ }).click();
  await expect(page.getByRole("alert")).toBeVisible();
  await page.unroute("**/assets/list-screen-*.js");
  await page.getByRole("alert").getByRole("button").click();
  await expect(page.getByRole("row", { name: /orders/ })).toBeVisible();
});

test("the order is that of the identifiers, before and after one is created, and a small screen shows the path", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes");
  const names = page.locator(".tbody .tr .name");
  await expect(names).toHaveText(["catalog", "off", "orders"]);
  await gateway.put("/routes/middle", { uri: "/middle", upstream_id: "orders" });
  await expect(names).toHaveText(["catalog", "middle", "off", "orders"]);
  await page.setViewportSize({ width: 390, height: 844 });
  await expect(page.getByRole("columnheader", { name: "Path" })).toBeVisible();
  await expect(page.getByRole("row", { name: /orders/ }).first()).toContainText("/orders/*");
});
