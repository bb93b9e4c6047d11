import { expect, test } from "vitest";
import { faultOf } from "./nodes";

const node = (host: string, port = "80", weight = "1") => ({ host, port, weight, more: {} });

test.each([node("10.0.0.1"), node("a.example", ""), node("a.example:8080", ""), node("[::1]"), node("[::1]:80", ""), node(""), node("*"), node("a", "65535", "0")])("%o is a node", (one) => {
  expect(faultOf(one)).toBeNull();
});

test.each([
  [node("http://a.example"), "host", "write a.example, and choose the scheme"],
  [node("a.example/x"), "host", "no path"],
  [node("a example"), "host", "no spaces"],
  [node("::1"), "host", "[::1]"],
  [node("a.example:http", ""), "host", "http is not a port"],
  [node("a.example", "abc"), "port", "a.example: abc is not a port"],
  [node("a.example", "99999"), "port", "99999"],
  [node("a.example", "0"), "port", "0 is not a port"],
  [node("a.example", "80", "1.5"), "weight", "1.5 is not a weight"],
  [node("a.example", "80", "-1"), "weight", "-1"],
])("%o is none", (one, field, text) => {
  expect(faultOf(one)).toMatchObject({ field, text: expect.stringContaining(text) as string });
});
