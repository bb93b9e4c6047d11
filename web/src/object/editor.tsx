// A field for JSON or YAML. CodeMirror is loaded when the first one is shown; until then, and should it not come, the text is
// in a plain text area.
import { type JSX, useEffect, useRef, useState } from "react";
import type { Editor } from "./codemirror";

export type Syntax = "json" | "yaml";

interface Props {
  text: string;
  syntax: Syntax;
  label: string;
  readOnly?: boolean;
  /** Line of a syntax error, from 1, and what it is. */
  problem?: { line: number; text: string } | null;
  onChange: (text: string) => void;
}

export function CodeField(props: Props): JSX.Element {
  const host = useRef<HTMLDivElement>(null);
  const editor = useRef<Editor | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const [ready, setReady] = useState(false);

  useEffect(() => {
    let gone = false;
    void import("./codemirror").then(({ createEditor }) => {
      if (gone || !host.current) return;
      const { text, syntax, label, readOnly } = latest.current;
      editor.current = createEditor(host.current, { text, syntax, label, readOnly: readOnly ?? false, onChange: (next) => latest.current.onChange(next) });
      setReady(true);
    }).catch(() => undefined);
    return () => {
      gone = true;
      editor.current?.destroy();
    };
  }, []);
  useEffect(() => editor.current?.setText(props.text), [props.text, ready]);
  useEffect(() => editor.current?.setSyntax(props.syntax), [props.syntax, ready]);
  useEffect(() => editor.current?.setReadOnly(props.readOnly ?? false), [props.readOnly, ready]);
  useEffect(() => editor.current?.setProblem(props.problem ?? null), [props.problem?.line, props.problem?.text, ready]);

  return (
    <div className="code">
      <div ref={host} className="code-host" hidden={!ready} />
      {!ready && <textarea className="code-plain mono" aria-label={props.label} spellCheck={false} readOnly={props.readOnly} value={props.text} onChange={(event) => props.onChange(event.target.value)} />}
    </div>
  );
}
