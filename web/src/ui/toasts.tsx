// Short messages in a corner. One with an undo stays ten seconds, as long as the undo is offered.
import { type JSX, useEffect, useSyncExternalStore } from "react";
import { t } from "../lib/i18n";
import { useKeys } from "../lib/keys";
import { Icon } from "./icons";

export const UNDO_MS = 10_000;
const PLAIN_MS = 5_000;

interface Toast {
  id: number;
  text: string;
  bad?: boolean;
  undo?: () => void;
}

let toasts: Toast[] = [];
let next = 1;
const listeners = new Set<() => void>();

function publish(all: Toast[]): void {
  toasts = all;
  for (const listener of listeners) listener();
}

export function toast(text: string, options: Omit<Toast, "id" | "text"> = {}): void {
  publish([...toasts.slice(-3), { id: next++, text, ...options }]);
}

const drop = (id: number) => publish(toasts.filter((one) => one.id !== id));

export function Toasts(): JSX.Element {
  const all = useSyncExternalStore((listener) => { listeners.add(listener); return () => listeners.delete(listener); }, () => toasts);
  const undoable = all.findLast((one) => one.undo);
  const undo = (one: Toast) => {
    drop(one.id);
    one.undo?.();
  };
  useKeys(undoable ? { "ctrl+z": () => undo(undoable) } : {}, { active: Boolean(undoable) });
  return (
    <div className="toasts" role="status" aria-live="polite">
      {all.map((one) => <OneToast key={one.id} toast={one} onUndo={() => undo(one)} />)}
    </div>
  );
}

function OneToast({ toast: one, onUndo }: { toast: Toast; onUndo: () => void }): JSX.Element {
  useEffect(() => {
    const timer = setTimeout(() => drop(one.id), one.undo ? UNDO_MS : PLAIN_MS);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div className="toast">
      <span className={one.bad ? "bad" : "ok"}><Icon name={one.bad ? "warning" : "check"} /></span>
      <span className="grow">{one.text}</span>
      {one.undo && <button type="button" className="button" onClick={onUndo}><Icon name="undo" />{t("action.undo")}<kbd>Ctrl Z</kbd></button>}
      <button type="button" className="button plain icon" aria-label={t("action.close")} onClick={() => drop(one.id)}><Icon name="close" /></button>
      {one.undo && <span className="bar" />}
    </div>
  );
}
