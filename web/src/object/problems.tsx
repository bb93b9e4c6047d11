// What is wrong with an object, below its form: what no field says.
import { type JSX, useLayoutEffect, useState } from "react";
import type { Json } from "../lib/api";
import { type Key, t } from "../lib/i18n";
import { address } from "../lib/router";
import { inWords } from "../lib/words";
import { Link } from "../ui/basics";
import { Icon } from "../ui/icons";
import { lint } from "./lint";
import type { Checked } from "./use-draft";

/** Those of the gateway, and of the page where the gateway has none. */
export function warningsOf(kind: string, object: Json, checked: Checked): string[] {
  const told = (checked.result?.warnings ?? []).map(String);
  return told.length ? told : lint(kind, object);
}

/** What a message about a regular expression, or about parts of the schema, means. */
function hintsOf(text: string, object: Json): Key[] {
  if (/matches both schemas/.test(text) && "uri" in object && "uris" in object) return ["hint.both"];
  if (/property "hosts?"/.test(text) && /match pattern/.test(text)) return ["hint.host"];
  if (/property "uris?"/.test(text) || /none of its paths can be read/.test(text)) return ["hint.path"];
  return [];
}

export function Problems({ checked, object, syntax, taken, warnings }: { checked: Checked; object: Json; syntax: string | null; taken: string[] | null; warnings: string[] }): JSX.Element | null {
  const faults = checked.state === "bad" || checked.state === "unknown" ? (checked.error?.faults.map((fault) => fault.error) ?? []) : [];
  const all = syntax ? [syntax] : faults.length ? faults : checked.error ? [checked.error.message] : [];
  const hints = [...new Set(all.flatMap((text) => hintsOf(text, object)))];
  const atFields = useAtFields();
  useTypedInSight(all.length + warnings.length);
  const rest = all.filter((text) => !atFields.has(bare(text)));
  if (rest.length + hints.length + warnings.length === 0 && !taken) return null;
  return (
    <div className="problems below">
      {taken && <div className="notice bad"><Icon name="warning" /><p className="grow">{t("form.taken", { name: taken.at(-1) ?? "" })}</p><Link className="button" to={address(taken)}>{t("form.taken.open")}</Link></div>}
      {hints.map((key) => <div key={key} className="notice bad"><Icon name="warning" /><p className="grow">{t(key)}</p></div>)}
      {rest.slice(0, 5).map((text) => <div key={text} className="notice bad"><Icon name="warning" /><p className="grow">{inWords(text)}</p></div>)}
      {warnings.slice(0, 5).map((text) => <div key={text} className="notice warn"><Icon name="warning" /><p className="grow">{text}</p></div>)}
    </div>
  );
}

/** What comes below the form makes it shorter: the field that somebody types in stays in sight. */
function useTypedInSight(lines: number): void {
  useLayoutEffect(() => {
    const typed = document.activeElement;
    if (lines > 0 && typed?.closest(".form-fields")) typed.scrollIntoView({ block: "nearest" });
  }, [lines]);
}

/** As it stands at a field. */
const bare = (text: string): string => inWords(text.replace(/^invalid configuration: /, ""));

/** The first field that is wrong, once it is marked. */
export function focusFault(): void {
  requestAnimationFrame(() => {
    const wrong = document.querySelector(".form-fields .fault, .problems.below .bad");
    wrong?.scrollIntoView({ block: "center" });
    wrong?.closest(".field")?.querySelector<HTMLElement>(":is(input, select, textarea):not(:disabled)")?.focus({ preventScroll: true });
  });
}

/** What is said at a field already, which is where to look. */
function useAtFields(): ReadonlySet<string> {
  const [texts, setTexts] = useState<ReadonlySet<string>>(new Set());
  useLayoutEffect(() => {
    const now = [...document.querySelectorAll(".form-fields .fault")].map((one) => one.textContent ?? "");
    setTexts((before) => (before.size === new Set(now).size && now.every((text) => before.has(text)) ? before : new Set(now)));
  });
  return texts;
}
