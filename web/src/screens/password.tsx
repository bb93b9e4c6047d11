// A user's own password. Whoever finds an open page does not know the current one.
import { type FormEvent, type JSX, useId, useState } from "react";
import { changePassword } from "../lib/api";
import { t } from "../lib/i18n";
import { startSession } from "../lib/session";
import { Failure } from "../ui/basics";
import { Dialog } from "../ui/dialog";
import { toast } from "../ui/toasts";

const SHORTEST = 12;

export function Password({ onClose }: { onClose: () => void }): JSX.Element {
  const [current, setCurrent] = useState("");
  const [next, setNext] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const id = useId();
  const long = new TextEncoder().encode(next).length >= SHORTEST;
  const save = async (event: FormEvent) => {
    event.preventDefault();
    if (busy || !current || !long) return;
    setBusy(true);
    setError(null);
    try {
      startSession(await changePassword(current, next));
      toast(t("password.done"));
      onClose();
    } catch (failed) {
      setError(failed);
      setBusy(false);
    }
  };
  const footer = (
    <>
      <button type="button" className="button" onClick={onClose}>{t("action.cancel")}</button>
      <button type="submit" form={id} className="button primary" disabled={busy || !current || !long}>{t("password.save")}</button>
    </>
  );
  return (
    <Dialog title={t("password.title")} onClose={onClose} footer={footer}>
      <form id={id} className="stack" onSubmit={(event) => void save(event)}>
        <label htmlFor={`${id}-current`}>{t("password.current")}</label>
        <input id={`${id}-current`} type="password" className="input mono" autoComplete="current-password" autoFocus data-autofocus value={current} onChange={(event) => setCurrent(event.target.value)} />
        <label htmlFor={`${id}-next`} style={{ marginTop: 10 }}>{t("password.next")}</label>
        <input id={`${id}-next`} type="password" className="input mono" autoComplete="new-password" value={next} onChange={(event) => setNext(event.target.value)} aria-describedby={`${id}-rule`} />
        <p id={`${id}-rule`} className="soft small" style={{ marginTop: 6 }}>{t("password.rule")}</p>
        {Boolean(error) && <div style={{ marginTop: 12 }}><Failure error={error} /></div>}
      </form>
    </Dialog>
  );
}
