// The traffic of the gateway: requests, errors, latencies, and who has most of them.
import type { JSX } from "react";
import { useMemo } from "react";
import type { HistoryItem } from "../lib/api";
import { currentLanguage, t } from "../lib/i18n";
import { address, setQuery, usePlace } from "../lib/router";
import { columns, type Column, RANGES, type Range, rangeOf, type Share, type Stats, useStats } from "../lib/stats";
import { Failure, Link, Segmented, Skeleton, Wide } from "../ui/basics";
import { Bars, Heat, type Mark, ms } from "../ui/chart";
import { Icon } from "../ui/icons";
import { Uncounted, Unmeasured } from "./uncounted";

const number = (value: number) => value.toLocaleString(currentLanguage());
const part = (value: number, of: number) => (of === 0 ? "–" : `${((value / of) * 100).toLocaleString(currentLanguage(), { maximumFractionDigits: value / of < 0.01 ? 2 : 1 })} %`);
const milliseconds = (value: number | null) => (value === null ? "–" : ms(value));

/** The address has the range, so that a picture can be sent to somebody. */
export function useRange(): Range {
  return rangeOf(usePlace().query.get("range"));
}

export function Figures({ history }: { history: HistoryItem[] }): JSX.Element {
  const range = useRange();
  const { data, error, refetch } = useStats(range);
  return (
    <section aria-label={t("figures.title")}>
      <div className="row wrap figures-head">
        <h2 className="section-title flat grow">{t("figures.title")}</h2>
        <Segmented label={t("figures.range")} value={range} options={RANGES.map((one) => [one, t(`figures.${one}`)])} onChange={(next) => setQuery({ range: next === "1h" ? undefined : next })} />
      </div>
      {data ? <Charts stats={data} history={history} /> : error ? <Failure error={error} retry={() => void refetch()} /> : <div className="figures-waits"><Skeleton rows={12} /></div>}
    </section>
  );
}

function Charts({ stats, history }: { stats: Stats; history: HistoryItem[] }): JSX.Element {
  const list = useMemo(() => columns(stats), [stats]);
  const { totals } = stats;
  const marks: Mark[] = history.map((entry) => ({ at: Date.parse(entry.time) / 1000, text: t("figures.change", { revision: String(entry.revision), who: entry.who.name ?? t("changes.nobody") }) }));
  const errors = totals.status["4xx"] + totals.status["5xx"];
  // Nothing else is known of requests that no plugin counted.
  const measured = totals.counted > 0 || totals.requests === 0;
  const rate = (one: Column) => `${number(one.requests ?? 0)} · ${t("figures.rate", { n: round((one.requests ?? 0) / one.seconds) })}`;
  const slowest = (one: Column) => {
    const bucket = one.latency.findLastIndex((count) => count > 0);
    if (bucket < 0) return t("figures.none");
    const bound = stats.latency.bounds_ms[bucket];
    return bound === undefined ? t("figures.slowest.above", { ms: ms(stats.latency.bounds_ms.at(-1) ?? 0) }) : t("figures.slowest", { ms: ms(bound) });
  };
  return (
    <>
      <dl className="figures-totals">
        <div><dt>{t("figures.requests")}</dt><dd>{number(totals.requests)}</dd></div>
        {measured && (
          <>
            <div className={totals.status["5xx"] ? "bad" : undefined}><dt>{t("figures.errors")}</dt><dd>{part(errors, totals.counted)}</dd></div>
            <div><dt>{t("figures.p50")}</dt><dd>{milliseconds(totals.p50_ms)}</dd></div>
            <div><dt>{t("figures.p95")}</dt><dd>{milliseconds(totals.p95_ms)}</dd></div>
            <div><dt>{t("figures.p99")}</dt><dd>{milliseconds(totals.p99_ms)}</dd></div>
          </>
        )}
      </dl>
      {stats.kept.problem && <div className="notice warn"><Icon name="warning" /><p className="grow">{t("figures.notkept", { problem: stats.kept.problem })}</p></div>}
      {measured && totals.counted < totals.requests * 0.98 && <Uncounted stats={stats} />}
      <Bars title={t("figures.requests")} columns={list} marks={marks} summary={t("figures.requests.summary", { n: totals.requests })} say={rate} parts={[{ name: "requests", of: (one) => one.requests ?? 0 }]} />
      {!measured && <Unmeasured />}
      {measured && (
        <>
          <Bars title={t("figures.errors")} columns={list} marks={marks} summary={t("figures.errors.summary", { client: totals.status["4xx"], server: totals.status["5xx"] })} say={(one) => t("figures.errors.summary", { client: one.client, server: one.server })} legend={[{ name: "client", text: "4xx" }, { name: "server", text: "5xx" }]} parts={[{ name: "server", of: (one) => one.server }, { name: "client", of: (one) => one.client }]} />
          <Heat title={t("figures.latency")} columns={list} marks={marks} bounds={stats.latency.bounds_ms} summary={t("figures.latency.summary", { p50: milliseconds(totals.p50_ms), p99: milliseconds(totals.p99_ms) })} say={slowest} />
          <Top title={t("figures.routes")} shares={stats.routes} others={stats.other_routes} of={totals.counted} collection="routes" />
          {stats.consumers === null ? <p className="soft">{t("figures.hidden")}</p> : stats.consumers.length > 0 && <Top title={t("figures.consumers")} shares={stats.consumers} others={stats.other_consumers} of={totals.counted} collection="consumers" />}
        </>
      )}
    </>
  );
}

const round = (value: number) => (value >= 10 ? Math.round(value) : Math.round(value * 10) / 10);

function Top({ title, shares, others, of, collection }: { title: string; shares: Share[]; others: Omit<Share, "id"> | null; of: number; collection: string }): JSX.Element | null {
  if (shares.length === 0) return null;
  const cells = (one: Omit<Share, "id">) => (
    <>
      <td className="number">{number(one.requests)}</td>
      <td className="number soft">{part(one.requests, of)}</td>
      <td className={one.status_4xx ? "number warn-text" : "number soft"}>{number(one.status_4xx)}</td>
      <td className={one.status_5xx ? "number bad-text" : "number soft"}>{number(one.status_5xx)}</td>
      <td className="number">{milliseconds(one.mean_ms)}</td>
    </>
  );
  return (
    <>
      <h2 className="section-title flat">{title}</h2>
      <Wide label={title}>
        <table className="plain-table figures-top">
          <thead><tr><th scope="col">{t("figures.name")}</th><th scope="col" className="number">{t("figures.requests")}</th><th scope="col" className="number">{t("figures.part")}</th><th scope="col" className="number">4xx</th><th scope="col" className="number">5xx</th><th scope="col" className="number">{t("figures.mean")}</th></tr></thead>
          <tbody>
            {shares.map((one) => <tr key={one.id}><th scope="row" className="mono">{one.id ? <Link to={address([collection, one.id])}>{one.id}</Link> : <span className="soft">{t("figures.noroute")}</span>}</th>{cells(one)}</tr>)}
            {others && others.requests > 0 && <tr><th scope="row" className="soft">{t("figures.others")}</th>{cells(others)}</tr>}
          </tbody>
        </table>
      </Wide>
    </>
  );
}
