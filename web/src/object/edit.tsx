import { useQuery } from "@tanstack/react-query";
import { type JSX, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import { type Entry, type Fault, type Json, request } from "../lib/api";
import { fullTime, type Key, t } from "../lib/i18n";
import { equal, isObject, type Path, pointer } from "../lib/json";
import { useKeys } from "../lib/keys";
import type { Where } from "../lib/kinds";
import { address, navigate, setGuard } from "../lib/router";
import { useMayChange, useSession } from "../lib/session";
import { usePlugins } from "../lib/status";
import { Header, Link, Segmented, Skeleton } from "../ui/basics";
import { confirm } from "../ui/dialog";
import { Icon } from "../ui/icons";
import { MenuButton } from "../ui/menu";
import { toast } from "../ui/toasts";
import { type Draft, type Read, remove } from "./changes";
import { CodeField, type Syntax } from "./editor";
import { type FieldContext, Fields, isEmptyUpstream } from "./fields";
import { Identity, isId, suggestId } from "./identity";
import { Crumbs } from "./object-screen";
import { lint } from "./lint";
import { Plugins } from "./plugins";
import { Review } from "./review";
import { SECRET_SCHEMAS } from "./secret-schemas";
import { useAdded } from "./added";
import { Validity } from "./validity";
import { find, forget, keep, restore, type Unsaved, unsavedOf } from "./unsaved";
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
  const complete = given.length > 0 && given.every(Boolean) && (first !== null || isId(kind, given.at(-1) ?? "")) && (kind.name !== "secrets" || given.length === 2);
  const draft: Draft = { kind, parts, object: editing.object, base: began.base };
  const { checked, added, look } = useAdded(editing.object, useCheck(admin && (changed || !began.base) && !editing.problem && complete ? draft : null), placeOf);
  const dirty = admin && changed;
  // A new object under an identifier that is there already would replace what somebody else made.
  const taken = !began.base && checked.result?.changes.some((one) => one.action === "update" && one.resource === parts.join("/")) === true;

  const warnings = checked.state === "good" ? warningsOf(kind.name, editing.object, checked) : [];
  const unsaved = useUnsaved([...collection, ...where.id].join("/"), began.base ?? start, editing.object, id, dirty);
  useLeaveGuard(dirty, unsaved.discard);
  const review = () => { look(); if (admin && complete && !taken && !editing.problem && (changed || !began.base)) setReviewing(true); };
  useKeys({ "ctrl+s": review, "ctrl+enter": review });
  const saved = (now: Read) => {
    setReviewing(false);
    unsaved.discard();
    setBegan({ base: now.object, revision: now.revision });
    toast(t("saved", { name: given.join("/") }));
    if (!first) {
      setGuard(null);
      navigate(address(parts), { replace: true });
    }
  };
  const drop = async () => {
    setGuard(null);
    unsaved.discard();
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
      {changed && began.base && <button type="button" className="button hide-narrow" onClick={() => { unsaved.discard(); editing.replace(began.base ?? {}); }}>{t("form.discard")}</button>}
      <button type="button" className="button primary" disabled={!complete || taken || Boolean(editing.problem) || (!changed && Boolean(began.base))} onClick={review}>{t("form.review")}<kbd className="hide-narrow">Ctrl S</kbd></button>
    </>
  );
  return (
    <>
      <Header title={title} crumbs={<Crumbs where={where} />} actions={actions}><CheckState checked={checked} changed={dirty} taken={taken} warnings={warnings.length} /></Header>
      <div className="tabs-narrow"><Segmented label={t("form.view")} value={tab} options={[["form", t("form.form")], ["source", t("form.source")]]} onChange={setTab} /></div>
      <div className="work" data-tab={tab}>
        <div className="form">
          <div className="form-fields">
            {unsaved.found && <Found unsaved={unsaved.found} onDiscard={unsaved.discard} onRestore={() => {
              if (!unsaved.found) return;
              editing.replace(restore(editing.object, unsaved.found));
              if (!first) setId(unsaved.found.id);
              unsaved.answered();
            }} />}
            {kind.name === "ssls" && <Validity cert={editing.object.cert} />}
            {!first && <Identity kind={kind} id={id} suggested={suggestId(kind, editing.object)} onChange={(next) => { setId(next); if (kind.idField === "username") editing.set(["username"], next[0]); }} />}
            <FormBody where={where} id={given} editing={editing} checked={checked} saved={began.base !== null} onAdded={added} disabled={!admin || Boolean(editing.problem)} />
          </div>
          <Problems checked={checked} object={editing.object} syntax={editing.problem ? t("form.syntax", { line: editing.problem.line }) : null} taken={taken ? parts : null} warnings={warnings} />
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

/** What an earlier session left of this place, until the user says what to do with it. */
function useUnsaved(place: string, base: Json, object: Json, id: string[], dirty: boolean) {
  const who = useSession()?.name ?? null;
  const [found, setFound] = useState<Unsaved | null>(() => find(who, place));
  useEffect(() => {
    if (dirty) keep(who, place, unsavedOf(base, object, id));
    else if (!found) forget(who, place);
  }, [who, place, base, object, id, dirty, found]);
  return { found, answered: () => setFound(null), discard: () => { setFound(null); forget(who, place); } };
}

function Found({ unsaved, onRestore, onDiscard }: { unsaved: Unsaved; onRestore: () => void; onDiscard: () => void }): JSX.Element {
  return (
    <div className="problems">
      <div className="notice warn" role="alert">
        <Icon name="warning" />
        <div className="grow"><p>{t("unsaved.found", { time: fullTime(unsaved.at) })}</p>{unsaved.short && <p className="small">{t("unsaved.short")}</p>}</div>
        <button type="button" className="button" onClick={onRestore}>{t("unsaved.restore")}</button>
        <button type="button" className="button" onClick={onDiscard}>{t("form.discard")}</button>
      </div>
    </div>
  );
}

function useLeaveGuard(dirty: boolean, onLeave: () => void): void {
  const leaving = useRef(onLeave);
  leaving.current = onLeave;
  useEffect(() => {
    if (!dirty) return;
    setGuard((go) => {
      void confirm({ title: t("leave.title"), text: <p>{t("leave.text")}</p>, action: t("leave.action"), danger: true }).then((yes) => {
        if (!yes) return;
        setGuard(null);
        leaving.current();
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

function CheckState({ checked, changed, taken, warnings }: { checked: Checked; changed: boolean; taken: boolean; warnings: number }): JSX.Element | null {
  if (taken) return <span className="tag bad" role="status">{t("check.taken")}</span>;
  if (checked.state === "good" && warnings > 0) return <span className="tag warn" role="status">{t("check.warned", { n: warnings })}</span>;
  const changes = checked.result?.changes.reduce((sum, one) => sum + (one.diff?.length ?? 0), 0) ?? 0;
  switch (checked.state) {
    case "good": return <span className="tag ok hide-narrow" role="status">{changed && changes > 0 ? t("check.good.n", { n: changes }) : t("check.good")}</span>;
    case "bad": return <span className="tag bad" role="status">{t("check.bad")}</span>;
    case "incomplete": return <span className="tag" role="status">{t("check.incomplete")}</span>;
    case "checking": return <span className="soft small hide-narrow" role="status">{t("check.checking")}</span>;
    default: return null;
  }
}

/** Those of the gateway, and of the page where the gateway has none. */
function warningsOf(kind: string, object: Json, checked: Checked): string[] {
  const told = (checked.result?.warnings ?? []).map(String);
  return told.length ? told : lint(kind, object);
}

/** What a message about a regular expression, or about parts of the schema, means. */
function hintsOf(text: string, object: Json): Key[] {
  if (/matches both schemas/.test(text) && "uri" in object && "uris" in object) return ["hint.both"];
  if (/property "hosts?"/.test(text) && /match pattern/.test(text)) return ["hint.host"];
  if (/property "uris?"/.test(text) || /none of its paths can be read/.test(text)) return ["hint.path"];
  return [];
}

function Problems({ checked, object, syntax, taken, warnings }: { checked: Checked; object: Json; syntax: string | null; taken: string[] | null; warnings: string[] }): JSX.Element | null {
  const faults = checked.state === "bad" || checked.state === "unknown" ? (checked.error?.faults.map((fault) => fault.error) ?? []) : [];
  const all = syntax ? [syntax] : faults.length ? faults : checked.error ? [checked.error.message] : [];
  const hints = [...new Set(all.flatMap((text) => hintsOf(text, object)))];
  const atFields = useAtFields();
  const rest = all.filter((text) => !atFields.has(bare(text)));
  if (rest.length + hints.length + warnings.length === 0 && !taken) return null;
  return (
    <div className="problems below">
      {taken && <div className="notice bad"><Icon name="warning" /><p className="grow">{t("form.taken", { name: taken.at(-1) ?? "" })}</p><Link className="button" to={address(taken)}>{t("form.taken.open")}</Link></div>}
      {hints.map((key) => <div key={key} className="notice bad"><Icon name="warning" /><p className="grow">{t(key)}</p></div>)}
      {rest.slice(0, 5).map((text) => <div key={text} className="notice bad"><Icon name="warning" /><p className="grow">{text}</p></div>)}
      {warnings.slice(0, 5).map((text) => <div key={text} className="notice warn"><Icon name="warning" /><p className="grow">{text}</p></div>)}
    </div>
  );
}

/** As it stands at a field. */
const bare = (text: string): string => text.replace(/^invalid configuration: /, "");

/** What is said at a field already, which is where to look. */
function useAtFields(): ReadonlySet<string> {
  const [texts, setTexts] = useState<ReadonlySet<string>>(new Set());
  useLayoutEffect(() => {
    const now = [...document.querySelectorAll(".form-fields .fault")].map((one) => one.textContent ?? "");
    setTexts((before) => (before.size === new Set(now).size && now.every((text) => before.has(text)) ? before : new Set(now)));
  });
  return texts;
}

interface BodyProps {
  where: Where;
  id: string[];
  editing: ReturnType<typeof useEditing>;
  checked: Checked;
  /** It is stored already. */
  saved: boolean;
  onAdded: (path: Path, value: unknown) => void;
  disabled: boolean;
}

function FormBody({ where, id, editing, checked, saved, onAdded, disabled }: BodyProps): JSX.Element {
  const { kind } = where;
  const schema = useSchema(where, id);
  const names = useNames(where);
  const faults = checked.state === "bad" ? (checked.error?.faults ?? []) : [];
  const context: FieldContext = {
    disabled, onAdded,
    set: (path, value) => {
      if (path.join() === "upstream_id" && value && isEmptyUpstream(editing.object.upstream)) editing.set(["upstream"], undefined);
      editing.set(path, value);
    },
    namesFor: (field) => (field === "type" && kind.schema !== "ssl" ? BALANCERS : (names[field] ?? [])), keptSecret: saved && kind.patched ? ["key"] : [], translate: kind.schema !== null,
    faultAt: (path: Path) => faults.find((fault) => `${placeOf(fault)}/`.startsWith(`${pointer(path)}/`))?.error.replace(/^invalid configuration: /, ""),
  };
  if (schema === undefined) return <Skeleton />;
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

/** Undefined until it has come, null where the object has none. */
function useSchema({ kind }: Where, id: string[]): Json | null | undefined {
  const plugins = usePlugins();
  const named = useQuery({ queryKey: ["schema", kind.schema], queryFn: () => request<Json>(`/schema/${kind.schema}`), enabled: kind.schema !== null, staleTime: Infinity });
  if (kind.schema !== null) return named.isPending ? undefined : (named.data ?? null);
  if (kind.name === "secrets") return SECRET_SCHEMAS[id[0] ?? ""] ?? null;
  return plugins.isPending ? undefined : (plugins.data?.[id[0] ?? ""]?.metadata_schema ?? null);
}

/** Types of an upstream. Another one is refused, with those that there are. */
const BALANCERS = ["roundrobin", "chash", "ewma", "least_conn"];

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
