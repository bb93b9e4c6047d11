import { expect, test } from "vitest";
import { en } from "../locales/en";
import { zh } from "../locales/zh";
import { fill } from "./i18n";
import { nameOf } from "./keys";
import { idOfKey, locate } from "./kinds";
import { address, parse } from "./router";

test("an address is read as it was made", () => {
  const made = address(["consumers", "a b", "credentials", "c/d"], { q: "x & y", empty: "", none: undefined });
  expect(made).toBe("/ui/consumers/a%20b/credentials/c%2Fd?q=x+%26+y");
  const place = parse(made);
  expect(place.path).toEqual(["consumers", "a b", "credentials", "c/d"]);
  expect(place.query.get("q")).toBe("x & y");
});

test("a broken escape is text", () => {
  expect(parse("/ui/routes/%zz").path).toEqual(["routes", "%zz"]);
});

test.each([
  [["routes"], "routes", []],
  [["routes", "1"], "routes", ["1"]],
  [["consumers", "jack", "credentials"], "credentials", []],
  [["consumers", "jack", "credentials", "c"], "credentials", ["c"]],
  [["secrets", "vault", "1"], "secrets", ["vault", "1"]],
])("%j is of kind %s", (path, kind, id) => {
  const where = locate(path);
  expect([where?.kind.name, where?.id]).toEqual([kind, id]);
});

test.each([[["nothing"]], [["routes", "1", "2"]], [[]]])("%j is no object", (path) => {
  expect(locate(path)).toBeNull();
});

test("keys of answers have the identifier behind the collection", () => {
  expect(idOfKey("/apisix/routes/1", ["routes"])).toBe("1");
  expect(idOfKey("/apisix/consumers/jack/credentials/c", ["consumers", "jack", "credentials"])).toBe("c");
  expect(idOfKey("/apisix/secrets/vault/1", ["secrets"])).toBe("vault/1");
});

test("both languages have the same texts with the same parameters", () => {
  const parameters = (text: string) => [...new Set(text.match(/\{\w+\}/g) ?? [])].sort();
  expect(Object.keys(zh).sort()).toEqual(Object.keys(en).sort());
  for (const key of Object.keys(en) as (keyof typeof en)[]) expect([key, parameters(zh[key]).filter((p) => p !== "{n}")]).toEqual([key, parameters(en[key]).filter((p) => p !== "{n}")]);
});

test("texts count", () => {
  expect(fill("one route|{n} routes", { n: 1 }, "en")).toBe("one route");
  expect(fill("one route|{n} routes", { n: 50_000 }, "en")).toBe("50,000 routes");
  expect(fill("hello {name}", {}, "en")).toBe("hello {name}");
});

test.each([
  [{ key: "K", ctrlKey: true }, "ctrl+k"],
  [{ key: "?", shiftKey: true }, "?"],
  [{ key: "ArrowDown" }, "down"],
  [{ key: "Enter", shiftKey: true }, "shift+enter"],
])("%j is called %s", (event, name) => {
  expect(nameOf({ ctrlKey: false, metaKey: false, altKey: false, shiftKey: false, ...event })).toBe(name);
});
