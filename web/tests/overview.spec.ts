// What the overview says of the traffic is what was sent.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, type Gateway, shop, signIn, start, test, VIEWER_KEY } from "./fixtures";

interface Totals { totals: { requests: number; counted: number } }

const counted = async (gateway: Gateway) => ((await gateway.call("GET", "/stats?range=10m")) as Totals).totals.counted;

/** Routes that answer by themselves, counted by the plugin that counts. */
async function traffic(gateway: Gateway, id: string, fine: number, broken: number): Promise<void> {
  const mocked = (uri: string, status: number) => ({ uri, plugins: { mocking: { response_status: status, response_example: "x" } } });
  await gateway.put("/global_rules/count", { plugins: { prometheus: {} } });
  await gateway.put(`/routes/${id}`, mocked(`/${id}`, 200));
  await gateway.put(`/routes/${id}-broken`, mocked(`/${id}-broken`, 503));
  const before = await counted(gateway);
  for (let i = 0; i < fine; i++) await fetch(`${gateway.proxy}/${id}`);
  for (let i = 0; i < broken; i++) await fetch(`${gateway.proxy}/${id}-broken`);
  await expect.poll(() => counted(gateway)).toBe(before + fine + broken);
}

test("requests, errors and latencies are in the charts", async ({ page, gateway }) => {
  await traffic(gateway, "charted", 12, 4);
  const { totals } = (await gateway.call("GET", "/stats?range=10m")) as Totals;
  await signIn(page, gateway, "/?range=10m");
  await expect(page.locator(".figures-totals")).toContainText(`Requests${totals.requests.toLocaleString("en")}`);
  await expect(page.locator(".figures-totals .bad")).toContainText("%");
  for (const name of ["Requests", "Errors", "Latency"]) await expect(page.getByRole("slider", { name })).toBeVisible();
  await expect(page.locator(".chart-requests")).toHaveAttribute("d", /M\d/);
  await expect(page.locator(".chart-server")).toHaveAttribute("d", /M\d/);
  // The picture of latencies has a coloured column.
  await expect.poll(() => page.locator(".chart canvas").evaluate((canvas: HTMLCanvasElement) => canvas.getContext("2d")?.getImageData(0, 0, canvas.width, canvas.height).data.some((byte) => byte > 0))).toBe(true);
});

test("top routes lead to their routes", async ({ page, gateway }) => {
  await traffic(gateway, "popular", 30, 0);
  await signIn(page, gateway, "/");
  const row = page.getByRole("row", { name: /^popular / });
  await expect(row).toContainText("30");
  await row.getByRole("link").click();
  await expect(page).toHaveURL(/\/ui\/routes\/popular$/);
});

test("the time range is in the address, and a time is read out by the keyboard", async ({ page, gateway }) => {
  await traffic(gateway, "ranged", 3, 0);
  await signIn(page, gateway, "/");
  await page.getByRole("button", { name: "7 d" }).click();
  await expect(page).toHaveURL(/range=7d/);
  await page.getByRole("button", { name: "10 min" }).click();
  await expect(page).toHaveURL(/range=10m/);
  const chart = page.getByRole("slider", { name: "Requests" });
  // Until the new figures are there, those of the range before are shown.
  await expect(chart).toHaveAttribute("aria-valuemax", "119");
  await chart.focus();
  await page.keyboard.press("Home");
  await expect(chart).toHaveAttribute("aria-valuenow", "0");
  await page.keyboard.press("End");
  await expect(chart).toHaveAttribute("aria-valuetext", /^\d\d:\d\d:\d\d · [\d,]+ · .* per second$/);
  await page.keyboard.press("ArrowLeft");
  await expect(chart).toHaveAttribute("aria-valuenow", "118");
});

test("a change is drawn over the charts", async ({ page, gateway }) => {
  await traffic(gateway, "marked", 1, 0);
  await signIn(page, gateway, "/?range=10m");
  await expect(page.locator(".chart-mark").first()).toHaveAttribute("title", /^#\d+ by ops$/);
});

test("it says what counts the rest", async ({ page, gateway }) => {
  await gateway.put("/routes/uncounted", { uri: "/uncounted", plugins: { mocking: { response_example: "x" } } });
  const requests = async () => ((await gateway.call("GET", "/stats?range=1h")) as Totals).totals;
  const before = await requests();
  // More than a fiftieth of all.
  const many = Math.max(5, Math.ceil(before.requests / 20));
  for (let i = 0; i < many; i++) await fetch(`${gateway.proxy}/uncounted`);
  await expect.poll(async () => (await requests()).requests).toBe(before.requests + many);
  await signIn(page, gateway, "/");
  // Another test may have counted some.
  await expect(page.getByText(/Plugin prometheus counts them|Statuses and latencies are not measured/)).toBeVisible();
  await page.getByRole("link", { name: "Add prometheus to the global rules" }).click();
  await expect(page.getByRole("status").getByText(/^Valid/)).toBeVisible();
  await page.keyboard.press("Control+s");
  await page.getByRole("dialog").getByRole("button", { name: /^Save/ }).click();
  await expect(page.getByText("prometheus saved")).toBeVisible();
  expect(await gateway.call("GET", "/global_rules/prometheus")).toMatchObject({ value: { plugins: { prometheus: {} } } });
});

test("what is not measured is not 0", async ({ page }) => {
  const { gateway, stop } = await start();
  try {
    await gateway.put("/global_rules/ids", { plugins: { "request-id": {} } });
    for (let i = 0; i < 3; i++) await fetch(`${gateway.proxy}/nothing`);
    await expect.poll(async () => ((await gateway.call("GET", "/stats?range=1h")) as Totals).totals.requests).toBe(3);
    await signIn(page, gateway, "/");
    await expect(page.locator(".figures-totals")).toHaveText("Requests3");
    await expect(page.getByRole("heading", { name: "Statuses and latencies are not measured" })).toBeVisible();
    await expect(page.getByRole("slider", { name: "Errors" })).toHaveCount(0);
    await page.getByRole("link", { name: "Add prometheus to the global rules" }).click();
    await expect(page).toHaveURL(/\/global_rules\/ids\?plugin=prometheus/);
    await expect(page.locator(".plugin-name")).toHaveText(["request-id", "prometheus"]);
    await expect(page.getByRole("button", { name: /^Review and save/ })).toBeEnabled();
  } finally {
    await stop();
  }
});

test("viewers see no names of consumers", async ({ page, gateway }) => {
  await gateway.put("/consumers/jo", { username: "jo", plugins: { "key-auth": { key: "jo-key" } } });
  await gateway.put("/global_rules/count", { plugins: { prometheus: {} } });
  await gateway.put("/routes/keyed", { uri: "/keyed", plugins: { "key-auth": {}, mocking: { response_example: "x" } } });
  const before = await counted(gateway);
  await expect.poll(async () => (await fetch(`${gateway.proxy}/keyed`, { headers: { apikey: "jo-key" } })).status).toBe(200);
  await expect.poll(() => counted(gateway)).toBeGreaterThan(before);
  await signIn(page, gateway, "/");
  await expect(page.getByRole("row", { name: /^jo / })).toBeVisible();
  await signIn(page, gateway, "/", VIEWER_KEY);
  await expect(page.getByText("Your role does not show the names of consumers.")).toBeVisible();
  await expect(page.getByRole("row", { name: /^jo / })).toHaveCount(0);
});

test("a certificate that ends soon needs attention", async ({ page, gateway }) => {
  const folder = mkdtempSync(join(tmpdir(), "tidegate-certificate-"));
  const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
  execFileSync("openssl", ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "5", "-subj", "/CN=soon.example.com", "-addext", "subjectAltName=DNS:soon.example.com", "-keyout", key, "-out", cert], { stdio: "ignore" });
  await gateway.put("/ssls/soon", { cert: readFileSync(cert, "utf8"), key: readFileSync(key, "utf8"), snis: ["soon.example.com"] });
  rmSync(folder, { recursive: true });
  await signIn(page, gateway, "/");
  await expect(page.getByText(/^The certificate of soon\.example\.com ends on /)).toBeVisible();
  await page.getByRole("link", { name: "soon", exact: true }).click();
  await expect(page).toHaveURL(/\/ui\/ssls\/soon$/);
});

test("the charts are in Chinese as well", async ({ page, gateway }) => {
  await signIn(page, gateway, "/");
  await page.getByRole("button", { name: "中文" }).click();
  await expect(page.getByRole("slider", { name: "延迟" })).toBeVisible();
  await expect(page.getByRole("button", { name: "10 分钟" })).toBeVisible();
});

test("an object that cannot be used is named with its reason; explain does not call it good", async ({ page, gateway }) => {
  await gateway.put("/upstreams/here", { nodes: { "127.0.0.1:1980": 1 } });
  await gateway.put("/routes/canary", { uri: "/canary", upstream_id: "here", plugins: { "traffic-split": { rules: [{ weighted_upstreams: [{ upstream_id: "nowhere", weight: 1 }, { weight: 9 }] }] } } });
  await signIn(page, gateway);
  const notice = page.locator(".notice.bad", { hasText: "routes/canary cannot be used" });
  await expect(notice).toContainText("does not exist");
  await expect(notice).not.toContainText("{");
  await notice.getByRole("link", { name: "canary" }).click();
  await expect(page).toHaveURL(/\/routes\/canary$/);
  await page.goto(`${gateway.console}/explain?url=http%3A%2F%2Fx%2Fcanary`);
  await expect(page.locator(".verdict.none")).toContainText("This route cannot be used, and the gateway would answer 503");
  await expect(page.locator(".verdict")).toContainText("does not exist");
  await expect(page.locator(".chain")).not.toContainText("9223372036854");
});

test("the colours of the errors have names", async ({ page, gateway }) => {
  await signIn(page, gateway);
  await expect(page.locator("figure", { hasText: "Errors" }).locator(".chart-legend")).toContainText("4xx5xx");
});

test("nothing moves while the overview of a small screen loads", async ({ page, gateway }) => {
  await shop(gateway);
  await traffic(gateway, "still", 3, 0);
  await page.setViewportSize({ width: 390, height: 844 });
  await signIn(page, gateway);
  await page.addInitScript(() => {
    const moved: number[] = ((window as unknown as { moved: number[] }).moved = []);
    new PerformanceObserver((list) => list.getEntries().forEach((entry) => moved.push((entry as unknown as { value: number }).value))).observe({ type: "layout-shift", buffered: true });
  });
  // Changes are marked in the charts: they come last here.
  await page.route("**/history?*", async (route) => {
    await page.locator(".chart").nth(2).waitFor();
    await route.continue();
  });
  await page.goto(gateway.console);
  await expect(page.locator(".chart-mark").first()).toBeAttached();
  await expect(page.locator(".history li").first()).toBeAttached();
  expect(await page.evaluate(() => (window as unknown as { moved: number[] }).moved.reduce((sum, one) => sum + one, 0))).toBeLessThan(0.01);
});
