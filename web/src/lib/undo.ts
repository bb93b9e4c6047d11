// Taking one change of an object back out of what the object is by now. The history shows each field before and after the change;
// what was changed again since then is no longer the change's to take back.
import type { DiffEntry, Json } from "./api";
import { equal, fromPointer, getAt, isObject, overlaps, setAt } from "./json";

/** What stands for a secret in the history. */
const MASK = "***";

const hasMask = (value: unknown): boolean => value === MASK || (Array.isArray(value) ? value.some(hasMask) : isObject(value) && Object.values(value).some(hasMask));

/** Its values cannot be had from the history. */
export const isMasked = (entry: DiffEntry): boolean => hasMask(entry.before) || hasMask(entry.after);

export interface TakenOut {
  object: Json;
  /** Fields that are not what the change made of them. */
  again: DiffEntry[];
}

export function takeOut(now: Json, entries: DiffEntry[]): TakenOut {
  const again = entries.filter((entry) => !isAsChanged(now, entry));
  const object = entries.reduce<unknown>((left, entry) => (again.includes(entry) ? left : setAt(left, fromPointer(entry.path), entry.before)), now);
  return { object: isObject(object) ? object : {}, again };
}

function isAsChanged(now: Json, { path, after }: DiffEntry): boolean {
  const at = fromPointer(path);
  // The history names the outermost field that came or went: what it was in is there, or something later removed that.
  return at.length > 0 && isObject(getAt(now, at.slice(0, -1))) && equal(getAt(now, at), after);
}

/** Whether a later change touched any of these fields. */
export const touches = (later: DiffEntry[], entries: DiffEntry[]): boolean => later.some((one) => entries.some((entry) => overlaps(one.path, entry.path)));
