import { expect, test } from "vitest";
import { diff, equal, merge, mergePatch, setAt } from "./json";

test.each([
  [1, 1, true],
  [{ a: [1, { b: 2 }] }, { a: [1, { b: 2 }] }, true],
  [{ a: 1 }, { a: 1, b: undefined }, false],
  [[1, 2], [2, 1], false],
  [null, {}, false],
])("equal %j %j", (a, b, expected) => {
  expect(equal(a, b)).toBe(expected);
});

test("setAt copies, adds and removes", () => {
  const before = { a: { b: 1 }, list: [1, 2] };
  expect(setAt(before, ["a", "c"], 2)).toEqual({ a: { b: 1, c: 2 }, list: [1, 2] });
  expect(setAt(before, ["a", "b"], undefined)).toEqual({ a: {}, list: [1, 2] });
  expect(setAt(before, ["list", 0], undefined)).toEqual({ a: { b: 1 }, list: [2] });
  expect(before).toEqual({ a: { b: 1 }, list: [1, 2] });
});

test("a field that is named __proto__ is a field", () => {
  const after = setAt({}, ["__proto__"], "x") as object;
  expect(Object.hasOwn(after, "__proto__")).toBe(true);
  expect(({} as { x?: string }).x).toBeUndefined();
});

test("diff names fields by pointers, and lists as a whole", () => {
  expect(diff({ "a/b": 1, l: [1], same: {} }, { "a/b": 2, l: [1, 2], same: {} })).toEqual([
    { path: "/a~1b", before: 1, after: 2 },
    { path: "/l", before: [1], after: [1, 2] },
  ]);
});

test("changes of different fields are put together", () => {
  const base = { uri: "/a", priority: 0, plugins: { cors: {} } };
  const result = merge(base, { ...base, uri: "/b" }, { ...base, priority: 5, plugins: {} });
  expect(result.merged).toEqual({ uri: "/b", priority: 5, plugins: {} });
  expect(result.conflicts).toEqual([]);
});

test("changes of the same field are a conflict, also where one is inside of the other", () => {
  const base = { plugins: { "limit-count": { count: 1, time_window: 60 } } };
  const mine = { plugins: { "limit-count": { count: 2, time_window: 60 } } };
  const theirs = { plugins: {} };
  expect(merge(base, mine, theirs).conflicts).toEqual([
    { path: ["plugins", "limit-count"], base: base.plugins["limit-count"], mine: mine.plugins["limit-count"], theirs: undefined },
  ]);
});

test("the same change of both is none", () => {
  expect(merge({ a: 1 }, { a: 2 }, { a: 2 })).toEqual({ merged: { a: 2 }, conflicts: [], taken: [] });
});

test.each([
  [{ a: 1, b: 2 }, { a: 1 }, { b: null }],
  [{ a: { b: 1, c: 2 } }, { a: { b: 1, c: 3 } }, { a: { c: 3 } }],
  [{ l: [1] }, { l: [2] }, { l: [2] }],
])("the merge patch from %j to %j is %j", (before, after, patch) => {
  expect(mergePatch(before, after)).toEqual(patch);
});
