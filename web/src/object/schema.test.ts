import { expect, test } from "vitest";
import { describe, inOrder, propertiesOf, widgetOf } from "./schema";

test.each([
  ["name", { type: "string", maxLength: 256 }, "text"],
  ["cert", { type: "string", maxLength: 65536 }, "long"],
  ["count", { type: "integer", minimum: 1 }, "number"],
  ["count", { anyOf: [{ type: "integer" }, { type: "string" }] }, "text"],
  ["disable", { type: "boolean" }, "switch"],
  ["policy", { type: "string", enum: ["local", "redis"] }, "choice"],
  ["methods", { type: "array", items: { type: "string", enum: ["GET", "PUT"] } }, "choices"],
  ["hosts", { type: "array", items: { type: "string" } }, "list"],
  ["remote_addrs", { type: "array", items: { anyOf: [{ type: "string", format: "ipv4" }, { type: "string", pattern: "x" }] } }, "list"],
  ["labels", { type: "object", patternProperties: { ".*": { type: "string" } } }, "map"],
  ["timeout", { type: "object", properties: { connect: { type: "number" } } }, "group"],
  ["nodes", { anyOf: [{ type: "object" }, { type: "array" }] }, "nodes"],
  ["vars", { type: "array" }, "json"],
  ["id", { anyOf: [{ type: "string" }, { type: "integer" }] }, "text"],
  ["anything", {}, "json"],
])("%s of %j is edited by %s", (name, schema, widget) => {
  expect(widgetOf(name, schema)).toBe(widget);
});

test("fields of branches are fields", () => {
  const schema = { properties: { policy: {} }, then: { properties: { redis_host: { type: "string" } } }, oneOf: [{ properties: { a: {} } }, { required: ["b"] }] };
  expect(Object.keys(propertiesOf(schema))).toEqual(["policy", "a", "redis_host"]);
});

test("the catalogue shows fields inside of lists and objects, and not _meta", () => {
  const schema = { required: ["rules"], properties: { _meta: { type: "object" }, rules: { type: "array", items: { type: "object", properties: { count: { type: "integer", minimum: 1, default: 3 } } } } } };
  expect(describe(schema)).toEqual([
    { path: "rules[]", type: "array", required: true, either: false, fallback: "", bounds: "" },
    { path: "rules[].count", type: "integer", required: false, either: false, fallback: "3", bounds: "≥ 1" },
  ]);
});

test("what alternatives ask for is marked, and what has to be written comes first", () => {
  const schema = { properties: { policy: { type: "string" }, count: { type: "integer", exclusiveMinimum: 0 }, windows: { type: "object", properties: { day: { type: "integer" } } }, key: { type: "string" } }, required: ["key"], oneOf: [{ required: ["count"] }, { required: ["windows"] }] };
  expect(inOrder(describe(schema)).map((field) => `${field.path} ${field.required ? "required" : field.either ? "either" : ""} ${field.bounds}`.trim())).toEqual(["count either > 0", "windows either", "windows.day", "key required", "policy"]);
});
