// The way back, with what it would change before it does.
import { useQuery } from "@tanstack/react-query";
import { type JSX, useState } from "react";
import { type Point, rollback } from "../lib/api";
import { t } from "../lib/i18n";
import { refresh, takeBack } from "../object/changes";
import { changesSince, numbers } from "../object/undo";
import { Failure, Skeleton } from "../ui/basics";
import { Changed } from "../ui/diff";
import { Dialog } from "../ui/dialog";
import { toast } from "../ui/toasts";

interface Props {
  to: Point;
  title: string;
  /** What is said afterwards. */
  done: string;
  /** The change that it is about, which the user has before them. */
  from?: number;
  onClose: () => void;
}

export function RollbackDialog({ to, title, done, from, onClose }: Props): JSX.Element {
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
      toast(done, { undo: () => void takeBack(revision, to.key) });
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
    <Dialog title={title} size="wide" onClose={onClose} footer={footer} keys={{ "ctrl+enter": () => void go() }}>
      {Boolean(error) && <Failure error={error} />}
      {preview.isLoading && <Skeleton rows={4} />}
      {preview.error && <Failure error={preview.error} />}
      {preview.data && !nothing && "revision" in to && <Reverted to={to} from={from} />}
      {preview.data && (nothing ? <p>{t("rollback.nothing")}</p> : <><p className="soft lead">{t("rollback.text", { n: preview.data.changes.length })}</p><Changed changes={preview.data.changes} /></>)}
    </Dialog>
  );
}

const MOST = 20;

/** The changes that go with it, before anything else. */
function Reverted({ to, from }: { to: Point & { revision: number }; from?: number }): JSX.Element | null {
  const since = useQuery({ queryKey: ["since", to.revision, to.key], queryFn: () => changesSince(to.revision, to.key), gcTime: 0, retry: false }).data;
  const others = (since?.revisions ?? []).filter((one) => one !== from);
  if (!since || others.length === 0) return null;
  const more = since.total - (since.revisions.length - others.length) - Math.min(MOST, others.length);
  const list = numbers(others.slice(0, MOST)) + (more > 0 ? ` ${t("changes.more", { n: more })}` : "");
  return <div className="notice warn lead"><p>{t(from !== undefined && from > to.revision ? "rollback.also" : "rollback.reverts", { list })}</p></div>;
}
