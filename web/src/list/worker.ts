// Loads the objects of one list and answers which of them are to be seen. The first page comes alone, so that rows are there
// at once; then the whole list replaces it.
import { ADMIN, type Entry } from "../lib/api";
import { apiPath, CREDENTIALS, KINDS } from "../lib/kinds";
import type { Facets, Filters, Row } from "./model";
import { List } from "./model";

export type Ask =
  | { type: "open"; kind: string; collection: string[]; reload: boolean; headers: Record<string, string> }
  | { type: "view"; seq: number; filters: Filters; from: number; to: number };
export type Answer =
  | { type: "loaded"; total: number; complete: boolean; facets: Facets }
  | { type: "failed"; status: number; message: string }
  | { type: "view"; seq: number; count: number; from: number; rows: Row[] };

const FIRST_PAGE = 100;
let list: List | null = null;
let loading = 0;
let headers: Record<string, string> = {};

const post = (answer: Answer) => self.postMessage(answer);

self.onmessage = (event: MessageEvent<Ask>) => {
  const ask = event.data;
  if (ask.type === "open") return void open(ask);
  const view = list?.view(ask.filters, ask.from, ask.to) ?? { count: 0, rows: [] };
  post({ type: "view", seq: ask.seq, from: ask.from, ...view });
};

async function open(ask: Extract<Ask, { type: "open" }>): Promise<void> {
  const turn = ++loading;
  headers = ask.headers;
  const kind = ask.kind === CREDENTIALS.name ? CREDENTIALS : KINDS.find((one) => one.name === ask.kind);
  if (!kind) return;
  try {
    const next = new List(kind, ask.collection);
    // Plugin metadata and secrets have no pages; short lists come whole with the first.
    const first = ask.reload ? null : await get(`${apiPath(ask.collection)}?page=1&page_size=${FIRST_PAGE}`);
    if (turn !== loading) return;
    if (first) {
      next.replace(first.list);
      list = next;
      if (first.list.length >= first.total) return done(next);
      post({ type: "loaded", total: first.total, complete: false, facets: next.facets() });
    }
    const all = await get(apiPath(ask.collection));
    if (turn !== loading) return;
    next.replace(all.list);
    list = next;
    done(next);
  } catch (error) {
    const failure = error as { status?: number; message?: string };
    if (turn === loading) post({ type: "failed", status: failure.status ?? 0, message: failure.message ?? String(error) });
  }
}

function done(ready: List): void {
  post({ type: "loaded", total: ready.size, complete: true, facets: ready.facets() });
}

async function fetched(path: string): Promise<Response> {
  try {
    return await fetch(ADMIN + path, { headers, cache: "no-store", credentials: "same-origin" });
  } catch {
    throw { status: 0, message: "offline" };
  }
}

async function get(path: string): Promise<{ list: Entry[]; total: number }> {
  const response = await fetched(path);
  // As in APISIX, the list of a consumer without credentials is 404.
  const owner = response.status === 404 ? /^\/consumers\/[^/?]+(?=\/credentials(\?|$))/.exec(path)?.[0] : undefined;
  if (owner && (await fetched(owner)).ok) return { list: [], total: 0 };
  const body = (await response.json().catch(() => ({}))) as { list?: Entry[]; total?: number; error_msg?: string; description?: string; message?: string };
  if (!response.ok) throw { status: response.status, message: [body.error_msg ?? body.message, body.description].filter(Boolean).join(": ") || `status ${response.status}` };
  const entries = Array.isArray(body.list) ? body.list : [];
  return { list: entries, total: body.total ?? entries.length };
}
