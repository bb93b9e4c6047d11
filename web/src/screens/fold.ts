// The difference of two revisions, from the changes between them: of each field the first value before and the last one after.
import type { ChangedObject, DiffEntry } from "../lib/api";
import { diff, fromPointer, getAt, setAt } from "../lib/json";

interface Parts {
  before: unknown;
  after: unknown;
}

/** The changes of one revision after the other, in their order. */
export function fold(revisions: ChangedObject[][]): ChangedObject[] {
  const objects = new Map<string, Parts>();
  for (const change of revisions.flat()) {
    const parts = objects.get(change.resource) ?? { before: undefined, after: undefined };
    for (const entry of change.diff ?? []) apply(parts, entry);
    objects.set(change.resource, parts);
  }
  return [...objects].flatMap(([resource, { before, after }]) => {
    const entries = diff(before, after);
    const action = before === undefined ? "create" : after === undefined ? "delete" : "update";
    return entries.length ? [{ resource, action, diff: entries }] : [];
  });
}

/** Only the fields that changed are known; a field counts before its first change as it was there. */
function apply(parts: Parts, entry: DiffEntry): void {
  const path = fromPointer(entry.path);
  if (path.length === 0) {
    if (parts.before === undefined && parts.after === undefined) parts.before = entry.before;
    parts.after = entry.after;
    return;
  }
  parts.before ??= parts.after === undefined ? {} : undefined;
  parts.after ??= {};
  const known = getAt(parts.after, path) !== undefined || getAt(parts.before, path) !== undefined;
  if (!known && parts.before !== undefined && entry.before !== undefined) parts.before = setAt(parts.before, path, entry.before);
  parts.after = setAt(parts.after, path, entry.after);
}
