// The page's side of a list: what the worker last said, and the rows that are on the screen.
import { useEffect, useRef, useState } from "react";
import { ApiError, asSession } from "../lib/api";
import { equal } from "../lib/json";
import type { Facets, Filters, Row } from "./model";
import type { Answer, Ask } from "./worker";

export interface ListState {
  /** Objects in all; null until the first came. */
  total: number | null;
  complete: boolean;
  /** Those that the filters leave. */
  count: number;
  facets: Facets;
  from: number;
  rows: Row[];
  error: ApiError | null;
}

const START: ListState = { total: null, complete: false, count: 0, facets: { labels: [], plugins: [] }, from: 0, rows: [], error: null };

export interface Window {
  from: number;
  to: number;
}

export function useList(kind: string, collection: string[], filters: Filters, window: Window, revision: number | undefined): ListState & { reload: () => void } {
  const [state, setState] = useState(START);
  const worker = useRef<Worker | null>(null);
  const wanted = useRef({ filters, window, seq: 0 });
  wanted.current = { ...wanted.current, filters, window };
  const place = collection.join("/");

  const ask = (message: Ask) => worker.current?.postMessage(message);
  const look = () => ask({ type: "view", seq: ++wanted.current.seq, filters: wanted.current.filters, ...wanted.current.window });
  const open = (reload: boolean) => ask({ type: "open", kind, collection, reload, headers: asSession() });

  useEffect(() => {
    const started = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
    worker.current = started;
    setState(START);
    started.onmessage = (event: MessageEvent<Answer>) => {
      const answer = event.data;
      if (answer.type === "view") {
        if (answer.seq === wanted.current.seq) setState((before) => ({ ...before, count: answer.count, from: answer.from, rows: kept(before.rows, answer.rows) }));
      } else if (answer.type === "failed") {
        setState((before) => ({ ...before, error: new ApiError(answer.status, answer.message) }));
      } else {
        setState((before) => ({ ...before, total: answer.total, complete: answer.complete, facets: answer.facets, error: null }));
        look();
      }
    };
    open(false);
    return () => started.terminate();
  }, [kind, place]);

  // Somebody changed the configuration, perhaps this page: the rows stay until the new ones are there.
  const seen = useRef(revision);
  useEffect(() => {
    if (seen.current !== undefined && revision !== seen.current) open(true);
    seen.current = revision;
  }, [revision]);

  useEffect(look, [filters.search, filters.label, filters.plugin, filters.sort, window.from, window.to]);
  return { ...state, reload: () => open(true) };
}

/** Rows that are the same stay the same object, so that they are not drawn again. */
function kept(before: Row[], after: Row[]): Row[] {
  const known = new Map(before.map((row) => [row.id, row]));
  return after.map((row) => {
    const old = known.get(row.id);
    return old && equal(old.object, row.object) ? old : row;
  });
}
