// Keys of the keyboard. A screen says which keys it listens to; the newest screen or dialog that knows a key gets it.
import { useEffect, useRef } from "react";

export type Keys = Record<string, (event: KeyboardEvent) => void>;

interface Layer {
  keys: () => Keys;
  /** Nothing below hears anything: a dialog is open. */
  modal: boolean;
}

const layers: Layer[] = [];
const SEQUENCE_MS = 1500;
let first: { key: string; at: number } | null = null;

/** `ctrl+k`, `shift+enter`, `j`, `?`: what an event is called. */
export function nameOf(event: Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "altKey" | "shiftKey">): string {
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key.toLowerCase().replace("arrow", "");
  const shift = event.shiftKey && event.key.length > 1;
  return [event.ctrlKey || event.metaKey ? "ctrl" : "", event.altKey ? "alt" : "", shift ? "shift" : "", key].filter(Boolean).join("+");
}

function isTyping(target: EventTarget | null, event: KeyboardEvent): boolean {
  const inner = event.composedPath()[0];
  const element = (inner instanceof HTMLElement ? inner : target) as HTMLElement | null;
  return Boolean(element && (element.isContentEditable || /^(TEXTAREA|SELECT)$/.test(element.tagName)
    || (element instanceof HTMLInputElement && !/^(checkbox|radio|button)$/.test(element.type))));
}

/** Enter on a link or a button is theirs. */
const isPressing = (target: EventTarget | null, name: string): boolean => name === "enter" && target instanceof Element && target.closest("a, button, summary, [role=menuitem]") !== null;

function onKey(event: KeyboardEvent): void {
  const name = nameOf(event);
  // Undo in a field is the field's.
  if (isTyping(event.target, event) && (!name.startsWith("ctrl+") || name === "ctrl+z") && name !== "escape") return;
  if (isPressing(event.target, name)) return;
  const sequence = first && event.timeStamp - first.at < SEQUENCE_MS ? `${first.key} ${name}` : null;
  first = { key: name, at: event.timeStamp };
  for (const layer of [...layers].reverse()) {
    const keys = layer.keys();
    const action = (sequence && keys[sequence]) || keys[name];
    if (action && !event.defaultPrevented) {
      event.preventDefault();
      first = null;
      return action(event);
    }
    if (layer.modal) return;
  }
}

if (typeof window !== "undefined") window.addEventListener("keydown", onKey);

export function useKeys(keys: Keys, options: { modal?: boolean; active?: boolean } = {}): void {
  const latest = useRef(keys);
  latest.current = keys;
  const { modal = false, active = true } = options;
  useEffect(() => {
    if (!active) return;
    const layer: Layer = { keys: () => latest.current, modal };
    layers.push(layer);
    return () => void layers.splice(layers.indexOf(layer), 1);
  }, [modal, active]);
}
