// What was just added is not complete yet, which is no mistake: nothing is said of it until it changes or loses the focus.
import { useEffect, useState } from "react";
import type { Fault, Json } from "../lib/api";
import { equal, getAt, type Path, pointer } from "../lib/json";
import type { Checked } from "./use-draft";

interface Added {
  path: Path;
  value: unknown;
}

/** What the check says of everything else; `added` is for what adds, `look` says it all. */
export function useAdded(object: Json, checked: Checked, placeOf: (fault: Fault) => string): { checked: Checked; added: (path: Path, value: unknown) => void; look: () => void } {
  const [part, setPart] = useState<Added | null>(null);
  const look = () => setPart(null);
  useEffect(() => {
    if (!part) return;
    const left = (event: FocusEvent) => {
      const place = document.querySelector(`[data-path="${CSS.escape(pointer(part.path))}"]`);
      const next = event.target instanceof Node ? event.target : null;
      if (place && next && !place.contains(next) && !next.parentElement?.closest("[role=dialog]")) look();
    };
    document.addEventListener("focusin", left);
    return () => document.removeEventListener("focusin", left);
  }, [part]);
  const isNew = part !== null && equal(getAt(object, part.path), part.value);
  return { checked: isNew ? without(checked, pointer(part.path), placeOf) : checked, added: (path, value) => setPart({ path, value }), look };
}

/** Without what is wrong at this place; nothing is left to say where that is all. */
export function without(checked: Checked, place: string, placeOf: (fault: Fault) => string): Checked {
  if (checked.state !== "bad" || !checked.error) return checked;
  const faults = checked.error.faults.filter((fault) => !`${placeOf(fault)}/`.startsWith(`${place}/`));
  if (faults.length === checked.error.faults.length) return checked;
  return faults.length === 0 ? { state: "incomplete", error: null, result: null } : { ...checked, error: checked.error.with(faults) };
}
