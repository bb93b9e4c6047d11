// Which screen the address names, and how to go to another one. The whole state of a screen that somebody may want to send to
// a colleague is in the address: the path is the place, the query what is filtered, sorted and opened there.
import { useSyncExternalStore } from "react";

const BASE = "/ui";
const listeners = new Set<() => void>();
/** Asked before a place is left; false stays. */
let guard: ((go: () => void) => boolean) | null = null;

export interface Place {
  path: string[];
  query: URLSearchParams;
}

let place = read();

function read(): Place {
  if (typeof location === "undefined") return { path: [], query: new URLSearchParams() };
  return parse(location.pathname + location.search);
}

/** Reads an address such as `/ui/routes/a%2Fb?q=x`. */
export function parse(address: string): Place {
  const [pathname = "", search = ""] = address.split("?");
  const inner = pathname.startsWith(BASE) ? pathname.slice(BASE.length) : pathname;
  return { path: inner.split("/").filter(Boolean).map(decode), query: new URLSearchParams(search) };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Where the page was opened, or is by now. */
export const currentPlace = (): Place => place;

/** The address below /ui of a path and a query; entries of the query that are empty are left out. */
export function address(path: string[], query: Record<string, string | undefined> = {}): string {
  const search = new URLSearchParams(Object.entries(query).filter((entry): entry is [string, string] => Boolean(entry[1])));
  const text = search.toString();
  return `${BASE}/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

export function setGuard(next: typeof guard): void {
  guard = next;
}

/** Does what would lose what is not saved here, once the user agrees. */
export function leave(go: () => void): void {
  if (!guard || guard(go)) go();
}

export function navigate(to: string, options: { replace?: boolean } = {}): void {
  const samePlace = to.split("?")[0] === location.pathname;
  const go = () => {
    history[options.replace ? "replaceState" : "pushState"](null, "", to);
    publish();
  };
  if (samePlace || !guard || guard(go)) go();
}

/** Changes entries of the query and stays at the place; an empty value removes its entry. */
export function setQuery(changes: Record<string, string | undefined>, options: { replace?: boolean } = { replace: true }): void {
  const query = new URLSearchParams(place.query);
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const text = query.toString();
  navigate(location.pathname + (text ? `?${text}` : ""), options);
}

function publish(): void {
  place = read();
  for (const listener of listeners) listener();
}

if (typeof window !== "undefined") {
  window.addEventListener("popstate", () => {
    const left = place;
    const go = () => publish();
    if (!guard || location.pathname === `${BASE}/${left.path.map(encodeURIComponent).join("/")}` || guard(go)) return go();
    // The browser has gone already: go back to where the question is asked.
    history.pushState(null, "", address(left.path, Object.fromEntries(left.query)));
  });
}

export function usePlace(): Place {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => place,
  );
}
