// The controls of forms that HTML does not have.
import { type JSX, type KeyboardEvent, type RefObject, useEffect, useRef, useState } from "react";
import { t } from "../lib/i18n";
import { equal, isObject } from "../lib/json";
import { Icon } from "../ui/icons";
import { parseJson } from "./text";

export interface Common {
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
export function useRows<R>(value: unknown, read: (value: unknown) => R[], write: (rows: R[]) => unknown, onChange: (value: unknown) => void): [R[], (rows: R[]) => void] {
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
export function focusLast(group: RefObject<HTMLDivElement | null>): void {
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

export function RemoveRow({ disabled, name, onClick }: { disabled: boolean; name: string; onClick: () => void }): JSX.Element | null {
  if (disabled) return null;
  return <button type="button" className="button plain icon" aria-label={t("form.clear", { name })} onClick={onClick}><Icon name="close" size={12} /></button>;
}

/** What no other control can edit. What is not JSON stays here, and `onWrong` keeps the object from being saved without it. */
export function JsonInput({ value, onChange, onWrong, id, disabled, ...rest }: Common & { onWrong?: (wrong: boolean) => void }): JSX.Element {
  const write = (from: unknown) => (from === undefined ? "" : JSON.stringify(from, null, 2));
  const [text, setText] = useState(() => write(value));
  const [wrong, setWrong] = useState<string | null>(null);
  const tell = useRef(onWrong);
  tell.current = onWrong;
  useEffect(() => {
    tell.current?.(wrong !== null);
    return () => tell.current?.(false);
  }, [wrong]);
  const sent = useRef(value);
  useEffect(() => {
    if (equal(value, sent.current)) return;
    sent.current = value;
    setText(write(value));
    setWrong(null);
  }, [value]);
  const change = (next: string) => {
    setText(next);
    try {
      sent.current = next.trim() ? parseJson(next) : undefined;
      setWrong(null);
      onChange(sent.current);
    } catch (error) {
      setWrong(error instanceof Error ? error.message.replace(/, (\.\.\.)?".*is not valid JSON$/s, "") : String(error));
    }
  };
  return (
    <div className="grow">
      <textarea {...rest} id={id} disabled={disabled} className="textarea mono" rows={Math.min(12, Math.max(2, text.split("\n").length))} spellCheck={false} value={text} aria-invalid={wrong !== null || rest["aria-invalid"]} onFocus={(event) => startInside(event.target)} onChange={(event) => change(event.target.value)} />
      {wrong !== null && <p className="fault" role="alert">{t("form.json", { problem: wrong })}</p>}
    </div>
  );
}

/** What is typed into an empty list or object belongs between its brackets. */
function startInside(field: HTMLTextAreaElement): void {
  if (/^(\[\]|\{\})$/.test(field.value)) field.setSelectionRange(1, 1);
}
