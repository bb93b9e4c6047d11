import { QueryClientProvider } from "@tanstack/react-query";
import { Component, type JSX, type ReactNode } from "react";
import { t, useLanguage } from "./lib/i18n";
import { locate } from "./lib/kinds";
import { queries } from "./lib/query";
import { address, usePlace } from "./lib/router";
import { useSession } from "./lib/session";
import { ListScreen } from "./list/list-screen";
import { ObjectScreen } from "./object/object-screen";
import { Changes } from "./screens/changes";
import { Explain } from "./screens/explain";
import { Login } from "./screens/login";
import { Overview } from "./screens/overview";
import { PluginsScreen } from "./screens/plugins";
import { Shell } from "./screens/shell";
import { TrafficScreen } from "./screens/traffic";
import { UsersScreen } from "./screens/users";
import { Empty, Failure, Header, Link } from "./ui/basics";

export function App(): JSX.Element {
  useLanguage();
  const session = useSession();
  const { path } = usePlace();
  return (
    <QueryClientProvider client={queries}>
      {session && path[0] !== "oidc" ? <Shell><Boundary key={path.join("/")}><Screen /></Boundary></Shell> : <Login />}
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
    if (!this.state.error) return this.props.children;
    return <><Header title={t("broken.title")} /><div className="pad"><Failure error={this.state.error} retry={() => this.setState({ error: null })} /></div></>;
  }
}
