// The form of an object: its schema, the names that its fields may have, and what is wrong at each field.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { type JSX, useMemo } from "react";
import { type Entry, type Fault, type Json, request } from "../lib/api";
import { readCertificate } from "../lib/certificate";
import { t } from "../lib/i18n";
import { getAt, isObject, type Path, pointer, setAt } from "../lib/json";
import type { Where } from "../lib/kinds";
import { usePlugins, useRevision } from "../lib/status";
import { inWords } from "../lib/words";
import { Skeleton } from "../ui/basics";
import { Credentials } from "./credentials";
import { type FieldContext, Fields, isEmptyUpstream } from "./fields";
import { Plugins } from "./plugins";
import { SECRET_SCHEMAS } from "./secret-schemas";
import type { Checked, useEditing } from "./use-draft";

/** A text that is neither a certificate nor the name of one kept elsewhere. */
const isUnreadable = (cert: unknown): boolean => typeof cert === "string" && cert.trim() !== "" && !cert.startsWith("$") && readCertificate(cert) === null;

interface BodyProps {
  where: Where;
  id: string[];
  editing: ReturnType<typeof useEditing>;
  checked: Checked;
  /** It is stored already. */
  saved: boolean;
  onAdded: (path: Path, value: unknown) => void;
  onWrong: (path: Path, wrong: boolean) => void;
  disabled: boolean;
}

export function FormBody({ where, id, editing, checked, saved, onAdded, onWrong, disabled }: BodyProps): JSX.Element {
  const { kind } = where;
  const schema = useSchema(where, id);
  const names = useNames(where);
  const faults = checked.state === "bad" ? (checked.error?.faults ?? []) : [];
  const context: FieldContext = {
    disabled, onAdded, onWrong,
    set: (path, value) => {
      if (path.join() === "upstream_id" && value && isEmptyUpstream(editing.object.upstream)) editing.set(["upstream"], undefined);
      editing.set(path, value);
    },
    namesFor: (field) => names[field] ?? [], keptSecret: saved && kind.patched ? ["key"] : [], translate: kind.schema !== null,
    faultAt: (path: Path) => faults.find((fault) => `${placeOf(fault)}/`.startsWith(`${pointer(path)}/`))?.error.replace(/^invalid configuration: /, "").replace(/^.*$/s, inWords) ?? (kind.name === "ssls" && path.join() === "cert" && checked.state === "bad" && isUnreadable(editing.object.cert) ? t("ssl.unreadable") : undefined),
  };
  if (schema === undefined) return <Skeleton />;
  if (!schema) return <div className="pad soft">{id.length ? t("form.noschema") : t("form.chooseid")}</div>;
  return (
    <>
      <Fields schema={schema} value={editing.object} path={[]} main={kind.main} hidden={["id", "create_time", "update_time", "plugins", "validity_start", "validity_end", ...(kind.idField === "username" ? ["username"] : [])]} context={context} />
      {kind.name === "consumers" && <Credentials consumer={saved ? (id[0] ?? null) : null} />}
      {kind.plugins && <><h2 className="section-title">{t("field.plugins")}</h2><Plugins value={isObject(editing.object.plugins) ? editing.object.plugins : {}} path={["plugins"]} of={kind.plugins} most={kind.name === "credentials" ? 1 : undefined} context={context} /></>}
    </>
  );
}

/** Where a fault is: `plugin limit-count err: property "count" validation failed` is at plugins/limit-count/count. */
export function placeOf(fault: Fault): string {
  const plugin = /plugin ([\w-]+) err/.exec(fault.error)?.[1];
  const names = [...fault.error.matchAll(/property "([^"]+)" validation failed/g)].map((match) => match[1] ?? "");
  const inner = names.length ? names : fault.field ? [fault.field] : [];
  return pointer(plugin ? ["plugins", plugin, ...inner] : inner);
}

/** Undefined until it has come, null where the object has none. */
function useSchema(where: Where, id: string[]): Json | null | undefined {
  const found = useSchemaOf(where, id);
  return useMemo(() => found && withBalancers(found, where.kind.name === "upstreams" ? [] : ["properties", "upstream"]), [found, where.kind.name]);
}

function useSchemaOf({ kind }: Where, id: string[]): Json | null | undefined {
  const plugins = usePlugins();
  const named = useQuery({ queryKey: ["schema", kind.schema], queryFn: () => request<Json>(`/schema/${kind.schema}`), enabled: kind.schema !== null, staleTime: Infinity });
  if (kind.schema !== null) return named.isPending ? undefined : (named.data ?? null);
  if (kind.name === "secrets") return SECRET_SCHEMAS[id[0] ?? ""] ?? null;
  return plugins.isPending ? undefined : (plugins.data?.[id[0] ?? ""]?.metadata_schema ?? null);
}

/** Types of an upstream, which its schema leaves open. Another one is refused. */
const BALANCERS = ["roundrobin", "chash", "ewma", "least_conn"];

function withBalancers(schema: Json, upstream: Path): Json {
  const type = [...upstream, "properties", "type"];
  return isObject(getAt(schema, [...upstream, "properties", "nodes"])) ? (setAt(schema, type, { type: "string", enum: BALANCERS, default: "roundrobin" }) as Json) : schema;
}

const REFERENCES: [string, string][] = [["service_id", "services"], ["upstream_id", "upstreams"], ["plugin_config_id", "plugin_configs"], ["group_id", "consumer_groups"]];

/** Objects that a field can name. */
function useNames({ kind }: Where): Record<string, string[]> {
  const wanted = kind.name === "consumers" ? ["group_id"] : ["routes", "services", "stream_routes"].includes(kind.name) ? ["service_id", "upstream_id", "plugin_config_id"] : [];
  const revision = useRevision().data?.stored;
  const found = useQuery({
    queryKey: ["names", revision, ...wanted], enabled: wanted.length > 0, staleTime: 10_000, placeholderData: keepPreviousData,
    queryFn: async () => Object.fromEntries(await Promise.all(REFERENCES.filter(([field]) => wanted.includes(field)).map(async ([field, collection]) => {
      const { list } = await request<{ list: Entry[] }>(`/${collection}?page=1&page_size=500`);
      return [field, list.map((entry) => String(entry.value.id))] as const;
    }))),
  }).data;
  return useMemo(() => found ?? {}, [found]);
}
