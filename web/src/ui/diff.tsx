// Differences of objects, as the gateway names them: a JSON pointer, the value before, the value after.
import type { JSX } from "react";
import type { ChangedObject, DiffEntry } from "../lib/api";
import { type Key, t } from "../lib/i18n";
import { fromPointer } from "../lib/json";
import { locate } from "../lib/kinds";
import { address } from "../lib/router";
import { Link } from "./basics";

export const show = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value, null, 2));

export function Diff({ entries }: { entries: DiffEntry[] }): JSX.Element {
  if (entries.length === 0) return <p className="soft">{t("diff.none")}</p>;
  return (
    <div className="diff">
      {entries.map((entry) => (
        <div key={entry.path} className="diff-entry">
          <div className="diff-path mono">{fromPointer(entry.path).join(" › ") || t("diff.whole")}</div>
          <div className="diff-values">
            {entry.before !== undefined && <pre className="removed"><span className="visually-hidden">{t("diff.before")} </span>{show(entry.before)}</pre>}
            {entry.after !== undefined && <pre className="added"><span className="visually-hidden">{t("diff.after")} </span>{show(entry.after)}</pre>}
          </div>
        </div>
      ))}
    </div>
  );
}

const TONE: Record<string, string> = { create: "ok", update: "accent", delete: "bad" };

/** One heading for each object, with its differences below. */
export function Changed({ changes, action }: { changes: ChangedObject[]; action?: (change: ChangedObject) => JSX.Element }): JSX.Element {
  if (changes.length === 0) return <p className="soft">{t("diff.none")}</p>;
  return (
    <div className="changed">
      {changes.map((change, i) => (
        <section key={`${change.resource} ${i}`}>
          <h3 className="row">
            <span className={`tag ${TONE[change.action] ?? ""}`}>{t(`did.${change.action}` as Key)}</span>
            <ObjectName resource={change.resource} gone={change.action === "delete"} />
            {action && <span className="row changed-actions">{action(change)}</span>}
          </h3>
          {change.diff && <Diff entries={change.diff} />}
        </section>
      ))}
    </div>
  );
}

/** `routes/1` with a link to it while it is there. */
export function ObjectName({ resource, gone }: { resource: string; gone?: boolean }): JSX.Element {
  const path = resource.split("/");
  if (gone || !locate(path)) return <span className="mono">{resource}</span>;
  return <Link to={address(path)} className="mono">{resource}</Link>;
}
