// When a certificate begins and ends, as the gateway read it.
import type { JSX } from "react";
import { currentLanguage, t } from "../lib/i18n";

const SOON_S = 30 * 86_400;

const day = (seconds: number): string => new Date(seconds * 1000).toLocaleDateString(currentLanguage(), { year: "numeric", month: "short", day: "numeric" });

/** The day on which a certificate ends; red when it has, yellow in its last 30 days. */
export function Ends({ at }: { at: unknown }): JSX.Element | null {
  if (typeof at !== "number") return null;
  const left = at - Date.now() / 1000;
  return <span className={left < 0 ? "tag bad" : left < SOON_S ? "tag warn" : ""}>{left < 0 ? t("ssl.ended", { date: day(at) }) : day(at)}</span>;
}

export function Validity({ validity }: { validity: { start: number; end: number } }): JSX.Element {
  return (
    <div className="field" data-testid="validity">
      <span>{t("ssl.validity")}</span>
      <div className="control"><p>{day(validity.start)} – <Ends at={validity.end} /></p></div>
    </div>
  );
}
