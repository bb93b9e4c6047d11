// Requests as the gateway ends them: server-sent events of `GET /traffic`, a few times a second at most into the page.
import { useEffect, useRef, useState } from "react";
import { listen } from "./events";

export interface Attempt {
  address: string;
  status: number;
  connect_ms: number | null;
  header_ms: number | null;
  response_ms: number;
}

export interface Seen {
  number: number;
  ended_ms: number;
  method: string;
  host: string;
  target: string;
  status: number;
  route: string;
  consumer: string | null;
  client: string;
  node: string;
  total_ms: number;
  upstream_ms: number | null;
  attempts: Attempt[];
  bytes_sent: number;
  headers: [string, string][];
}

export interface Traffic {
  live: Seen[];
  slowest: Seen[];
  failed: Seen[];
  missed: number;
  connected: boolean;
}

export const FILTERS = ["route", "status", "consumer", "min_ms"] as const;
export type TrafficFilter = Partial<Record<(typeof FILTERS)[number], string>>;

const MOST_LIVE = 500;
const MOST_KEPT = 50;
const EVERY_MS = 200;
const NOTHING: Traffic = { live: [], slowest: [], failed: [], missed: 0, connected: false };

/** The lists with what has come since. */
export function added(before: Traffic, live: Seen[], slowest: Seen[], failed: Seen[], missed: number): Traffic {
  const all = live.concat(slowest, failed);
  return {
    ...before,
    live: unique([...live].reverse().concat(before.live)).slice(0, MOST_LIVE),
    slowest: unique(all.concat(before.slowest)).sort((a, b) => b.total_ms - a.total_ms).slice(0, MOST_KEPT),
    failed: unique(all.concat(before.failed).filter((one) => one.status >= 500)).sort((a, b) => b.number - a.number).slice(0, MOST_KEPT),
    missed: before.missed + missed,
  };
}

const unique = (list: Seen[]): Seen[] => [...new Map(list.map((one) => [one.number, one])).values()];

/** What a request spent its time with, in order. */
export interface Phase {
  name: "gateway" | "connect" | "wait" | "body";
  ms: number;
}

export function phasesOf(seen: Seen): Phase[] {
  const phases: Phase[] = [{ name: "gateway", ms: Math.max(0, seen.total_ms - (seen.upstream_ms ?? 0)) }];
  for (const { connect_ms, header_ms, response_ms } of seen.attempts) {
    const connect = Math.min(connect_ms ?? 0, response_ms);
    const head = Math.min(header_ms ?? response_ms, response_ms);
    phases.push({ name: "connect", ms: connect }, { name: "wait", ms: Math.max(0, head - connect) }, { name: "body", ms: response_ms - head });
  }
  return phases.filter((phase) => phase.ms > 0 || phase.name === "gateway");
}

export function useTraffic(filter: TrafficFilter, paused: boolean): Traffic {
  const [traffic, setTraffic] = useState<Traffic>(NOTHING);
  const query = new URLSearchParams(Object.entries(filter).filter((entry): entry is [string, string] => Boolean(entry[1]))).toString();
  const last = useRef(query);
  useEffect(() => {
    if (last.current !== query) setTraffic(NOTHING);
    last.current = query;
    if (paused) return;
    const waiting = { request: [] as Seen[], slowest: [] as Seen[], failed: [] as Seen[], missed: 0 };
    const stop = listen(`/traffic${query ? `?${query}` : ""}`, (kind, data) => {
      if (kind === "missed") waiting.missed += Number(data);
      else if (kind === "request" || kind === "slowest" || kind === "failed") waiting[kind].push(JSON.parse(data) as Seen);
    }, (connected) => setTraffic((before) => ({ ...before, connected })));
    const timer = setInterval(() => {
      const { request, slowest, failed, missed } = waiting;
      if (request.length + slowest.length + failed.length + missed === 0) return;
      Object.assign(waiting, { request: [], slowest: [], failed: [], missed: 0 });
      setTraffic((before) => added(before, request, slowest, failed, missed));
    }, EVERY_MS);
    return () => {
      stop();
      clearInterval(timer);
      setTraffic((before) => ({ ...before, connected: false }));
    };
  }, [query, paused]);
  return traffic;
}
