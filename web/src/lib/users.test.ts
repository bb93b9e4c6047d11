import { expect, test } from "vitest";
import { hasPlugin, refersTo } from "./users";

test("a reference is a field of its kind, wherever it is", () => {
  expect(refersTo({ upstream_id: "a" }, "upstreams", "a")).toBe(true);
  expect(refersTo({ upstream_id: 7 }, "upstreams", "7")).toBe(true);
  expect(refersTo({ plugins: { "traffic-split": { rules: [{ weighted_upstreams: [{ upstream_id: "a" }] }] } } }, "upstreams", "a")).toBe(true);
  expect(refersTo({ service_id: "a" }, "upstreams", "a")).toBe(false);
  expect(refersTo({ upstream_id: "b" }, "upstreams", "a")).toBe(false);
  expect(refersTo({ upstream_id: "a" }, "consumers", "a")).toBe(false);
});

test("a plugin that is there", () => {
  expect(hasPlugin({ plugins: { cors: {} } }, "cors")).toBe(true);
  expect(hasPlugin({ plugins: {} }, "toString")).toBe(false);
  expect(hasPlugin({}, "cors")).toBe(false);
});
