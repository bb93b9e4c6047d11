// A gateway of its own for each worker, with an empty store for each test, and a page of the console before it.
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test as base, expect, type Page } from "@playwright/test";

export const ADMIN_KEY = "console-tests-admin-key";
export const VIEWER_KEY = "console-tests-viewer-key";

export interface Gateway {
  console: string;
  admin: string;
  /** Where clients send requests. */
  proxy: string;
  put(path: string, value: unknown): Promise<void>;
  /** Any request to the Admin API; the body of the answer. */
  call(method: string, path: string, body?: unknown): Promise<unknown>;
}

const freePort = () => new Promise<number>((resolve, reject) => {
  const server = createServer().listen(0, "127.0.0.1", () => {
    const address = server.address();
    server.close(() => (typeof address === "object" && address ? resolve(address.port) : reject(new Error("no port"))));
  });
});

/** Waits for a line of the process that says that it is there. */
function until(child: ChildProcess, pattern: RegExp): Promise<void> {
  return new Promise((resolve, reject) => {
    let text = "";
    const read = (chunk: Buffer) => {
      text += chunk.toString();
      if (pattern.test(text)) resolve();
    };
    child.stdout?.on("data", read);
    child.stderr?.on("data", read);
    child.once("exit", (code) => reject(new Error(`exit code ${code}: ${text}`)));
  });
}

/** UI_DIST=1: the console as `npm run build` has just made it, before a gateway that was built with another one. */
async function serveDist(admin: number): Promise<{ child: ChildProcess; address: string }> {
  const port = await freePort();
  const child = spawn("node", ["dev-server/server.mjs", "--listen", `127.0.0.1:${port}`, "--admin", `http://127.0.0.1:${admin}`], { stdio: ["ignore", "pipe", "pipe"] });
  await until(child, /\/ui\//);
  return { child, address: `http://127.0.0.1:${port}` };
}

/** `more`: lines of `deployment.admin`, made for the port of the Admin API. */
export async function start(more: (admin: number) => string = () => ""): Promise<{ gateway: Gateway; stop: () => Promise<void> }> {
  const binary = process.env.TIDEGATE_BIN;
  if (!binary) throw new Error("TIDEGATE_BIN names the binary of the gateway");
  const folder = mkdtempSync(join(tmpdir(), "tidegate-console-"));
  const [proxy, admin, control] = await Promise.all([freePort(), freePort(), freePort()]);
  mkdirSync(join(folder, "conf"));
  writeFileSync(join(folder, "conf/config.yaml"), `
apisix: {node_listen: ${proxy}, ssl: {enable: false}, enable_control: true, control: {ip: 127.0.0.1, port: ${control}}}
nginx_config: {worker_processes: 1}
deployment:
  admin:
    admin_listen: {ip: 127.0.0.1, port: ${admin}}
    limits: {connections_per_address: 64}
    admin_key:
      - {name: ops, key: ${ADMIN_KEY}, role: admin}
      - {name: looker, key: ${VIEWER_KEY}, role: viewer}
${more(admin)}`);
  const gateway = spawn(binary, ["run", "--prefix", folder], { stdio: ["ignore", "pipe", "pipe"] });
  await until(gateway, /admin API/);
  const served = process.env.UI_DIST ? await serveDist(admin) : null;
  const api = `http://127.0.0.1:${admin}/apisix/admin`;
  const call = async (method: string, path: string, body?: unknown): Promise<unknown> => {
    const response = await fetch(api + path, { method, headers: { "X-API-KEY": ADMIN_KEY, "Content-Type": "application/json" }, body: body === undefined ? undefined : JSON.stringify(body) });
    const text = await response.text();
    if (!response.ok && response.status !== 404) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    try {
      return JSON.parse(text) as unknown;
    } catch {
      return text;
    }
  };
  const ended = (child: ChildProcess) => new Promise<void>((resolve) => { child.once("exit", () => resolve()); child.kill(); });
  return {
    gateway: { console: `${served?.address ?? `http://127.0.0.1:${admin}`}/ui`, admin: `http://127.0.0.1:${admin}`, proxy: `http://127.0.0.1:${proxy}`, call, put: async (path, value) => void (await call("PUT", path, value)) },
    stop: async () => {
      if (served) await ended(served.child);
      await ended(gateway);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

export const test = base.extend<{ empty: undefined; faults: undefined }, { gateway: Gateway }>({
  gateway: [async ({}, use) => {
    const { gateway, stop } = await start();
    await use(gateway);
    await stop();
  }, { scope: "worker" }],
  empty: [async ({ gateway }, use) => {
    await gateway.call("PUT", "/import?mode=replace", {});
    const { list } = (await gateway.call("GET", "/checkpoints")) as { list: { name: string }[] };
    for (const { name } of list) await gateway.call("DELETE", `/checkpoints/${name}`);
    await use(undefined);
  }, { auto: true }],
  // An exception, or something that the Content-Security-Policy blocked, fails the test wherever it happens.
  faults: [async ({ page }, use) => {
    const faults: string[] = [];
    page.on("pageerror", (error) => faults.push(error.message));
    page.on("console", (message) => { if (/Content Security Policy/.test(message.text()) && !/frame-ancestors/.test(message.text())) faults.push(message.text()); });
    await use(undefined);
    expect(faults).toEqual([]);
  }, { auto: true }],
});

export async function signIn(page: Page, gateway: Gateway, path = "/", key = ADMIN_KEY): Promise<void> {
  // Another test of this page may have signed in.
  await page.context().clearCookies();
  await page.goto(gateway.console + path);
  await page.locator("#key").fill(key);
  await page.keyboard.press("Enter");
  await expect(page.locator("main.page")).toBeVisible();
}

export const SHOP = {
  upstream: { name: "orders", type: "roundrobin", nodes: { "127.0.0.1:1980": 1 } },
  route: { name: "orders", uri: "/orders/*", host: "shop.example.com", methods: ["GET", "POST"], upstream_id: "orders", labels: { team: "shop" }, plugins: { "key-auth": {} } },
};

/** An upstream and some routes, as a small shop has them. */
export async function shop(gateway: Gateway): Promise<void> {
  await gateway.put("/upstreams/orders", SHOP.upstream);
  await gateway.put("/routes/orders", SHOP.route);
  await gateway.put("/routes/catalog", { name: "catalog", uri: "/catalog/*", upstream_id: "orders", labels: { team: "web" }, plugins: { cors: {}, "limit-count": { count: 5, time_window: 60 } } });
  await gateway.put("/routes/off", { name: "off", uri: "/off", upstream_id: "orders", status: 0 });
}

export { expect };
