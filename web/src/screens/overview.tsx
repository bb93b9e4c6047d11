// What there is, how it does, and what changed.
import { useQuery } from "@tanstack/react-query";
import type { JSX } from "react";
import { type HistoryItem, type Json, request } from "../lib/api";
import { ago, currentLanguage, fullTime, t } from "../lib/i18n";
import { KINDS, locate } from "../lib/kinds";
import { address } from "../lib/router";
import { useMayChange, useOffers } from "../lib/session";
import { useRevision } from "../lib/status";
import { Header, Link, Skeleton } from "../ui/basics";
import { ObjectName } from "../ui/diff";
import { Icon } from "../ui/icons";
import { useStats } from "../lib/stats";
import { Lane } from "../ui/lane";
import { useTotal } from "./counts";
import { Figures, useRange } from "./figures";

const SHOWN = ["routes", "services", "upstreams", "consumers", "ssls", "global_rules"];

export function Overview(): JSX.Element {
  const revision = useRevision();
  const stored = revision.data?.stored;
  const offers = useOffers();
  const routes = useTotal("routes");
  const history = useQuery({ queryKey: ["history", "overview", stored], retry: false, placeholderData: (before) => before, enabled: stored !== undefined && offers("changes"), queryFn: () => request<{ list: HistoryItem[] }>("/history?page_size=100") });
  const admin = useMayChange();
  return (
    <>
      <Header title={t("nav.overview")} />
      <div className="scroll">
        <div className="strip">
          {SHOWN.map((name) => {
            const kind = KINDS.find((one) => one.name === name);
            return kind && <Link key={name} to={address([name])}><span className="soft">{t(kind.title)}</span><Total kind={name} /></Link>;
          })}
        </div>
        <div className="overview">
          <div>
            {routes === 0 && <FirstSteps admin={admin} />}
            <Attention />
            <Figures history={history.data?.list ?? []} />
            <h2 className="section-title flat">{t("overview.latest")}</h2>
            {history.isLoading || stored === undefined ? <div className="history-waits"><Skeleton rows={12} /></div>
              : history.data && history.data.list.length > 0 ? <Latest list={history.data.list.slice(0, 12)} /> : <p className="soft">{t("changes.none")}</p>}
          </div>
          <Workers />
        </div>
      </div>
    </>
  );
}

function Total({ kind }: { kind: string }): JSX.Element {
  return <b>{useTotal(kind)?.toLocaleString() ?? "–"}</b>;
}

function FirstSteps({ admin }: { admin: boolean }): JSX.Element {
  const upstreams = useTotal("upstreams");
  // Routes end the first steps.
  const next = upstreams === undefined || upstreams === 0 ? 0 : 1;
  const steps = [["upstreams", "overview.step1"], ["routes", "overview.step2"], ["explain", "overview.step3"]] as const;
  return (
    <section className="first">
      <h2>{t("overview.first")}</h2>
      <p className="soft">{t("overview.first.text")}</p>
      <ol>
        {steps.map(([where, text], i) => (
          <li key={where}><span className="first-number">{i < next ? <><Icon name="check" size={12} /><span className="visually-hidden">{t("overview.done")}</span></> : i + 1}</span><span className="grow">{t(text)}</span>
            {(admin || where === "explain") && <Link className={i === next ? "button primary" : "button"} to={address(where === "explain" ? [where] : [where, "+new"])}>{t(where === "explain" ? "nav.explain" : "overview.create")}</Link>}</li>
        ))}
      </ol>
    </section>
  );
}

/** `error` may end in a list of nodes; `path` is where the object is. */
interface Rejected { kind?: string; resource?: string; key?: string; id?: string; error?: string; reason?: string; [more: string]: unknown }

/** The object in words, and its place in the console. */
function rejectedObject(one: Rejected): string[] {
  if (one.kind && one.id) return [one.kind, ...(one.kind === "secrets" ? one.id.split("/") : [one.id])];
  return (one.resource ?? one.key ?? one.id ?? "").replace(/^\/?(apisix\/)?/, "").split("/").filter(Boolean);
}

/** What the gateway would warn of: objects that it could not use, nodes that are down. */
function Attention(): JSX.Element | null {
  const rejected = useQuery({ queryKey: ["rejected"], queryFn: () => request<{ total: number; list: Rejected[] }>("/rejected"), retry: false, refetchInterval: 15_000 });
  const health = useQuery({ queryKey: ["health"], queryFn: () => request<unknown>("/healthcheck"), retry: false, refetchInterval: 15_000 });
  const ending = useStats(useRange()).data?.certificates.list ?? [];
  const down = downNodes(health.data);
  const bad = rejected.data?.list ?? [];
  if (bad.length === 0 && down.length === 0 && ending.length === 0) return null;
  return (
    <section>
      <h2 className="section-title flat">{t("overview.attention")}</h2>
      <div className="problems flat">
        {down.map(({ upstream, nodes }) => <div key={upstream} className="notice warn"><Icon name="warning" /><p className="grow">{t("overview.down", { upstream, nodes: nodes.join(", ") })}</p></div>)}
        {ending.map((one) => <div key={`${one.ssl} ${one.name}`} className={one.expires * 1000 < Date.now() ? "notice bad" : "notice warn"}><Icon name="warning" /><p className="grow">{t(one.expires * 1000 < Date.now() ? "overview.ended" : "overview.ends", { name: one.name || one.ssl, date: new Date(one.expires * 1000).toLocaleDateString(currentLanguage()) })}</p><Link className="button" to={address(["ssls", one.ssl])}>{one.ssl}</Link></div>)}
        {bad.map((one, i) => <div key={i} className="notice bad"><Icon name="warning" /><p className="grow">{t("overview.rejected", { name: rejectedObject(one).join("/") })} {one.reason ?? one.error ?? JSON.stringify(one)}</p>{locate(rejectedObject(one))?.id.length ? <Link className="button" to={address(rejectedObject(one))}>{rejectedObject(one).at(-1)}</Link> : null}</div>)}
      </div>
    </section>
  );
}

/** The Control API's answer: a list of upstreams with their nodes, or an empty object. */
export function downNodes(health: unknown): { upstream: string; nodes: string[] }[] {
  if (!Array.isArray(health)) return [];
  return (health as { name?: string; nodes?: Json[] }[]).flatMap(({ name = "", nodes = [] }) => {
    const down = nodes.filter((node) => node.status === "unhealthy" || node.status === "mostly_unhealthy").map((node) => `${String(node.ip ?? node.host)}:${String(node.port)}`);
    return down.length ? [{ upstream: name.replace(/^\/apisix\//, ""), nodes: down }] : [];
  });
}

function Latest({ list }: { list: HistoryItem[] }): JSX.Element {
  return (
    <ol className="history boxed">
      {list.map((entry) => (
        <li key={entry.revision}>
          <Link className="history-revision mono" to={address(["changes", String(entry.revision)])}>#{entry.revision}</Link>
          <span className="history-objects">{entry.objects.slice(0, 2).map((one) => <span key={one.resource} className="row"><span className={`tag ${one.action === "create" ? "ok" : one.action === "delete" ? "bad" : "accent"}`}>{t(`did.${one.action}` as "did.create")}</span><ObjectName resource={one.resource} gone={one.action === "delete"} /></span>)}{entry.total > 2 && <span className="soft small">{t("changes.more", { n: entry.total - 2 })}</span>}</span>
          <span className="soft history-who">{entry.who.name ?? t("changes.nobody")}</span>
          <time className="soft" dateTime={entry.time} title={fullTime(Date.parse(entry.time))}>{ago(Date.parse(entry.time))}</time>
        </li>
      ))}
    </ol>
  );
}

function Workers(): JSX.Element {
  const data = useRevision().data;
  return (
    <aside className="overview-side">
      <h2 className="section-title flat">{t("overview.configuration")}</h2>
      <dl className="facts">
        <div><dt>{t("overview.stored")}</dt><dd className="mono">{data?.stored ?? "–"}</dd></div>
        <div><dt>{t("overview.compiled")}</dt><dd className="mono">{data?.compiled ?? "–"}</dd></div>
      </dl>
      <h2 className="section-title flat">{t("overview.workers")}</h2>
      {data && <Lane steps={data.applied.map((revision, i) => ({ name: t("overview.worker", { n: i + 1 }), icon: revision < data.stored ? "warning" : "check", note: `#${revision}` }))} />}
    </aside>
  );
}
