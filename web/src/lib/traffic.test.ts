import { expect, test } from "vitest";
import { added, phasesOf, type Seen, type Traffic } from "./traffic";

const seen = (number: number, more: Partial<Seen> = {}): Seen => ({ number, ended_ms: number, method: "GET", host: "h", target: "/", status: 200, route: "", consumer: null, client: "", node: "", total_ms: number, upstream_ms: null, attempts: [], bytes_sent: 0, headers: [], ...more });
const none: Traffic = { live: [], slowest: [], failed: [], missed: 0, connected: true };
const numbers = (list: Seen[]) => list.map((one) => one.number);

test("new requests come first, and what is sent again is there once", () => {
  const first = added(none, [seen(1), seen(2, { status: 503 })], [], [], 3);
  const again = added(first, [seen(3)], [seen(9, { total_ms: 900 })], [seen(2, { status: 503 })], 1);
  expect(numbers(again.live)).toEqual([3, 2, 1]);
  expect(numbers(again.slowest)).toEqual([9, 3, 2, 1]);
  expect(numbers(again.failed)).toEqual([2]);
  expect(again.missed).toBe(4);
});

test("lists are bounded", () => {
  const many = Array.from({ length: 2000 }, (_, i) => seen(i, { status: 500 }));
  const { live, slowest, failed } = added(none, many, [], [], 0);
  expect([live.length, slowest.length, failed.length]).toEqual([500, 50, 50]);
});

test("phases add up to the whole", () => {
  const attempts = [{ address: "a", status: 502, connect_ms: 5, header_ms: null, response_ms: 20 }, { address: "b", status: 200, connect_ms: null, header_ms: 30, response_ms: 40 }];
  const phases = phasesOf(seen(1, { total_ms: 70, upstream_ms: 60, attempts }));
  expect(phases).toEqual([{ name: "gateway", ms: 10 }, { name: "connect", ms: 5 }, { name: "wait", ms: 15 }, { name: "wait", ms: 30 }, { name: "body", ms: 10 }]);
  expect(phasesOf(seen(1))).toEqual([{ name: "gateway", ms: 1 }]);
});
