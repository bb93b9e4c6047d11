// The panel beside a list: what the row under the cursor is, without leaving the list.
import { useQuery } from "@tanstack/react-query";
import type { JSX } from "react";
import { type Entry, type HistoryItem, type Json, request } from "../lib/api";
import { ago, fullTime, t } from "../lib/i18n";
import { isObject } from "../lib/json";
import { apiPath, type Kind, labelsOf, nodesOf, pluginsOf } from "../lib/kinds";
import { address, setQuery } from "../lib/router";
import { useMayChange } from "../lib/session";
import { remove } from "../object/changes";
import { Failure, Link, Skeleton } from "../ui/basics";
import { Ends } from "../object/validity";
import { Icon } from "../ui/icons";
import { Lane } from "../ui/lane";

export function Peek({ kind, collection, id, known }: { kind: Kind; collection: string[]; id: string; known?: Json }): JSX.Element {
  const parts = [...collection, ...(kind.name === "secrets" ? id.split("/") : [id])];
  const read = useQuery({ queryKey: ["object", ...parts], queryFn: () => request<Entry>(apiPath(parts)), enabled: known === undefined });
  const object = known ?? read.data?.value;
  const admin = useMayChange();
  const title = object && typeof object.name === "string" && object.name ? object.name : id;
  return (
    <aside className="peek" aria-label={t("peek.title", { name: title })}>
      <header className="row">
        <h2 className="grow cut" title={title}>{title}</h2>
        <Link className="button" to={address(parts)}>{t(admin ? "action.edit" : "action.view")}<kbd>E</kbd></Link>
        {admin && <button type="button" className="button icon plain" aria-label={t("action.delete")} title={t("action.delete")} onClick={() => void remove(kind, collection, [id]).then((gone) => gone && setQuery({ peek: undefined }))}><Icon name="trash" /></button>}
        <button type="button" className="button icon plain" aria-label={t("action.close")} onClick={() => setQuery({ peek: undefined })}><Icon name="close" /></button>
      </header>
      {read.error && <Failure error={read.error} />}
      {!object && !read.error && <Skeleton rows={5} />}
      {object && <Facts kind={kind} object={object} id={id} />}
      {object && kind.plugins && <><h3>{t(kind.name === "routes" ? "peek.meets" : "field.plugins")}</h3><Lane steps={laneOf(object)} /></>}
      {kind.name === "consumers" && <p className="pad-top"><Link to={address([...parts, "credentials"])}>{t("peek.credentials")}</Link></p>}
      {kind.name === "routes" && object && <p className="pad-top"><Link to={address(["explain"], { url: sampleUrl(object), method: sampleMethod(object) })}>{t("peek.explain")}</Link></p>}
      <LastChanges path={apiPath(parts)} />
    </aside>
  );
}

const sampleUrl = (route: Json): string => {
  const host = String(route.host ?? (Array.isArray(route.hosts) ? route.hosts[0] : "") ?? "").replace(/^\*\.?/, "www.");
  const path = String(route.uri ?? (Array.isArray(route.uris) ? route.uris[0] : "/")).replace(/\*$/, "");
  return `http://${host && host !== "www." ? host : "localhost"}${path}`;
};
const sampleMethod = (route: Json): string => (Array.isArray(route.methods) && typeof route.methods[0] === "string" ? route.methods[0] : "GET");

function laneOf(object: Json) {
  const plugins = pluginsOf(object).map((name) => {
    const config = (object.plugins as Json)[name];
    const off = isObject(config) && isObject(config._meta) && config._meta.disable === true;
    return { name, icon: "plugins", off, note: off ? t("status.off") : "" };
  });
  const end = object.service_id !== undefined ? [{ name: String(object.service_id), icon: "services", note: t("kind.service"), to: address(["services", String(object.service_id)]) }] : [];
  const upstream = object.upstream_id !== undefined ? [{ name: String(object.upstream_id), icon: "upstreams", note: t("kind.upstream"), to: address(["upstreams", String(object.upstream_id)]) }] : [];
  const nodes = nodesOf(object.upstream).split(" ").filter(Boolean).map((name) => ({ name, icon: "upstreams", note: t("field.node") }));
  return [...plugins, ...end, ...upstream, ...nodes];
}

function Facts({ kind, object, id }: { kind: Kind; object: Json; id: string }): JSX.Element {
  const shown = kind.columns.filter((column) => !["name", "labels", "plugins", "updated", "value", "upstream"].includes(column.name));
  const labels = labelsOf(object);
  return (
    <dl className="facts">
      {shown.map((column) => {
        const value = column.name === "status" ? t(object.status === 0 ? "status.off" : "status.on") : column.value(object, id);
        return value ? <div key={column.name}><dt>{t(column.title)}</dt><dd className={column.mono ? "mono" : ""}>{column.name === "ends" ? <Ends at={Number(value)} /> : value}</dd></div> : null;
      })}
      {labels.length > 0 && <div><dt>{t("field.labels")}</dt><dd>{labels.map((label) => <span key={label} className="tag">{label}</span>)}</dd></div>}
      {typeof object.update_time === "number" && <div><dt>{t("field.update_time")}</dt><dd title={fullTime(object.update_time * 1000)}>{ago(object.update_time * 1000)}</dd></div>}
    </dl>
  );
}

function LastChanges({ path }: { path: string }): JSX.Element | null {
  const history = useQuery({ queryKey: ["history", "of", path], queryFn: () => request<{ list: HistoryItem[] }>(`/history?page_size=5&key=${encodeURIComponent(path)}`), retry: false });
  if (!history.data?.list.length) return null;
  return (
    <>
      <h3>{t("peek.changes")}</h3>
      <Lane steps={history.data.list.map((entry) => ({
        name: `#${entry.revision}`, icon: "changes", to: address(["changes", String(entry.revision)]),
        note: `${entry.who.name ?? entry.who.address ?? ""} · ${ago(Date.parse(entry.time))}`,
      }))} />
    </>
  );
}
