// What stays around every screen: navigation, the line at the bottom, the palette, the help.
import { type JSX, type ReactNode, useEffect, useRef, useState } from "react";
import { t } from "../lib/i18n";
import { useKeys } from "../lib/keys";
import { KINDS } from "../lib/kinds";
import { queries } from "../lib/query";
import { address, leave, navigate, usePlace } from "../lib/router";
import { signOff } from "../lib/api";
import { endSession, setReadOnly, useOffers, useReadOnly, useSession } from "../lib/session";
import { useMode, useRevision } from "../lib/status";
import { Link } from "../ui/basics";
import { Confirmation } from "../ui/dialog";
import { Icon, Mark } from "../ui/icons";
import { Preferences } from "../ui/preferences";
import { toast, Toasts } from "../ui/toasts";
import { useTotal } from "./counts";
import { Help } from "./help";
import { Palette } from "./palette";
import { Password } from "./password";

export const SCREENS = [
  { name: "", title: "nav.overview", icon: "overview", key: "g h" },
  { name: "traffic", title: "nav.traffic", icon: "stream", key: "g t" },
  { name: "explain", title: "nav.explain", icon: "explain", key: "g e" },
  { name: "changes", title: "nav.changes", icon: "changes", key: "g c" },
  { name: "plugins", title: "nav.plugins", icon: "plugins", key: "g p" },
  { name: "users", title: "users.title", icon: "groups", key: "g a" },
] as const;

export function signOut(): void {
  // The cookie goes with the answer; where there is none, the session ends by itself.
  void signOff().catch(() => undefined).then((answer) => {
    queries.clear();
    endSession();
    if (answer) location.assign(answer.location);
  });
}

/** Asks before what is not saved is lost. */
export const askSignOut = (): void => leave(signOut);

export function Shell({ children }: { children: ReactNode }): JSX.Element {
  const [open, setOpen] = useState(false);
  const [palette, setPalette] = useState(false);
  const [help, setHelp] = useState(false);
  const { path } = usePlace();
  const mode = useMode().data;
  useEffect(() => setReadOnly(mode && !mode.writable ? (mode.why ?? "") : null), [mode]);
  useContentFocus(path.join("/"));
  useKeys({
    "ctrl+k": () => setPalette(true),
    "?": () => setHelp(true),
    // What is still offered is undone by its message, which listens first.
    "ctrl+z": () => toast(t("undo.nothing")),
    ...(open ? { escape: () => setOpen(false) } : {}),
    ...Object.fromEntries(SCREENS.map((screen) => [screen.key, () => navigate(address(screen.name ? [screen.name] : []))])),
    "g r": () => navigate(address(["routes"])), "g s": () => navigate(address(["services"])), "g u": () => navigate(address(["upstreams"])), "g o": () => navigate(address(["consumers"])),
    "g l": () => navigate(address(["ssls"])), "g g": () => navigate(address(["global_rules"])), "g m": () => navigate(address(["stream_routes"])),
  });
  return (
    <div className={open ? "shell open" : "shell"}>
      <a className="skip" href="#page" onClick={(event) => { event.preventDefault(); document.getElementById("page")?.focus(); }}>{t("nav.skip")}</a>
      <div className="topbar">
        <button type="button" className="button plain icon" aria-label={t("nav.menu")} aria-expanded={open} onClick={() => setOpen(!open)}><Icon name="menu" /></button>
        <Link className="brand" to={address([])}><Mark /><span>Tidegate</span></Link>
        <button type="button" className="button plain icon" aria-label={t("palette.title")} onClick={() => setPalette(true)}><Icon name="search" /></button>
      </div>
      {open && <button type="button" className="veil" aria-label={t("action.close")} onClick={() => setOpen(false)} />}
      <Side path={path} onPalette={() => setPalette(true)} onGo={() => setOpen(false)} />
      <main className="page" id="page" tabIndex={-1}>{children}</main>
      <Foot onHelp={() => setHelp(true)} />
      {palette && <Palette onClose={() => setPalette(false)} onHelp={() => setHelp(true)} />}
      {help && <Help onClose={() => setHelp(false)} />}
      <Confirmation />
      <Toasts />
    </div>
  );
}

/** What had the focus may be gone: the field of the login, or a link of the screen before. Then the content gets it. */
function useContentFocus(place: string): void {
  const arrived = useRef(false);
  useEffect(() => {
    const page = document.getElementById("page");
    const active = document.activeElement;
    const lost = !arrived.current || !active || active === document.body || !active.isConnected;
    arrived.current = true;
    if (lost && !page?.contains(active)) page?.focus({ preventScroll: true });
  }, [place]);
}

function Side({ path, onPalette, onGo }: { path: string[]; onPalette: () => void; onGo: () => void }): JSX.Element {
  const offers = useOffers();
  const item = (name: string, title: string, icon: string, count?: number) => (
    <Offered key={name} name={name}>
      <Link className="item" to={address(name ? [name] : [])} current={(path[0] ?? "") === name} onClick={onGo} title={title}>
        <Icon name={icon} /><span className="label">{title}</span>{count ? <span className="count">{count.toLocaleString()}</span> : null}
      </Link>
    </Offered>
  );
  return (
    <nav className="side" aria-label={t("nav.title")}>
      <Link className="brand" to={address([])} title="Tidegate" onClick={onGo}><Mark /><span>Tidegate</span></Link>
      <Who />
      <button type="button" className="finder" aria-label={t("palette.title")} onClick={onPalette}><Icon name="search" size={14} /><span>{t("palette.open")}</span><kbd>Ctrl K</kbd></button>
      <ul>{SCREENS.filter((screen) => offers(screen.name)).map((screen) => item(screen.name, t(screen.title), screen.icon))}</ul>
      <h2><span>{t("nav.objects")}</span></h2>
      <ul>{KINDS.filter((kind) => offers(kind.name)).map((kind) => <Counted key={kind.name} name={kind.name} render={(count) => item(kind.name, t(kind.title), kind.icon, count)} />)}</ul>
    </nav>
  );
}

/** Counts of the kinds that a gateway has most of; the others are short lists. */
const COUNTED = ["routes", "services", "upstreams", "consumers", "ssls"];

function Counted({ name, render }: { name: string; render: (count?: number) => JSX.Element }): JSX.Element {
  return render(useTotal(name, COUNTED.includes(name)));
}

/** An entry of the menu; that of the users is there for admins. */
function Offered({ name, children }: { name: string; children: ReactNode }): JSX.Element | null {
  const admin = useSession()?.role === "admin";
  return name === "users" && !admin ? null : <li>{children}</li>;
}

/** Who is signed in; on a small screen also what is at the bottom of others. */
function Who(): JSX.Element {
  const session = useSession();
  const role = t(`users.role.${session?.role ?? "viewer"}`);
  return (
    <div className="who">
      <p title={t(`role.${session?.role ?? "viewer"}`)}><Icon name="consumers" size={14} /><span className="cut">{session?.name ?? t("who.nobody")}</span><span className="tag">{role}</span></p>
      <div className="who-tools"><GatewayState /><Tools /></div>
    </div>
  );
}

function GatewayState(): JSX.Element {
  const revision = useRevision();
  const readOnly = useReadOnly();
  const data = revision.data;
  const behind = data ? data.applied.filter((one) => one < data.stored).length : 0;
  const state = revision.error ? "bad" : behind ? "warn" : "";
  return (
    <>
      <span className="row"><i className={`dot ${state}`} />{revision.error ? t("foot.away") : data ? t("foot.revision", { revision: String(data.stored) }) : t("loading")}</span>
      {data && <span>{behind ? t("foot.behind", { behind, n: data.applied.length }) : t("foot.applied", { n: data.applied.length })}</span>}
      {readOnly !== null && <span className="tag warn" title={readOnly}>{t("foot.readonly")}</span>}
    </>
  );
}

function Tools({ onHelp }: { onHelp?: () => void }): JSX.Element {
  const session = useSession();
  const [password, setPassword] = useState(false);
  return (
    <>
      {onHelp && <button type="button" onClick={onHelp}><kbd>?</kbd>{t("foot.keys")}</button>}
      <Preferences />
      {session?.user && <button type="button" onClick={() => setPassword(true)}><Icon name="secrets" size={13} />{t("password.open")}</button>}
      <button type="button" onClick={askSignOut} title={[session?.name, t(`role.${session?.role ?? "viewer"}`)].filter(Boolean).join(": ")}><Icon name="out" size={13} />{t("foot.out")}</button>
      {password && <Password onClose={() => setPassword(false)} />}
    </>
  );
}

function Foot({ onHelp }: { onHelp: () => void }): JSX.Element {
  return (
    <footer className="foot">
      <GatewayState />
      <div className="right"><Tools onHelp={onHelp} /></div>
    </footer>
  );
}
