// Each screen at three widths, light and dark, in both languages: axe finds nothing serious, and nothing runs out of the page.
import { createRequire } from "node:module";
import type { Page } from "@playwright/test";
import { expect, shop, signIn, test } from "./fixtures";

const axe = createRequire(import.meta.url).resolve("axe-core/axe.min.js");

const SCREENS: [string, string][] = [
  ["overview", "/"], ["routes", "/routes"], ["details", "/routes?peek=catalog"], ["route", "/routes/catalog"], ["new route", "/routes/+new"], ["upstream", "/upstreams/orders"],
  ["consumers", "/consumers"], ["traffic", "/traffic"], ["explain", "/explain?url=http%3A%2F%2Fshop.example.com%2Forders%2F1"], ["changes", "/changes"], ["change", "/changes/REVISION"],
  ["checkpoints", "/changes/checkpoints"], ["compare", "/changes/compare"], ["plugins", "/plugins"], ["plugin", "/plugins/limit-count"], ["users", "/users"], ["nothing", "/nothing"],
];

async function violations(page: Page): Promise<string[]> {
  const session = await page.context().newCDPSession(page);
  const { readFileSync } = await import("node:fs");
  await session.send("Runtime.evaluate", { expression: readFileSync(axe, "utf8") });
  return page.evaluate(async () => {
    const { axe } = window as unknown as { axe: { run: (context: Document, options: object) => Promise<{ violations: { id: string; impact: string; nodes: { html: string; failureSummary: string }[] }[] }> } };
    const { violations } = await axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice"] });
    return violations.filter((one) => one.impact === "serious" || one.impact === "critical").map((one) => `${one.id}: ${one.nodes[0]?.html} ${one.nodes[0]?.failureSummary}`);
  });
}

const settled = async (page: Page) => {
  await page.evaluate(() => document.fonts.ready);
  await expect(page.locator(".skeleton")).toHaveCount(0);
  await page.waitForFunction(() => document.getAnimations().every((one) => one.playState !== "running"));
};

for (const [name, path] of SCREENS) {
  test(`${name}: accessible and inside of the page`, async ({ page, gateway }) => {
    await shop(gateway);
    await gateway.call("PUT", "/users/looks", { role: "viewer", password: "correct horse battery" });
    const { stored } = (await gateway.call("GET", "/revision")) as { stored: number };
    await signIn(page, gateway, path.replace("REVISION", String(stored)));
    for (const width of [1440, 1024, 390]) {
      await page.setViewportSize({ width, height: 900 });
      for (const scheme of ["light", "dark"] as const) {
        await page.emulateMedia({ colorScheme: scheme });
        await settled(page);
        expect.soft([width, scheme, await violations(page)]).toEqual([width, scheme, []]);
      }
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
    }
    await gateway.call("DELETE", "/users/looks");
  });
}

test("the login screen is accessible", async ({ page, gateway }) => {
  await page.goto(`${gateway.console}/`);
  await page.locator("#key").waitFor();
  expect(await violations(page)).toEqual([]);
});

test("palette, help, review and conflict are accessible", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes/catalog");
  await page.keyboard.press("Control+K");
  await settled(page);
  expect(await violations(page)).toEqual([]);
  await page.keyboard.press("Escape");
  await page.locator("main").focus();
  await page.keyboard.press("?");
  await settled(page);
  expect(await violations(page)).toEqual([]);
  await page.keyboard.press("Escape");
  await page.getByLabel("Path", { exact: true }).fill("/mine");
  await page.getByRole("button", { name: /^Review and save/ }).click();
  await page.getByRole("dialog").locator(".added").waitFor();
  expect(await violations(page)).toEqual([]);
  await gateway.call("PATCH", "/routes/catalog", { uri: "/theirs" });
  await page.getByRole("dialog").getByRole("button", { name: /^Save/ }).click();
  await page.getByRole("radio", { name: "Yours" }).waitFor();
  expect(await violations(page)).toEqual([]);
});

test("the theme that was chosen stays", async ({ page, gateway }) => {
  await signIn(page, gateway);
  await page.getByRole("button", { name: "Theme: System" }).click();
  await page.getByRole("button", { name: "Theme: Light" }).click();
  await expect(page.locator("html")).toHaveAttribute("data-theme", "dark");
  await signIn(page, gateway);
  await expect(page.locator("html")).toHaveAttribute("data-theme", "dark");
});

test("the language changes at once, keeps what was typed, and stays", async ({ page, gateway }) => {
  await shop(gateway);
  await signIn(page, gateway, "/routes/catalog");
  await page.getByLabel("Description", { exact: true }).fill("typed");
  await page.getByRole("button", { name: "中文" }).click();
  await expect(page.getByLabel("描述", { exact: true })).toHaveValue("typed");
  await expect(page.locator("html")).toHaveAttribute("lang", "zh-CN");
  await page.getByRole("button", { name: "放弃修改" }).click();
  await signIn(page, gateway, "/routes");
  await expect(page.getByRole("heading", { level: 1, name: "路由" })).toBeVisible();
});

test.describe("a browser in Chinese", () => {
  test.use({ locale: "zh-CN" });
  test("has the console in Chinese", async ({ page, gateway }) => {
    await page.goto(`${gateway.console}/`);
    await expect(page.getByRole("heading", { name: "登录 Tidegate" })).toBeVisible();
    for (const path of ["/", "/routes/+new", "/explain", "/changes", "/plugins"]) {
      await signIn(page, gateway, path);
      await settled(page);
      expect(await violations(page)).toEqual([]);
    }
  });
});

test.describe("a small screen", () => {
  test.use({ viewport: { width: 390, height: 800 } });
  test("has the navigation behind a button, and the source behind a tab", async ({ page, gateway }) => {
    await shop(gateway);
    await signIn(page, gateway);
    await page.getByRole("button", { name: "Menu" }).click();
    await page.getByRole("navigation").getByRole("link", { name: /^Routes/ }).click();
    await expect(page.getByRole("heading", { level: 1, name: "Routes" })).toBeVisible();
    await page.getByText("catalog", { exact: true }).click();
    await page.getByRole("link", { name: /^Edit/ }).click();
    await expect(page.locator(".source")).toBeHidden();
    await page.getByRole("button", { name: "Source" }).click();
    await expect(page.locator(".source")).toBeVisible();
    await expect(page.locator(".form")).toBeHidden();
  });
});
