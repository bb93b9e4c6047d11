// What is being edited: one object, shown as a form and as text. The text that was typed last is kept as it was typed, so that
// a comment or a blank line stays until the form changes something.
import { useEffect, useRef, useState } from "react";
import { ApiError, type ChangeResult, type Json } from "../lib/api";
import { type Path, setAt } from "../lib/json";
import { check, type Draft } from "./changes";
import type { Syntax } from "./editor";
import { parseText, type Problem, write } from "./text";

const SYNTAX = "tidegate.syntax";
const CHECK_AFTER_MS = 350;

export interface Editing {
  object: Json;
  text: string;
  syntax: Syntax;
  /** Why the text is no object; the form waits until it is. */
  problem: Problem | null;
  set: (path: Path, value: unknown) => void;
  type: (text: string) => void;
  replace: (object: Json) => void;
  choose: (syntax: Syntax) => void;
}

export function useEditing(start: Json): Editing {
  const [object, setObject] = useState(start);
  const [text, setText] = useState(() => `${JSON.stringify(start, null, 2)}\n`);
  const [syntax, setSyntax] = useState<Syntax>(() => (localStorage.getItem(SYNTAX) === "yaml" ? "yaml" : "json"));
  const [problem, setProblem] = useState<Problem | null>(null);
  const latest = useRef({ object, turn: 0 });

  const show = (next: Json, as: Syntax) => {
    latest.current.object = next;
    const turn = ++latest.current.turn;
    setObject(next);
    setProblem(null);
    void write(next, as).then((written) => turn === latest.current.turn && setText(written));
  };
  const read = (typed: string, as: Syntax) => {
    const turn = ++latest.current.turn;
    void parseText(typed, as).then((parsed) => {
      if (turn !== latest.current.turn) return;
      setProblem("problem" in parsed ? parsed.problem : null);
      if ("object" in parsed) setObject((latest.current.object = parsed.object));
    });
  };
  useEffect(() => {
    if (syntax === "yaml") show(latest.current.object, "yaml");
  }, []);
  return {
    object, text, syntax, problem,
    set: (path, value) => show(setAt(latest.current.object, path, value) as Json, syntax),
    replace: (next) => show(next, syntax),
    type: (typed) => {
      setText(typed);
      read(typed, syntax);
    },
    choose: (next) => {
      localStorage.setItem(SYNTAX, next);
      setSyntax(next);
      // What was typed and cannot be read stays: it may be what was just chosen.
      if (problem) read(text, next);
      else show(latest.current.object, next);
    },
  };
}

export interface Checked {
  /** `incomplete`: all that is wrong is in what was just added. */
  state: "idle" | "checking" | "good" | "bad" | "incomplete" | "unknown";
  error: ApiError | null;
  result: ChangeResult | null;
  /** It is said of an earlier draft: that of this one is on its way. */
  stale?: boolean;
}

/** The gateway's own opinion of a draft, a moment after the last key. */
export function useCheck(draft: Draft | null): Checked {
  const [checked, setChecked] = useState<Checked>({ state: "idle", error: null, result: null });
  const of = draft ? JSON.stringify([draft.parts, draft.object]) : null;
  const said = useRef(of);
  useEffect(() => {
    if (!draft) {
      said.current = of;
      return setChecked({ state: "idle", error: null, result: null });
    }
    const stop = new AbortController();
    const timer = setTimeout(async () => {
      setChecked((before) => ({ ...before, state: "checking" }));
      try {
        const result = await check(draft, stop.signal);
        said.current = of;
        setChecked({ state: "good", error: null, result });
      } catch (error) {
        if (stop.signal.aborted) return;
        said.current = of;
        const refused = error instanceof ApiError && error.status === 400;
        setChecked({ state: refused ? "bad" : "unknown", error: error instanceof ApiError ? error : null, result: null });
      }
    }, CHECK_AFTER_MS);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [of]);
  return said.current === of ? checked : { ...checked, stale: true };
}
