import { expect, test } from "vitest";
import { fieldsOf, isMatch } from "./history";

const NONE = { object: "", author: "", from: "", until: "" };
const entry = { revision: 4, time: "2026-11-27T10:30:20Z", who: { name: "vera", role: "editor", address: "10.0.0.7" }, request: "PUT", note: null, total: 1, objects: [{ resource: "routes/shop", action: "update" }] } as never;

test("an entry is filtered by object, author, address and time", () => {
  expect(isMatch(entry, NONE)).toBe(true);
  for (const [filter, expected] of [
    [{ object: "SHOP" }, true], [{ object: "orders" }, false], [{ author: "ver" }, true], [{ author: "10.0.0.7" }, true], [{ author: "jo" }, false],
    [{ from: "2026-11-27T10:30:00Z" }, true], [{ from: "2026-11-27T10:31:00Z" }, false], [{ until: "2026-11-27T10:30:00Z" }, true], [{ until: "2026-11-27T10:29:00Z" }, false],
  ] as const) expect(isMatch(entry, { ...NONE, ...filter }), JSON.stringify(filter)).toBe(expected);
  expect(isMatch({ ...(entry as object), total: 20 } as never, { ...NONE, object: "orders" })).toBe(true);
});

test("a row says which fields changed", () => {
  const change = (...paths: string[]) => ({ resource: "routes/1", action: "update", diff: paths.map((path) => ({ path })) }) as never;
  expect(fieldsOf(change("/uri", "/plugins/limit-count/count", "/plugins/limit-count/rejected_code"))).toBe("uri, plugins › limit-count › count, plugins › limit-count › rejected_code");
  expect(fieldsOf(change("/a", "/b", "/c", "/d", "/e"))).toBe("a, b, c, and 2 more");
  expect(fieldsOf({ resource: "routes/1", action: "create", diff: [{ path: "", after: {} }] } as never)).toBe("");
  expect(fieldsOf(undefined)).toBe("");
});
