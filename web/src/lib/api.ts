// Requests to the Admin API. Every error that a screen shows is an `ApiError` with what the gateway said.
import type { Change, HistoryEntry, Revision } from "./api-types";
import { endSession, type Session, token } from "./session";

export const ADMIN = "/apisix/admin";

export interface Fault {
  index?: number;
  path?: string;
  error: string;
  field?: string;
}

interface ErrorBody {
  error_msg?: string;
  description?: string;
  remedy?: string;
  message?: string;
  errors?: Fault[];
  revision?: number;
}

export class ApiError extends Error {
  constructor(
    /** Of the response; 0 when there was none. */
    readonly status: number,
    message: string,
    readonly remedy: string | null = null,
    readonly faults: Fault[] = [],
  ) {
    super(message);
  }

  /** The same of these faults alone. */
  with(faults: Fault[]): ApiError {
    return new ApiError(this.status, this.message, this.remedy, faults);
  }
}

export interface DiffEntry {
  path: string;
  before?: unknown;
  after?: unknown;
}

export type ChangedObject = Change & { index?: number; diff?: DiffEntry[] };
export interface ChangeResult {
  revision: number;
  dry_run?: true;
  changes: ChangedObject[];
  /** Fields without effect, perhaps misspelled. */
  warnings?: unknown[];
}
export interface HistoryItem extends HistoryEntry {
  objects: Change[];
}
export interface HistoryDetail extends HistoryEntry {
  changes: ChangedObject[];
  left_out?: unknown;
}
export type Json = Record<string, unknown>;
export interface Entry {
  key: string;
  value: Json;
}

interface Options {
  method?: string;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** Of a request that does not end a session when it is refused: there is none yet. */
  signingIn?: boolean;
}

/** What makes a request one of the session. */
export function asSession(): Record<string, string> {
  const known = token();
  return known ? { "X-CSRF-Token": known } : {};
}

export async function request<T>(path: string, options: Options = {}): Promise<T> {
  const method = options.method ?? (options.body === undefined ? "GET" : "POST");
  let response: Response;
  try {
    response = await fetch(ADMIN + path, {
      method,
      headers: { ...asSession(), ...options.headers },
      body: options.body === undefined ? undefined : JSON.stringify(options.body),
      signal: options.signal,
      credentials: "same-origin",
      cache: "no-store",
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "offline");
  }
  const text = await response.text();
  if (response.ok) return (text && (response.headers.get("content-type") ?? "").includes("json") ? JSON.parse(text) : text) as T;
  throw failure(response.status, text, !options.signingIn);
}

function failure(status: number, text: string, inSession: boolean): ApiError {
  let body: ErrorBody = {};
  try {
    body = JSON.parse(text) as ErrorBody;
  } catch {
    body = { error_msg: text.replace(/<[^>]*>/g, " ").replace(/\s+/g, " ").trim().slice(0, 300) };
  }
  const message = [body.error_msg ?? body.message, body.description].filter(Boolean).join(": ") || `status ${status}`;
  const error = new ApiError(status, message, body.remedy ?? null, body.errors ?? []);
  if (inSession && status === 401 && !/invalid method/.test(message)) endSession(message);
  return error;
}

export interface Step {
  method: "PUT" | "PATCH" | "DELETE";
  path: string;
  value?: unknown;
}

/** Several changes as one, optionally only if the configuration is still at `revision`. */
export function transact(changes: Step[], options: { dryRun?: boolean; revision?: number; signal?: AbortSignal } = {}): Promise<ChangeResult> {
  return request<ChangeResult>("/transactions", {
    body: { dry_run: options.dryRun ?? false, changes },
    headers: options.revision === undefined ? {} : { "If-Match": String(options.revision) },
    signal: options.signal,
  });
}

export const getRevision = () => request<Revision>("/revision");

/** `key`: of one object, such as `/routes/1`; without it, everything. */
export type Point = ({ revision: number } | { checkpoint: string }) & { key?: string };

export function rollback(to: Point, options: { dryRun?: boolean; revision?: number } = {}): Promise<ChangeResult> {
  return request<ChangeResult>("/rollback", {
    body: { ...to, dry_run: options.dryRun ?? false },
    headers: options.revision === undefined ? {} : { "If-Match": String(options.revision) },
  });
}

export type Shown = { key: string } | { user: string; password: string };

/** Signs in: the session comes as a cookie, which stays out of reach of this page. */
export const signIn = (shown: Shown) => request<Session>("/sessions", { body: shown, signingIn: true });

/** How one may sign in; `oidc` is the identity provider. */
export interface WaysIn {
  users: boolean;
  oidc: { name: string } | null;
}
export const waysIn = () => request<WaysIn>("/sessions", { signingIn: true });

/** Where the browser finds the identity provider, which sends it back to `redirect_uri`. */
export const leaveForProvider = (redirect_uri: string) => request<{ location: string }>("/sessions/oidc", { body: { redirect_uri }, signingIn: true });

/** Signs in with what the identity provider answered. */
export const comeBack = (oidc: { code: string; state: string; iss?: string }) => request<Session>("/sessions", { body: { oidc }, signingIn: true });

/** One's own; the other sessions of the user end, and this one gets another cookie and token. */
export const changePassword = (current: string, next: string) => request<Session>("/sessions/current/password", { method: "PUT", body: { current, new: next }, signingIn: true });

/** Who is signed in already, before a reload or in another tab. */
export async function sessionNow(): Promise<Session | null> {
  try {
    return await request<Session>("/sessions/current", { signingIn: true });
  } catch (error) {
    if (error instanceof ApiError && error.status > 0) return null;
    throw error;
  }
}

/** Where the identity provider ends its own session, if it is to. */
export const signOff = () => request<{ location: string } | "">("/sessions/current", { method: "DELETE", signingIn: true });
