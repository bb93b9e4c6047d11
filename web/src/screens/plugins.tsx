// The plugins that the gateway has: what each takes, and which objects use it.
import { type JSX, useMemo, useRef } from "react";
import { t } from "../lib/i18n";
import { useKeys } from "../lib/keys";
import { address, setQuery, usePlace } from "../lib/router";
import { type PluginInfo, usePlugins } from "../lib/status";
import { describe } from "../object/schema";
import { Empty, Failure, Header, Link, Segmented, Skeleton, Wide } from "../ui/basics";
import { Icon } from "../ui/icons";

export function PluginsScreen({ path }: { path: string[] }): JSX.Element {
  const plugins = usePlugins();
  const name = path[1];
  if (plugins.error) return <><Header title={t("nav.plugins")} /><div className="pad"><Failure error={plugins.error} retry={() => void plugins.refetch()} /></div></>;
  if (!plugins.data) return <><Header title={t("nav.plugins")} /><Skeleton /></>;
  if (!name) return <Catalogue all={plugins.data} />;
  const info = plugins.data[name];
  return info ? <Plugin name={name} info={info} /> : <><Header title={name} /><Empty icon="plugins" title={t("plugin.unknown", { name })}>{t("plugin.unknown.text")}</Empty></>;
}

type Scope = "all" | "auth" | "consumer" | "metadata";
const SCOPES: Record<Scope, (info: PluginInfo) => boolean> = {
  all: () => true,
  auth: (info) => info.type === "auth",
  consumer: (info) => info.consumer_schema !== undefined,
  metadata: (info) => info.metadata_schema !== undefined,
};

function Catalogue({ all }: { all: Record<string, PluginInfo> }): JSX.Element {
  const { query } = usePlace();
  const typed = query.get("q") ?? "";
  const scope = (query.get("scope") ?? "all") as Scope;
  const search = useRef<HTMLInputElement>(null);
  useKeys({ "/": () => search.current?.focus() });
  const shown = useMemo(() => Object.entries(all).filter(([name, info]) => name.includes(typed.toLowerCase().trim()) && (SCOPES[scope] ?? SCOPES.all)(info)).sort(([, a], [, b]) => b.priority - a.priority), [all, typed, scope]);
  return (
    <>
      <Header title={t("nav.plugins")}><span className="soft">{shown.length}</span></Header>
      <div className="filters" role="search">
        <div className="search"><Icon name="search" size={14} /><input ref={search} className="input" type="search" value={typed} placeholder={t("plugins.search")} aria-label={t("plugins.search")} onChange={(event) => setQuery({ q: event.target.value })} /><kbd>/</kbd></div>
        <Segmented<Scope> label={t("plugins.scope")} value={scope} options={[["all", t("plugins.scope.all")], ["auth", t("plugins.scope.auth")], ["consumer", t("plugins.scope.consumer")], ["metadata", t("plugins.scope.metadata")]]} onChange={(next) => setQuery({ scope: next === "all" ? undefined : next })} />
      </div>
      <div className="scroll">
        <table className="plain-table roomy">
          <thead><tr><th scope="col">{t("field.plugin")}</th><th scope="col" className="number">{t("field.priority")}</th><th scope="col">{t("plugins.scope")}</th><th scope="col">{t("plugin.fields")}</th></tr></thead>
          <tbody>
            {shown.map(([name, info]) => (
              <tr key={name}>
                <th scope="row"><Link to={address(["plugins", name])}>{name}</Link></th>
                <td className="number mono">{info.priority}</td>
                <td><span className="tags">{info.type && <span className="tag accent">{info.type}</span>}{info.consumer_schema && <span className="tag">{t("plugins.scope.consumer")}</span>}{info.metadata_schema && <span className="tag">{t("plugins.scope.metadata")}</span>}</span></td>
                <td className="soft mono cut fields-cut">{Object.keys((info.schema.properties as object | undefined) ?? {}).filter((field) => field !== "_meta").join(" ")}</td>
              </tr>
            ))}
          </tbody>
        </table>
        {shown.length === 0 && <Empty icon="plugins" title={t("list.nothing")}>{t("list.nothing.text")}</Empty>}
      </div>
    </>
  );
}

const USERS = ["routes", "services", "consumers", "plugin_configs", "consumer_groups", "global_rules", "stream_routes"] as const;

function Plugin({ name, info }: { name: string; info: PluginInfo }): JSX.Element {
  return (
    <>
      <Header title={name} crumbs={<><Link to={address(["plugins"])}>{t("nav.plugins")}</Link><span className="soft">/</span></>}
        actions={info.metadata_schema && <Link className="button" to={address(["plugin_metadata", name])}>{t("kind.plugin_metadata")}</Link>} />
      <div className="scroll">
        <div className="pad column">
          <dl className="facts wide-facts">
            <div><dt>{t("field.priority")}</dt><dd className="mono">{info.priority}</dd></div>
            {info.type && <div><dt>{t("field.type")}</dt><dd><span className="tag accent">{info.type}</span></dd></div>}
            <div><dt>{t("plugin.users")}</dt><dd className="row wrap">{USERS.map((kind) => <Link key={kind} className="chip" to={address([kind], { plugin: name })}>{t(`kind.${kind}`)}</Link>)}</dd></div>
          </dl>
          <Schema title={t("plugin.config")} schema={info.schema} />
          {info.consumer_schema && <Schema title={t("plugin.consumer")} schema={info.consumer_schema} />}
          {info.metadata_schema && <Schema title={t("kind.plugin_metadata")} schema={info.metadata_schema} />}
        </div>
      </div>
    </>
  );
}

function Schema({ title, schema }: { title: string; schema: PluginInfo["schema"] }): JSX.Element {
  const fields = useMemo(() => describe(schema), [schema]);
  return (
    <section>
      <h2 className="section-title flat">{title}</h2>
      {fields.length === 0 ? <p className="soft">{t("plugin.nofields")}</p> : (
        <Wide label={title}>
          <table className="plain-table">
            <thead><tr><th scope="col">{t("plugin.field")}</th><th scope="col">{t("field.type")}</th><th scope="col">{t("plugin.default")}</th><th scope="col">{t("plugin.bounds")}</th></tr></thead>
            <tbody>{fields.map((field) => <tr key={field.path}><th scope="row" className="mono">{field.path}{field.required && <span className="tag warn required">{t("plugin.required")}</span>}</th><td className="mono soft">{field.type}</td><td className="mono">{field.fallback}</td><td className="mono soft">{field.bounds}</td></tr>)}</tbody>
          </table>
        </Wide>
      )}
    </section>
  );
}
