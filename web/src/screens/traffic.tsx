// Requests as they end, the slowest and the last that failed; one of them beside the list, with what it spent its time on.
import { type JSX, useEffect, useState } from "react";
import { currentLanguage, type Key, t } from "../lib/i18n";
import { useKeys } from "../lib/keys";
import { address, setQuery, usePlace } from "../lib/router";
import { useSession } from "../lib/session";
import { FILTERS, phasesOf, type Seen, type TrafficFilter, useTraffic } from "../lib/traffic";
import { Empty, Header, Link, Segmented, Wide } from "../ui/basics";
import { ms } from "../ui/chart";
import { Icon } from "../ui/icons";

const VIEWS = ["live", "slowest", "failed"] as const;

export function TrafficScreen(): JSX.Element {
  const { query } = usePlace();
  const [paused, setPaused] = useState(false);
  const [chosen, setChosen] = useState<Seen | null>(null);
  const filter: TrafficFilter = Object.fromEntries(FILTERS.map((name) => [name, query.get(name) ?? ""]));
  const traffic = useTraffic(filter, paused);
  const view = VIEWS.find((one) => one === query.get("view")) ?? "live";
  const list = traffic[view];
  const filtered = FILTERS.some((name) => filter[name]);
  useKeys({ p: () => setPaused(!paused), escape: () => setChosen(null) });
  return (
    <>
      <Header title={t("traffic.title")} actions={<button type="button" className="button" aria-pressed={paused} onClick={() => setPaused(!paused)}>{t(paused ? "traffic.resume" : "traffic.pause")}</button>} />
      <div className="question row wrap traffic-filters">
        <Segmented label={t("traffic.view")} value={view} options={VIEWS.map((one) => [one, t(`traffic.${one}`)])} onChange={(next) => setQuery({ view: next === "live" ? undefined : next })} />
        {FILTERS.map((name) => <Filter key={name} name={name} value={filter[name] ?? ""} />)}
        <span className="soft small" role="status">{t(paused ? "traffic.paused" : traffic.connected ? "traffic.connected" : "traffic.connecting")}{traffic.missed > 0 && ` · ${t("traffic.missed", { n: traffic.missed })}`}</span>
      </div>
      <div className={chosen ? "traffic with-details" : "traffic"}>
        <div className="scroll">
          {list.length === 0 ? <Empty icon="changes" title={t(filtered ? "traffic.none.filtered" : "traffic.none")} actions={filtered ? <button type="button" className="button" onClick={() => setQuery(Object.fromEntries(FILTERS.map((one) => [one, undefined])))}>{t("traffic.clear")}</button> : undefined}>{t(filtered ? "traffic.none.filtered.text" : "traffic.none.text")}</Empty> : <List list={list} chosen={chosen} onChoose={setChosen} />}
        </div>
        {chosen && <Details seen={chosen} onClose={() => setChosen(null)} />}
      </div>
    </>
  );
}

/** A connection is opened for what is asked for: when typing has ended. */
function Filter({ name, value }: { name: (typeof FILTERS)[number]; value: string }): JSX.Element | null {
  const [text, setText] = useState(value);
  const viewer = useSession()?.role === "viewer";
  useEffect(() => setText(value), [value]);
  const apply = () => { if (text.trim() !== value) setQuery({ [name]: text.trim() || undefined }); };
  const wrong = (name === "status" && !/^([1-5]xx|[1-5]\d\d)?$/.test(text.trim())) || (name === "min_ms" && !/^\d*$/.test(text.trim()));
  if (name === "consumer" && viewer) return null;
  const label = t(`traffic.filter.${name}` as Key);
  const pending = text.trim() !== value;
  const id = `traffic-${name}`;
  return (
    <span className="traffic-filter-box">
      <input className={value && !pending ? "input traffic-filter set" : "input traffic-filter"} aria-label={label} placeholder={label} value={text} aria-invalid={wrong || undefined} aria-describedby={wrong || pending ? id : undefined} onChange={(event) => setText(event.target.value)} onBlur={() => { if (!wrong) apply(); }} onKeyDown={(event) => { if (event.key === "Enter" && !wrong) apply(); else if (event.key === "Escape") { event.stopPropagation(); setText(value); } }} />
      {(wrong || pending) && <span id={id} role="status" className={wrong ? "small bad" : "soft small"}>{t(wrong ? (name === "status" ? "traffic.wrong.status" : "traffic.wrong.ms") : "traffic.pending")}</span>}
    </span>
  );
}

const state = (status: number) => (status >= 500 ? "bad" : status >= 400 ? "warn" : "ok");

function List({ list, chosen, onChoose }: { list: Seen[]; chosen: Seen | null; onChoose: (seen: Seen) => void }): JSX.Element {
  return (
    <Wide label={t("traffic.title")}>
      <table className="plain-table traffic-list">
        <thead><tr>{(["time", "status", "request", "duration", "route", "consumer"] as const).map((name) => <th key={name} scope="col" className={name === "duration" ? "number" : undefined}>{t(`traffic.${name}`)}</th>)}</tr></thead>
        <tbody>
          {list.map((one) => (
            <tr key={one.number} className={one.number === chosen?.number ? "chosen" : undefined}>
              <td className="mono soft">{clock(one.ended_ms)}</td>
              <td><span className={`tag ${state(one.status)}`}>{one.status}</span></td>
              <td className="traffic-request"><button type="button" className="link mono" onClick={() => onChoose(one)}>{one.method} {one.host}{one.target}</button></td>
              <td className="number">{ms(round(one.total_ms))}</td>
              <td className="mono">{one.route ? <Link to={address(["routes", one.route])}>{one.route}</Link> : <span className="soft">–</span>}</td>
              <td className="mono">{one.consumer || <span className="soft">–</span>}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Wide>
  );
}

const round = (value: number) => (value >= 100 ? Math.round(value) : Math.round(value * 100) / 100);

const clock = (unixMs: number) => new Date(unixMs).toLocaleTimeString(currentLanguage(), { hour12: false });

function Details({ seen, onClose }: { seen: Seen; onClose: () => void }): JSX.Element {
  const phases = phasesOf(seen);
  const whole = Math.max(0.001, phases.reduce((sum, phase) => sum + phase.ms, 0));
  let before = 0;
  const url = `http://${seen.host || "localhost"}${seen.target}`;
  return (
    <aside className="traffic-details" aria-label={t("traffic.details")}>
      <div className="row"><h2 className="grow mono">{seen.method} {seen.target}</h2><button type="button" className="button plain icon" aria-label={t("action.close")} onClick={onClose}><Icon name="close" /></button></div>
      <h3 className="section-title flat">{t("traffic.phases")}</h3>
      <ol className="waterfall">
        {phases.map((phase, i) => {
          const left = before;
          before += phase.ms;
          return <li key={i}><span>{t(`traffic.phase.${phase.name}`)}</span><span className="waterfall-track"><span className={`waterfall-bar ${phase.name}`} style={{ left: `${(left / whole) * 100}%`, width: `${Math.max(0.5, (phase.ms / whole) * 100)}%` }} /></span><span className="number">{ms(round(phase.ms))}</span></li>;
        })}
      </ol>
      <dl className="facts">
        <div><dt>{t("traffic.status")}</dt><dd>{seen.status}</dd></div>
        <div><dt>{t("traffic.client")}</dt><dd className="mono">{seen.client}</dd></div>
        <div><dt>{t("traffic.node")}</dt><dd className="mono">{seen.node || "–"}</dd></div>
        {seen.attempts.length > 1 && <div><dt>{t("traffic.attempts")}</dt><dd className="mono">{seen.attempts.map((one) => `${one.address} ${one.status || "–"}`).join(", ")}</dd></div>}
      </dl>
      <h3 className="section-title flat">{t("traffic.headers")}</h3>
      <dl className="facts wide-facts">{seen.headers.map(([name, value], i) => <div key={i}><dt className="mono">{name}</dt><dd className="mono">{value}</dd></div>)}</dl>
      <Link className="button" to={address(["explain"], { url, method: seen.method === "GET" ? undefined : seen.method })}>{t("traffic.explain")}</Link>
    </aside>
  );
}
