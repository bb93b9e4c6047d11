// Signing in with the identity provider: the way there, and the way back. The answer of the provider is in the address, which it
// leaves at once; this page posts it, so that the session's cookie never travels with a request of another origin.
import { type JSX, useEffect, useState } from "react";
import { ApiError, comeBack, leaveForProvider } from "../lib/api";
import { t } from "../lib/i18n";
import { address, navigate } from "../lib/router";
import { startSession } from "../lib/session";
import { Failure } from "../ui/basics";

const CALLBACK = "/ui/oidc";
/** Where the console was before. */
const BEFORE = "tidegate.before";

interface Answer {
  code?: string;
  state?: string;
  iss?: string;
  error?: string;
}

let answer = read();

/** What the provider says, if the browser is back from it. Whoever looks at the history of the browser finds nothing of it. */
function read(): Answer | null {
  if (typeof location === "undefined" || location.pathname !== CALLBACK) return null;
  const query = new URLSearchParams(location.search);
  history.replaceState(null, "", CALLBACK);
  const text = (name: string) => query.get(name) ?? undefined;
  const error = [text("error"), text("error_description")].filter(Boolean).join(": ");
  return { code: text("code"), state: text("state"), iss: text("iss"), error: error || undefined };
}

function placeBefore(): string {
  try {
    const kept = sessionStorage.getItem(BEFORE) ?? "";
    sessionStorage.removeItem(BEFORE);
    return kept.startsWith("/ui/") && !kept.startsWith(CALLBACK) ? kept : address([]);
  } catch {
    return address([]);
  }
}

async function goToProvider(): Promise<void> {
  const { location: to } = await leaveForProvider(location.origin + CALLBACK);
  try {
    if (!location.pathname.startsWith(CALLBACK)) sessionStorage.setItem(BEFORE, location.pathname + location.search);
  } catch {
    // The overview it is then.
  }
  location.assign(to);
}

export function ProviderSignIn({ name }: { name: string }): JSX.Element {
  const [busy, setBusy] = useState(answer !== null);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    const given = answer;
    answer = null;
    if (!given) return;
    const finish = async () => {
      if (given.error || !given.code || !given.state) throw new ApiError(401, t("login.provider.refused", { name, reason: given.error ?? t("login.provider.nothing") }));
      startSession(await comeBack({ code: given.code, state: given.state, ...(given.iss ? { iss: given.iss } : {}) }));
      navigate(placeBefore(), { replace: true });
    };
    finish().catch((failed: unknown) => {
      setError(failed);
      setBusy(false);
    });
  }, [name]);
  const go = () => {
    setBusy(true);
    setError(null);
    goToProvider().catch((failed: unknown) => {
      setError(failed);
      setBusy(false);
    });
  };
  return (
    <div style={{ marginTop: 20, display: "grid", gap: 12 }}>
      <button type="button" className="button primary" disabled={busy} onClick={go}>{busy ? t("login.busy") : t("login.provider", { name })}</button>
      {Boolean(error) && <Failure error={error} />}
      <p className="soft small" style={{ textAlign: "center" }}>{t("login.or")}</p>
    </div>
  );
}
