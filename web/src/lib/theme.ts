// Light, dark, or as the system is.
import { useSyncExternalStore } from "react";

export type Theme = "system" | "light" | "dark";
const STORED = "tidegate.theme";
const listeners = new Set<() => void>();
let theme: Theme = "system";

export function setTheme(next: Theme): void {
  theme = next;
  localStorage.setItem(STORED, next);
  apply();
  for (const listener of listeners) listener();
}

export function startTheme(): void {
  const stored = localStorage.getItem(STORED);
  theme = stored === "light" || stored === "dark" ? stored : "system";
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
  apply();
}

function apply(): void {
  const dark = theme === "dark" || (theme === "system" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
}

export function useTheme(): Theme {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => theme,
  );
}
