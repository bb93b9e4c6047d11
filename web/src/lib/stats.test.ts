import { expect, test } from "vitest";
import { columns, roundUp, type Stats, usedBuckets } from "./stats";

const stats = (requests: (number | null)[]): Stats => {
  const same = requests.map((one) => (one === null ? null : 1));
  const none = requests.map((one) => (one === null ? null : 0));
  return {
    from: 600, to: 600 + requests.length * 60, step: 60, requests, counted: requests,
    status: { "1xx": none, "2xx": none, "3xx": none, "4xx": same, "5xx": none },
    latency: { bounds_ms: [1, 2, 5], counts: requests.map((one) => (one === null ? null : [0, one, 0, 0])) },
  } as unknown as Stats;
};

test("times are put together until they fit", () => {
  expect(columns(stats([1, 2, 3]), 3).map((one) => one.requests)).toEqual([1, 2, 3]);
  const some = columns(stats([1, null, null, null, 5]), 3);
  expect(some.map((one) => [one.start, one.seconds, one.requests, one.client])).toEqual([[600, 120, 1, 1], [720, 120, null, 0], [840, 60, 5, 1]]);
  expect(some[2]?.latency).toEqual([0, 5, 0, 0]);
});

test("rows without a request are left out of the heat map", () => {
  expect(usedBuckets(columns(stats([4])))).toEqual([1, 3]);
  expect(usedBuckets(columns(stats([0])))).toEqual([0, 3]);
  expect(usedBuckets([])).toEqual([0, -1]);
});

test.each([[0, 1], [1, 1], [1.1, 2], [3, 5], [7, 10], [41, 50], [1001, 2000]])("%d fits below %d", (value, top) => {
  expect(roundUp(value)).toBe(top);
});
