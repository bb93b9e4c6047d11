import { createRoot } from "react-dom/client";
import { App } from "./app";
import { sessionNow } from "./lib/api";
import { startLanguage } from "./lib/i18n";
import { startSession } from "./lib/session";
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
void Promise.all([startLanguage().catch(() => undefined), known]).then(() => {
  const root = document.getElementById("root");
  if (root) createRoot(root).render(<App />);
});
