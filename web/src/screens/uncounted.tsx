// Statuses and latencies are counted by a plugin: what is shown where it does not run, and how to add it.
import { useQuery } from "@tanstack/react-query";
import type { JSX } from "react";
import { type Entry, request } from "../lib/api";
import { t } from "../lib/i18n";
import { address } from "../lib/router";
import { useMayChange, useOffers } from "../lib/session";
import type { Stats } from "../lib/stats";
import { hasPlugin } from "../lib/users";
import { Empty, Link } from "../ui/basics";
import { Icon } from "../ui/icons";

/** Where prometheus is to be added: the rule that there is, or a new one; null where it is there already, undefined until that is known. */
function useRule(): string | null | undefined {
  const offered = useOffers()("global_rules");
  const admin = useMayChange();
  const rules = useQuery({ queryKey: ["rules", "prometheus"], enabled: offered && admin, retry: false, queryFn: async () => (await request<{ list?: Entry[] }>("/global_rules")).list ?? [] }).data;
  if (!offered || !admin) return null;
  if (rules === undefined) return undefined;
  if (!Array.isArray(rules) || rules.some((rule) => hasPlugin(rule.value, "prometheus"))) return null;
  const first = rules[0];
  if (first) return address(["global_rules", String(first.value.id)], { plugin: "prometheus" });
  return address(["global_rules", "+new"], { from: JSON.stringify({ plugins: { prometheus: {} } }), id: "prometheus" });
}

/** Nothing of what was asked is known: no zeros, which would be taken for figures. */
export function Unmeasured(): JSX.Element {
  const rule = useRule();
  const action = rule != null && <Link className="button primary" to={rule}><Icon name="plus" />{t("figures.measure")}</Link>;
  return <Empty icon="metadata" title={t("figures.unmeasured")} actions={action || undefined}>{t("figures.unmeasured.text")}</Empty>;
}

/** Some requests were not counted. */
export function Uncounted({ stats }: { stats: Stats }): JSX.Element {
  const rule = useRule();
  return (
    <div className="notice">
      <Icon name="metadata" />
      <div className="grow">
        <p>{t("figures.uncounted", { counted: stats.totals.counted, n: stats.totals.requests })}</p>
        <p className="small">{t("figures.uncounted.remedy")}</p>
        {/* Its line is kept, so that nothing moves when it comes. */}
        <p className="uncounted-action">{rule === null ? <Link className="button" to={address(["plugins", "prometheus"])}>prometheus</Link> : rule !== undefined && <Link className="button" to={rule}>{t("figures.measure")}</Link>}</p>
      </div>
    </div>
  );
}
