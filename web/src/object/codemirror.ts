// CodeMirror in a shadow root. There it adds its styles as style sheets of the root, which the Content-Security-Policy of the
// console allows; in the document it would add <style> elements, which it does not.
import { defaultKeymap, history, historyKeymap, indentMore } from "@codemirror/commands";
import { json } from "@codemirror/lang-json";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, codeFolding, foldGutter, foldKeymap, HighlightStyle, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { setDiagnostics } from "@codemirror/lint";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState, Transaction } from "@codemirror/state";
import { Decoration, type DecorationSet, drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, keymap, lineNumbers, MatchDecorator, ViewPlugin } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import type { Syntax } from "./editor";
import { isSecret } from "./unsaved";

export interface Editor {
  setText(text: string): void;
  setSyntax(syntax: Syntax): void;
  setReadOnly(readOnly: boolean): void;
  setProblem(problem: { line: number; text: string } | null): void;
  destroy(): void;
}

interface Options {
  text: string;
  syntax: Syntax;
  label: string;
  readOnly: boolean;
  onChange: (text: string) => void;
}

const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--accent-text)" },
  { tag: [tags.string, tags.content], color: "var(--text)" },
  { tag: [tags.number, tags.bool, tags.null, tags.keyword], color: "var(--warn)" },
  { tag: [tags.comment, tags.punctuation, tags.separator, tags.squareBracket, tags.brace], color: "var(--text-soft)" },
]);

const looks = EditorView.theme({
  "&": { height: "100%", color: "var(--text)", backgroundColor: "transparent", fontSize: "12px" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "19px" },
  ".cm-gutters": { backgroundColor: "transparent", color: "var(--text-soft)", border: "none" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--hover)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "color-mix(in srgb, var(--accent) 26%, transparent)" },
  ".cm-matchingBracket": { backgroundColor: "var(--accent-tint) !important" },
  ".cm-panels, .cm-tooltip": { backgroundColor: "var(--raised)", color: "var(--text)", border: "1px solid var(--line)" },
  ".cm-panels input, .cm-panels button": { background: "var(--surface)", color: "var(--text)", border: "1px solid var(--line-strong)" },
  // The library's own mark is a data: image, which the policy forbids.
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--bad)", textUnderlineOffset: "3px" },
  ".cm-line:not(.cm-activeLine) .veiled": { WebkitTextSecurity: "disc" },
  ".cm-foldPlaceholder": { background: "var(--hover)", border: "none", color: "var(--text-soft)" },
});

/** Values that look like secrets are dots, but for the line of the cursor. */
const VALUE = /(?:^|[\s{,])"?([\w-]+)"?:\s*(?:"([^"]*)"|([^"\s{[][^"]*?)(?=,\s|\s*$|[}\]]))/g;
const veil = Decoration.mark({ class: "veiled" });
const values = new MatchDecorator({
  regexp: VALUE,
  decorate(add, _, to, match) {
    const [, name = "", quoted, bare = ""] = match;
    const end = quoted === undefined ? to : to - 1;
    const value = quoted ?? bare;
    if (isSecret(name, value)) add(end - value.length, end, veil);
  },
});
const veils = ViewPlugin.fromClass(class {
  found: DecorationSet;
  constructor(view: EditorView) {
    this.found = values.createDeco(view);
  }
  update(update: Parameters<MatchDecorator["updateDeco"]>[0]) {
    this.found = values.updateDeco(update, this.found);
  }
}, { decorations: (plugin) => plugin.found });

const language = (syntax: Syntax) => (syntax === "json" ? json() : yaml());

export function createEditor(host: HTMLElement, options: Options): Editor {
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  const [syntax, access] = [new Compartment(), new Compartment()];
  const accessOf = (readOnly: boolean) => [EditorState.readOnly.of(readOnly)];
  const state = EditorState.create({
    doc: options.text,
    extensions: [
      lineNumbers(), highlightActiveLineGutter(), foldGutter(), codeFolding(), history(), drawSelection(), indentOnInput(), bracketMatching(),
      highlightActiveLine(), veils, highlightSelectionMatches(), search({ top: true }), syntaxHighlighting(colours), looks,
      // Tab leaves the field, as everywhere else; Ctrl-] indents.
      keymap.of([...defaultKeymap, ...historyKeymap, ...searchKeymap, ...foldKeymap, { key: "Mod-]", run: indentMore }]),
      syntax.of(language(options.syntax)), access.of(accessOf(options.readOnly)),
      EditorView.contentAttributes.of({ "aria-label": options.label, spellcheck: "false" }),
      EditorView.updateListener.of((update) => {
        const own = update.transactions.some((one) => one.docChanged && one.annotation(Transaction.remote) === undefined);
        if (own) options.onChange(update.state.doc.toString());
      }),
    ],
  });
  const view = new EditorView({ state, parent: root, root });
  return {
    setText(text) {
      const old = view.state.doc.toString();
      if (old === text) return;
      view.dispatch({ changes: changeBetween(old, text), annotations: Transaction.remote.of(true) });
    },
    setSyntax: (next) => view.dispatch({ effects: syntax.reconfigure(language(next)) }),
    setReadOnly: (readOnly) => view.dispatch({ effects: access.reconfigure(accessOf(readOnly)) }),
    setProblem(problem) {
      const line = problem ? view.state.doc.line(Math.max(1, Math.min(problem.line, view.state.doc.lines))) : null;
      view.dispatch(setDiagnostics(view.state, problem && line ? [{ from: line.from, to: line.to, severity: "error", message: problem.text }] : []));
    },
    destroy: () => view.destroy(),
  };
}

/** Only what differs is replaced, so that the cursor and the folds of the rest stay. */
function changeBetween(old: string, text: string): { from: number; to: number; insert: string } {
  let from = 0;
  while (from < old.length && from < text.length && old[from] === text[from]) from++;
  let [to, end] = [old.length, text.length];
  while (to > from && end > from && old[to - 1] === text[end - 1]) [to, end] = [to - 1, end - 1];
  return { from, to, insert: text.slice(from, end) };
}
