// Language and theme, which anybody may choose, signed in or not.
import type { JSX } from "react";
import { setLanguage, t, useLanguage } from "../lib/i18n";
import { setTheme, type Theme, useTheme } from "../lib/theme";
import { Icon } from "./icons";

const THEMES: Theme[] = ["system", "light", "dark"];

export function Preferences(): JSX.Element {
  const theme = useTheme();
  const language = useLanguage();
  return (
    <>
      <button type="button" aria-label={`${t("theme.title")}: ${t(`theme.${theme}`)}`} onClick={() => setTheme(THEMES[(THEMES.indexOf(theme) + 1) % 3] ?? "system")}><Icon name="theme" size={13} />{t(`theme.${theme}`)}</button>
      <button type="button" lang={language === "en" ? "zh-CN" : "en"} onClick={() => void setLanguage(language === "en" ? "zh" : "en")}><Icon name="language" size={13} />{language === "en" ? "中文" : "English"}</button>
    </>
  );
}
