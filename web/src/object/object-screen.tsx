// One object: read, then edited. A new one is edited at once.
import { useQuery } from "@tanstack/react-query";
import { type JSX, useState } from "react";
import { type Json, request } from "../lib/api";
import { t } from "../lib/i18n";
import { isObject } from "../lib/json";
import type { Where } from "../lib/kinds";
import { address, usePlace } from "../lib/router";
import { useMayChange, useScope } from "../lib/session";
import { Empty, Failure, Header, Link, Skeleton } from "../ui/basics";
import { Edit } from "./edit";
import { read } from "./changes";

export function Crumbs({ where }: { where: Where }): JSX.Element {
  const { kind, collection } = where;
  return (
    <>
      {collection.length > 1 && <><Link to={address(["consumers"])}>{t("kind.consumers")}</Link><span className="soft">/</span><Link to={address(collection.slice(0, 2))}>{collection[1]}</Link><span className="soft">/</span></>}
      <Link to={address(collection)}>{t(kind.title)}</Link><span className="soft">/</span>
    </>
  );
}

/** With a plugin that the address asks for; it is saved like any other change. */
function withPlugin(object: Json, name: string | null): Json {
  const plugins = isObject(object.plugins) ? object.plugins : {};
  return name === null || Object.hasOwn(plugins, name) ? object : { ...object, plugins: { ...plugins, [name]: {} } };
}

export function ObjectScreen({ where }: { where: Where }): JSX.Element {
  const { kind, collection, id } = where;
  const { query } = usePlace();
  const fresh = id[0] === "+new";
  const parts = [...collection, ...id];
  // Read once: what another saves meanwhile is found when this page saves, and must not change what is being typed.
  const found = useQuery({ queryKey: ["draft", ...parts], queryFn: () => read(kind, parts), enabled: !fresh, staleTime: Infinity, gcTime: 0, refetchOnWindowFocus: false });
  const [copied] = useState(() => {
    try {
      return JSON.parse(query.get("from") ?? "null") as Json | null;
    } catch {
      return null;
    }
  });
  const scope = useScope();
  const admin = useMayChange();
  // Where streams are off, the gateway has no such objects.
  const closed = useQuery({ queryKey: ["closed", kind.name], queryFn: () => request(`/${kind.name}?page=1&page_size=10`), enabled: fresh && kind.name === "stream_routes", retry: false });
  const blank = scope ? { ...kind.blank, labels: scope } : kind.blank;
  if (fresh && !admin) return <><Header title={t("form.new", { kind: t(kind.one) })} crumbs={<Crumbs where={where} />} /><Empty icon={kind.icon} title={t("form.notpermitted")}>{t("form.notpermitted.text")}</Empty></>;
  if (fresh && closed.error) return <><Header title={t("form.new", { kind: t(kind.one) })} crumbs={<Crumbs where={where} />} /><div className="pad"><Failure error={closed.error} /></div></>;
  if (fresh) return <Edit key={parts.join("/")} where={where} start={copied ?? blank} named={query.get("id")} base={null} revision={0} />;
  if (found.data) return <Edit key={parts.join("/")} where={where} start={withPlugin(found.data.object, query.get("plugin"))} base={found.data.object} revision={found.data.revision} />;
  return (
    <>
      <Header title={id.join("/")} crumbs={<Crumbs where={where} />} />
      {found.error ? <div className="pad"><Failure error={found.error} retry={() => void found.refetch()} /></div> : <Skeleton />}
    </>
  );
}
