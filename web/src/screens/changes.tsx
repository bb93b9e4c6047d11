// Changes: the history, one change field by field, and the ways back.
import { useQuery } from "@tanstack/react-query";
import { type JSX, useState } from "react";
import { type ChangedObject, type HistoryDetail, request } from "../lib/api";
import { ago, fullTime, t } from "../lib/i18n";
import { address, usePlace } from "../lib/router";
import { useMayChange, useSession } from "../lib/session";
import { Failure, Header, Link, Skeleton } from "../ui/basics";
import { Changed } from "../ui/diff";
import { Icon } from "../ui/icons";
import { MenuButton } from "../ui/menu";
import { Checkpoints } from "./checkpoints";
import { Compare } from "./compare";
import { History } from "./history";
import { RollbackDialog } from "./rollback";
import { UndoDialog } from "./undo";

export function Changes({ path }: { path: string[] }): JSX.Element {
  if (path[1] === "checkpoints") return <Checkpoints />;
  if (path[1] === "compare") return <Compare />;
  if (path[1]) return <OneChange revision={path[1]} />;
  return <History />;
}

export function ChangesTabs(): JSX.Element {
  const { path } = usePlace();
  return (
    <nav className="tabs" aria-label={t("nav.changes")}>
      <Link to={address(["changes"])} current={!path[1]}>{t("changes.history")}</Link>
      <Link to={address(["changes", "checkpoints"])} current={path[1] === "checkpoints"}>{t("checkpoints")}</Link>
      <Link to={address(["changes", "compare"])} current={path[1] === "compare"}>{t("changes.compare")}</Link>
    </nav>
  );
}

/** To the state before a change or after it, of one object or of all. */
interface Back {
  before: boolean;
  resource?: string;
}

function Rollback({ back: { before, resource }, revision, onClose }: { back: Back; revision: number; onClose: () => void }): JSX.Element {
  const words = { name: resource ?? "", point: t(before ? "rollback.point.before" : "rollback.point", { revision: String(revision) }) };
  const to = { revision: before ? revision - 1 : revision, ...(resource ? { key: `/${resource}` } : {}) };
  return <RollbackDialog to={to} from={revision} title={t(resource ? "rollback.one.title" : "rollback.all.title", words)} done={t(resource ? "rollback.one.done" : "rollback.all.done", words)} onClose={onClose} />;
}

function OneChange({ revision }: { revision: string }): JSX.Element {
  const admin = useMayChange();
  const [back, setBack] = useState<Back | null>(null);
  const [undoing, setUndoing] = useState<ChangedObject | null>(null);
  const everything = !useSession()?.scopes?.length;
  const detail = useQuery({ queryKey: ["history", "one", revision], queryFn: () => request<HistoryDetail>(`/history/${encodeURIComponent(revision)}?page_size=100`), retry: false });
  const entry = detail.data;
  const actions = admin && everything && entry && (
    <>
      <button type="button" className="button" onClick={() => setBack({ before: false })}>{t("changes.to", { revision })}</button>
      <button type="button" className="button" onClick={() => setBack({ before: true })}><Icon name="undo" />{t("changes.before")}</button>
    </>
  );
  return (
    <>
      <Header title={t("changes.title", { revision })} crumbs={<><Link to={address(["changes"])}>{t("nav.changes")}</Link><span className="soft">/</span></>} actions={actions} />
      <div className="scroll">
        {detail.isLoading && <Skeleton />}
        {detail.error && <div className="pad"><Failure error={detail.error} /></div>}
        {entry && (
          <div className="pad column">
            <dl className="facts wide-facts">
              <div><dt>{t("changes.who")}</dt><dd>{entry.who.name ?? t("changes.nobody")} {entry.who.role && <span className="tag">{entry.who.role}</span>} <span className="soft">{entry.who.address}</span></dd></div>
              <div><dt>{t("changes.when")}</dt><dd>{fullTime(Date.parse(entry.time))} <span className="soft">{ago(Date.parse(entry.time))}</span></dd></div>
              <div><dt>{t("changes.request")}</dt><dd className="mono">{entry.request}</dd></div>
              {entry.note && <div><dt>{t("changes.note")}</dt><dd>{entry.note}</dd></div>}
            </dl>
            {entry.left_out !== undefined && <div className="notice warn"><p>{t("changes.leftout")}</p></div>}
            <h2 className="section-title flat">{t("changes.changed", { n: entry.total })}</h2>
            <Changed changes={entry.changes} action={admin ? (change) => (
              <>
                <button type="button" className="button primary" aria-label={t("undo.one.label", { name: change.resource, revision })} onClick={() => setUndoing(change)}><Icon name="undo" />{t("undo.one.button")}</button>
                <MenuButton className="button icon plain" name={t("changes.one.actions", { name: change.resource })} label={<Icon name="more" />} items={[
                  { name: "before", label: t("changes.one.before", { revision }), action: () => setBack({ before: true, resource: change.resource }) },
                  { name: "to", label: t("changes.one.to", { revision }), action: () => setBack({ before: false, resource: change.resource }) },
                ]} />
              </>
            ) : undefined} />
          </div>
        )}
      </div>
      {entry && undoing && <UndoDialog change={undoing} revision={entry.revision} onClose={() => setUndoing(null)} onRollback={() => { setUndoing(null); setBack({ before: true, resource: undoing.resource }); }} />}
      {entry && back && <Rollback back={back} revision={entry.revision} onClose={() => setBack(null)} />}
    </>
  );
}
