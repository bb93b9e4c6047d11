import { expect, test } from "vitest";
import { partOf, splitSummary } from "./split";

test("shares are parts of their rule, and a weight that is missing is 1", () => {
  const rule = [{ upstream_id: "canary", weight: 1 }, { weight: 3 }];
  expect(rule.map((share) => partOf(share, rule))).toEqual(["25 %", "75 %"]);
  expect(partOf({}, [{}, {}])).toBe("50 %");
  expect(partOf({ weight: "x" }, [{ weight: "x" }])).toBe("");
  expect(partOf({ weight: 0 }, [{ weight: 0 }])).toBe("");
});

test("a summary names upstreams, not JSON", () => {
  const config = { rules: [{ weighted_upstreams: [{ upstream_id: "canary", weight: 1 }, { upstream: { nodes: { "10.0.0.1:80": 1 } }, weight: 1 }, { weight: 2 }] }] };
  expect(splitSummary(config)).toBe("canary 25 % · 10.0.0.1:80 25 % · its own upstream 50 %");
  expect(splitSummary({ rules: "x" })).toBe("");
});
