// A form made from a JSON schema. Fields that are seldom used appear when they are set or asked for.
import { type JSX, type ReactNode, useId } from "react";
import type { Json } from "../lib/api";
import { type Key, t } from "../lib/i18n";
import { isObject, type Path, pointer } from "../lib/json";
import { en } from "../locales/en";
import { Icon } from "../ui/icons";
import { helpOf } from "./units";
import { boundsOf, objectAt, plain, propertiesOf, requiredOf, type Schema, typesOf, widgetOf } from "./schema";
import { isSecret } from "./unsaved";
import { NodesInput } from "./nodes";
import { SplitInput } from "./split";
import { Choices, JsonInput, MapInput, Switch, TextList } from "./widgets";

export interface FieldContext {
  set: (path: Path, value: unknown) => void;
  /** What is wrong at a place: its pointer, or the one of something inside. */
  faultAt: (path: Path) => string | undefined;
  /** Fields whose stored value is not shown, and stays unless something is typed. */
  keptSecret?: string[];
  /** Names that a text may be one of, such as the upstreams. */
  namesFor: (field: string) => string[];
  disabled: boolean;
  /** A field holds what is no value, so that the object on the screen cannot be saved. */
  onWrong?: (path: Path, wrong: boolean) => void;
  /** A part was just added: what it lacks is no mistake yet. */
  onAdded?: (path: Path, value: unknown) => void;
  /** What a field means, where the documentation has words for it. */
  meaningOf?: (path: Path) => string;
  /** Labels are names in human words for fields of objects, and the bare names for those of plugins. */
  translate: boolean;
}

export const labelOf = (name: string, translate: boolean): { text: string; mono: boolean } => {
  const key = `field.${name}`;
  return translate && Object.hasOwn(en, key) ? { text: t(key as Key), mono: false } : { text: name, mono: true };
};

/** Gives the focus to what was just added, once it is there. */
export function focusField(path: Path): void {
  requestAnimationFrame(() => {
    const added = document.querySelector(`[data-path="${CSS.escape(pointer(path))}"]`);
    added?.querySelector<HTMLElement>(".control :is(input, select, textarea, button):not(.clear), .plugin-name")?.focus();
  });
}

interface FieldsProps {
  schema: Schema;
  value: Json;
  path: Path;
  main: string[];
  /** Fields that are edited elsewhere. */
  hidden?: string[];
  context: FieldContext;
}

export function Fields({ schema, value, path, main, hidden = [], context }: FieldsProps): JSX.Element {
  const fields = propertiesOf(schema);
  const required = requiredOf(schema);
  const all = Object.keys(fields).filter((name) => !hidden.includes(name));
  const first = [...main, ...required].filter((name, i, names) => all.includes(name) && names.indexOf(name) === i);
  const set = all.filter((name) => !first.includes(name) && Object.hasOwn(value, name));
  const shown = [...first, ...set].filter((name) => main.length === 0 || isShown(name, value));
  const rest = all.filter((name) => !shown.includes(name)).sort();
  return (
    <>
      {shown.map((name) => (
        <Field key={name} name={name} called={name === "key" && Object.hasOwn(fields, "hash_on") ? "hash_key" : undefined} schema={fields[name] ?? {}} value={Object.hasOwn(value, name) ? value[name] : undefined} path={[...path, name]} required={required.includes(name)} context={context} />
      ))}
      {rest.length > 0 && !context.disabled && <AddField names={rest} context={context} onAdd={(name) => { context.set([...path, name], blankOf(fields[name] ?? {})); focusField([...path, name]); }} />}
    </>
  );
}

/** Of fields that exclude each other the one that is not set is among "more fields". */
const PAIRS: [string, string][] = [["uri", "uris"], ["host", "hosts"], ["sni", "snis"], ["upstream_id", "upstream"]];

export const isEmptyUpstream = (upstream: unknown): boolean => isObject(upstream) && isObject(upstream.nodes) && Object.keys(upstream.nodes).length === 0 && !upstream.service_name;

function isShown(name: string, value: Json): boolean {
  // An upstream without nodes is none yet: one that is there already may take its place.
  if (name === "upstream_id" && isEmptyUpstream(value.upstream)) return true;
  const pair = PAIRS.find((one) => one.includes(name));
  if (!pair || Object.hasOwn(value, name)) return true;
  const other = pair[0] === name ? pair[1] : pair[0];
  return !Object.hasOwn(value, other) && name === pair[0];
}

export function blankOf(schema: Schema): unknown {
  const simple = plain(schema);
  if (simple.default !== undefined) return simple.default;
  if (Array.isArray(simple.enum)) return simple.enum[0];
  switch (typesOf(schema)[0]) {
    case "object": return Object.fromEntries(requiredOf(simple).map((name) => [name, blankOf(objectAt(objectAt(simple, "properties"), name))]));
    case "array": return [];
    case "boolean": return true;
    case "integer": case "number": return boundsOf(simple).least ?? 0;
    default: return "";
  }
}

function AddField({ names, context, onAdd }: { names: string[]; context: FieldContext; onAdd: (name: string) => void }): JSX.Element {
  return (
    <div className="field add">
      <span />
      <select className="select" value="" aria-label={t("form.more")} onChange={(event) => event.target.value && onAdd(event.target.value)}>
        <option value="">{t("form.more")}</option>
        {names.map((name) => <option key={name} value={name}>{labelOf(name, context.translate).text}</option>)}
      </select>
    </div>
  );
}

const EMPTIED = ["text", "long", "number", "choice", "choices", "list", "json"];

interface FieldProps {
  name: string;
  /** Where the name alone would be that of another field. */
  called?: string;
  schema: Schema;
  value: unknown;
  path: Path;
  required: boolean;
  context: FieldContext;
}

function Field(props: FieldProps): JSX.Element {
  const { name, called, schema, value, path, required, context } = props;
  const id = useId();
  const label = labelOf(called ?? name, context.translate);
  const widget = pointer(path).endsWith("/traffic-split/rules") ? "split" : widgetOf(name, schema);
  const fault = context.faultAt(path);
  // What the keyboard empties in the field itself is no stop of Tab; rows are removed one by one.
  const byRows = widget === "nodes" || (widget === "map" && isObject(value) && Object.keys(value).length > 0);
  const clear = !required && value !== undefined && !context.disabled && !byRows
    ? <button type="button" tabIndex={EMPTIED.includes(widget) ? -1 : undefined} className="button plain icon clear" aria-label={t("form.clear", { name: label.text })} title={t("form.clear", { name: label.text })} onClick={() => context.set(path, undefined)}><Icon name="close" size={12} /></button>
    : null;
  const text = <>{label.text}{required && <span className="soft"> *</span>}</>;
  const help = context.meaningOf?.(path) || helpOf(path, schema, typeof value === "number" || value === undefined);
  if (widget === "group") return <Group {...props} title={text} mono={label.mono} clear={clear} />;
  return (
    <div className={fault ? "field wrong" : "field"} data-path={pointer(path)}>
      <label htmlFor={id} className={label.mono ? "mono" : ""} id={`${id}-label`}>{text}</label>
      <div className="control">
        <Control {...props} id={id} widget={widget} fault={fault} />
        {clear}
      </div>
      {help && <p className="help-text soft small">{help}</p>}
      {fault && <p className="fault" id={`${id}-fault`}>{fault}</p>}
    </div>
  );
}

function Group({ schema, value, path, context, title, mono, clear, name }: FieldProps & { title: ReactNode; mono: boolean; clear: ReactNode }): JSX.Element {
  if (value === undefined) {
    return (
      <div className="field">
        <span className={mono ? "mono" : ""}>{title}</span>
        <div className="control"><button type="button" className="button" disabled={context.disabled} onClick={() => { context.set(path, blankOf(schema)); focusField(path); }}><Icon name="plus" size={12} />{t("form.add", { name: labelOf(name, context.translate).text })}</button></div>
      </div>
    );
  }
  const usual = name === "upstream" ? ["type", "scheme", "nodes"] : [];
  return (
    <fieldset className="group" data-path={pointer(path)}>
      <legend className={mono ? "mono" : ""}>{title}{clear}</legend>
      <Fields schema={plain(schema)} value={isObject(value) ? value : {}} path={path} main={usual} hidden={["_meta"]} context={context} />
    </fieldset>
  );
}

function Control({ name, schema, value, path, context, id, widget, fault }: FieldProps & { id: string; widget: string; fault?: string }): JSX.Element {
  const simple = plain(schema);
  const set = (next: unknown) => context.set(path, next);
  const common = { id, disabled: context.disabled, "aria-invalid": fault ? true : undefined, "aria-describedby": fault ? `${id}-fault` : undefined };
  const { least, most } = boundsOf(simple);
  const hint = simple.default !== undefined && typeof simple.default !== "object" ? String(simple.default) : least !== undefined ? (most === undefined ? t("form.least", { n: least }) : `${least}–${most}`) : "";
  switch (widget) {
    case "switch": return <Switch {...common} value={value ?? simple.default ?? false} onChange={set} />;
    case "choice": {
      const options = simple.enum as unknown[];
      return (
        <select {...common} className="select" value={value === undefined ? "" : options.findIndex((option) => option === value)} onChange={(event) => set(event.target.value === "" ? undefined : (options[Number(event.target.value)] ?? value))}>
          <option value="">{simple.default === undefined ? "" : t("form.default", { value: name === "status" ? t(simple.default === 0 ? "status.off" : "status.on") : String(simple.default) })}</option>
          {value !== undefined && !options.includes(value) && <option value={-1}>{String(value)}</option>}
          {options.map((option, i) => <option key={i} value={i}>{name === "status" ? t(option === 0 ? "status.off" : "status.on") : String(option)}</option>)}
        </select>
      );
    }
    case "number": return <input {...common} className="input mono short" inputMode="numeric" autoComplete="off" placeholder={hint} value={value === undefined ? "" : String(value)} onChange={(event) => set(numberOf(event.target.value))} />;
    case "long": return <textarea {...common} className={typeof value === "string" && isSecret(name, value) ? "textarea mono veiled" : "textarea mono"} spellCheck={false} rows={5} placeholder={path.length === 1 && context.keptSecret?.includes(name) ? t("form.kept") : undefined} value={typeof value === "string" ? value : ""} onChange={(event) => set(event.target.value === "" && context.keptSecret?.includes(name) ? undefined : event.target.value)} />;
    case "choices": return <Choices {...common} label={`${id}-label`} options={plain(objectAt(simple, "items")).enum as string[]} value={value} onChange={set} />;
    case "list": return <TextList {...common} value={value} numbers={typesOf(objectAt(simple, "items"))[0] !== "string"} onChange={set} />;
    case "map": return <MapInput {...common} label={`${id}-label`} value={value} onChange={set} />;
    case "nodes": return <NodesInput {...common} label={`${id}-label`} value={value} onChange={set} onWrong={(wrong) => context.onWrong?.(path, wrong)} />;
    case "split": return <SplitInput {...common} value={value} onChange={set} onWrong={(wrong) => context.onWrong?.(path, wrong)} />;
    case "json": return <JsonInput {...common} value={value} onChange={set} onWrong={(wrong) => context.onWrong?.(path, wrong)} />;
    default: return <TextInput {...common} name={name} value={value} schema={schema} hint={hint} names={context.namesFor(name)} onChange={set} />;
  }
}

const numberOf = (text: string): unknown => (text === "" ? undefined : /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text);

interface TextProps {
  id: string;
  name: string;
  disabled: boolean;
  value: unknown;
  schema: Schema;
  hint: string;
  names: string[];
  onChange: (value: unknown) => void;
}

const CODED = /uri|path|host|addr|id$|key|regex|url|header|sni/;

function TextInput({ name, value, schema, hint, names, onChange, ...rest }: TextProps): JSX.Element {
  const number = typesOf(schema).some((type) => type === "integer" || type === "number");
  return (
    <>
      <input
        {...rest} className={`${CODED.test(name) ? "input mono" : "input"}${typeof value === "string" && isSecret(name, value) ? " veiled" : ""}`} autoComplete="off" spellCheck={false} placeholder={hint} list={names.length ? `${rest.id}-names` : undefined}
        value={value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value)}
        onChange={(event) => onChange(event.target.value === "" ? undefined : number && !name.endsWith("id") ? numberOf(event.target.value) : event.target.value)}
      />
      {names.length > 0 && <datalist id={`${rest.id}-names`}>{names.map((one) => <option key={one} value={one} />)}</datalist>}
    </>
  );
}
