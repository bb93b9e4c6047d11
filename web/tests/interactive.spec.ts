// How soon a page can be used on a processor that is four times as slow: what it is for is there, and no task of more than 50 ms comes
// after that. `UI_STRICT=1` asks for what the design promises, on a machine that does nothing else.
import type { Page } from "@playwright/test";
import { expect, shop, signIn, test } from "./fixtures";

const SLOWED = 4;
const LONGEST_MS = 1_500;
/** Beside other work. */
const SLACK = process.env.UI_STRICT ? 1 : 5;

/** Milliseconds from the navigation on until the page is there and then quiet for half a second. */
async function interactive(page: Page, url: string, there: string): Promise<{ all: number; there: number; tasks: string }> {
  await page.addInitScript(() => {
    const tasks: [number, number][] = ((window as unknown as { tasks: [number, number][] }).tasks = []);
    new PerformanceObserver((list) => list.getEntries().forEach((entry) => tasks.push([entry.startTime, entry.startTime + entry.duration]))).observe({ type: "longtask", buffered: true });
  });
  const devtools = await page.context().newCDPSession(page);
  await devtools.send("Emulation.setCPUThrottlingRate", { rate: SLOWED });
  await page.goto(url, { waitUntil: "commit" });
  const measured = await page.evaluate(async (selector) => {
    while (!document.querySelector(selector)) await new Promise(requestAnimationFrame);
    const there = performance.now();
    const { tasks } = window as unknown as { tasks: [number, number][] };
    const last = () => Math.max(there, ...tasks.map(([, end]) => end));
    while (performance.now() - last() < 500) await new Promise((resolve) => { setTimeout(resolve, 100); });
    return { all: Math.round(last()), there: Math.round(there), tasks: tasks.map(([from, to]) => `${Math.round(from)}+${Math.round(to - from)}`).join(" ") };
  }, there);
  await devtools.send("Emulation.setCPUThrottlingRate", { rate: 1 });
  return measured;
}

test("each page can be used soon on a slow processor", async ({ page, gateway, browser }, info) => {
  test.setTimeout(180_000);
  await shop(gateway);
  const changes = Array.from({ length: 200 }, (_, i) => ({ method: "PUT", path: `/routes/many-${i}`, value: { name: `many ${i}`, uri: `/many/${i}`, upstream_id: "orders", labels: { team: "shop" }, plugins: { "key-auth": {} } } }));
  await gateway.call("POST", "/transactions", { changes });
  const found: Record<string, number> = {};
  const measure = async (name: string, on: Page, path: string, there: string) => {
    const { all, there: content, tasks } = await interactive(on, gateway.console + path, there);
    found[name] = all;
    console.log(`${name}: ${all} ms, content after ${content} ms, long tasks ${tasks || "none"}`);
  };
  const stranger = await browser.newPage();
  await measure("sign-in", stranger, "/", "#key");
  await stranger.close();
  await signIn(page, gateway);
  await measure("overview", page, "/", ".chart");
  await measure("200 routes", page, "/routes", ".tbody .tr");
  await measure("a route", page, "/routes/orders", ".form-fields input");
  info.annotations.push({ type: "measured", description: JSON.stringify(found) });
  for (const [name, time] of Object.entries(found)) expect([name, time < LONGEST_MS * SLACK]).toEqual([name, true]);
});
