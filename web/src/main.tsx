import { createRoot } from "react-dom/client";
import { App } from "./app";
import { startLanguage } from "./lib/i18n";
import { startTheme } from "./lib/theme";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/controls.css";
import "./styles/shell.css";
import "./styles/list.css";
import "./styles/object.css";
import "./styles/screens.css";

startTheme();
void startLanguage().catch(() => undefined).then(() => {
  const root = document.getElementById("root");
  if (root) createRoot(root).render(<App />);
});
