// The way back, with what it would change before it does.
import { useQuery } from "@tanstack/react-query";
import { type JSX, useState } from "react";
import { type Point, rollback } from "../lib/api";
import { t } from "../lib/i18n";
import { refresh, takeBack } from "../object/changes";
import { Failure, Skeleton } from "../ui/basics";
import { Changed } from "../ui/diff";
import { Dialog } from "../ui/dialog";
import { toast } from "../ui/toasts";

export function RollbackDialog({ to, name, onClose }: { to: Point; name: string; onClose: () => void }): JSX.Element {
  const preview = useQuery({ queryKey: ["rollback", JSON.stringify(to)], queryFn: () => rollback(to, { dryRun: true }), gcTime: 0, retry: false, staleTime: Infinity });
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const nothing = preview.data?.changes.length === 0;
  const go = async () => {
    if (!preview.data || busy || nothing) return;
    setBusy(true);
    try {
      // Of the revision that the preview showed: what is written is what was read.
      const { revision } = await rollback(to, { revision: preview.data.revision });
      refresh();
      toast(t("rollback.done", { name }), { undo: () => void takeBack(revision, to.key) });
      onClose();
    } catch (failed) {
      setError(failed);
      setBusy(false);
      void preview.refetch();
    }
  };
  const footer = (
    <>
      <span className="soft small grow">{t("rollback.undoable")}</span>
      <button type="button" className="button" onClick={onClose}>{t("action.cancel")}</button>
      <button type="button" className="button primary" disabled={!preview.data || busy || nothing} onClick={() => void go()}>{t("rollback.do")}</button>
    </>
  );
  return (
    <Dialog title={t("rollback.title", { name })} size="wide" onClose={onClose} footer={footer} keys={{ "ctrl+enter": () => void go() }}>
      {Boolean(error) && <Failure error={error} />}
      {preview.isLoading && <Skeleton rows={4} />}
      {preview.error && <Failure error={preview.error} />}
      {preview.data && (nothing ? <p>{t("rollback.nothing")}</p> : <><p className="soft" style={{ marginBottom: 12 }}>{t("rollback.text", { n: preview.data.changes.length })}</p><Changed changes={preview.data.changes} /></>)}
    </Dialog>
  );
}
