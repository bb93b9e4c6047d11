// When a certificate begins and ends, and for which names it is.
import type { JSX } from "react";
import { readCertificate } from "../lib/certificate";
import { currentLanguage, t } from "../lib/i18n";

const SOON_S = 30 * 86_400;

const day = (seconds: number): string => new Date(seconds * 1000).toLocaleDateString(currentLanguage(), { year: "numeric", month: "short", day: "numeric" });

/** The day on which a certificate ends; red when it has, yellow in its last 30 days. */
export function Ends({ at }: { at: number }): JSX.Element | null {
  if (!at) return null;
  const left = at - Date.now() / 1000;
  return <span className={left < 0 ? "tag bad" : left < SOON_S ? "tag warn" : ""}>{left < 0 ? t("ssl.ended", { date: day(at) }) : day(at)}</span>;
}

/** Of the certificate that is in the form, saved or not. */
export function Validity({ cert }: { cert: unknown }): JSX.Element | null {
  const facts = readCertificate(cert);
  if (!facts) return null;
  return (
    <>
      <div className="field" data-testid="validity">
        <span>{t("ssl.validity")}</span>
        <div className="control"><p>{day(facts.start)} – <Ends at={facts.end} /></p></div>
      </div>
      <div className="field">
        <span>{t("ssl.names")}</span>
        <div className="control"><p className="mono">{facts.names.join(" ") || "–"}</p></div>
      </div>
    </>
  );
}
