// The identifier of a new object. It is asked for first, since the address of the object is made of it and cannot be changed.
import type { JSX } from "react";
import type { Json } from "../lib/api";
import { t } from "../lib/i18n";
import type { Kind } from "../lib/kinds";
import { usePlugins } from "../lib/status";

/** What stands for the identifier until one is typed: the name in letters that an identifier may have. */
export function suggestId(kind: Kind, object: Json): string[] {
  if (kind.idField === "username") return typeof object.username === "string" && object.username ? [object.username] : [];
  if (kind.schema === null) return [];
  const name = typeof object.name === "string" ? object.name : Array.isArray(object.snis) && typeof object.snis[0] === "string" ? object.snis[0] : "";
  const id = name.trim().toLowerCase().replace(/[^a-z0-9-_.]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 64);
  return id ? [id] : [];
}

/** Whether an identifier may have these letters; an empty one is only missing. */
export const isId = (kind: Kind, id: string): boolean => id === "" || (kind.idField === "username" ? /^[\w-]{1,100}$/ : /^[\w.-]{1,64}$/).test(id);

export function Identity({ kind, id, suggested, onChange }: { kind: Kind; id: string[]; suggested: string[]; onChange: (id: string[]) => void }): JSX.Element {
  const plugins = usePlugins().data ?? {};
  if (kind.name === "plugin_metadata") {
    return (
      <div className="field">
        <label htmlFor="new-id">{t("field.plugin")} *</label>
        <div className="control"><select id="new-id" className="select" value={id[0] ?? ""} onChange={(event) => onChange([event.target.value])}>
          <option value="">{t("form.choose")}</option>
          {Object.entries(plugins).filter(([, info]) => info.metadata_schema).map(([name]) => <option key={name}>{name}</option>)}
        </select></div>
      </div>
    );
  }
  const wrong = !isId(kind, id.at(-1) ?? "");
  const own = (
    <div className={wrong ? "field wrong" : "field"}>
      <label htmlFor="new-id">{t(kind.idField === "username" ? "field.username" : "field.id")} *</label>
      <div className="control"><input id="new-id" className="input mono" autoComplete="off" spellCheck={false} placeholder={suggested[0] ?? t("form.id")} value={id.at(-1) ?? ""} autoFocus data-autofocus aria-invalid={wrong || undefined} aria-describedby={wrong ? "new-id-fault" : undefined}
        onChange={(event) => onChange(kind.name === "secrets" ? [id[0] || "vault", event.target.value] : event.target.value ? [event.target.value] : [])} /></div>
      {wrong && <p className="fault" id="new-id-fault">{t("form.id.wrong")}</p>}
    </div>
  );
  if (kind.name !== "secrets") return own;
  return (
    <>
      <div className="field">
        <label htmlFor="new-manager">{t("field.manager")} *</label>
        <div className="control"><select id="new-manager" className="select" value={id[0] ?? ""} onChange={(event) => onChange([event.target.value, id[1] ?? ""])}>
          <option value="">{t("form.choose")}</option>
          {["vault", "aws", "gcp"].map((name) => <option key={name}>{name}</option>)}
        </select></div>
      </div>
      {own}
    </>
  );
}
