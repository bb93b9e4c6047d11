import { type FormEvent, type JSX, useEffect, useState } from "react";
import { ApiError, signIn, waysIn } from "../lib/api";
import { t, useLanguage } from "../lib/i18n";
import { startSession, whyEnded } from "../lib/session";
import { Failure } from "../ui/basics";
import { Mark } from "../ui/icons";
import { Preferences } from "../ui/preferences";
import { ProviderSignIn } from "./provider";

export function Login(): JSX.Element {
  useLanguage();
  const [asUser, setAsUser] = useState(false);
  const [user, setUser] = useState("");
  const [key, setKey] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [provider, setProvider] = useState<string | null>(null);
  const [keepsUsers, setKeepsUsers] = useState(true);
  useEffect(() => {
    document.title = `${t("login.title")} · Tidegate`;
    // Without an answer, keys and passwords are offered.
    waysIn().then((ways) => {
      setProvider(ways.oidc?.name ?? null);
      setKeepsUsers(ways.users);
    }).catch(() => undefined);
  }, []);
  const complete = key.trim() !== "" && (!asUser || user.trim() !== "");
  const enter = async (event: FormEvent) => {
    event.preventDefault();
    if (!complete || busy) return;
    setBusy(true);
    setError(null);
    try {
      startSession(await signIn(asUser ? { user: user.trim(), password: key } : { key: key.trim() }));
    } catch (failed) {
      setError(failed instanceof ApiError && failed.status === 401 ? new ApiError(401, t(asUser ? "login.wrong.user" : "login.wrong"), null) : failed);
      setBusy(false);
    }
  };
  const ended = whyEnded();
  return (
    <main className="login">
      <form onSubmit={(event) => void enter(event)}>
        <div className="panel">
          <Mark className="mark" />
          <h1>{t("login.title")}</h1>
          {provider !== null && <ProviderSignIn name={provider} />}
          <p className="soft">{t(asUser ? "login.text.user" : "login.text")}</p>
          {asUser && (
            <div style={{ marginTop: 20 }}>
              <label htmlFor="user">{t("login.user")}</label>
              <input id="user" name="user" className="input" autoComplete="username" autoFocus data-autofocus value={user} onChange={(event) => setUser(event.target.value)} />
            </div>
          )}
          <div style={{ marginTop: asUser ? 12 : 20 }}>
            <label htmlFor="key">{t(asUser ? "login.password" : "login.key")}</label>
            <input id="key" name="key" type="password" className="input mono" autoComplete="current-password" autoFocus={!asUser} data-autofocus={!asUser || undefined} value={key} onChange={(event) => setKey(event.target.value)} aria-invalid={error ? true : undefined} />
          </div>
          <div style={{ marginTop: 12, display: "grid" }}>
            <button type="submit" className={provider === null ? "button primary" : "button"} disabled={busy || !complete}>{t(busy ? "login.busy" : "login.enter")}</button>
          </div>
          {Boolean(error) && <div style={{ marginTop: 12 }}><Failure error={error} /></div>}
          {!error && ended && <div className="notice warn" style={{ marginTop: 12 }}><p>{t("login.ended")}</p></div>}
          {keepsUsers && <div style={{ marginTop: 12 }}>
            <button type="button" className="button plain" onClick={() => { setAsUser(!asUser); setKey(""); setError(null); }}>{t(asUser ? "login.with.key" : "login.with.user")}</button>
          </div>}
          <p className="soft small" style={{ marginTop: 16 }}>{t(asUser ? "login.users.where" : "login.where")}</p>
          <p className="soft small" style={{ marginTop: 16 }}>{t(asUser ? "login.memory.user" : "login.memory")}</p>
        </div>
        <div className="login-tools"><Preferences /></div>
      </form>
    </main>
  );
}
