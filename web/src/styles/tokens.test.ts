import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

const css = readFileSync(new URL("./tokens.css", import.meta.url), "utf8");

function tokens(theme: string): Record<string, string> {
  const block = css.slice(css.indexOf(`:root[data-theme="${theme}"]`));
  return Object.fromEntries([...block.slice(0, block.indexOf("}")).matchAll(/--([\w-]+): (#[0-9a-f]{6})/g)].map((match) => [match[1], match[2]]));
}

/** Of WCAG 2.2. */
function luminance(colour: string): number {
  const [r = 0, g = 0, b = 0] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

export function contrast(a: string, b: string): number {
  const [light = 0, dark = 0] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return (light + 0.05) / (dark + 0.05);
}

const GROUNDS = ["canvas", "surface", "raised", "hover", "pressed"];
const PAIRS: [string, string[]][] = [
  ["text", [...GROUNDS, "accent-tint", "added", "removed"]],
  ["text-soft", [...GROUNDS, "accent-tint"]],
  ["accent-text", [...GROUNDS, "accent-tint"]],
  ["on-accent", ["accent", "accent-strong"]],
  ["ok", ["surface", "hover", "ok-tint"]],
  ["warn", ["surface", "warn-tint"]],
  ["bad", ["surface", "hover", "bad-tint"]],
];

test.each(["light", "dark"])("every text of the %s theme has a contrast of 4.5 or more", (theme) => {
  const all = tokens(theme);
  const low = PAIRS.flatMap(([text, grounds]) => grounds.map((ground) => [text, ground, Number(contrast(all[text]!, all[ground]!).toFixed(2))] as const)).filter(([, , ratio]) => ratio < 4.5);
  expect(low).toEqual([]);
});

test.each(["light", "dark"])("borders of fields in the %s theme have a contrast of 3 or more", (theme) => {
  const all = tokens(theme);
  expect(contrast(all["field-line"]!, all.surface!)).toBeGreaterThanOrEqual(3);
});
