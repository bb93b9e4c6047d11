// The plugins of an object: a row for each, its fields below it when it is open.
import { type JSX, useMemo, useState } from "react";
import type { Json } from "../lib/api";
import { t } from "../lib/i18n";
import { isObject, type Path, pointer } from "../lib/json";
import { type PluginInfo, usePlugins } from "../lib/status";
import { Dialog } from "../ui/dialog";
import { Icon } from "../ui/icons";
import { blankOf, type FieldContext, Fields } from "./fields";
import { matchesWords, useMeanings, usePluginWords } from "./plugin-words";
import { mainFieldsOf, startOf } from "./hints";
import { splitSummary } from "./split";
import { requiredOf, type Schema } from "./schema";
import { Switch } from "./widgets";
import { isSecret } from "./unsaved";

interface Props {
  value: Json;
  path: Path;
  of: "route" | "consumer";
  most?: number;
  context: FieldContext;
}

export const schemaOf = (info: PluginInfo | undefined, of: "route" | "consumer"): Schema | undefined => (of === "consumer" ? (info?.consumer_schema ?? info?.schema) : info?.schema);

export function Plugins({ value, path, of, most, context }: Props): JSX.Element {
  const all = usePlugins().data;
  // The only one there may be is what the form is about.
  const [open, setOpen] = useState<string | null>(most === 1 ? (Object.keys(value)[0] ?? null) : null);
  const [adding, setAdding] = useState(false);
  const names = Object.keys(value).sort((a, b) => (all?.[b]?.priority ?? 0) - (all?.[a]?.priority ?? 0));
  const meanings = useMeanings(open !== null);
  const meaningOf = (at: Path) => (at.length === path.length + 2 && at.at(-1) === "key" && LIMITS.includes(String(at.at(-2))) ? t("limit.key.help") : meanings(at));
  const inner: FieldContext = { ...context, meaningOf, translate: false, namesFor: (field) => (field === "type" ? [] : field === "key" && open !== null && LIMITS.includes(open) ? LIMIT_KEYS : context.namesFor(field)), keptSecret: [] };
  const add = (name: string) => {
    setAdding(false);
    setOpen(name);
    const schema = schemaOf(all?.[name], of) ?? {};
    const start = (of === "route" ? startOf(name) : undefined) ?? Object.fromEntries(requiredOf(schema).map((field) => [field, blankOf((schema.properties as Json | undefined)?.[field] as Schema ?? {})]));
    context.onAdded?.([...path, name], start);
    context.set([...path, name], start);
    requestAnimationFrame(() => requestAnimationFrame(() => {
      const added = document.querySelector(`[data-path="${CSS.escape(pointer([...path, name]))}"]`);
      (added?.querySelector<HTMLElement>(".plugin-body :is(input, select, textarea):not(:disabled)") ?? added?.querySelector<HTMLElement>(".plugin-name"))?.focus();
    }));
  };
  return (
    <section className="plugins" aria-label={t("field.plugins")}>
      {names.map((name) => {
        const config = isObject(value[name]) ? value[name] : {};
        const here = [...path, name];
        const fault = context.faultAt(here);
        return (
          <div key={name} className={fault ? "plugin wrong" : "plugin"} data-path={pointer(here)}>
            <div className="plugin-row">
              <button type="button" className="plugin-name" aria-expanded={open === name} onClick={() => setOpen(open === name ? null : name)}><Icon name={open === name ? "down" : "right"} size={12} />{name}</button>
              <span className="soft small cut grow">{name === "traffic-split" ? splitSummary(config) : summary(config)}</span>
              {all && !all[name] && <span className="tag warn">{t("plugin.absent")}</span>}
              <OnOff name={name} config={config} path={here} context={context} />
              {!context.disabled && <button type="button" className="button plain icon" aria-label={t("form.clear", { name })} onClick={() => context.set(here, undefined)}><Icon name="trash" size={14} /></button>}
            </div>
            {fault && open !== name && <p className="fault">{fault}</p>}
            {open === name && <div className="plugin-body"><Fields schema={schemaOf(all?.[name], of) ?? {}} value={config} path={here} main={mainFieldsOf(name)} hidden={["_meta"]} context={inner} /></div>}
          </div>
        );
      })}
      {names.length === 0 && <p className="soft small pad-top">{t("plugins.none")}</p>}
      {!context.disabled && (most === undefined || names.length < most) && <button type="button" className="button" onClick={() => setAdding(true)}><Icon name="plus" size={12} />{t("plugins.add")}</button>}
      {adding && <Picker all={all ?? {}} of={of} only={most === 1 ? "auth" : undefined} taken={names} onPick={add} onClose={() => setAdding(false)} />}
    </section>
  );
}

function OnOff({ name, config, path, context }: { name: string; config: Json; path: Path; context: FieldContext }): JSX.Element {
  const off = isObject(config._meta) && config._meta.disable === true;
  return (
    <label className="row small soft" title={t(off ? "status.off" : "status.on")}>
      <span className="visually-hidden">{t("plugin.on", { name })}</span>
      <Switch id={`on-${name}`} disabled={context.disabled} value={!off} onChange={(on) => {
        const { disable: _, ...meta } = isObject(config._meta) ? config._meta : {};
        context.set([...path, "_meta"], on ? (Object.keys(meta).length ? meta : undefined) : { ...meta, disable: true });
      }} />
    </label>
  );
}

/** Plugins that count by a variable, and those that are usual. */
const LIMITS = ["limit-count", "limit-req", "limit-conn"];
const LIMIT_KEYS = ["remote_addr", "consumer_name", "route_id", "service_id", "http_x_forwarded_for", "host", "uri"];

function summary(config: Json): string {
  return Object.entries(config).filter(([name]) => name !== "_meta").map(([name, value]) => (typeof value !== "object" ? `${name}: ${isSecret(name, String(value)) ? "•••" : String(value)}` : Array.isArray(value) && value.every((one) => typeof one !== "object") ? `${name}: ${value.join(", ")}` : name)).join(" · ").slice(0, 160);
}

function rank(name: string, typed: string): number {
  const wanted = typed.toLowerCase().trim();
  return wanted === "" ? 0 : name === wanted ? 2 : Number(name.startsWith(wanted));
}

function Picker({ all, of, only, taken, onPick, onClose }: { all: Record<string, PluginInfo>; of: "route" | "consumer"; only?: string; taken: string[]; onPick: (name: string) => void; onClose: () => void }): JSX.Element {
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const words = usePluginWords();
  const found = useMemo(() => Object.entries(all)
    .filter(([name, info]) => !taken.includes(name) && (!only || (info.type === only && info.consumer_schema)) && (name.includes(typed.toLowerCase().trim()) || matchesWords(words[name], typed)) && (of === "route" || info.consumer_schema || info.type !== "auth"))
    // What was typed, and what begins with it, before what has it somewhere.
    .sort(([a, x], [b, y]) => rank(b, typed) - rank(a, typed) || Number(Boolean(y.consumer_schema)) * Number(of === "consumer") - Number(Boolean(x.consumer_schema)) * Number(of === "consumer") || a.localeCompare(b)), [all, typed, of, words]);
  return (
    <Dialog title={t("plugins.add")} onClose={onClose} className="picker">
      <input className="input" role="combobox" aria-expanded="true" aria-controls="plugin-list" aria-activedescendant={found[at] ? `pick-${found[at][0]}` : undefined} aria-label={t("plugins.search")} placeholder={t("plugins.search")} autoFocus data-autofocus value={typed}
        onChange={(event) => { setTyped(event.target.value); setAt(0); }}
        onKeyDown={(event) => {
          const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
          if (step) setAt(Math.max(0, Math.min(found.length - 1, at + step)));
          else if (event.key === "Enter" && found[at]) onPick(found[at][0]);
          else return;
          event.preventDefault();
        }} />
      <div id="plugin-list" role="listbox" aria-label={t("field.plugins")} className="pick-list" tabIndex={-1}>
        {found.map(([name, info], i) => (
          <div key={name} id={`pick-${name}`} role="option" aria-selected={i === at} className="pick" onClick={() => onPick(name)} ref={(element) => { if (i === at) element?.scrollIntoView({ block: "nearest" }); }}>
            <span className="grow"><span>{name}</span>{words[name] && <span className="soft small pick-text">{words[name]?.text}</span>}</span>{info.type && <span className="tag">{info.type}</span>}<span className="soft small mono">{info.priority}</span>
          </div>
        ))}
        {found.length === 0 && <p className="soft pad" role="presentation">{t("plugins.nothing")}</p>}
      </div>
    </Dialog>
  );
}
