// The history: who changed which fields of what, filtered by object, author and time.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { type FormEvent, type JSX, useEffect, useRef, useState } from "react";
import { ApiError, type ChangedObject, type HistoryDetail, type HistoryItem, request } from "../lib/api";
import { ago, fullTime, t } from "../lib/i18n";
import { fromPointer } from "../lib/json";
import { useKeys } from "../lib/keys";
import { locate } from "../lib/kinds";
import { address, navigate, setQuery, usePlace } from "../lib/router";
import { useRevision } from "../lib/status";
import { Empty, Failure, Header, Link, Skeleton } from "../ui/basics";
import { ObjectName } from "../ui/diff";
import { Icon } from "../ui/icons";
import { ChangesTabs } from "./changes";

const PAGE = 50;
/** The history has 10,000 entries by default. */
const BATCH = 500;

interface Answer {
  list: HistoryItem[];
  total: number;
}

export interface HistoryFilter {
  object: string;
  author: string;
  /** As `datetime-local` has them, in the time zone of the page. */
  from: string;
  until: string;
}

const FILTERS = ["object", "author", "from", "until"] as const;

/** An entry that does not list all its objects may be of any. */
export function isMatch(entry: HistoryItem, { object, author, from, until }: HistoryFilter): boolean {
  const [wanted, who] = [object.trim().toLowerCase(), author.trim().toLowerCase()];
  const time = Date.parse(entry.time);
  return (wanted === "" || entry.total > entry.objects.length || entry.objects.some((one) => one.resource.toLowerCase().includes(wanted)))
    && (who === "" || `${entry.who.name ?? t("changes.nobody")} ${entry.who.address ?? ""}`.toLowerCase().includes(who))
    // A minute that is named belongs to the range.
    && (from === "" || time >= Date.parse(from)) && (until === "" || time < Date.parse(until) + 60_000);
}

const page = (number: number, size: number, key: string) => request<Answer>(`/history?page=${number}&page_size=${size}${key ? `&key=${encodeURIComponent(key)}` : ""}`);

/** Those that match of all there are, for the filters that the gateway does not have. */
async function search(key: string, filter: HistoryFilter): Promise<HistoryItem[]> {
  const found: HistoryItem[] = [];
  for (let number = 1; ; number++) {
    const { list } = await page(number, BATCH, key);
    found.push(...list.filter((entry) => isMatch(entry, filter)));
    const oldest = list.at(-1);
    if (list.length < BATCH || !oldest || (filter.from !== "" && Date.parse(oldest.time) < Date.parse(filter.from))) return found;
  }
}

export function History(): JSX.Element {
  const { query } = usePlace();
  const number = Math.max(1, Number(query.get("page")) || 1);
  const filter: HistoryFilter = { object: query.get("object") ?? "", author: query.get("author") ?? "", from: query.get("from") ?? "", until: query.get("until") ?? "" };
  // What names one object is asked of the gateway.
  const named = locate(filter.object.trim().split("/"))?.id.length ? filter.object.trim() : "";
  const key = query.get("key") ?? (named ? `/${named}` : "");
  const rest = { ...filter, object: named ? "" : filter.object };
  const filtered = Object.values(rest).some(Boolean);
  const revision = useRevision().data?.stored;
  const history = useQuery({
    queryKey: ["history", filtered ? 0 : number, key, JSON.stringify(rest), revision], placeholderData: keepPreviousData, retry: false,
    queryFn: async () => {
      if (!filtered) return page(number, PAGE, key);
      const list = await search(key, rest);
      return { list, total: list.length };
    },
  });
  const total = history.data?.total ?? 0;
  const list = filtered ? (history.data?.list ?? []).slice((number - 1) * PAGE, number * PAGE) : (history.data?.list ?? []);
  const [cursor, setCursor] = useState(0);
  const move = (by: number) => setCursor(Math.max(0, Math.min(list.length - 1, cursor + by)));
  useKeys({
    j: () => move(1), down: () => move(1), k: () => move(-1), up: () => move(-1),
    enter: () => { const entry = list[cursor]; if (entry) navigate(address(["changes", String(entry.revision)])); },
  });
  const pages = Math.ceil(total / PAGE);
  const narrowed = filtered || key !== "";
  return (
    <>
      <Header title={t("nav.changes")}>
        {history.data && <span className="soft">{total.toLocaleString()}</span>}
      </Header>
      <ChangesTabs />
      <FilterBar key={JSON.stringify(filter)} filter={filter} />
      {query.get("key") && <div className="filters"><button type="button" className="chip set" onClick={() => setQuery({ key: undefined })}>{key}<Icon name="close" size={12} /></button></div>}
      <div className="scroll">
        {history.isLoading && <Skeleton />}
        {history.error && <div className="pad">{isMissing(history.error) ? <Empty icon="changes" title={t("changes.nohistory")}>{t("changes.nohistory.text")}</Empty> : <Failure error={history.error} />}</div>}
        {history.data && total === 0 && (narrowed
          ? <Empty icon="search" title={t("list.nothing")} actions={<button type="button" className="button" onClick={() => setQuery({ key: undefined, page: undefined, ...Object.fromEntries(FILTERS.map((one) => [one, undefined])) })}>{t("list.clear")}</button>}>{t("list.nothing.text")}</Empty>
          : <Empty icon="changes" title={t("changes.none")}>{t("changes.none.text")}</Empty>)}
        <ol className="history">
          {list.map((entry, i) => <HistoryRow key={entry.revision} entry={entry} cursor={i === cursor} />)}
        </ol>
        {pages > 1 && (
          <nav className="row pad" aria-label={t("changes.pages")}>
            <button type="button" className="button" disabled={number === 1} onClick={() => setQuery({ page: number > 2 ? String(number - 1) : undefined })}>{t("changes.newer")}</button>
            <span className="soft">{t("changes.page", { page: number, pages })}</span>
            <button type="button" className="button" disabled={number >= pages} onClick={() => setQuery({ page: String(number + 1) })}>{t("changes.older")}</button>
          </nav>
        )}
      </div>
    </>
  );
}

const isMissing = (error: unknown): boolean => error instanceof ApiError && (error.status === 501 || error.status === 404);

/** Enter or leaving a field applies it: what is being typed would search again with each letter. */
function FilterBar({ filter }: { filter: HistoryFilter }): JSX.Element {
  const [form, setForm] = useState(filter);
  const apply = (next: HistoryFilter) => {
    if (FILTERS.some((name) => next[name].trim() !== filter[name])) setQuery({ ...Object.fromEntries(FILTERS.map((name) => [name, next[name].trim() || undefined])), page: undefined });
  };
  const field = (name: (typeof FILTERS)[number], isTime: boolean) => {
    const label = t(`changes.filter.${name}`);
    const input = (
      <input
        className={filter[name] ? "input set" : "input"} type={isTime ? "datetime-local" : "text"} aria-label={label} placeholder={label} spellCheck={false} autoComplete="off"
        value={form[name]} onChange={(event) => setForm({ ...form, [name]: event.target.value })} onBlur={() => apply(form)}
      />
    );
    return isTime ? <label className="row small soft">{label}{input}</label> : input;
  };
  return (
    <form className="filters history-filters" role="search" onSubmit={(event: FormEvent) => { event.preventDefault(); apply(form); }}>
      {field("object", false)}{field("author", false)}{field("from", true)}{field("until", true)}
      <button type="submit" className="button">{t("list.search")}</button>
    </form>
  );
}

const TONE: Record<string, string> = { create: "ok", update: "accent", delete: "bad" };
const SHOWN = 4;

function HistoryRow({ entry, cursor }: { entry: HistoryItem; cursor: boolean }): JSX.Element {
  const time = Date.parse(entry.time);
  const row = useRef<HTMLLIElement>(null);
  const seen = useSeen(row);
  // A change does not change any more.
  const changes = useQuery({
    queryKey: ["fields", entry.revision], staleTime: Infinity, retry: false, enabled: seen && entry.objects.some((one) => one.action === "update"),
    queryFn: () => request<HistoryDetail>(`/history/${entry.revision}?page_size=${SHOWN}`),
  }).data?.changes;
  return (
    <li ref={row} className={cursor ? "cursor" : ""}>
      <Link to={address(["changes", String(entry.revision)])} className="history-revision mono">#{entry.revision}</Link>
      <span className="history-objects">
        {entry.objects.slice(0, SHOWN).map((one) => (
          <span key={one.resource} className="row">
            <span className={`tag ${TONE[one.action] ?? ""}`}>{t(`did.${one.action}` as "did.create")}</span><ObjectName resource={one.resource} gone={one.action === "delete"} />
            <span className="soft small history-fields">{fieldsOf(changes?.find((change) => change.resource === one.resource))}</span>
          </span>
        ))}
        {entry.total > SHOWN && <span className="soft small">{t("changes.more", { n: entry.total - SHOWN })}</span>}
        {entry.total === 0 && <span className="soft">{entry.request}</span>}
        {entry.note && <span className="soft small">{entry.note}</span>}
      </span>
      <span className="soft history-who" title={[entry.who.address, entry.request].filter(Boolean).join(" · ")}>{entry.who.name ?? t("changes.nobody")}</span>
      <time className="soft" dateTime={entry.time} title={fullTime(time)}>{ago(time)}</time>
    </li>
  );
}

const MOST_FIELDS = 3;

/** `uri, plugins › cors, and 2 more`. */
export function fieldsOf(change: ChangedObject | undefined): string {
  if (change?.action !== "update") return "";
  const names = [...new Set((change.diff ?? []).map((entry) => fromPointer(entry.path).slice(0, 3).join(" › ")))].filter(Boolean);
  return [...names.slice(0, MOST_FIELDS), ...(names.length > MOST_FIELDS ? [t("changes.more", { n: names.length - MOST_FIELDS })] : [])].join(", ");
}

/** Whether an element has been on the screen: what is below it is not asked for. */
function useSeen(element: { current: Element | null }): boolean {
  const [seen, setSeen] = useState(false);
  useEffect(() => {
    if (seen || !element.current) return;
    const observer = new IntersectionObserver((list) => { if (list.some((one) => one.isIntersecting)) setSeen(true); });
    observer.observe(element.current);
    return () => observer.disconnect();
  }, [seen]);
  return seen;
}
