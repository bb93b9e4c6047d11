// Undoing one change of one object: what it would do, or why it cannot be done.
import { type ChangeResult, type ChangedObject, type DiffEntry, getRevision, type HistoryDetail, type HistoryItem, request, rollback, transact } from "../lib/api";
import { t } from "../lib/i18n";
import { fromPointer } from "../lib/json";
import { apiPath, locate, type Where } from "../lib/kinds";
import { isMasked, takeOut, touches } from "../lib/undo";
import { ADDED, check, type Draft, readAgain, refresh, save } from "./changes";

export interface Plan {
  preview: ChangeResult;
  carryOut: () => Promise<ChangeResult>;
}

/** Why not, in a sentence; the dialog offers the rollback instead. */
export class Refused extends Error {}

/** Revisions are no quantities: no commas inside. */
export const numbers = (revisions: number[]): string => revisions.map((one) => `#${one}`).join(", ");

/** Later changes of an object, or of everything, the oldest first. */
export async function changesSince(revision: number, key?: string): Promise<{ revisions: number[]; total: number }> {
  const { list, total } = await request<{ list: HistoryItem[]; total: number }>(`/history?since=${revision}&page_size=500${key ? `&key=${encodeURIComponent(key)}` : ""}`);
  return { revisions: list.map((entry) => entry.revision).sort((a, b) => a - b), total };
}

export async function planUndo(change: ChangedObject, revision: number): Promise<Plan & { later: number[] }> {
  const key = `/${change.resource}`;
  const where = locate(change.resource.split("/"));
  const later = (await changesSince(revision, key)).revisions;
  const entries = (change.diff ?? []).filter((entry) => !ADDED.includes(entry.path.slice(1)));
  if (change.action === "update" && where && !(later.length === 0 && entries.some(isMasked))) return { ...(await ofUpdate(where, change, entries, revision, later)), later };
  if (later.length > 0) throw new Refused(t(change.action === "update" ? "undo.refused.masked" : change.action === "create" ? "undo.refused.created" : "undo.refused.again", { name: change.resource, later: numbers(later), revision: String(revision) }));
  if (change.action === "create") return { ...(await ofCreation(change)), later };
  // Nothing happened to it since: what it was is what is to be, secrets included.
  const to = { revision: revision - 1, key };
  const preview = await rollback(to, { dryRun: true });
  return { preview, later, carryOut: () => rollback(to, { revision: preview.revision }) };
}

async function ofUpdate({ kind, collection, id }: Where, change: ChangedObject, entries: DiffEntry[], revision: number, later: number[]): Promise<Plan> {
  const draft: Draft = { kind, parts: [...collection, ...id], object: {}, base: null };
  const now = await readAgain(draft);
  const [name, at] = [change.resource, String(revision)];
  if (!now) throw new Refused(t("undo.refused.gone", { name, later: numbers(later.slice(-1)), revision: at }));
  if (entries.some(isMasked)) throw new Refused(t("undo.refused.masked", { name, later: numbers(later), revision: at }));
  const { object, again } = takeOut(now.object, entries);
  if (again.length > 0) {
    const by = await changedBy(later, change.resource, again);
    const fields = again.map((entry) => fromPointer(entry.path).join(" › ")).join(", ");
    throw new Refused(t("undo.refused.fields", { fields, later: numbers(by.length ? by : later), revision: at }));
  }
  const undoing = { ...draft, object, base: now.object };
  return { preview: await check(undoing), carryOut: () => save(undoing, now.revision) };
}

async function ofCreation(change: ChangedObject): Promise<Plan> {
  const { stored } = await getRevision();
  const steps = [{ method: "DELETE" as const, path: apiPath(change.resource.split("/")) }];
  return {
    preview: await transact(steps, { dryRun: true }),
    carryOut: async () => {
      const result = await transact(steps, { revision: stored });
      refresh();
      return result;
    },
  };
}

const MOST_DETAILS = 50;

/** Those of the later changes that touched these fields. */
async function changedBy(later: number[], resource: string, entries: DiffEntry[]): Promise<number[]> {
  const newest = later.slice(-MOST_DETAILS);
  const details = await Promise.all(newest.map((revision) => request<HistoryDetail>(`/history/${revision}?page_size=500`)));
  return newest.filter((_, i) => details[i]?.changes.some((one) => one.resource === resource && touches(one.diff ?? [], entries)));
}
