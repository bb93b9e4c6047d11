// What differs between two revisions of the configuration.
import { useQuery } from "@tanstack/react-query";
import { type FormEvent, type JSX, useState } from "react";
import { type HistoryDetail, type HistoryItem, request } from "../lib/api";
import { t } from "../lib/i18n";
import { setQuery, usePlace } from "../lib/router";
import { useRevision } from "../lib/status";
import { Empty, Failure, Header, Skeleton } from "../ui/basics";
import { Changed } from "../ui/diff";
import { ChangesTabs } from "./changes";
import { fold } from "./fold";

/** Each revision between is a request. */
const MOST_REVISIONS = 200;

async function between(from: number, to: number) {
  const { list } = await request<{ list: HistoryItem[] }>(`/history?since=${from}&page_size=500`);
  const revisions = list.map((entry) => entry.revision).filter((one) => one <= to).sort((a, b) => a - b);
  if (revisions.length > MOST_REVISIONS) throw new Error(t("compare.far", { n: MOST_REVISIONS }));
  const details: HistoryDetail[] = [];
  for (const revision of revisions) details.push(await request<HistoryDetail>(`/history/${revision}?page_size=500`));
  return fold(details.map((detail) => detail.changes));
}

export function Compare(): JSX.Element {
  const { query } = usePlace();
  const now = useRevision().data?.stored;
  const [from, to] = [Number(query.get("from") ?? NaN), Number(query.get("to") ?? NaN)];
  const asked = Number.isInteger(from) && Number.isInteger(to) && from >= 0 && from !== to;
  const [low, high] = [Math.min(from, to), Math.max(from, to)];
  const found = useQuery({ queryKey: ["compare", low, high], queryFn: () => between(low, high), enabled: asked, retry: false });
  return (
    <>
      <Header title={t("nav.changes")} />
      <ChangesTabs />
      <Range key={`${query.get("from")} ${query.get("to")} ${now}`} from={query.get("from") ?? (now ? String(Math.max(0, now - 1)) : "")} to={query.get("to") ?? String(now ?? "")} />
      <div className="scroll">
        {!asked && <Empty icon="changes" title={t("compare.empty")}>{t("compare.empty.text")}</Empty>}
        {found.isLoading && <Skeleton />}
        {found.error && <div className="pad"><Failure error={found.error} /></div>}
        {found.data && <div className="pad column"><h2 className="section-title flat">{t("compare.title", { low, high })}</h2><Changed changes={found.data} /></div>}
      </div>
    </>
  );
}

function Range({ from, to }: { from: string; to: string }): JSX.Element {
  const [form, setForm] = useState({ from, to });
  const field = (name: "from" | "to", label: string) => (
    <label className="row"><span className="soft">{label}</span><input className="input mono short" inputMode="numeric" value={form[name]} onChange={(event) => setForm({ ...form, [name]: event.target.value.replace(/\D/g, "") })} /></label>
  );
  return (
    <form className="filters" onSubmit={(event: FormEvent) => { event.preventDefault(); setQuery(form, { replace: false }); }}>
      {field("from", t("compare.from"))}{field("to", t("compare.to"))}
      <button type="submit" className="button">{t("changes.compare")}</button>
    </form>
  );
}
