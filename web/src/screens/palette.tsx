// Ctrl-K: go to a screen, do something, or find an object by its ID or name.
import { useQuery } from "@tanstack/react-query";
import { type JSX, useDeferredValue, useState } from "react";
import { type Entry, request } from "../lib/api";
import { currentLanguage, setLanguage, t } from "../lib/i18n";
import { KINDS } from "../lib/kinds";
import { address, navigate } from "../lib/router";
import { useMayChange, useOffers } from "../lib/session";
import { setTheme } from "../lib/theme";
import { Dialog } from "../ui/dialog";
import { Icon } from "../ui/icons";
import { currentSession } from "../lib/session";
import { askSignOut, SCREENS } from "./shell";

interface Command {
  id: string;
  text: string;
  note: string;
  icon: string;
  run: () => void;
}

const SEARCHED = ["routes", "services", "upstreams", "consumers"];
const PER_KIND = 6;

function commands(admin: boolean, offers: (name: string) => boolean, onHelp: () => void): Command[] {
  const go = (id: string, text: string, icon: string, path: string[]): Command => ({ id, text, icon, note: t("palette.go"), run: () => navigate(address(path)) });
  const act = (id: string, text: string, icon: string, run: () => void): Command => ({ id, text, icon, note: t("palette.do"), run });
  return [
    ...SCREENS.filter((screen) => offers(screen.name)).map((screen) => go(`go-${screen.name}`, t(screen.title), screen.icon, screen.name ? [screen.name] : [])),
    ...KINDS.filter((kind) => offers(kind.name)).map((kind) => go(`go-${kind.name}`, t(kind.title), kind.icon, [kind.name])),
    ...(offers("changes") ? [go("go-checkpoints", t("checkpoints"), "flag", ["changes", "checkpoints"])] : []),
    ...(admin ? KINDS.filter((kind) => offers(kind.name)).map((kind) => act(`new-${kind.name}`, t("list.new", { kind: t(kind.one) }), "plus", () => navigate(address([kind.name, "+new"])))) : []),
    act("theme-light", `${t("theme.title")}: ${t("theme.light")}`, "theme", () => setTheme("light")),
    act("theme-dark", `${t("theme.title")}: ${t("theme.dark")}`, "theme", () => setTheme("dark")),
    act("theme-system", `${t("theme.title")}: ${t("theme.system")}`, "theme", () => setTheme("system")),
    act("language", currentLanguage() === "en" ? "中文" : "English", "language", () => void setLanguage(currentLanguage() === "en" ? "zh" : "en")),
    act("help", t("foot.keys"), "metadata", onHelp),
    act("out", t("foot.out"), "out", askSignOut),
  ].filter((command) => command.id !== "go-users" || currentSession()?.role === "admin");
}

function useObjects(typed: string): Command[] {
  const words = typed.trim();
  const found = useQuery({
    queryKey: ["palette", words], enabled: words.length >= 2, placeholderData: (before) => before,
    queryFn: async () => {
      const text = encodeURIComponent(words);
      const lists = await Promise.all(SEARCHED.map((kind) => request<{ list: Entry[] }>(`/${kind}?page=1&page_size=10&search=${text}`).catch(() => ({ list: [] }))));
      return lists.flatMap(({ list }, i) => list.slice(0, PER_KIND).map((entry) => ({ kind: SEARCHED[i] ?? "", id: String(entry.value.id ?? entry.value.username), name: String(entry.value.name ?? entry.value.username ?? entry.value.id) })));
    },
  }).data;
  if (words.length < 2) return [];
  return (found ?? []).map((one) => {
    const kind = KINDS.find((other) => other.name === one.kind);
    return { id: `object-${one.kind}-${one.id}`, text: one.name === one.id ? one.name : `${one.name} (${one.id})`, note: kind ? t(kind.one) : one.kind, icon: kind?.icon ?? "routes", run: () => navigate(address([one.kind, one.id])) };
  });
}

export function Palette({ onClose, onHelp }: { onClose: () => void; onHelp: () => void }): JSX.Element {
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const admin = useMayChange();
  const offers = useOffers();
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  const fixed = commands(admin, offers, onHelp).filter((one) => words.every((word) => one.text.toLowerCase().includes(word)));
  const url = offers("explain") ? /^(?:\S+\s+)?(https?:\/\/\S+)$/i.exec(typed.trim())?.[1] : undefined;
  const explained: Command[] = url ? [{ id: "explain-url", text: t("palette.explain", { url }), note: t("palette.do"), icon: "explain", run: () => navigate(address(["explain"], { url })) }] : [];
  const all = [...explained, ...fixed.slice(0, words.length ? 12 : 30), ...useObjects(useDeferredValue(typed))];
  const run = (command: Command | undefined) => {
    if (!command) return;
    onClose();
    command.run();
  };
  return (
    <Dialog title={t("palette.title")} bare onClose={onClose} className="palette" keys={{ "ctrl+k": onClose }}>
      <div className="palette-input">
        <Icon name="search" />
        <input
          role="combobox" aria-expanded="true" aria-controls="palette-list" aria-activedescendant={all[at] ? `palette-${at}` : undefined} aria-label={t("palette.title")} placeholder={t("palette.placeholder")}
          autoFocus data-autofocus value={typed} spellCheck={false} onChange={(event) => { setTyped(event.target.value); setAt(0); }}
          onKeyDown={(event) => {
            const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
            if (step) setAt((at + step + all.length) % Math.max(1, all.length));
            else if (event.key === "Enter") run(all[at]);
            else return;
            event.preventDefault();
          }}
        />
        <kbd>Esc</kbd>
      </div>
      <div id="palette-list" role="listbox" aria-label={t("palette.title")} className="palette-list" tabIndex={-1}>
        {all.map((command, i) => (
          <div key={command.id} id={`palette-${i}`} role="option" aria-selected={i === at} className="pick" onClick={() => run(command)} onMouseMove={() => setAt(i)} ref={(element) => { if (i === at) element?.scrollIntoView({ block: "nearest" }); }}>
            <Icon name={command.icon} /><span className="grow cut">{command.text}</span><span className="soft small">{command.note}</span>
          </div>
        ))}
        {all.length === 0 && <p className="soft pad" role="presentation">{t("palette.nothing")}</p>}
      </div>
    </Dialog>
  );
}
