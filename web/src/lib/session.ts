// Who uses the console. The key is in the memory of this page and nowhere else: a reload asks for it again, and no script of
// another page can read it from a store of the browser.
import { useSyncExternalStore } from "react";

export type Role = "admin" | "viewer";

export interface Session {
  key: string;
  role: Role;
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
  publish();
}

export function endSession(reason: string | null = null): void {
  if (!session) return;
  session = null;
  ended = reason;
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
