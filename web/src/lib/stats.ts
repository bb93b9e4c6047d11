// Figures of the gateway's traffic over time: what `GET /stats` answers, and how it becomes columns of a chart.
import { useQuery } from "@tanstack/react-query";
import { request } from "./api";
import { queries } from "./query";

export const RANGES = ["10m", "1h", "6h", "24h", "7d"] as const;
export type Range = (typeof RANGES)[number];

type Figures = (number | null)[];

export interface Share {
  /** Empty: without a route. */
  id: string;
  requests: number;
  status_4xx: number;
  status_5xx: number;
  mean_ms: number | null;
}

export interface Stats {
  from: number;
  to: number;
  step: number;
  requests: Figures;
  counted: Figures;
  status: Record<"1xx" | "2xx" | "3xx" | "4xx" | "5xx", Figures>;
  latency: { bounds_ms: number[]; counts: (number[] | null)[] };
  totals: {
    requests: number;
    counted: number;
    status: Record<"4xx" | "5xx", number>;
    mean_ms: number | null;
    p50_ms: number | null;
    p95_ms: number | null;
    p99_ms: number | null;
  };
  routes: Share[];
  other_routes: Omit<Share, "id">;
  consumers: Share[] | null;
  other_consumers: Omit<Share, "id"> | null;
  nodes: { checked: number; unhealthy: { upstream: string; host: string; port: number }[] };
  certificates: { total: number; list: { ssl: string; name: string; expires: number }[] };
  kept: { bytes: number; problem: string | null };
}

/** How often a range is asked for again: about as often as it has something new to show. */
const EVERY_MS: Record<Range, number> = { "10m": 2_000, "1h": 10_000, "6h": 20_000, "24h": 60_000, "7d": 60_000 };

const asked = (range: Range) => ({
  queryKey: ["stats", range],
  queryFn: ({ signal }: { signal: AbortSignal }) => request<Stats>(`/stats?range=${range}&top=10`, { signal }),
});

/** Asks beforehand. */
export const fetchStats = (range: Range): void => void queries.prefetchQuery(asked(range));

export const rangeOf = (text: string | null): Range => RANGES.find((range) => range === text) ?? "1h";

export function useStats(range: Range) {
  return useQuery({
    ...asked(range),
    refetchInterval: EVERY_MS[range],
    placeholderData: (before) => before,
    retry: false,
  });
}

/** One column of the charts: some times together. */
export interface Column {
  start: number;
  seconds: number;
  /** null: the gateway did not run. */
  requests: number | null;
  client: number;
  server: number;
  latency: number[];
}

const MOST_COLUMNS = 120;

export function columns(stats: Stats, most = MOST_COLUMNS): Column[] {
  const times = stats.requests.length;
  const together = Math.max(1, Math.ceil(times / most));
  return Array.from({ length: Math.ceil(times / together) }, (_, column) => {
    const first = column * together;
    const last = Math.min(times, first + together);
    const sum = (list: Figures) => list.slice(first, last).reduce<number>((all, one) => all + (one ?? 0), 0);
    const ran = stats.requests.slice(first, last).some((one) => one !== null);
    const latency = stats.latency.bounds_ms.concat(0).map((_, bucket) => stats.latency.counts.slice(first, last).reduce((all, one) => all + (one?.[bucket] ?? 0), 0));
    return { start: stats.from + first * stats.step, seconds: (last - first) * stats.step, requests: ran ? sum(stats.requests) : null, client: sum(stats.status["4xx"]), server: sum(stats.status["5xx"]), latency };
  });
}

/** The first and the last bucket that has a request, with one more above for room. */
export function usedBuckets(list: Column[]): [number, number] {
  const buckets = list[0]?.latency.length ?? 0;
  const used = Array.from({ length: buckets }, (_, bucket) => bucket).filter((bucket) => list.some((one) => (one.latency[bucket] ?? 0) > 0));
  const [first, last] = [used[0], used.at(-1)];
  return first === undefined || last === undefined ? [0, Math.min(6, buckets - 1)] : [first, Math.min(buckets - 1, Math.max(last, first + 3))];
}

/** A round number that is no smaller: the top of an axis. */
export function roundUp(value: number): number {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 5, 10].find((step) => step * power >= value) ?? 10) * power;
}
