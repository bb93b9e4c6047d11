import { useQuery } from "@tanstack/react-query";
import { type JSX, useEffect, useMemo, useState } from "react";
import { type Entry, type Fault, type Json, request } from "../lib/api";
import { t } from "../lib/i18n";
import { equal, isObject, type Path, pointer } from "../lib/json";
import { useKeys } from "../lib/keys";
import type { Where } from "../lib/kinds";
import { address, navigate, setGuard } from "../lib/router";
import { useMayChange } from "../lib/session";
import { usePlugins } from "../lib/status";
import { Header, Segmented } from "../ui/basics";
import { confirm } from "../ui/dialog";
import { Icon } from "../ui/icons";
import { MenuButton } from "../ui/menu";
import { toast } from "../ui/toasts";
import { type Draft, type Read, remove } from "./changes";
import { CodeField, type Syntax } from "./editor";
import { type FieldContext, Fields, isEmptyUpstream } from "./fields";
import { Identity, suggestId } from "./identity";
import { Crumbs } from "./object-screen";
import { Plugins } from "./plugins";
import { Review } from "./review";
import { SECRET_SCHEMAS } from "./secret-schemas";
import { type Checked, useCheck, useEditing } from "./use-draft";

interface Props {
  where: Where;
  start: Json;
  base: Json | null;
  revision: number;
}

export function Edit({ where, start, base: first, revision: firstRevision }: Props): JSX.Element {
  const { kind, collection } = where;
  const [began, setBegan] = useState({ base: first, revision: firstRevision });
  const [id, setId] = useState<string[]>(first ? where.id : []);
  const [tab, setTab] = useState<"form" | "source">("form");
  const [reviewing, setReviewing] = useState(false);
  const editing = useEditing(start);
  const admin = useMayChange();
  const changed = !equal(editing.object, began.base ?? start);
  const given = first ? id : id.some(Boolean) ? id : suggestId(kind, editing.object);
  const parts = [...collection, ...given];
  const complete = given.length > 0 && given.every(Boolean) && (kind.name !== "secrets" || given.length === 2);
  const draft: Draft = { kind, parts, object: editing.object, base: began.base };
  const checked = useCheck(admin && (changed || !began.base) && !editing.problem && complete ? draft : null);
  const dirty = admin && changed;

  useLeaveGuard(dirty);
  const review = () => { if (admin && complete && !editing.problem && (changed || !began.base)) setReviewing(true); };
  useKeys({ "ctrl+s": review, "ctrl+enter": review });
  const saved = (now: Read) => {
    setReviewing(false);
    setBegan({ base: now.object, revision: now.revision });
    toast(t("saved", { name: given.join("/") }));
    if (!first) {
      setGuard(null);
      navigate(address(parts), { replace: true });
    }
  };
  const drop = async () => {
    setGuard(null);
    if (await remove(kind, collection, [given.join("/")])) navigate(address(collection));
  };
  const title = first ? String(editing.object.name ?? where.id.join("/")) : t("form.new", { kind: t(kind.one) });
  const actions = !admin ? <span className="tag">{t("form.readonly")}</span> : (
    <>
      {first && <MenuButton className="button icon plain" name={t("form.actions")} label={<Icon name="more" />} items={[
        { name: "copy", label: <><Icon name="copy" />{t("action.copy")}</>, action: () => navigate(address([...collection, "+new"], { from: JSON.stringify(editing.object) })) },
        ...(kind.name === "consumers" ? [{ name: "credentials", label: <><Icon name="secrets" />{t("kind.credentials")}</>, action: () => navigate(address([...parts, "credentials"])) }] : []),
        { name: "delete", label: <><Icon name="trash" />{t("action.delete")}</>, danger: true, action: () => void drop() },
      ]} />}
      {changed && began.base && <button type="button" className="button hide-narrow" onClick={() => editing.replace(began.base ?? {})}>{t("form.discard")}</button>}
      <button type="button" className="button primary" disabled={!complete || Boolean(editing.problem) || (!changed && Boolean(began.base))} onClick={review}>{t("form.review")}<kbd className="hide-narrow">Ctrl S</kbd></button>
    </>
  );
  return (
    <>
      <Header title={title} crumbs={<Crumbs where={where} />} actions={actions}><CheckState checked={checked} changed={dirty} /></Header>
      <div className="tabs-narrow"><Segmented label={t("form.view")} value={tab} options={[["form", t("form.form")], ["source", t("form.source")]]} onChange={setTab} /></div>
      <div className="work" data-tab={tab}>
        <div className="form">
          <Problems checked={checked} syntax={editing.problem ? t("form.syntax", { line: editing.problem.line }) : null} />
          {!first && <Identity kind={kind} id={id} suggested={suggestId(kind, editing.object)} onChange={(next) => { setId(next); if (kind.idField === "username") editing.set(["username"], next[0]); }} />}
          <FormBody where={where} id={given} editing={editing} checked={checked} disabled={!admin || Boolean(editing.problem)} />
        </div>
        <div className="source">
          <div className="source-bar">
            <Segmented<Syntax> label={t("form.syntax.choose")} value={editing.syntax} options={[["json", "JSON"], ["yaml", "YAML"]]} onChange={editing.choose} />
            <span className="soft small cut">{editing.problem ? <span className="bad">{t("form.line", { line: editing.problem.line })}: {editing.problem.text}</span> : t("form.instep")}</span>
          </div>
          <CodeField text={editing.text} syntax={editing.syntax} label={t("form.source.label", { name: title })} readOnly={!admin} problem={editing.problem} onChange={editing.type} />
        </div>
      </div>
      {reviewing && <Review draft={draft} revision={began.revision} onClose={() => setReviewing(false)} onSaved={saved} onMerged={(merged, theirs) => { editing.replace(merged); setBegan({ base: theirs.object, revision: theirs.revision }); }} />}
    </>
  );
}

function useLeaveGuard(dirty: boolean): void {
  useEffect(() => {
    if (!dirty) return;
    setGuard((go) => {
      void confirm({ title: t("leave.title"), text: <p>{t("leave.text")}</p>, action: t("leave.action"), danger: true }).then((yes) => {
        if (!yes) return;
        setGuard(null);
        go();
      });
      return false;
    });
    const unload = (event: BeforeUnloadEvent) => event.preventDefault();
    addEventListener("beforeunload", unload);
    return () => {
      setGuard(null);
      removeEventListener("beforeunload", unload);
    };
  }, [dirty]);
}

function CheckState({ checked, changed }: { checked: Checked; changed: boolean }): JSX.Element | null {
  const changes = checked.result?.changes.reduce((sum, one) => sum + (one.diff?.length ?? 0), 0) ?? 0;
  switch (checked.state) {
    case "good": return <span className="tag ok hide-narrow" role="status">{changed && changes > 0 ? t("check.good.n", { n: changes }) : t("check.good")}</span>;
    case "bad": return <span className="tag bad" role="status">{t("check.bad")}</span>;
    case "checking": return <span className="soft small hide-narrow" role="status">{t("check.checking")}</span>;
    default: return null;
  }
}

function Problems({ checked, syntax }: { checked: Checked; syntax: string | null }): JSX.Element | null {
  const faults = checked.state === "bad" || checked.state === "unknown" ? (checked.error?.faults.map((fault) => fault.error) ?? []) : [];
  const all = syntax ? [syntax] : faults.length ? faults : checked.error ? [checked.error.message] : [];
  if (all.length === 0) return null;
  return <div className="problems">{all.slice(0, 5).map((text) => <div key={text} className="notice bad"><Icon name="warning" /><p className="grow">{text}</p></div>)}</div>;
}

interface BodyProps {
  where: Where;
  id: string[];
  editing: ReturnType<typeof useEditing>;
  checked: Checked;
  disabled: boolean;
}

function FormBody({ where, id, editing, checked, disabled }: BodyProps): JSX.Element {
  const { kind } = where;
  const schema = useSchema(where, id);
  const names = useNames(where);
  const faults = checked.state === "bad" ? (checked.error?.faults ?? []) : [];
  const context: FieldContext = {
    disabled,
    set: (path, value) => {
      if (path.join() === "upstream_id" && value && isEmptyUpstream(editing.object.upstream)) editing.set(["upstream"], undefined);
      editing.set(path, value);
    },
    namesFor: (field) => names[field] ?? [], translate: kind.schema !== null,
    faultAt: (path: Path) => faults.find((fault) => `${placeOf(fault)}/`.startsWith(`${pointer(path)}/`))?.error.replace(/^invalid configuration: /, ""),
  };
  if (!schema) return <div className="pad soft">{id.length ? t("form.noschema") : t("form.chooseid")}</div>;
  return (
    <>
      <Fields schema={schema} value={editing.object} path={[]} main={kind.main} hidden={["id", "create_time", "update_time", "plugins", "validity_start", "validity_end", ...(kind.idField === "username" ? ["username"] : [])]} context={context} />
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

function useSchema({ kind }: Where, id: string[]): Json | null {
  const plugins = usePlugins().data;
  const named = useQuery({ queryKey: ["schema", kind.schema], queryFn: () => request<Json>(`/schema/${kind.schema}`), enabled: kind.schema !== null, staleTime: Infinity }).data;
  if (kind.schema !== null) return named ?? null;
  if (kind.name === "secrets") return SECRET_SCHEMAS[id[0] ?? ""] ?? null;
  return plugins?.[id[0] ?? ""]?.metadata_schema ?? null;
}

const REFERENCES: [string, string][] = [["service_id", "services"], ["upstream_id", "upstreams"], ["plugin_config_id", "plugin_configs"], ["group_id", "consumer_groups"]];

/** Objects that a field can name. */
function useNames({ kind }: Where): Record<string, string[]> {
  const wanted = kind.name === "consumers" ? ["group_id"] : ["routes", "services", "stream_routes"].includes(kind.name) ? ["service_id", "upstream_id", "plugin_config_id"] : [];
  const found = useQuery({
    queryKey: ["names", ...wanted], enabled: wanted.length > 0, staleTime: 10_000,
    queryFn: async () => Object.fromEntries(await Promise.all(REFERENCES.filter(([field]) => wanted.includes(field)).map(async ([field, collection]) => {
      const { list } = await request<{ list: Entry[] }>(`/${collection}?page=1&page_size=500`);
      return [field, list.map((entry) => String(entry.value.id))] as const;
    }))),
  }).data;
  return useMemo(() => found ?? {}, [found]);
}
