// The plugins that the gateway has: what each takes, and which objects use it.
import { useQuery } from "@tanstack/react-query";
import { type JSX, useMemo, useRef } from "react";
import { type Key, t } from "../lib/i18n";
import { useKeys } from "../lib/keys";
import { request } from "../lib/api";
import { address, setQuery, usePlace } from "../lib/router";
import { type PluginInfo, usePlugins } from "../lib/status";
import { findUsers, hasPlugin, USERS } from "../lib/users";
import { matchesWords, useMeanings, usePluginWords } from "../object/plugin-words";
import { describe, inOrder } from "../object/schema";
import { Empty, Failure, Header, Link, Segmented, Skeleton, Wide } from "../ui/basics";
import { ObjectName } from "../ui/diff";
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
  const words = usePluginWords();
  const shown = useMemo(() => Object.entries(all).filter(([name, info]) => (name.includes(typed.toLowerCase().trim()) || matchesWords(words[name], typed)) && (SCOPES[scope] ?? SCOPES.all)(info)).sort(([, a], [, b]) => b.priority - a.priority), [all, typed, scope, words]);
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

/** Objects that it may be part of: plugins of HTTP and those of streams are for different routes. */
function useMayBeOn(name: string): string[] {
  const of = (subsystem: string) => ({ queryKey: ["plugins", "names", subsystem], queryFn: () => request<string[]>(`/plugins/list?subsystem=${subsystem}`), staleTime: 5 * 60_000, retry: false });
  const [http, stream] = [useQuery(of("http")).data, useQuery(of("stream")).data];
  if (!http || !stream) return [];
  return USERS.filter((kind) => (kind === "stream_routes" ? stream : http).includes(name));
}

const MOST_USERS = 40;

function Users({ name }: { name: string }): JSX.Element {
  const users = useQuery({ queryKey: ["users", name], queryFn: ({ signal }) => findUsers((value) => hasPlugin(value, name), signal), retry: false });
  if (users.error) return <Failure error={users.error} retry={() => void users.refetch()} />;
  if (!users.data) return <span className="soft">{t("plugin.users.looking")}</span>;
  if (users.data.length === 0) return <span className="soft">{t("plugin.users.none")}</span>;
  return <>{users.data.slice(0, MOST_USERS).map((one) => <ObjectName key={one} resource={one} />)}{users.data.length > MOST_USERS && <span className="soft">{t("changes.more", { n: users.data.length - MOST_USERS })}</span>}</>;
}

function Plugin({ name, info }: { name: string; info: PluginInfo }): JSX.Element {
  const words = usePluginWords()[name]?.text;
  const meaningOf = useMeanings(true);
  const schema = (title: string, of: PluginInfo["schema"]) => <Schema title={title} schema={of} meaningOf={(path) => meaningOf(["plugins", name, path])} />;
  return (
    <>
      <Header title={name} crumbs={<><Link to={address(["plugins"])}>{t("nav.plugins")}</Link><span className="soft">/</span></>}
        actions={info.metadata_schema && <Link className="button" to={address(["plugin_metadata", name])}>{t("kind.plugin_metadata")}</Link>} />
      <div className="scroll">
        <div className="pad column">
          {words && <p className="lead">{words}</p>}
          <dl className="facts wide-facts">
            <div><dt>{t("field.priority")}</dt><dd className="mono">{info.priority}</dd></div>
            {info.type && <div><dt>{t("field.type")}</dt><dd><span className="tag accent">{info.type}</span></dd></div>}
            <div><dt>{t("plugin.users")}</dt><dd className="row wrap"><Users name={name} /></dd></div>
            <div><dt>{t("plugin.may")}</dt><dd className="row wrap">{useMayBeOn(name).map((kind) => <Link key={kind} className="chip" to={address([kind], { plugin: name })}>{t(`kind.${kind}` as Key)}</Link>)}</dd></div>
          </dl>
          {schema(t("plugin.config"), info.schema)}
          {info.consumer_schema && schema(t("plugin.consumer"), info.consumer_schema)}
          {info.metadata_schema && schema(t("kind.plugin_metadata"), info.metadata_schema)}
        </div>
      </div>
    </>
  );
}

function Schema({ title, schema, meaningOf }: { title: string; schema: PluginInfo["schema"]; meaningOf: (path: string) => string }): JSX.Element {
  // What has to be written comes first.
  const fields = useMemo(() => inOrder(describe(schema)), [schema]);
  return (
    <section>
      <h2 className="section-title flat">{title}</h2>
      {fields.length === 0 ? <p className="soft">{t("plugin.nofields")}</p> : (
        <Wide label={title}>
          <table className="plain-table">
            <thead><tr><th scope="col">{t("plugin.field")}</th><th scope="col">{t("field.type")}</th><th scope="col">{t("plugin.default")}</th><th scope="col">{t("plugin.bounds")}</th><th scope="col">{t("plugin.meaning")}</th></tr></thead>
            <tbody>{fields.map((field) => <tr key={field.path}><th scope="row" className="mono">{field.path}{(field.required || field.either) && <span className="tag warn required">{t(field.required ? "plugin.required" : "plugin.either")}</span>}</th><td className="mono soft">{field.type}</td><td className="mono">{field.fallback}</td><td className="mono soft">{field.bounds}</td><td className="soft">{meaningOf(field.path)}</td></tr>)}</tbody>
          </table>
        </Wide>
      )}
    </section>
  );
}
