import { defineConfig } from "@playwright/test";

// Debian's chromium and the gateway's real binary (TIDEGATE_BIN); tests/fixtures.ts starts one gateway for each worker.
export default defineConfig({
  testDir: "tests",
  timeout: 45_000,
  expect: { timeout: 12_000 },
  workers: Number(process.env.UI_WORKERS ?? 1),
  fullyParallel: false,
  forbidOnly: Boolean(process.env.CI),
  reporter: [["line"]],
  use: {
    launchOptions: { executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] },
    viewport: { width: 1440, height: 900 },
    locale: "en-US",
    trace: "retain-on-failure",
    actionTimeout: 12_000,
  },
});
