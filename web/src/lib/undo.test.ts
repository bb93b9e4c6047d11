import { expect, test } from "vitest";
import { isMasked, takeOut, touches } from "./undo";

const NOW = { uri: "/a", desc: "later", labels: { team: "web" }, plugins: { "limit-count": { count: 5, time_window: 60 } } };

test("a field gets its earlier value, and later changes of other fields stay", () => {
  const { object, again } = takeOut(NOW, [{ path: "/uri", before: "/old", after: "/a" }]);
  expect(again).toEqual([]);
  expect(object).toEqual({ ...NOW, uri: "/old" });
});

test("what was added goes, and what was removed comes back", () => {
  const entries = [{ path: "/plugins/limit-count", after: { count: 5, time_window: 60 } }, { path: "/host", before: "a.example" }];
  expect(takeOut(NOW, entries)).toEqual({ object: { uri: "/a", desc: "later", labels: { team: "web" }, plugins: {}, host: "a.example" }, again: [] });
});

test.each([
  ["another value", { path: "/uri", before: "/old", after: "/b" }],
  ["a field inside of it", { path: "/plugins/limit-count", after: { count: 5 } }],
  ["it came back", { path: "/desc", before: "old" }],
  ["it is gone", { path: "/host", after: "a.example" }],
  ["what it was in is gone", { path: "/plugins/cors/max_age", before: 5 }],
  ["it is gone with what it was in", { path: "/plugins/cors/max_age", before: 5, after: 6 }],
])("a field that was changed again is not taken back: %s", (_, entry) => {
  expect(takeOut(NOW, [entry])).toEqual({ object: NOW, again: [entry] });
});

test("a secret inside of a value", () => {
  expect(isMasked({ path: "/plugins/key-auth", after: { key: "***" } })).toBe(true);
  expect(isMasked({ path: "/keys", before: ["a", "***"], after: ["a"] })).toBe(true);
  expect(isMasked({ path: "/uri", before: "/*", after: "/**" })).toBe(false);
});

test("a later change of a field, of what is in it, or of what it is in", () => {
  const entries = [{ path: "/plugins/cors" }];
  expect(touches([{ path: "/plugins/cors/max_age" }], entries)).toBe(true);
  expect(touches([{ path: "/plugins" }], entries)).toBe(true);
  expect(touches([{ path: "/plugins/cors-2" }], entries)).toBe(false);
});
