// Takes pictures of the sketches: node design/sketches/shots.mjs FOLDER, from web/ after npm ci.
import { mkdirSync } from "node:fs";
import { chromium } from "@playwright/test";

const folder = process.argv[2] ?? "pictures";
mkdirSync(folder, { recursive: true });
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--allow-file-access-from-files"] });
for (const width of [1440, 1024, 390]) {
  const page = await browser.newPage({ viewport: { width, height: width === 390 ? 800 : 900 } });
  for (const sketch of ["a", "b", "c"]) for (const view of ["list", "form", "chart"]) for (const mode of ["light", "dark"]) {
    await page.goto(new URL(`${sketch}.html?${mode}#${view}`, import.meta.url).href);
    await page.evaluate(() => document.fonts.ready);
    await page.screenshot({ path: `${folder}/${sketch}-${view}-${width}-${mode}.png` });
  }
  await page.close();
}
await browser.close();
