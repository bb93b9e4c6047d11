import { QueryClientProvider } from "@tanstack/react-query";
import { Component, type JSX, type ReactNode, Suspense } from "react";
import { later, Absent, whenIdle } from "./later";
import { t, useLanguage } from "./lib/i18n";
import { locate } from "./lib/kinds";
import { queries } from "./lib/query";
import { address, usePlace } from "./lib/router";
import { useSession } from "./lib/session";
import { Login } from "./screens/login";
import { Overview } from "./screens/overview";
import { Shell } from "./screens/shell";
import { Empty, Failure, Header, Link, Skeleton } from "./ui/basics";

const ListScreen = later(() => import("./list/list-screen").then((file) => file.ListScreen));
const ObjectScreen = later(() => import("./object/object-screen").then((file) => file.ObjectScreen));
const TrafficScreen = later(() => import("./screens/traffic").then((file) => file.TrafficScreen));
const Explain = later(() => import("./screens/explain").then((file) => file.Explain));
const Changes = later(() => import("./screens/changes").then((file) => file.Changes));
const UsersScreen = later(() => import("./screens/users").then((file) => file.UsersScreen));
const PluginsScreen = later(() => import("./screens/plugins").then((file) => file.PluginsScreen));

const OTHERS = { traffic: TrafficScreen, explain: Explain, changes: Changes, users: UsersScreen, plugins: PluginsScreen };

/** The file of the screen at an address. */
export async function fetchScreen(path: string[]): Promise<void> {
  const where = locate(path);
  const name = path[0] ?? "";
  if (where) await (where.id.length ? ObjectScreen : ListScreen).fetch();
  else if (Object.hasOwn(OTHERS, name)) await OTHERS[name as keyof typeof OTHERS].fetch();
}

/** Those of all the others, one after the other: the next click waits for none of them. */
export function fetchOthers(): void {
  const left = [ListScreen, ObjectScreen, ...Object.values(OTHERS)];
  const next = () => {
    const screen = left.shift();
    if (screen) void screen.fetch().catch(() => undefined).then(() => whenIdle(next));
  };
  whenIdle(next);
}

export function App(): JSX.Element {
  useLanguage();
  const session = useSession();
  const { path } = usePlace();
  return (
    <QueryClientProvider client={queries}>
      {session && path[0] !== "oidc" ? <Shell><Boundary key={path.join("/")}><Suspense fallback={<Skeleton />}><Screen /></Suspense></Boundary></Shell> : <Login />}
    </QueryClientProvider>
  );
}

function Screen(): JSX.Element {
  const { path } = usePlace();
  const where = locate(path);
  if (where) return where.id.length ? <ObjectScreen key={path.join("/")} where={where} /> : <ListScreen key={path.join("/")} where={where} />;
  switch (path[0]) {
    case undefined: return <Overview />;
    case "traffic": return <TrafficScreen />;
    case "explain": return <Explain />;
    case "changes": return <Changes path={path} />;
    case "users": return <UsersScreen />;
    case "plugins": return <PluginsScreen path={path} />;
    default: return <><Header title={t("missing.title")} /><Empty icon="search" title={t("missing.title")} actions={<Link className="button" to={address([])}>{t("nav.overview")}</Link>}>{t("missing.text")}</Empty></>;
  }
}

/** A screen that fails leaves the others in order. */
class Boundary extends Component<{ children: ReactNode }, { error: unknown }> {
  override state = { error: null as unknown };

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override render(): ReactNode {
    const { error } = this.state;
    if (!error) return this.props.children;
    // A newer console has other files: the page has to be loaded again to know their names.
    const retry = () => (error instanceof Absent ? location.reload() : this.setState({ error: null }));
    return <><Header title={t("broken.title")} /><div className="pad"><Failure error={error} retry={retry} /></div></>;
  }
}
