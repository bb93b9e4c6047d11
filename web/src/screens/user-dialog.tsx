// A new user, or the role and password of one that exists.
import { type FormEvent, type JSX, useId, useState } from "react";
import { ApiError, request } from "../lib/api";
import { type Key, t } from "../lib/i18n";
import type { Role } from "../lib/session";
import { Failure } from "../ui/basics";
import { Dialog } from "../ui/dialog";
import { toast } from "../ui/toasts";

export interface User {
  name: string;
  role: Role;
  consumer_names?: boolean;
  created: string;
  updated: string;
}

const ROLES: Role[] = ["viewer", "editor", "admin"];
const NAME = /^[A-Za-z0-9._@-]{1,64}$/;
const SHORTEST = 12;

/** Writes a user with some fields changed; what this page does not know of it stays. */
export function writeUser(user: Partial<User>, change: Json): Promise<unknown> {
  const { name = "", created: _, updated: __, ...kept } = user;
  return request(`/users/${encodeURIComponent(name)}`, { method: "PUT", body: { ...kept, ...change } });
}

type Json = Record<string, unknown>;

/** Whether a name is taken: writing it would change somebody else. */
async function exists(name: string): Promise<boolean> {
  try {
    await request(`/users/${encodeURIComponent(name)}`);
    return true;
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return false;
    throw error;
  }
}

export function UserDialog({ user, onClose, onDone }: { user: User | null; onClose: () => void; onDone: () => void }): JSX.Element {
  const [name, setName] = useState(user?.name ?? "");
  const [role, setRole] = useState<Role>(user?.role ?? "viewer");
  const [consumers, setConsumers] = useState(user?.role === "viewer" && user.consumer_names === true);
  const [password, setPassword] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const id = useId();
  const named = NAME.test(name.trim()) && name.trim() !== "." && name.trim() !== "..";
  const long = new TextEncoder().encode(password).length >= SHORTEST;
  const complete = named && (long || (user !== null && password === ""));
  const save = async (event: FormEvent) => {
    event.preventDefault();
    if (busy || !complete) return;
    setBusy(true);
    setError(null);
    try {
      if (!user && (await exists(name.trim()))) throw new Error(t("users.exists", { name: name.trim() }));
      await writeUser({ ...user, name: name.trim() }, { role, consumer_names: role !== "viewer" || consumers, ...(password ? { password } : {}) });
      toast(t("saved", { name: name.trim() }));
      onDone();
    } catch (failed) {
      setError(failed);
      setBusy(false);
    }
  };
  const footer = (
    <>
      <button type="button" className="button" onClick={onClose}>{t("action.cancel")}</button>
      <button type="submit" form={id} className="button primary" disabled={busy || !complete}>{t(user ? "users.save" : "users.create")}</button>
    </>
  );
  return (
    <Dialog title={user ? t("users.edit.title", { name: user.name }) : t("users.new")} onClose={onClose} footer={footer}>
      <form id={id} className="stack" onSubmit={(event) => void save(event)}>
        {!user && (
          <>
            <label htmlFor={`${id}-name`}>{t("login.user")}</label>
            <input id={`${id}-name`} className="input" autoComplete="off" spellCheck={false} autoFocus data-autofocus value={name} aria-invalid={(name !== "" && !named) || undefined} aria-describedby={`${id}-name-rule`} onChange={(event) => setName(event.target.value)} />
            <p id={`${id}-name-rule`} className="soft small" style={{ margin: "6px 0 10px" }}>{t("users.name.rule")}</p>
          </>
        )}
        <label htmlFor={`${id}-role`}>{t("users.role")}</label>
        <select id={`${id}-role`} className="select" data-autofocus={user ? true : undefined} aria-describedby={`${id}-role-rule`} value={role} onChange={(event) => setRole(event.target.value as Role)}>
          {ROLES.map((one) => <option key={one} value={one}>{t(`users.role.${one}` as Key)}</option>)}
        </select>
        <p id={`${id}-role-rule`} className="soft small" style={{ marginTop: 6 }}>{t(`users.may.${role}` as Key)}</p>
        {role === "viewer" && <label className="row" style={{ marginTop: 6 }}><input type="checkbox" className="checkbox" checked={consumers} onChange={(event) => setConsumers(event.target.checked)} />{t("users.consumers")}</label>}
        <label htmlFor={`${id}-password`} style={{ marginTop: 10 }}>{t(user ? "password.next" : "login.password")}</label>
        <input id={`${id}-password`} type="password" className="input mono" autoComplete="new-password" value={password} aria-describedby={`${id}-password-rule`} onChange={(event) => setPassword(event.target.value)} />
        <p id={`${id}-password-rule`} className="soft small" style={{ marginTop: 6 }}>{t(user ? "users.password.keep" : "users.password.rule")}</p>
        {user && <p className="soft small" style={{ marginTop: 6 }}>{t("users.ends")}</p>}
        {Boolean(error) && <div style={{ marginTop: 12 }}><Failure error={error} /></div>}
      </form>
    </Dialog>
  );
}
