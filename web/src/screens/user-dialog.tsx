// A new user, or the role and password of one that exists.
import { type FormEvent, type JSX, type ReactNode, useId, useState } from "react";
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

/** What is wrong with a name, and with a password, which may be empty where one is there already. */
export function faultOfName(name: string): string | null {
  if (name === "") return t("users.name.empty");
  const odd = [...new Set(name.replace(/[A-Za-z0-9._@-]/g, ""))];
  if (odd.length > 0) return t("users.name.wrong", { letters: odd.map((one) => (one === " " ? t("users.space") : one)).join(" ") });
  return NAME.test(name) ? (/^\.\.?$/.test(name) ? t("users.name.dots") : null) : t("users.name.long");
}

export function faultOfPassword(password: string, isKept: boolean): string | null {
  if (password === "") return isKept ? null : t("users.password.empty");
  return new TextEncoder().encode(password).length >= SHORTEST ? null : t("users.password.short", { n: [...password].length });
}

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
  // Said of a field that was left, and of all once somebody wants to save.
  const [told, setTold] = useState({ name: false, password: false });
  const wrong = { name: user ? null : faultOfName(name.trim()), password: faultOfPassword(password, user !== null) };
  const shown = { name: told.name ? wrong.name : null, password: told.password ? wrong.password : null };
  const save = async (event: FormEvent) => {
    event.preventDefault();
    if (busy) return;
    setTold({ name: true, password: true });
    const first = wrong.name ? "name" : wrong.password ? "password" : null;
    if (first) return document.getElementById(`${id}-${first}`)?.focus();
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
      <button type="submit" form={id} className="button primary" disabled={busy}>{t(user ? "users.save" : "users.create")}</button>
    </>
  );
  return (
    <Dialog title={user ? t("users.edit.title", { name: user.name }) : t("users.new")} onClose={onClose} footer={footer}>
      <form id={id} className="stack" onSubmit={(event) => void save(event)}>
        {!user && (
          <>
            <label htmlFor={`${id}-name`}>{t("login.user")}</label>
            <input id={`${id}-name`} className="input" autoComplete="off" spellCheck={false} autoFocus data-autofocus value={name} aria-invalid={shown.name ? true : undefined} aria-describedby={`${id}-name-rule`} onChange={(event) => setName(event.target.value)} onBlur={() => setTold({ ...told, name: told.name || name !== "" })} />
            <Rule id={`${id}-name-rule`} fault={shown.name}>{t("users.name.rule")}</Rule>
          </>
        )}
        <label htmlFor={`${id}-role`}>{t("users.role")}</label>
        <select id={`${id}-role`} className="select" data-autofocus={user ? true : undefined} aria-describedby={`${id}-role-rule`} value={role} onChange={(event) => setRole(event.target.value as Role)}>
          {ROLES.map((one) => <option key={one} value={one}>{t(`users.role.${one}` as Key)}</option>)}
        </select>
        <p id={`${id}-role-rule`} className="soft small" style={{ marginTop: 6 }}>{t(`users.may.${role}` as Key)}</p>
        {role === "viewer" && <label className="row" style={{ marginTop: 6 }}><input type="checkbox" className="checkbox" checked={consumers} onChange={(event) => setConsumers(event.target.checked)} />{t("users.consumers")}</label>}
        <label htmlFor={`${id}-password`} style={{ marginTop: 10 }}>{t(user ? "password.next" : "login.password")}</label>
        <input id={`${id}-password`} type="password" className="input mono" autoComplete="new-password" value={password} aria-invalid={shown.password ? true : undefined} aria-describedby={`${id}-password-rule`} onChange={(event) => setPassword(event.target.value)} onBlur={() => setTold({ ...told, password: told.password || password !== "" })} />
        <Rule id={`${id}-password-rule`} fault={shown.password}>{t(user ? "users.password.keep" : "users.password.rule")}</Rule>
        {user && <p className="soft small" style={{ marginTop: 6 }}>{t("users.ends")}</p>}
        {Boolean(error) && <div style={{ marginTop: 12 }}><Failure error={error} /></div>}
      </form>
    </Dialog>
  );
}

/** Below a field: its rule, or what breaks it. */
function Rule({ id, fault, children }: { id: string; fault: string | null; children: ReactNode }): JSX.Element {
  return <p id={id} role={fault ? "alert" : undefined} className={fault ? "bad small rule" : "soft small rule"}>{fault ?? children}</p>;
}
