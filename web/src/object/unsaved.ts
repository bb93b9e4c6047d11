// What was changed and not saved, so that the end of a session or a reload does not lose it. It is kept for this tab, under the name of
// whoever typed it, as differences: what looks like a secret stays out.
import type { DiffEntry, Json } from "../lib/api";
import { diff, fromPointer, isObject, setAt } from "../lib/json";

const PREFIX = "tidegate.unsaved ";
const MOST_BYTES = 256 * 1024;

export interface Unsaved {
  at: number;
  id: string[];
  entries: DiffEntry[];
  /** Secrets were left out. */
  short: boolean;
}

const SECRET = /pass|secret|token|credential|private|cookie|authorization|auth_(header|value|config)|api_?-?key|access_key|^key$|(^|_)key(_base64)?$/i;
const SECRET_TEXT = /PRIVATE KEY|:\/\/[^/\s]*:[^/\s]*@|^(bearer|basic) /i;

const LEFT = Symbol();

/** A value without its secrets; `LEFT` when it is one. */
function open(value: unknown, name: string): unknown {
  if (typeof value === "string") return isSecret(name, value) ? LEFT : value;
  if (Array.isArray(value)) return SECRET.test(name) ? LEFT : value.map((one) => open(one, name)).filter((one) => one !== LEFT);
  if (isObject(value)) return Object.fromEntries(Object.entries(value).map(([inner, one]) => [inner, open(one, inner)] as const).filter(([, one]) => one !== LEFT));
  return SECRET.test(name) && typeof value === "number" ? LEFT : value;
}

/** `key` of a limit names a variable, and is no secret. */
const isReference = (name: string, value: string): boolean => name === "key" && /^(remote_addr|server_addr|consumer_name|service_id|uri|host|http_\w+|arg_\w+)$/.test(value);

/** Whether the text of a field of this name looks like a secret. */
export const isSecret = (name: string, value: string): boolean => (SECRET.test(name) && value !== "" && !isReference(name, value)) || SECRET_TEXT.test(value);

export function unsavedOf(base: Json, object: Json, id: string[], at = Date.now()): Unsaved {
  let short = false;
  const entries = diff(base, object).flatMap((entry): DiffEntry[] => {
    const path = fromPointer(entry.path).map(String);
    if (entry.after === undefined) return [{ path: entry.path }];
    const after = path.slice(0, -1).some((step) => /^(auth_config|credentials|secrets?)$/i.test(step)) ? LEFT : open(entry.after, path.at(-1) ?? "");
    short ||= after === LEFT || JSON.stringify(after) !== JSON.stringify(entry.after);
    return after === LEFT ? [] : [{ path: entry.path, after }];
  });
  return { at, id, entries, short };
}

export const restore = (object: Json, unsaved: Unsaved): Json => unsaved.entries.reduce((next, entry) => setAt(next, fromPointer(entry.path), entry.after) as Json, object);

const nameOf = (who: string | null, place: string): string => `${PREFIX}${JSON.stringify([who, place])}`;

export function keep(who: string | null, place: string, unsaved: Unsaved): void {
  try {
    const text = JSON.stringify(unsaved);
    if (text.length <= MOST_BYTES) sessionStorage.setItem(nameOf(who, place), text);
  } catch {
    // Without storage there is nothing to come back to.
  }
}

export function forget(who: string | null, place: string): void {
  try {
    sessionStorage.removeItem(nameOf(who, place));
  } catch {
    return;
  }
}

export function find(who: string | null, place: string): Unsaved | null {
  try {
    const found = JSON.parse(sessionStorage.getItem(nameOf(who, place)) ?? "null") as Unsaved | null;
    return found && Array.isArray(found.entries) && Array.isArray(found.id) && (found.entries.length > 0 || found.short) ? found : null;
  } catch {
    return null;
  }
}
