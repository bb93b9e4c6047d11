import { expect, test } from "vitest";
import { lint } from "./lint";

test("what is valid and hardly meant", () => {
  const route = (more: object) => lint("routes", { uri: "/a", ...more });
  expect(route({})).toEqual([]);
  expect(route({ uri: "/a/*" })).toEqual([]);
  expect(route({ uri: "/a/*rest" })).toEqual([]);
  expect(route({ uris: ["/a", "/b*c"] })).toHaveLength(1);
  expect(route({ upstream: { nodes: { "a:80": 1 } } })).toEqual([]);
  expect(route({ upstream: { nodes: { a: 1, "b:1": 1 } } })).toEqual(["Node a has no port: 80 is used."]);
  expect(route({ upstream: { scheme: "https", nodes: [{ host: "a", weight: 1 }, { host: "b", weight: 1 }] } })).toEqual(["Nodes a, b have no port: 443 is used."]);
  expect(lint("upstreams", { nodes: { "a:1": 0, "b:1": 0 } })).toHaveLength(1);
  expect(lint("upstreams", { nodes: { "a:1": 0, "b:1": 1 } })).toEqual([]);
  expect(lint("stream_routes", { upstream: { nodes: { a: 1 } } })).toEqual([]);
});
