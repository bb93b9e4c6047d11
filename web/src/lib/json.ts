// Values of JSON: comparing, reading and writing at a path, differences, and merging two changes of one object.
import type { DiffEntry } from "./api";

export type Path = (string | number)[];
export type Value = unknown;

export const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);

export function equal(a: Value, b: Value): boolean {
  if (a === b) return true;
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((one, i) => equal(one, b[i]));
  if (!isObject(a) || !isObject(b)) return false;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && equal(a[key], b[key]));
}

export function getAt(value: Value, path: Path): Value {
  let at = value;
  for (const step of path) {
    if (Array.isArray(at)) at = at[Number(step)];
    else if (isObject(at) && Object.hasOwn(at, step)) at = at[String(step)];
    else return undefined;
  }
  return at;
}

/** A copy with `next` at `path`; undefined removes what is there. */
export function setAt(value: Value, path: Path, next: Value): Value {
  const [step, ...rest] = path;
  if (step === undefined) return next;
  if (Array.isArray(value)) {
    const copy = [...value];
    const inner = setAt(copy[Number(step)], rest, next);
    if (inner === undefined) copy.splice(Number(step), 1);
    else copy[Number(step)] = inner;
    return copy;
  }
  const source = isObject(value) ? value : {};
  const inner = setAt(Object.hasOwn(source, step) ? source[String(step)] : undefined, rest, next);
  // Not `copy[step] = inner`: a field may be named __proto__.
  const entries = Object.entries(source).filter(([name]) => name !== String(step) || inner !== undefined);
  if (inner === undefined) return Object.fromEntries(entries);
  const at = entries.findIndex(([name]) => name === String(step));
  if (at >= 0) entries[at] = [String(step), inner];
  else entries.push([String(step), inner]);
  return Object.fromEntries(entries);
}

export const pointer = (path: Path): string => path.map((step) => `/${String(step).replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");

export const fromPointer = (text: string): Path => text.split("/").slice(1).map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));

/** What differs, as the gateway shows it: objects field by field, everything else as a whole. */
export function diff(before: Value, after: Value, path: Path = []): DiffEntry[] {
  if (equal(before, after)) return [];
  if (isObject(before) && isObject(after)) {
    const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
    return names.flatMap((name) => diff(own(before, name), own(after, name), [...path, name]));
  }
  const entry: DiffEntry = { path: pointer(path) };
  if (before !== undefined) entry.before = before;
  if (after !== undefined) entry.after = after;
  return [entry];
}

const own = (value: Record<string, unknown>, name: string): unknown => (Object.hasOwn(value, name) ? value[name] : undefined);

export interface Conflict {
  path: Path;
  base: Value;
  mine: Value;
  theirs: Value;
}

export interface Merge {
  /** With the changes of both; where they differ, mine. */
  merged: Value;
  conflicts: Conflict[];
  /** Changes of theirs that mine does not touch. */
  taken: DiffEntry[];
}

/** Two changes of one object, put together. */
export function merge(base: Value, mine: Value, theirs: Value): Merge {
  const result: Merge = { merged: mine, conflicts: [], taken: [] };
  const ours = diff(base, mine);
  for (const entry of diff(base, theirs)) {
    const path = fromPointer(entry.path);
    const meeting = ours.find((other) => overlaps(other.path, entry.path));
    if (!meeting) {
      result.merged = setAt(result.merged, path, entry.after);
      result.taken.push(entry);
      continue;
    }
    const common = fromPointer(meeting.path.length < entry.path.length ? meeting.path : entry.path);
    const [mineAt, theirsAt] = [getAt(mine, common), getAt(theirs, common)];
    if (equal(mineAt, theirsAt) || result.conflicts.some((one) => pointer(one.path) === pointer(common))) continue;
    result.conflicts.push({ path: common, base: getAt(base, common), mine: mineAt, theirs: theirsAt });
  }
  return result;
}

export const overlaps = (a: string, b: string): boolean => a === b || a.startsWith(`${b}/`) || b.startsWith(`${a}/`);

/** A merge patch (RFC 7396) that makes `after` of `before`. */
export function mergePatch(before: Value, after: Value): Value {
  if (!isObject(before) || !isObject(after)) return after;
  const patch: [string, unknown][] = [];
  for (const name of Object.keys(before)) if (!Object.hasOwn(after, name)) patch.push([name, null]);
  for (const [name, value] of Object.entries(after)) {
    if (!equal(own(before, name), value)) patch.push([name, isObject(value) ? mergePatch(own(before, name), value) : value]);
  }
  return Object.fromEntries(patch);
}
