import { expect, test } from "vitest";
import { ApiError } from "../lib/api";
import { without } from "./added";
import { meaningOf } from "./plugin-words";
import type { Checked } from "./use-draft";

test("what was just added is incomplete, and everything else stays wrong", () => {
  const at = (field: string) => ({ error: `at ${field}`, field });
  const bad = (...fields: string[]): Checked => ({ state: "bad", error: new ApiError(400, "refused", null, fields.map(at)), result: null });
  const place = (fault: { field?: string }) => fault.field ?? "";
  expect(without(bad("/plugins/a/key"), "/plugins/a", place)).toMatchObject({ state: "incomplete", error: null });
  expect(without(bad("/plugins/a"), "/plugins/a", place).state).toBe("incomplete");
  expect(without(bad("/plugins/ab/key"), "/plugins/a", place).state).toBe("bad");
  expect(without(bad("/uri", "/plugins/a/key"), "/plugins/a", place).error?.faults).toEqual([at("/uri")]);
  expect(without(bad(), "/plugins/a", place).state).toBe("bad");
});

test("a field is found by its path", () => {
  const all = { a: { key: "the key", "rules[].count": "how many", "x.y": "deep" } };
  expect(meaningOf(all, ["plugins", "a", "key"])).toBe("the key");
  expect(meaningOf(all, ["plugins", "a", "rules", 3, "count"])).toBe("how many");
  expect(meaningOf(all, ["plugins", "a", "x", "y"])).toBe("deep");
  expect(meaningOf(all, ["plugins", "a", "constructor"])).toBe("");
  expect(meaningOf(all, ["plugins", "toString", "key"])).toBe("");
});
