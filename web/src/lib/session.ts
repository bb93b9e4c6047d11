// Who uses the console. The session itself is a cookie that no script can read. Each request repeats a token as well, which only this
// origin has: the cookie alone, which a browser also sends to other ports of the host, is of no use. A reload asks the gateway who it is.
import { useSyncExternalStore } from "react";

export type Role = "admin" | "editor" | "viewer";

export interface Session {
  /** null where the Admin API asks for no key. */
  name: string | null;
  role: Role;
  /** Has a password; else it is a key of config.yaml. */
  user: boolean;
  csrf: string | null;
  /** Labels, such as `team=payments`, of the only objects that it is for; none: all objects. */
  scopes?: string[];
}

const TOKEN = "tidegate.token";

/** Without storage the token lasts as long as the page. */
function keepToken(token: string | null): void {
  try {
    if (token) localStorage.setItem(TOKEN, token);
    else localStorage.removeItem(TOKEN);
  } catch {
    return;
  }
}

/** That of the newest session, perhaps begun in another tab. */
export function token(): string | null {
  try {
    return localStorage.getItem(TOKEN) ?? session?.csrf ?? null;
  } catch {
    return session?.csrf ?? null;
  }
}

let session: Session | null = null;
/** Why the last session ended, if it did not end by the user's wish. */
let ended: string | null = null;
const listeners = new Set<() => void>();

function publish(): void {
  for (const listener of listeners) listener();
}

export function currentSession(): Session | null {
  return session;
}

export function startSession(next: Session): void {
  session = next;
  ended = null;
  if (next.csrf) keepToken(next.csrf);
  publish();
}

export function endSession(reason: string | null = null): void {
  if (!session) return;
  session = null;
  ended = reason;
  keepToken(null);
  publish();
}

export const whyEnded = (): string | null => ended;

export function useSession(): Session | null {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => session,
  );
}

/** Why objects cannot be written one by one, whoever asks: `GET /mode` says it. */
let readOnly: string | null = null;

export function setReadOnly(why: string | null): void {
  if (readOnly === why) return;
  readOnly = why;
  publish();
}

export function useReadOnly(): string | null {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => readOnly,
  );
}

/** Labels that the objects of this session carry; null: it is for all objects. */
export function useScope(): Record<string, string> | null {
  const scopes = useSession()?.scopes ?? [];
  if (scopes.length === 0) return null;
  return Object.fromEntries(scopes.map((scope) => [scope.slice(0, scope.indexOf("=")), scope.slice(scope.indexOf("=") + 1)]));
}

/** What is of the whole gateway, and no part of any scope. */
const OUTSIDE = ["explain", "changes", "global_rules", "plugin_metadata", "secrets"];

/** Whether to offer a screen or a kind of objects. */
export function useOffers(): (name: string) => boolean {
  const scoped = useScope() !== null;
  return (name) => !scoped || !OUTSIDE.includes(name);
}

/** Whether to offer changes. The gateway decides, whatever is offered. */
export function useMayChange(): boolean {
  const role = useSession()?.role;
  return useReadOnly() === null && (role === "admin" || role === "editor");
}
