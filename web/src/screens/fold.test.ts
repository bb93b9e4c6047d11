import { expect, test } from "vitest";
import { fold } from "./fold";

const update = (...diff: object[]) => [{ resource: "routes/1", action: "update", diff: diff as never }];

test("of a field that changed twice, the first before and the last after", () => {
  expect(fold([update({ path: "/uri", before: "/a", after: "/b" }), update({ path: "/uri", before: "/b", after: "/c" })]))
    .toEqual([{ resource: "routes/1", action: "update", diff: [{ path: "/uri", before: "/a", after: "/c" }] }]);
});

test("what was taken back is no difference", () => {
  expect(fold([update({ path: "/uri", before: "/a", after: "/b" }), update({ path: "/uri", before: "/b", after: "/a" })])).toEqual([]);
});

test("an object that came and went is no difference", () => {
  expect(fold([
    [{ resource: "routes/2", action: "create", diff: [{ path: "", after: { uri: "/x" } }] }],
    [{ resource: "routes/2", action: "delete", diff: [{ path: "", before: { uri: "/x" } }] }],
  ])).toEqual([]);
});

test("an object that came and was changed came as it is now", () => {
  expect(fold([
    [{ resource: "routes/1", action: "create", diff: [{ path: "", after: { uri: "/x", plugins: {} } }] }],
    update({ path: "/plugins/cors", after: {} }),
  ])).toEqual([{ resource: "routes/1", action: "create", diff: [{ path: "", after: { uri: "/x", plugins: { cors: {} } } }] }]);
});

test("a field that was removed", () => {
  expect(fold([update({ path: "/desc", before: "x" })])).toEqual([{ resource: "routes/1", action: "update", diff: [{ path: "/desc", before: "x" }] }]);
});
