import { expect, test } from "vitest";
import { KINDS } from "../lib/kinds";
import { List } from "./model";

const routes = KINDS.find((kind) => kind.name === "routes")!;
const none = { search: "", label: "", plugin: "", sort: "" };

function sample(): List {
  const list = new List(routes, ["routes"]);
  list.replace([
    { key: "/apisix/routes/1", value: { name: "Orders", uri: "/orders", priority: 2, labels: { team: "shop" }, plugins: { "key-auth": {} } } },
    { key: "/apisix/routes/2", value: { name: "catalog", uris: ["/catalog/*", "/items"], priority: 10, labels: { team: "web" } } },
    { key: "/apisix/routes/3", value: { uri: "/health", plugins: { mocking: {} } } },
  ]);
  return list;
}

const ids = (filters: Partial<typeof none>) => sample().view({ ...none, ...filters }, 0, 100).rows.map((row) => row.id);

test.each([
  [{}, ["1", "2", "3"]],
  [{ search: "ORD" }, ["1"]],
  [{ search: "items catalog" }, ["2"]],
  [{ search: "items orders" }, []],
  [{ label: "team:web" }, ["2"]],
  [{ label: "team" }, ["1", "2"]],
  [{ plugin: "mocking" }, ["3"]],
  [{ sort: "name" }, ["3", "2", "1"]],
  [{ sort: "-priority" }, ["2", "1", "3"]],
  [{ sort: "priority" }, ["3", "1", "2"]],
  [{ sort: "no such column" }, ["1", "2", "3"]],
])("%j leaves %j", (filters, expected) => {
  expect(ids(filters)).toEqual(expected);
});

test("a window of the rows comes with the number of all", () => {
  const view = sample().view(none, 1, 2);
  expect(view.count).toBe(3);
  expect(view.rows.map((row) => row.id)).toEqual(["2"]);
});

test("facets name each label and plugin once", () => {
  expect(sample().facets()).toEqual({ labels: ["team:shop", "team:web"], plugins: ["key-auth", "mocking"] });
});

test("a search in 50,000 routes takes less than a tenth of a second", () => {
  const list = new List(routes, ["routes"]);
  list.replace(Array.from({ length: 50_000 }, (_, i) => ({ key: `/apisix/routes/${i}`, value: { name: `route-${i}`, uri: `/api/${i}/*` } })));
  const start = performance.now();
  expect(list.view({ ...none, search: "4999" }, 0, 50).count).toBe(15);
  expect(performance.now() - start).toBeLessThan(100);
});
