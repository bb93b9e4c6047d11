// The rules of traffic-split: how many of the requests go to which upstream. Conditions stay JSON.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import type { JSX } from "react";
import { type Entry, type Json, request } from "../lib/api";
import { t } from "../lib/i18n";
import { isObject } from "../lib/json";
import { nodesOf } from "../lib/kinds";
import { address } from "../lib/router";
import { useRevision } from "../lib/status";
import { Icon } from "../ui/icons";
import { type Common, JsonInput, RemoveRow } from "./widgets";

/** The route's own upstream, which no identifier can be. */
const OWN = " own";

export const rulesOf = (value: unknown): Json[] => (Array.isArray(value) ? value.filter(isObject) : []);
export const sharesOf = (rule: Json): Json[] => (Array.isArray(rule.weighted_upstreams) ? rule.weighted_upstreams.filter(isObject) : []);
const weightOf = (share: Json): number => (share.weight === undefined ? 1 : typeof share.weight === "number" ? share.weight : NaN);

/** `25 %`; empty where a weight is none. */
export function partOf(share: Json, all: Json[]): string {
  const sum = all.reduce((total, one) => total + weightOf(one), 0);
  return sum > 0 ? `${Math.round((weightOf(share) / sum) * 1000) / 10} %` : "";
}

const nameOf = (share: Json): string => (share.upstream_id !== undefined ? String(share.upstream_id) : isObject(share.upstream) ? nodesOf(share.upstream) || t("field.upstream") : t("split.own"));

/** `canary 10 % · own upstream 90 %`. */
export const splitSummary = (config: Json): string => rulesOf(config.rules).map((rule) => sharesOf(rule).map((share) => `${nameOf(share)} ${partOf(share, sharesOf(rule))}`.trim()).join(" · ")).join("; ");

export function SplitInput({ value, onChange, onWrong, id, disabled, ...rest }: Common & { onWrong?: (wrong: boolean) => void }): JSX.Element {
  const rules = rulesOf(value);
  const revision = useRevision().data?.stored;
  const upstreams = useQuery({ queryKey: ["names", "upstreams", revision], staleTime: 10_000, retry: false, placeholderData: keepPreviousData, queryFn: async () => (await request<{ list: Entry[] }>("/upstreams?page=1&page_size=500")).list.map((entry) => String(entry.value.id)) }).data ?? [];
  const set = (next: Json[]) => onChange(next.length ? next : undefined);
  const edit = (at: number, change: Json) => set(rules.map((rule, i) => (i === at ? clean({ ...rule, ...change }) : rule)));
  return (
    <div id={id} className="grow" role="group" aria-describedby={rest["aria-describedby"]}>
      {rules.map((rule, i) => (
        <fieldset key={i} className="split-rule">
          <legend className="row small soft">{t("split.rule", { n: i + 1 })}{rules.length > 1 && <RemoveRow disabled={disabled} name={t("split.rule", { n: i + 1 })} onClick={() => set(rules.filter((_, at) => at !== i))} />}</legend>
          <Shares shares={sharesOf(rule)} upstreams={upstreams} disabled={disabled} onChange={(weighted_upstreams) => edit(i, { weighted_upstreams })} />
          {rule.match !== undefined
            ? <div className="pad-top"><label htmlFor={`${id}-${i}-match`} className="small soft">{t("split.match")}</label><div className="row"><JsonInput id={`${id}-${i}-match`} disabled={disabled} value={rule.match} onChange={(match) => edit(i, { match })} onWrong={onWrong} />{!disabled && <RemoveRow disabled={disabled} name={t("split.match")} onClick={() => edit(i, { match: undefined })} />}</div></div>
            : !disabled && <button type="button" className="button plain" onClick={() => edit(i, { match: [{ vars: [["arg_name", "==", "value"]] }] })}><Icon name="plus" size={12} />{t("split.match.add")}</button>}
        </fieldset>
      ))}
      {!disabled && (
        <p className="row wrap">
          <button type="button" className="button" onClick={() => set([...rules, { weighted_upstreams: [{ upstream_id: "", weight: 1 }, { weight: 9 }] }])}><Icon name="plus" size={12} />{t("split.rule.add")}</button>
          <a className="small" href={address(["upstreams", "+new"])} target="_blank" rel="noreferrer">{t("split.new")}</a>
        </p>
      )}
    </div>
  );
}

const clean = (value: Json): Json => Object.fromEntries(Object.entries(value).filter(([, one]) => one !== undefined));

function Shares({ shares, upstreams, disabled, onChange }: { shares: Json[]; upstreams: string[]; disabled: boolean; onChange: (shares: Json[]) => void }): JSX.Element {
  const edit = (at: number, change: Json) => onChange(shares.map((share, i) => (i === at ? clean({ ...share, ...change }) : share)));
  return (
    <div className="rows">
      <div className="rows-row split-share soft small" aria-hidden="true"><span>{t("field.upstream")}</span><span>{t("field.weight")}</span><span>{t("figures.part")}</span></div>
      {shares.map((share, i) => (
        <div key={i} className="rows-row split-share">
          {isObject(share.upstream) ? <span className="mono cut">{nameOf(share)}</span> : (
            <select className="select mono" aria-label={t("field.upstream")} aria-invalid={share.upstream_id === "" || undefined} disabled={disabled} value={share.upstream_id === undefined ? OWN : String(share.upstream_id)} onChange={(event) => edit(i, { upstream_id: event.target.value === OWN ? undefined : event.target.value })}>
              {share.upstream_id === "" && <option value="">{t("form.choose")}</option>}
              <option value={OWN}>{t("split.own")}</option>
              {typeof share.upstream_id !== "undefined" && share.upstream_id !== "" && !upstreams.includes(String(share.upstream_id)) && <option value={String(share.upstream_id)}>{String(share.upstream_id)}</option>}
              {upstreams.map((one) => <option key={one} value={one}>{one}</option>)}
            </select>
          )}
          <input className="input mono" inputMode="numeric" aria-label={t("field.weight")} disabled={disabled} placeholder="1" value={share.weight === undefined ? "" : String(share.weight)} onChange={(event) => edit(i, { weight: event.target.value === "" ? undefined : /^\d+$/.test(event.target.value) ? Number(event.target.value) : event.target.value })} />
          <span className="number soft">{partOf(share, shares)}</span>
          <RemoveRow disabled={disabled} name={nameOf(share)} onClick={() => onChange(shares.filter((_, at) => at !== i))} />
        </div>
      ))}
      {shares.some((share) => share.upstream_id === "") && <p className="bad small">{t("split.choose")}</p>}
      {!disabled && <button type="button" className="button" onClick={() => onChange([...shares, { upstream_id: "", weight: 1 }])}><Icon name="plus" size={12} />{t("form.add", { name: t("kind.upstream") })}</button>}
    </div>
  );
}
