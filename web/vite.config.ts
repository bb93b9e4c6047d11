import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// The page is served below /ui/ by the gateway, with a Content-Security-Policy that allows neither inline scripts nor
// data: fonts, so that nothing is inlined.
export default defineConfig({
  base: "/ui/",
  plugins: [react()],
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    license: { fileName: "licences.md" },
  },
  worker: { format: "es" },
  test: { include: ["src/**/*.test.ts"], environment: "node", testTimeout: 30_000 },
});
