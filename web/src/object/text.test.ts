import { expect, test } from "vitest";
import { lostOf, parseText } from "./text";

test.each([
  ['{"uri": "/a",\n "uri": "/b"}', 2, /"uri" comes twice/],
  ['{"a": {"b": 1, "\\u0062": 2}}', 1, /"b" comes twice/],
  ['{"a": [{"b": 1}, {"b": 1, "b": 2}]}', 1, /"b" comes twice/],
  ['{\n"priority": 12345678901234567890}', 2, /too large for this page/],
])("%s has a problem in line %d", async (text, line, message) => {
  expect(await parseText(text, "json")).toMatchObject({ problem: { line, text: expect.stringMatching(message) } });
});

test.each(['{"a": {"b": 1}, "c": {"b": 1}}', '{"a": "b\\": 1, {\\"a\\": [", "b": ["a", "a"], "c": 9007199254740991}', '{"a": 1.5e3, "b": -0.1}', "{}"])("%s loses nothing", (text) => {
  expect(lostOf(text)).toBeNull();
});
