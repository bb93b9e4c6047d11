// The controls of forms that HTML does not have.
import { type JSX, type KeyboardEvent, type RefObject, useEffect, useRef, useState } from "react";
import { t } from "../lib/i18n";
import { equal, isObject } from "../lib/json";
import { Icon } from "../ui/icons";

interface Common {
  id: string;
  disabled: boolean;
  value: unknown;
  onChange: (value: unknown) => void;
  "aria-invalid"?: boolean;
  "aria-describedby"?: string;
}

export function Switch({ value, onChange, ...rest }: Common): JSX.Element {
  return <input {...rest} type="checkbox" role="switch" className="switch" checked={value === true} onChange={(event) => onChange(event.target.checked)} />;
}

export function Choices({ value, onChange, options, label, id, disabled }: Common & { options: string[]; label: string }): JSX.Element {
  const chosen = Array.isArray(value) ? (value as string[]) : [];
  const toggle = (option: string) => {
    const next = options.filter((one) => (one === option ? !chosen.includes(one) : chosen.includes(one)));
    onChange(next.length ? next : undefined);
  };
  return (
    <div id={id} className="row wrap tight" role="group" aria-labelledby={label}>
      {options.map((option) => <button key={option} type="button" className={chosen.includes(option) ? "chip set mono" : "chip mono"} aria-pressed={chosen.includes(option)} disabled={disabled} onClick={() => toggle(option)}>{option}</button>)}
    </div>
  );
}

/** Texts, one after the other: Enter adds, Backspace in the empty field takes the last one out again. */
export function TextList({ value, onChange, numbers, id, disabled, ...rest }: Common & { numbers: boolean }): JSX.Element {
  const [typed, setTyped] = useState("");
  const all = Array.isArray(value) ? value : [];
  const add = (text: string) => {
    const next = text.split("\n").map((one) => one.trim()).filter(Boolean).map((one) => (numbers && /^-?\d+(\.\d+)?$/.test(one) ? Number(one) : one));
    if (next.length) onChange([...all, ...next.filter((one) => !all.includes(one))]);
    setTyped("");
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "Enter" && typed) {
      event.preventDefault();
      add(typed);
    } else if (event.key === "Backspace" && !typed && all.length) {
      const kept = all.slice(0, -1);
      onChange(kept.length ? kept : undefined);
    }
  };
  const without = (index: number) => { const kept = all.filter((_, i) => i !== index); onChange(kept.length ? kept : undefined); };
  return (
    <div className="list-input">
      {all.map((one, i) => (
        <span key={`${String(one)} ${i}`} className="chip mono">{String(one)}
          {!disabled && <button type="button" aria-label={t("form.clear", { name: String(one) })} onClick={() => without(i)}><Icon name="close" size={10} /></button>}
        </span>
      ))}
      <input
        {...rest} id={id} disabled={disabled} className="mono" value={typed} placeholder={all.length ? "" : t("form.enter")} spellCheck={false} autoComplete="off"
        onChange={(event) => setTyped(event.target.value)} onKeyDown={onKey} onBlur={() => add(typed)}
        onPaste={(event) => { const text = event.clipboardData.getData("text"); if (text.includes("\n")) { event.preventDefault(); add(text); } }}
      />
    </div>
  );
}

/** Rows that exist here before they are worth a value, such as one whose name is still empty. */
function useRows<R>(value: unknown, read: (value: unknown) => R[], write: (rows: R[]) => unknown, onChange: (value: unknown) => void): [R[], (rows: R[]) => void] {
  const [rows, setRows] = useState<R[]>(() => read(value));
  const sent = useRef(value);
  useEffect(() => {
    if (equal(value, sent.current)) return;
    sent.current = value;
    setRows(read(value));
  }, [value]);
  return [rows, (next) => {
    setRows(next);
    sent.current = write(next);
    onChange(sent.current);
  }];
}

/** The first field of the row that was just added. */
function focusLast(group: RefObject<HTMLDivElement | null>): void {
  requestAnimationFrame(() => [...(group.current?.querySelectorAll(".rows-row") ?? [])].at(-1)?.querySelector("input")?.focus());
}

type Pair = [string, string];

export function MapInput({ value, onChange, label, disabled }: Common & { label: string }): JSX.Element {
  const read = (from: unknown): Pair[] => (isObject(from) ? Object.entries(from).map(([name, one]) => [name, String(one)]) : []);
  const write = (rows: Pair[]) => { const full = rows.filter(([name]) => name); return full.length ? Object.fromEntries(full) : undefined; };
  const group = useRef<HTMLDivElement>(null);
  const [rows, setRows] = useRows(value, read, write, onChange);
  const edit = (index: number, at: 0 | 1, text: string) => setRows(rows.map((row, i) => (i === index ? (at === 0 ? [text, row[1]] : [row[0], text]) : row)));
  return (
    <div className="rows" role="group" aria-labelledby={label} ref={group}>
      {rows.map((row, i) => (
        <div key={i} className="rows-row two">
          <input className="input mono" value={row[0]} disabled={disabled} aria-label={t("form.key")} placeholder={t("form.key")} onChange={(event) => edit(i, 0, event.target.value)} />
          <input className="input mono" value={row[1]} disabled={disabled} aria-label={t("form.value")} placeholder={t("form.value")} onChange={(event) => edit(i, 1, event.target.value)} />
          <RemoveRow disabled={disabled} name={row[0]} onClick={() => setRows(rows.filter((_, at) => at !== i))} />
        </div>
      ))}
      {!disabled && <button type="button" className="button" onClick={() => { setRows([...rows, ["", ""]]); focusLast(group); }}><Icon name="plus" size={12} />{t("form.add.row")}</button>}
    </div>
  );
}

function RemoveRow({ disabled, name, onClick }: { disabled: boolean; name: string; onClick: () => void }): JSX.Element | null {
  if (disabled) return null;
  return <button type="button" className="button plain icon" aria-label={t("form.clear", { name })} onClick={onClick}><Icon name="close" size={12} /></button>;
}

interface Node {
  host: string;
  port: string;
  weight: string;
  /** Fields of the long form that have no column here. */
  more: Record<string, unknown>;
}

export function readNodes(value: unknown): Node[] {
  if (Array.isArray(value)) {
    return value.filter(isObject).map(({ host, port, weight, ...more }) => ({ host: String(host ?? ""), port: port === undefined ? "" : String(port), weight: String(weight ?? 1), more }));
  }
  if (!isObject(value)) return [];
  return Object.entries(value).map(([address, weight]) => {
    const match = /^(.*?)(?::(\d+))?$/.exec(address);
    return { host: match?.[1] ?? address, port: match?.[2] ?? "", weight: String(weight), more: {} };
  });
}

/** In the form that the value had: `{"host:port": weight}` or a list of objects. */
export function writeNodes(nodes: Node[], short: boolean): unknown {
  const number = (text: string) => (/^\d+$/.test(text) ? Number(text) : text);
  if (short) return Object.fromEntries(nodes.filter((node) => node.host).map((node) => [node.port ? `${node.host}:${node.port}` : node.host, number(node.weight)]));
  return nodes.map((node) => ({ host: node.host, ...(node.port ? { port: number(node.port) } : {}), weight: number(node.weight), ...node.more }));
}

export function NodesInput({ value, onChange, label, disabled }: Common & { label: string }): JSX.Element {
  const group = useRef<HTMLDivElement>(null);
  const [rows, setRows] = useRows(value, readNodes, (nodes) => writeNodes(nodes, !Array.isArray(value)), onChange);
  const edit = (index: number, change: Partial<Node>) => setRows(rows.map((row, i) => (i === index ? { ...row, ...change } : row)));
  const cell = (row: Node, i: number, name: "host" | "port" | "weight") => (
    <input className="input mono" value={row[name]} disabled={disabled} aria-label={t(`field.${name}`)} placeholder={t(`field.${name}`)} inputMode={name === "host" ? undefined : "numeric"} onChange={(event) => edit(i, { [name]: event.target.value })} />
  );
  return (
    <div className="rows" role="group" aria-labelledby={label} ref={group}>
      {rows.length > 0 && <div className="rows-row three soft small" aria-hidden="true"><span>{t("field.host")}</span><span>{t("field.port")}</span><span>{t("field.weight")}</span></div>}
      {rows.map((row, i) => (
        <div key={i} className="rows-row three">
          {cell(row, i, "host")}{cell(row, i, "port")}{cell(row, i, "weight")}
          <RemoveRow disabled={disabled} name={`${row.host}:${row.port}`} onClick={() => setRows(rows.filter((_, at) => at !== i))} />
        </div>
      ))}
      {!disabled && <button type="button" className="button" onClick={() => { setRows([...rows, { host: "", port: "", weight: "1", more: {} }]); focusLast(group); }}><Icon name="plus" size={12} />{t("form.add.node")}</button>}
    </div>
  );
}

/** What no other control can edit. What is not JSON stays here and changes nothing. */
export function JsonInput({ value, onChange, id, disabled, ...rest }: Common): JSX.Element {
  const write = (from: unknown) => (from === undefined ? "" : JSON.stringify(from, null, 2));
  const [text, setText] = useState(() => write(value));
  const [wrong, setWrong] = useState(false);
  const sent = useRef(value);
  useEffect(() => {
    if (equal(value, sent.current)) return;
    sent.current = value;
    setText(write(value));
  }, [value]);
  const change = (next: string) => {
    setText(next);
    try {
      sent.current = next.trim() ? (JSON.parse(next) as unknown) : undefined;
      setWrong(false);
      onChange(sent.current);
    } catch {
      setWrong(true);
    }
  };
  return (
    <div className="grow">
      <textarea {...rest} id={id} disabled={disabled} className="textarea mono" rows={Math.min(12, Math.max(2, text.split("\n").length))} spellCheck={false} value={text} aria-invalid={wrong || rest["aria-invalid"]} onChange={(event) => change(event.target.value)} />
      {wrong && <p className="fault">{t("form.json")}</p>}
    </div>
  );
}
