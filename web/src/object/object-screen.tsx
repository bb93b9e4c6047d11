// One object: read, then edited. A new one is edited at once.
import { useQuery } from "@tanstack/react-query";
import { type JSX, useState } from "react";
import type { Json } from "../lib/api";
import { t } from "../lib/i18n";
import type { Where } from "../lib/kinds";
import { address, usePlace } from "../lib/router";
import { useScope } from "../lib/session";
import { Failure, Header, Link, Skeleton } from "../ui/basics";
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
  const blank = scope ? { ...kind.blank, labels: scope } : kind.blank;
  if (fresh) return <Edit key={parts.join("/")} where={where} start={copied ?? blank} base={null} revision={0} />;
  if (found.data) return <Edit key={parts.join("/")} where={where} start={found.data.object} base={found.data.object} revision={found.data.revision} />;
  return (
    <>
      <Header title={id.join("/")} crumbs={<Crumbs where={where} />} />
      {found.error ? <div className="pad"><Failure error={found.error} retry={() => void found.refetch()} /></div> : <Skeleton />}
    </>
  );
}
