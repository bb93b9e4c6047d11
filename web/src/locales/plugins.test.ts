import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";

test("what plugins do is what their pages say", () => {
  expect(() => execFileSync("node", ["scripts/plugin-texts.mjs", "--check"], { stdio: "pipe" })).not.toThrow();
});
