import { useQuery } from "@tanstack/react-query";
import { type FormEvent, type JSX, useState } from "react";
import { request } from "../lib/api";
import type { Checkpoint } from "../lib/api-types";
import { ago, t } from "../lib/i18n";
import { useMayChange } from "../lib/session";
import { refresh } from "../object/changes";
import { Empty, explainError, Failure, Header, Skeleton } from "../ui/basics";
import { confirm, Dialog } from "../ui/dialog";
import { Icon } from "../ui/icons";
import { toast } from "../ui/toasts";
import { ChangesTabs } from "./changes";
import { RollbackDialog } from "./rollback";

export function Checkpoints(): JSX.Element {
  const admin = useMayChange();
  const [making, setMaking] = useState(false);
  const [back, setBack] = useState<string | null>(null);
  const all = useQuery({ queryKey: ["checkpoints"], queryFn: () => request<{ list: Checkpoint[] }>("/checkpoints"), retry: false });
  const drop = async (name: string) => {
    if (!(await confirm({ title: t("checkpoints.delete", { name }), text: <p>{t("checkpoints.delete.text")}</p>, action: t("action.delete"), danger: true }))) return;
    await request(`/checkpoints/${encodeURIComponent(name)}`, { method: "DELETE" }).catch((error: unknown) => toast(explainError(error).message, { bad: true }));
    refresh();
  };
  const make = admin && <button type="button" className="button primary" onClick={() => setMaking(true)}><Icon name="plus" />{t("checkpoints.new")}</button>;
  return (
    <>
      <Header title={t("nav.changes")} actions={make} />
      <ChangesTabs />
      <div className="scroll">
        {all.isLoading && <Skeleton />}
        {all.error && <div className="pad"><Failure error={all.error} /></div>}
        {all.data?.list.length === 0 && <Empty icon="flag" title={t("checkpoints.none")}>{t("checkpoints.text")}</Empty>}
        <ol className="history">
          {all.data?.list.map((one) => (
            <li key={one.name}>
              <strong className="mono">{one.name}</strong>
              <span className="soft">{t("checkpoints.of", { revision: String(one.revision), n: one.objects })}</span>
              <span className="soft history-who">{one.who.name ?? t("changes.nobody")} · {ago(Date.parse(one.time))}</span>
              {admin && <span className="row"><button type="button" className="button" onClick={() => setBack(one.name)}><Icon name="undo" />{t("rollback.do")}</button>
                <button type="button" className="button plain icon" aria-label={t("checkpoints.delete", { name: one.name })} onClick={() => void drop(one.name)}><Icon name="trash" size={14} /></button></span>}
            </li>
          ))}
        </ol>
      </div>
      {making && <NewCheckpoint onClose={() => setMaking(false)} />}
      {back && <RollbackDialog to={{ checkpoint: back }} title={t("rollback.title", { name: back })} done={t("rollback.done", { name: back })} onClose={() => setBack(null)} />}
    </>
  );
}

function NewCheckpoint({ onClose }: { onClose: () => void }): JSX.Element {
  const [name, setName] = useState("");
  const [error, setError] = useState<unknown>(null);
  const make = async (event?: FormEvent) => {
    event?.preventDefault();
    if (!name) return;
    try {
      await request(`/checkpoints/${encodeURIComponent(name)}`, { method: "PUT" });
      refresh();
      toast(t("checkpoints.made", { name }));
      onClose();
    } catch (failed) {
      setError(failed);
    }
  };
  return (
    <Dialog title={t("checkpoints.new")} onClose={onClose} footer={<><button type="button" className="button" onClick={onClose}>{t("action.cancel")}</button><button type="button" className="button primary" disabled={!name} onClick={() => void make()}>{t("checkpoints.make")}</button></>}>
      <form onSubmit={(event) => void make(event)}>
        <label htmlFor="checkpoint">{t("field.name")}</label>
        <input id="checkpoint" className="input mono" autoFocus data-autofocus autoComplete="off" placeholder="before-the-release" value={name} onChange={(event) => setName(event.target.value)} />
        <p className="soft small pad-top">{t("checkpoints.text")}</p>
        {Boolean(error) && <Failure error={error} />}
      </form>
    </Dialog>
  );
}
