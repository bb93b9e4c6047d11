// Before a change is written: what the gateway says that it will change. And when somebody else changed the object meanwhile:
// both changes beside what they began with.
import { useQuery } from "@tanstack/react-query";
import { type JSX, useEffect, useRef, useState } from "react";
import type { Json } from "../lib/api";
import { t } from "../lib/i18n";
import { equal, type Merge, merge, type Path, pointer, setAt } from "../lib/json";
import { Failure, Skeleton } from "../ui/basics";
import { Changed as Changes, Diff, show } from "../ui/diff";
import { Dialog } from "../ui/dialog";
import { Changed, check, type Draft, type Read, read, readAgain, save } from "./changes";

interface Props {
  draft: Draft;
  revision: number;
  onClose: () => void;
  onSaved: (now: Read) => void;
  /** Both changes were put together on what is stored now; the review begins again. */
  onMerged: (merged: Json, theirs: Read) => void;
}

export function Review({ draft, revision, onClose, onSaved, onMerged }: Props): JSX.Element {
  const preview = useQuery({ queryKey: ["preview", draft.parts.join("/"), JSON.stringify(draft.object)], queryFn: ({ signal }) => check(draft, signal), gcTime: 0, retry: false });
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [theirs, setTheirs] = useState<Read | "gone" | null>(null);
  // A conflict that is there already is shown before anything else; one that comes later is found by the save.
  const now = useQuery({ queryKey: ["now", ...draft.parts], queryFn: () => readAgain(draft), enabled: draft.base !== null, gcTime: 0, staleTime: Infinity, retry: false });
  useEffect(() => {
    if (now.data !== undefined && !equal(now.data?.object ?? null, draft.base)) setTheirs(now.data ?? "gone");
  }, [now.data]);
  // What the preview showed as new is new as long as nothing is written.
  const shown = draft.base === null && preview.data?.changes.every((one) => one.action === "create") ? preview.data.revision : revision;
  const write = async (base = draft.base, from = shown) => {
    setBusy(true);
    setError(null);
    try {
      await save({ ...draft, base }, from);
      onSaved(await read(draft.kind, draft.parts));
    } catch (failed) {
      if (failed instanceof Changed) setTheirs(failed.theirs ?? "gone");
      else setError(failed);
    }
    setBusy(false);
  };
  const ready = !busy && preview.data !== undefined && !preview.error && !preview.isFetching && !now.isLoading;
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    // Nobody went elsewhere in the meantime.
    if (ready && document.activeElement?.matches("dialog, [data-body]")) button.current?.focus();
  }, [ready]);
  if (theirs && theirs !== "gone") {
    return <Conflict draft={draft} theirs={theirs} onClose={onClose} onMerged={(merged) => { setTheirs(null); onMerged(merged, theirs); }} />;
  }
  const gone = theirs === "gone";
  const footer = (
    <>
      <span className="soft small grow">{preview.data && !error ? t("review.checked") : ""}</span>
      <button type="button" className="button" onClick={onClose}>{t("action.back")}</button>
      <button ref={button} type="button" className="button primary" data-autofocus disabled={!ready} onClick={() => void (gone ? write(null, revision) : write())}>{t(gone ? "review.create" : busy ? "review.saving" : "review.save")}<kbd>Ctrl ↵</kbd></button>
    </>
  );
  return (
    <Dialog title={t("review.title", { name: draft.parts.join("/") })} size="wide" onClose={onClose} footer={footer} keys={{ "ctrl+enter": () => { if (ready) void (gone ? write(null, revision) : write()); }, "ctrl+s": () => undefined }}>
      {gone && <div className="notice warn"><p>{t("review.gone")}</p></div>}
      {Boolean(error) && <Failure error={error} />}
      {(preview.isLoading || now.isLoading) && <Skeleton rows={3} />}
      {preview.error && <Failure error={preview.error} />}
      {preview.data?.warnings?.map((warning, i) => <div key={i} className="notice warn"><p>{String(warning)}</p></div>)}
      {preview.data && !now.isLoading && <Changes changes={preview.data.changes} />}
    </Dialog>
  );
}

function Conflict({ draft, theirs, onClose, onMerged }: { draft: Draft; theirs: Read; onClose: () => void; onMerged: (merged: Json) => void }): JSX.Element {
  const [result] = useState<Merge>(() => merge(draft.base ?? {}, draft.object, theirs.object));
  const [taken, setTaken] = useState<Record<string, "mine" | "theirs">>({});
  const open = result.conflicts.filter((one) => !taken[pointer(one.path)]).length;
  const finish = () => {
    const merged = result.conflicts.reduce((object, one) => (taken[pointer(one.path)] === "theirs" ? setAt(object, one.path, one.theirs) : object), result.merged);
    onMerged(merged as Json);
  };
  const footer = (
    <>
      <span className="soft small grow">{open ? t("conflict.open", { n: open }) : t("conflict.ready")}</span>
      <button type="button" className="button" onClick={onClose}>{t("action.back")}</button>
      <button type="button" className="button primary" disabled={open > 0} onClick={finish}>{t("conflict.merge")}</button>
    </>
  );
  return (
    <Dialog title={t("conflict.title", { name: draft.parts.join("/") })} size="wide" onClose={onClose} footer={footer}>
      <p>{t(draft.base ? "conflict.text" : "conflict.exists")}</p>
      {result.conflicts.map((one) => {
        const at = pointer(one.path);
        return (
          <section key={at} className="conflict" aria-label={at}>
            <h3 className="section-title mono">{one.path.join(" › ") || t("diff.whole")}</h3>
            <p className="soft small">{t("conflict.base")}: <code>{one.base === undefined ? t("conflict.nothing") : show(one.base)}</code></p>
            <div className="three">
              {(["mine", "theirs"] as const).map((side) => (
                <Side key={side} side={side} path={one.path} value={one[side]} chosen={taken[at] === side} onChoose={() => setTaken({ ...taken, [at]: side })} />
              ))}
            </div>
          </section>
        );
      })}
      {result.taken.length > 0 && <><h3 className="section-title">{t("conflict.taken")}</h3><Diff entries={result.taken} /></>}
    </Dialog>
  );
}

function Side({ side, path, value, chosen, onChoose }: { side: "mine" | "theirs"; path: Path; value: unknown; chosen: boolean; onChoose: () => void }): JSX.Element {
  return (
    <label>
      <span className="row"><input type="radio" name={`side ${pointer(path)}`} checked={chosen} onChange={onChoose} />{t(`conflict.${side}`)}</span>
      <pre>{value === undefined ? t("conflict.nothing") : show(value)}</pre>
    </label>
  );
}
