// Reading one object so that a later change can tell whether somebody else changed it, saving, deleting and taking back.
//
// The Admin API has no ETag for an object, but a revision for the configuration: a change is sent with `If-Match` of the
// revision that was current before the object was read. A 412 says only that something changed; then the object is read
// again, and the change is sent again unless this object differs from what the user began with.
import { ApiError, type ChangeResult, type Entry, getRevision, type Json, request, rollback, type Step, transact } from "../lib/api";
import { t } from "../lib/i18n";
import { equal, mergePatch } from "../lib/json";
import { apiPath, type Kind } from "../lib/kinds";
import { queries } from "../lib/query";
import { currentSession } from "../lib/session";
import { confirm } from "../ui/dialog";
import { explainError } from "../ui/basics";
import { toast } from "../ui/toasts";
import { showUsers } from "./in-use";

const TRIES = 5;
/** What the gateway adds: no part of what a user edits. */
export const ADDED = ["create_time", "update_time", "id", "validity_start", "validity_end"];

export interface Read {
  object: Json;
  revision: number;
}

export class Changed extends Error {
  constructor(readonly theirs: Read | null) {
    super("changed");
  }
}

export function editable(kind: Kind, value: Json): Json {
  const keep = kind.idField === "username" ? ["username"] : [];
  return Object.fromEntries(Object.entries(value).filter(([name]) => !ADDED.includes(name) || keep.includes(name)));
}

export async function read(kind: Kind, parts: string[]): Promise<Read> {
  const revision = (await getRevision()).stored;
  const entry = await request<Entry>(apiPath(parts));
  return { object: editable(kind, entry.value), revision };
}

export interface Draft {
  kind: Kind;
  parts: string[];
  object: Json;
  /** What the user began with; null for a new object. */
  base: Json | null;
}

/** Kinds that are written whole. */
const WITHOUT_PATCH = ["consumers", "credentials", "plugin_metadata", "protos", "stream_routes"];

export function stepOf({ kind, parts, object, base }: Draft): Step {
  // An editor sees secrets as masks: what was not changed is not sent.
  const masked = currentSession()?.role === "editor" && !WITHOUT_PATCH.includes(kind.name);
  if ((kind.patched || masked) && base) return { method: "PATCH", path: apiPath(parts), value: mergePatch(base, object) };
  const value = ["global_rules", "plugin_configs", "consumer_groups"].includes(kind.name) ? { ...object, id: parts.at(-1) } : object;
  return { method: "PUT", path: apiPath(parts), value };
}

/** Checks a draft without writing it: the answer has the differences, an error has what is wrong. */
export const check = (draft: Draft, signal?: AbortSignal): Promise<ChangeResult> => transact([stepOf(draft)], { dryRun: true, signal });

/** Saves a draft that began at `revision`. Throws `Changed` when the object is not what the user began with. */
export async function save(draft: Draft, revision: number): Promise<ChangeResult> {
  let expected = revision;
  for (let tries = 0; ; tries++) {
    try {
      const result = await transact([stepOf(draft)], { revision: expected });
      refresh();
      return result;
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 412 || tries === TRIES) throw error;
      const now = await readAgain(draft);
      if (!equal(now?.object ?? null, draft.base)) throw new Changed(now);
      expected = now?.revision ?? (await getRevision()).stored;
    }
  }
}

/** The object as it is now; null when it is gone. */
export async function readAgain(draft: Draft): Promise<Read | null> {
  try {
    return await read(draft.kind, draft.parts);
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

export function refresh(): void {
  void queries.invalidateQueries({ predicate: (query) => query.queryKey[0] !== "plugins" });
}

/** Deletes at once and offers ten seconds to take it back. Answers whether they are gone. */
export async function remove(kind: Kind, collection: string[], ids: string[], ask = false): Promise<boolean> {
  if (ask && ids.length === 1 && !(await confirm({ title: t("delete.one.title", { name: ids[0] ?? "" }), text: <p>{t("delete.one.text")}</p>, action: t("action.delete"), danger: true }))) return false;
  if (ids.length > 1 && !(await confirm({ title: t("delete.many.title", { n: ids.length }), text: <p>{t("delete.many.text")}</p>, action: t("action.delete"), danger: true }))) return false;
  const steps = ids.map((id): Step => ({ method: "DELETE", path: apiPath([...collection, ...(kind.name === "secrets" ? id.split("/") : [id])]) }));
  try {
    const served = kind.name === "routes" && ids.length === 1 ? await whatItServed(ids[0] ?? "") : null;
    const result = await transact(steps);
    refresh();
    toast(ids.length === 1 ? (served ?? t("deleted.one", { name: ids[0] ?? "" })) : t("deleted.many", { n: ids.length }), { undo: () => void takeBack(result.revision) });
    return true;
  } catch (error) {
    if (!(await showUsers(error))) toast(explainError(error).message, { bad: true });
    return false;
  }
}

/** What a route that goes now did until then. */
async function whatItServed(id: string): Promise<string | null> {
  const { value } = await request<Entry>(apiPath(["routes", id]));
  const name = typeof value.name === "string" && value.name !== "" && value.name !== id ? `${value.name} (${id})` : id;
  const paths = [value.uri, ...(Array.isArray(value.uris) ? value.uris : [])].filter((one) => typeof one === "string");
  return value.status === 0 ? t("deleted.route.off", { name }) : t("deleted.route", { name, path: paths.join(", ") });
}

/** Makes the configuration, or one object, what it was before `revision`, if nothing happened since. */
export async function takeBack(revision: number, key?: string): Promise<void> {
  try {
    await rollback({ revision: revision - 1, ...(key ? { key } : {}) }, { revision });
    refresh();
    toast(t("undone"));
  } catch (error) {
    const later = error instanceof ApiError && error.status === 412;
    toast(later ? t("undo.later", { revision: String(revision) }) : explainError(error).message, { bad: true });
  }
}
