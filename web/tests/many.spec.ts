// A list of 50,000 routes: the first row, a search, and scrolling without a task of more than 50 ms.
import { expect, signIn, test } from "./fixtures";

const MANY = 50_000;
/** On a machine that does other work as well; `UI_STRICT=1` asks for what the design promises. */
const SLACK = process.env.UI_STRICT ? 1 : 4;

test("50,000 routes", async ({ page, gateway }, info) => {
  // A debug build on a busy machine takes minutes for the import.
  test.setTimeout(600_000);
  const routes = Array.from({ length: MANY }, (_, i) => ({ id: `r${i}`, name: `route ${i}`, uri: `/api/${i % 500}/${i}/*`, labels: { team: `team-${i % 40}` }, upstream_id: "u" }));
  await gateway.call("PUT", "/import?mode=replace", { upstreams: [{ id: "u", nodes: { "127.0.0.1:1980": 1 } }], routes });
  await signIn(page, gateway, "/plugins");
  await expect(page.locator("tbody tr").first()).toBeVisible();
  await page.evaluate(() => {
    const seen: number[] = ((window as unknown as { tasks: number[] }).tasks = []);
    new PerformanceObserver((list) => list.getEntries().forEach((entry) => seen.push(Math.round(entry.duration)))).observe({ type: "longtask" });
  });
  const tasks = () => page.evaluate(() => { const { tasks } = window as unknown as { tasks: number[] }; return tasks.splice(0); });

  const first = await page.evaluate(async () => {
    const start = performance.now();
    document.querySelector<HTMLAnchorElement>('nav a[href="/ui/routes"]')?.click();
    while (!document.querySelector(".tbody .tr")) await new Promise(requestAnimationFrame);
    return Math.round(performance.now() - start);
  });
  await expect(page.getByTestId("count")).toHaveText("50,000");
  await expect(page.locator(".table")).toHaveAttribute("aria-rowcount", String(MANY + 1), { timeout: 60_000 });

  const search = await page.evaluate(async () => {
    const input = document.querySelector<HTMLInputElement>("input[type=search]");
    const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value")?.set;
    const start = performance.now();
    set?.call(input, "49999");
    input?.dispatchEvent(new Event("input", { bubbles: true }));
    while (document.querySelector(".table")?.getAttribute("aria-rowcount") !== "2") await new Promise(requestAnimationFrame);
    return Math.round(performance.now() - start);
  });
  await page.getByRole("searchbox").fill("");
  await expect(page.locator(".table")).toHaveAttribute("aria-rowcount", String(MANY + 1));
  const loading = await tasks();
  await page.evaluate(async () => {
    const table = document.querySelector(".table");
    for (let i = 0; i < 120 && table; i++) {
      table.scrollTop = (table.scrollHeight / 120) * i;
      await new Promise(requestAnimationFrame);
    }
  });
  const scrolling = await tasks();
  await page.locator(".table").focus();
  await page.keyboard.press("End");
  await expect(page.locator(`#row-${MANY - 1}`)).toBeVisible();
  info.annotations.push({ type: "measured", description: `first row ${first} ms, search ${search} ms, long tasks: loading ${loading.join(" ") || "none"}, scrolling ${scrolling.join(" ") || "none"}` });
  console.log(info.annotations.at(-1)?.description);
  expect(first).toBeLessThan(300 * SLACK);
  expect(search).toBeLessThan(100 * SLACK);
  // Beside other work, a task may wait for a core: then the middle one counts.
  const sorted = [0, ...scrolling].sort((a, b) => a - b);
  expect(process.env.UI_STRICT ? sorted.at(-1) : sorted[sorted.length >> 1]).toBeLessThan(process.env.UI_STRICT ? 50 : 100);
});
