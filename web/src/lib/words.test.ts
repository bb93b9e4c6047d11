import { expect, test } from "vitest";
import { inWords } from "./words";

test.each([
  ['property "host" validation failed: failed to match pattern "^\\\\*$|^[a-z]+$" with "http://a.test"; a host is a name', 'property "host" validation failed: "http://a.test" does not have the form that is expected here; a host is a name'],
  ["failed to fetch service info by service id [x], response code: 404; create the service first, or correct the id: GET /apisix/admin/services lists those that exist", "failed to fetch service info by service id [x], response code: 404; create the service first, or correct the id"],
  ["transaction refused, nothing was written: changes[0] /upstreams/shop: missing key", "missing key"],
  ["anything else", "anything else"],
])("%s", (said, shown) => {
  expect(inWords(said)).toBe(shown);
});
