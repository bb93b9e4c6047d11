import { type FormEvent, type JSX, useEffect, useState } from "react";
import { ApiError, roleOf } from "../lib/api";
import { t } from "../lib/i18n";
import { startSession, whyEnded } from "../lib/session";
import { Failure } from "../ui/basics";
import { Mark } from "../ui/icons";

export function Login(): JSX.Element {
  const [key, setKey] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    document.title = `${t("login.title")} · Tidegate`;
  }, []);
  const enter = async (event: FormEvent) => {
    event.preventDefault();
    if (!key.trim() || busy) return;
    setBusy(true);
    setError(null);
    try {
      const role = await roleOf(key.trim());
      startSession({ key: key.trim(), role });
    } catch (failed) {
      setError(failed instanceof ApiError && failed.status === 401 ? new ApiError(401, t("login.wrong"), t("login.where")) : failed);
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
          <p className="soft">{t("login.text")}</p>
          <div style={{ marginTop: 20 }}>
            <label htmlFor="key">{t("login.key")}</label>
            <input id="key" name="key" type="password" className="input mono" autoComplete="current-password" autoFocus value={key} onChange={(event) => setKey(event.target.value)} aria-invalid={error ? true : undefined} />
          </div>
          <div style={{ marginTop: 12, display: "grid" }}>
            <button type="submit" className="button primary" disabled={busy || !key.trim()}>{t(busy ? "login.busy" : "login.enter")}</button>
          </div>
          {Boolean(error) && <div style={{ marginTop: 12 }}><Failure error={error} /></div>}
          {!error && ended && <div className="notice warn" style={{ marginTop: 12 }}><p>{t("login.ended")}</p></div>}
          <p className="soft small" style={{ marginTop: 16 }}>{t("login.memory")}</p>
        </div>
      </form>
    </main>
  );
}
