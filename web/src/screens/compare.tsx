// What differs between two revisions of the configuration.
import { useQuery } from "@tanstack/react-query";
import { type FormEvent, type JSX, useState } from "react";
import { getRevision, type HistoryDetail, type HistoryItem, request } from "../lib/api";
import { t } from "../lib/i18n";
import { setQuery, usePlace } from "../lib/router";
import { useRevision } from "../lib/status";
import { Empty, Failure, Header, Skeleton } from "../ui/basics";
import { Changed } from "../ui/diff";
import { ChangesTabs } from "./changes";
import { fold } from "./fold";

/** Each revision between is a request. */
const MOST_REVISIONS = 200;

/** What an address or a field says of a revision; null: nothing. */
const revisionOf = (text: string | null): number | null => (text === null || text.trim() === "" ? null : /^\d{1,15}$/.test(text.trim()) ? Number(text) : NaN);

async function between(from: number, to: number) {
  const [{ stored }, { list, oldest }] = await Promise.all([getRevision(), request<{ list: HistoryItem[]; oldest: number }>(`/history?since=${from}&page_size=500`)]);
  if (to > stored) throw new Error(t("compare.no.later", { revision: String(to), newest: String(stored) }));
  if (from < oldest) throw new Error(t("compare.no.earlier", { revision: String(from), oldest: String(oldest) }));
  const revisions = list.map((entry) => entry.revision).filter((one) => one <= to).sort((a, b) => a - b);
  if (revisions.length > MOST_REVISIONS) throw new Error(t("compare.far", { n: MOST_REVISIONS }));
  const details: HistoryDetail[] = [];
  for (const revision of revisions) details.push(await request<HistoryDetail>(`/history/${revision}?page_size=500`));
  return fold(details.map((detail) => detail.changes));
}

export function Compare(): JSX.Element {
  const { query } = usePlace();
  const now = useRevision().data?.stored;
  const [from, to] = [revisionOf(query.get("from")), revisionOf(query.get("to"))];
  const wrong = [query.get("from"), query.get("to")].find((text) => Number.isNaN(revisionOf(text)));
  const asked = from !== null && to !== null && wrong === undefined && from !== to;
  const [low, high] = [Math.min(from ?? 0, to ?? 0), Math.max(from ?? 0, to ?? 0)];
  const found = useQuery({ queryKey: ["compare", low, high], queryFn: () => between(low, high), enabled: asked, retry: false });
  return (
    <>
      <Header title={t("nav.changes")} />
      <ChangesTabs />
      <Range key={`${query.get("from")} ${query.get("to")} ${now}`} from={query.get("from") ?? (now ? String(Math.max(0, now - 1)) : "")} to={query.get("to") ?? String(now ?? "")} />
      <div className="scroll">
        {wrong != null && <div className="pad"><Failure error={new Error(t("compare.no.number", { text: wrong }))} /></div>}
        {from !== null && from === to && <div className="pad"><Failure error={new Error(t("compare.no.same", { revision: String(from) }))} /></div>}
        {(from === null || to === null) && wrong == null && <Empty icon="changes" title={t("compare.empty")}>{t("compare.empty.text")}</Empty>}
        {found.isLoading && <Skeleton />}
        {found.error && <div className="pad"><Failure error={found.error} /></div>}
        {found.data && <div className="pad column"><h2 className="section-title flat">{t("compare.title", { low: String(low), high: String(high) })}</h2><Changed changes={found.data} /></div>}
      </div>
    </>
  );
}

function Range({ from, to }: { from: string; to: string }): JSX.Element {
  const [form, setForm] = useState({ from, to });
  const field = (name: "from" | "to", label: string) => (
    <label className="row"><span className="soft">{label}</span><input className="input mono short" inputMode="numeric" value={form[name]} aria-invalid={Number.isNaN(revisionOf(form[name])) || undefined} onChange={(event) => setForm({ ...form, [name]: event.target.value })} /></label>
  );
  return (
    <form className="filters" onSubmit={(event: FormEvent) => { event.preventDefault(); setQuery(form, { replace: false }); }}>
      {field("from", t("compare.from"))}{field("to", t("compare.to"))}
      <button type="submit" className="button">{t("changes.compare")}</button>
    </form>
  );
}
