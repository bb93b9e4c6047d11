// What attackers try through the browser: scripts in stored fields and in requests, frames, other pages' requests.
import { createServer } from "node:http";
import { expect, type Gateway, signIn, test } from "./fixtures";

const SCRIPT = `"><img src=x onerror="window.hit=1"><script>window.hit=1</script>`;

/** One of each kind, with a script wherever the gateway takes a text. */
async function store(gateway: Gateway): Promise<void> {
  const texts = { name: `n${SCRIPT}`.slice(0, 100), desc: SCRIPT };
  await gateway.put("/upstreams/x", { ...texts, type: "roundrobin", nodes: { "127.0.0.1:1980": 1 } });
  await gateway.put("/services/x", { ...texts, upstream_id: "x" });
  await gateway.put("/routes/x", { ...texts, uri: "/x", upstream_id: "x", plugins: { mocking: { response_example: SCRIPT, content_type: "text/plain" }, "response-rewrite": { headers: { set: { "x-y": SCRIPT } } } } });
  await gateway.put("/consumers/x", { username: "x", desc: SCRIPT, plugins: { "key-auth": { key: SCRIPT } } });
  await gateway.put("/consumer_groups/x", { ...texts, plugins: { "response-rewrite": { body: SCRIPT } } });
  await gateway.put("/plugin_configs/x", { ...texts, plugins: { "response-rewrite": { body: SCRIPT } } });
  await gateway.put("/global_rules/x", { plugins: { "response-rewrite": { headers: { set: { "x-z": SCRIPT } } } } });
  await gateway.put("/protos/x", { desc: SCRIPT, content: `syntax = "proto3"; package p; // ${SCRIPT}\nmessage M { string a = 1; }` });
  await gateway.put("/plugin_metadata/http-logger", { log_format: { a: SCRIPT } });
  await gateway.call("PUT", "/checkpoints/x1");
}

test("stored fields are text on every screen", async ({ page, gateway }) => {
  test.slow();
  let dialogs = 0;
  page.on("dialog", (dialog) => { dialogs++; void dialog.dismiss(); });
  await store(gateway);
  await fetch(`${gateway.proxy}/x?${encodeURIComponent(SCRIPT)}`, { headers: { "user-agent": SCRIPT, "x-script": SCRIPT } });
  const { stored } = (await gateway.call("GET", "/revision")) as { stored: number };
  await signIn(page, gateway);
  const kinds = ["routes", "services", "upstreams", "consumers", "consumer_groups", "plugin_configs", "global_rules", "protos"];
  const screens = ["/", "/changes", `/changes/${stored}`, "/changes/checkpoints", `/changes/compare?from=1&to=${stored}`, "/plugins", `/explain?url=${encodeURIComponent(`http://h/x?${SCRIPT}`)}`, `/routes?q=${encodeURIComponent(SCRIPT)}`, `/${encodeURIComponent(SCRIPT)}`,
    ...kinds.flatMap((kind) => [`/${kind}`, `/${kind}?peek=x`, `/${kind}/x`]), "/plugin_metadata/http-logger"];
  for (const screen of screens) {
    await page.goto(gateway.console + screen);
    await expect(page.locator("main.page h1")).toBeVisible();
    await expect(page.locator(".skeleton")).toHaveCount(0);
    expect([screen, await page.evaluate(() => [(window as { hit?: number }).hit, document.querySelectorAll("main img, main script, main iframe").length])]).toEqual([screen, [undefined, 0]]);
  }
  await page.goto(`${gateway.console}/routes`);
  await page.keyboard.press("Control+K");
  await page.keyboard.type("img");
  expect(await page.evaluate(() => (window as { hit?: number }).hit)).toBeUndefined();
  expect(dialogs).toBe(0);
});

/** A page of somebody else's. */
async function stranger(html: string): Promise<{ url: string; close: () => void }> {
  const server = createServer((_, response) => { response.setHeader("content-type", "text/html"); response.end(html); });
  await new Promise<void>((resolve) => { server.listen(0, "127.0.0.1", resolve); });
  const at = server.address();
  return { url: `http://localhost:${typeof at === "object" && at ? at.port : 0}/`, close: () => server.close() };
}

test("another page cannot frame it", async ({ page, gateway }) => {
  await signIn(page, gateway);
  const other = await stranger(`<iframe src="${gateway.console}/routes"></iframe>`);
  const failed = page.waitForEvent("console", (message) => /frame/i.test(message.text()));
  await page.goto(other.url);
  await failed;
  expect(page.frames().some((frame) => frame !== page.mainFrame() && frame.url().startsWith(gateway.console))).toBe(false);
  other.close();
});

test("another page changes nothing by the cookie, and reads nothing", async ({ page, gateway }) => {
  await gateway.put("/routes/kept", { uri: "/kept", plugins: { mocking: { response_example: "x" } } });
  await signIn(page, gateway);
  const other = await stranger("<form id=f method=post enctype=text/plain></form>");
  await page.goto(other.url);
  const tried = await page.evaluate(async (admin) => {
    const attempt = async (method: string, path: string, mode: RequestMode) => {
      try {
        const response = await fetch(`${admin}/apisix/admin${path}`, { method, mode, credentials: "include", body: method === "GET" ? undefined : "{}" });
        return response.type === "opaque" ? "opaque" : response.status;
      } catch {
        return "blocked";
      }
    };
    return Promise.all([attempt("DELETE", "/routes/kept", "cors"), attempt("POST", "/rollback", "no-cors"), attempt("GET", "/routes/kept", "cors"), attempt("GET", "/stats", "cors"), attempt("POST", "/sessions", "no-cors")]);
  }, gateway.admin.replace("127.0.0.1", "localhost"));
  for (const one of tried) expect(["blocked", "opaque", 401, 403]).toContain(one);
  expect(await gateway.call("GET", "/routes/kept")).toMatchObject({ value: { uri: "/kept" } });
  other.close();
});

test("no script reads the cookie, and nothing of the session is stored", async ({ page, gateway }) => {
  await signIn(page, gateway);
  const found = await page.evaluate(() => [document.cookie, JSON.stringify(localStorage), JSON.stringify(sessionStorage)].join(" "));
  expect(found).not.toMatch(/tidegate_session|csrf/i);
});
