// The history: who changed what, one change field by field, and the way back.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { type JSX, useState } from "react";
import { ApiError, type HistoryDetail, type HistoryItem, request } from "../lib/api";
import { ago, fullTime, t } from "../lib/i18n";
import { useKeys } from "../lib/keys";
import { address, navigate, setQuery, usePlace } from "../lib/router";
import { useMayChange, useSession } from "../lib/session";
import { useRevision } from "../lib/status";
import { Empty, Failure, Header, Link, Skeleton } from "../ui/basics";
import { Changed, ObjectName } from "../ui/diff";
import { Icon } from "../ui/icons";
import { Checkpoints } from "./checkpoints";
import { Compare } from "./compare";
import { RollbackDialog } from "./rollback";

const PAGE = 50;

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

function History(): JSX.Element {
  const { query } = usePlace();
  const page = Math.max(1, Number(query.get("page")) || 1);
  const key = query.get("key") ?? "";
  const revision = useRevision().data?.stored;
  const history = useQuery({
    queryKey: ["history", page, key, revision], placeholderData: keepPreviousData, retry: false,
    queryFn: () => request<{ list: HistoryItem[]; total: number; oldest: number }>(`/history?page=${page}&page_size=${PAGE}${key ? `&key=${encodeURIComponent(key)}` : ""}`),
  });
  const [cursor, setCursor] = useState(0);
  const list = history.data?.list ?? [];
  const move = (by: number) => setCursor(Math.max(0, Math.min(list.length - 1, cursor + by)));
  useKeys({
    j: () => move(1), down: () => move(1), k: () => move(-1), up: () => move(-1),
    enter: () => { const entry = list[cursor]; if (entry) navigate(address(["changes", String(entry.revision)])); },
  });
  const pages = Math.ceil((history.data?.total ?? 0) / PAGE);
  return (
    <>
      <Header title={t("nav.changes")}>
        {history.data && <span className="soft">{history.data.total.toLocaleString()}</span>}
      </Header>
      <ChangesTabs />
      {key && <div className="filters"><button type="button" className="chip set" onClick={() => setQuery({ key: undefined })}>{key}<Icon name="close" size={12} /></button></div>}
      <div className="scroll">
        {history.isLoading && <Skeleton />}
        {history.error && <div className="pad">{isMissing(history.error) ? <Empty icon="changes" title={t("changes.nohistory")}>{t("changes.nohistory.text")}</Empty> : <Failure error={history.error} />}</div>}
        {history.data?.total === 0 && <Empty icon="changes" title={t("changes.none")}>{t("changes.none.text")}</Empty>}
        <ol className="history">
          {list.map((entry, i) => <HistoryRow key={entry.revision} entry={entry} cursor={i === cursor} />)}
        </ol>
        {pages > 1 && (
          <nav className="row pad" aria-label={t("changes.pages")}>
            <button type="button" className="button" disabled={page === 1} onClick={() => setQuery({ page: page > 2 ? String(page - 1) : undefined })}>{t("changes.newer")}</button>
            <span className="soft">{t("changes.page", { page, pages })}</span>
            <button type="button" className="button" disabled={page >= pages} onClick={() => setQuery({ page: String(page + 1) })}>{t("changes.older")}</button>
          </nav>
        )}
      </div>
    </>
  );
}

const isMissing = (error: unknown): boolean => error instanceof ApiError && (error.status === 501 || error.status === 404);
const TONE: Record<string, string> = { create: "ok", update: "accent", delete: "bad" };

function HistoryRow({ entry, cursor }: { entry: HistoryItem; cursor: boolean }): JSX.Element {
  const time = Date.parse(entry.time);
  return (
    <li className={cursor ? "cursor" : ""}>
      <Link to={address(["changes", String(entry.revision)])} className="history-revision mono">#{entry.revision}</Link>
      <span className="history-objects">
        {entry.objects.slice(0, 4).map((one) => (
          <span key={one.resource} className="row"><span className={`tag ${TONE[one.action] ?? ""}`}>{t(`did.${one.action}` as "did.create")}</span><ObjectName resource={one.resource} gone={one.action === "delete"} /></span>
        ))}
        {entry.total > 4 && <span className="soft small">{t("changes.more", { n: entry.total - 4 })}</span>}
        {entry.total === 0 && <span className="soft">{entry.request}</span>}
      </span>
      <span className="soft history-who">{entry.who.name ?? t("changes.nobody")}</span>
      <time className="soft" dateTime={entry.time} title={fullTime(time)}>{ago(time)}</time>
    </li>
  );
}

function OneChange({ revision }: { revision: string }): JSX.Element {
  const admin = useMayChange();
  const [back, setBack] = useState<{ revision: number; key?: string } | null>(null);
  const everything = !useSession()?.scopes?.length;
  const detail = useQuery({ queryKey: ["history", "one", revision], queryFn: () => request<HistoryDetail>(`/history/${encodeURIComponent(revision)}?page_size=100`), retry: false });
  const entry = detail.data;
  const actions = admin && everything && entry && (
    <>
      <button type="button" className="button" onClick={() => setBack({ revision: entry.revision })}>{t("changes.to", { revision: entry.revision })}</button>
      <button type="button" className="button" onClick={() => setBack({ revision: entry.revision - 1 })}><Icon name="undo" />{t("changes.before")}</button>
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
                <button type="button" className="button plain" aria-label={t("changes.one.to.label", { name: change.resource, revision: entry.revision })} onClick={() => setBack({ revision: entry.revision, key: `/${change.resource}` })}>{t("changes.one.to")}</button>
                <button type="button" className="button plain" aria-label={t("changes.one.before.label", { name: change.resource, revision: entry.revision })} onClick={() => setBack({ revision: entry.revision - 1, key: `/${change.resource}` })}><Icon name="undo" />{t("changes.one.before")}</button>
              </>
            ) : undefined} />
          </div>
        )}
      </div>
      {back !== null && <RollbackDialog to={back} name={back.key ? t("changes.one.name", { name: back.key.slice(1), revision: back.revision }) : t("changes.title", { revision: back.revision })} onClose={() => setBack(null)} />}
    </>
  );
}
