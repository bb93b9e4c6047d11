// Undo of one change of one object, with what it would write before it does.
import { useQuery } from "@tanstack/react-query";
import { type JSX, useState } from "react";
import type { ChangedObject } from "../lib/api";
import { t } from "../lib/i18n";
import { refresh, takeBack } from "../object/changes";
import { numbers, planUndo, Refused } from "../object/undo";
import { Failure, Skeleton } from "../ui/basics";
import { Changed } from "../ui/diff";
import { Dialog } from "../ui/dialog";
import { Icon } from "../ui/icons";
import { toast } from "../ui/toasts";

interface Props {
  change: ChangedObject;
  revision: number;
  onClose: () => void;
  /** The other way back. */
  onRollback: () => void;
}

export function UndoDialog({ change, revision, onClose, onRollback }: Props): JSX.Element {
  const plan = useQuery({ queryKey: ["undo", revision, change.resource], queryFn: () => planUndo(change, revision), gcTime: 0, staleTime: Infinity, retry: false });
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [name, at] = [change.resource, String(revision)];
  const nothing = plan.data?.preview.changes.length === 0;
  const refused = plan.error instanceof Refused;
  const ready = Boolean(plan.data) && !busy && !nothing;
  const go = async () => {
    if (!plan.data || !ready) return;
    setBusy(true);
    setError(null);
    try {
      const { revision: made } = await plan.data.carryOut();
      refresh();
      toast(t("undo.one.done", { name, revision: at }), { undo: () => void takeBack(made, `/${name}`) });
      onClose();
    } catch (failed) {
      setError(failed);
      setBusy(false);
      void plan.refetch();
    }
  };
  const footer = (
    <>
      <span className="soft small grow">{plan.data && !nothing ? t("review.checked") : ""}</span>
      <button type="button" className="button" onClick={onClose}>{t("action.cancel")}</button>
      {refused && <button type="button" className="button" onClick={onRollback}>{t("changes.one.before", { revision: at })}</button>}
      <button type="button" className="button primary" disabled={!ready} onClick={() => void go()}>{t("undo.one", { revision: at })}</button>
    </>
  );
  return (
    <Dialog title={t("undo.one.title", { name, revision: at })} size="wide" onClose={onClose} footer={footer} keys={{ "ctrl+enter": () => void go() }}>
      {Boolean(error) && <Failure error={error} />}
      {plan.isLoading && <Skeleton rows={4} />}
      {refused && <div className="notice warn" role="alert"><Icon name="warning" /><p className="grow">{plan.error?.message}</p></div>}
      {plan.error && !refused && <Failure error={plan.error} />}
      {plan.data && nothing && <p>{t("undo.one.nothing", { name })}</p>}
      {plan.data && !nothing && (
        <>
          <p className="soft lead">{plan.data.later.length ? t("undo.one.stay", { later: numbers(plan.data.later) }) : t("undo.one.text")}</p>
          {plan.data.preview.warnings?.map((warning, i) => <div key={i} className="notice warn"><p>{String(warning)}</p></div>)}
          <Changed changes={plan.data.preview.changes} />
        </>
      )}
    </Dialog>
  );
}
