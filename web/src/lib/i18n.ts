// The texts of the console. English is part of the page, Chinese comes when it is asked for.
import { useSyncExternalStore } from "react";
import { en } from "../locales/en";

export type Key = keyof typeof en;
export type Texts = Record<Key, string>;
export type Language = "en" | "zh";

const STORED = "tidegate.language";
let texts: Texts = en;
let language: Language = "en";
const listeners = new Set<() => void>();

export async function setLanguage(next: Language): Promise<void> {
  texts = next === "zh" ? (await import("../locales/zh")).zh : en;
  language = next;
  localStorage.setItem(STORED, next);
  document.documentElement.lang = next === "zh" ? "zh-CN" : "en";
  for (const listener of listeners) listener();
}

/** The language that was chosen here before, else the browser's. */
export async function startLanguage(): Promise<void> {
  const stored = localStorage.getItem(STORED);
  await setLanguage(stored === "zh" || (stored !== "en" && navigator.language.toLowerCase().startsWith("zh")) ? "zh" : "en");
}

/** Whether there is a text of that name: for names that come from the gateway. */
export function isKey(name: string): name is Key {
  return Object.hasOwn(en, name);
}

/** The text of `key`. `{name}` stands for a parameter; of `one route|{n} routes` the first is for n = 1. */
export function t(key: Key, values: Record<string, string | number> = {}): string {
  return fill(texts[key], values, language);
}

export function fill(text: string, values: Record<string, string | number>, locale: string): string {
  const [one, many] = text.split("|");
  const chosen = many !== undefined && values.n !== 1 ? many : (one ?? "");
  return chosen.replace(/\{(\w+)\}/g, (whole, name: string) => {
    const value = values[name];
    if (value === undefined) return whole;
    return typeof value === "number" ? value.toLocaleString(locale) : value;
  });
}

export const currentLanguage = (): Language => language;

export function useLanguage(): Language {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => language,
  );
}

/** Making one takes long: each row of a list would. */
const relative: Partial<Record<Language, Intl.RelativeTimeFormat>> = {};

/** "3 minutes ago"; older than a week, the date. */
export function ago(time: number, now = Date.now()): string {
  const seconds = Math.round((now - time) / 1000);
  const steps: [number, number, Intl.RelativeTimeFormatUnit][] = [[60, 1, "second"], [3600, 60, "minute"], [86_400, 3600, "hour"], [604_800, 86_400, "day"]];
  const step = steps.find(([limit]) => seconds < limit);
  if (!step) return new Date(time).toLocaleDateString(language, { year: "numeric", month: "short", day: "numeric" });
  if (seconds < 5) return t("time.now");
  const format = (relative[language] ??= new Intl.RelativeTimeFormat(language, { style: "long", numeric: "auto" }));
  return format.format(-Math.floor(seconds / step[1]), step[2]);
}

export const fullTime = (time: number): string => new Date(time).toLocaleString(language, { dateStyle: "medium", timeStyle: "medium" });
