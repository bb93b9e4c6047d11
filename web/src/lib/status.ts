// What the whole console asks now and then: the revision of the configuration, and how far workers are with it.
import { useQuery } from "@tanstack/react-query";
import { getRevision, request } from "./api";
import type { Json } from "./api";
import { queries } from "./query";

const EVERY_MS = 4_000;

const REVISION = { queryKey: ["revision"], queryFn: getRevision };
const MODE = { queryKey: ["mode"], queryFn: () => request<{ writable: boolean; why: string | null; history: boolean }>("/mode") };

export function useRevision() {
  return useQuery({ ...REVISION, refetchInterval: EVERY_MS });
}

/** Asked again now and then: a store that is damaged takes no writes. */
export function useMode() {
  return useQuery({ ...MODE, refetchInterval: 60_000 });
}

/** Asks beforehand what each screen asks first. */
export function fetchStatus(): void {
  void queries.prefetchQuery(REVISION);
  void queries.prefetchQuery(MODE);
}

export interface PluginInfo {
  version: number;
  priority: number;
  type?: string;
  schema: Json;
  consumer_schema?: Json;
  metadata_schema?: Json;
}

/** Every plugin that the gateway has enabled, with its schemas. They change only with a reload of the gateway. */
export function usePlugins() {
  return useQuery({ queryKey: ["plugins"], queryFn: () => request<Record<string, PluginInfo>>("/plugins?all=true"), staleTime: 5 * 60_000 });
}
