import { createRoot } from "react-dom/client";
import { App, fetchOthers, fetchScreen } from "./app";
import { sessionNow } from "./lib/api";
import { startLanguage } from "./lib/i18n";
import { currentPlace } from "./lib/router";
import { startSession, token } from "./lib/session";
import { fetchStats, rangeOf } from "./lib/stats";
import { fetchStatus } from "./lib/status";
import { startTheme } from "./lib/theme";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/controls.css";
import "./styles/shell.css";
import "./styles/list.css";
import "./styles/object.css";
import "./styles/screens.css";
import "./styles/figures.css";

startTheme();
const known = sessionNow().then((session) => session && startSession(session)).catch(() => undefined);
const { path, query } = currentPlace();
if (token()) {
  // There seems to be a session: what is shown first is asked together with who it is of.
  fetchStatus();
  if (path.length === 0) fetchStats(rangeOf(query.get("range")));
}
// A file that cannot be had is said by the screen itself.
const screen = fetchScreen(path).catch(() => undefined);
void Promise.all([startLanguage().catch(() => undefined), known, screen]).then(() => {
  const root = document.getElementById("root");
  if (root) createRoot(root).render(<App />);
  fetchOthers();
});
