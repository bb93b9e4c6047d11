// Which route a request would meet, why the others would not have it, and what would run. The question is in the address.
import { useQuery } from "@tanstack/react-query";
import { type FormEvent, type JSX, useState } from "react";
import { request } from "../lib/api";
import { type Key, t } from "../lib/i18n";
import { useKeys } from "../lib/keys";
import { address, setQuery, usePlace } from "../lib/router";
import { useMayChange } from "../lib/session";
import { Empty, Failure, Header, Link, Skeleton, Wide } from "../ui/basics";
import { ObjectName, show } from "../ui/diff";
import { Icon } from "../ui/icons";

interface Candidate {
  route: string;
  name: string | null;
  uri: string;
  host: string | null;
  priority: number;
  verdict: "won" | "shadowed" | "lost";
  shadowed_by: string | null;
  reason: string | null;
}
interface PhasePlugin {
  plugin: string;
  priority: number;
  from: string;
  runs: boolean;
}
interface PluginFields {
  plugin: string;
  from: string;
  hides: string[];
  fields: { path: string; value: unknown; from: string }[];
}
interface Explanation {
  request: { method: string; scheme: string; host: string; path: string; client_ip: string; consumer: string | null };
  revision: number;
  refused: number | null;
  route: { id: string; name: string | null; uri: string; host: string | null; service: string | null; plugin_config: string | null; upstream: string | null; node: string | null; answers: unknown } | null;
  candidates: Candidate[];
  more_candidates: boolean;
  phases: { phase: string; plugins: PhasePlugin[] }[];
  plugins: PluginFields[];
  notes: string[];
}

const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];

export function Explain(): JSX.Element {
  const { query } = usePlace();
  const admin = useMayChange();
  const asked = Object.fromEntries(["method", "url", "headers", "body", "ip", "consumer"].map((name) => [name, query.get(name) ?? ""])) as Record<string, string>;
  const answer = useQuery({
    queryKey: ["explain", asked], enabled: Boolean(asked.url) && admin, retry: false,
    queryFn: ({ signal }) => request<Explanation>("/explain", {
      signal,
      body: {
        url: asked.url, method: asked.method || "GET", headers: readHeaders(asked.headers ?? ""),
        ...(asked.body ? { body: asked.body } : {}), ...(asked.ip ? { client_ip: asked.ip } : {}), ...(asked.consumer ? { consumer: asked.consumer } : {}),
      },
    }),
  });
  return (
    <>
      <Header title={t("nav.explain")} />
      <Question key={JSON.stringify(asked)} asked={asked} />
      <div className="scroll">
        {!admin && <div className="pad"><div className="notice warn"><Icon name="warning" /><p>{t("explain.viewer")}</p></div></div>}
        {admin && !asked.url && <Empty icon="explain" title={t("explain.empty")}>{t("explain.empty.text")}</Empty>}
        {answer.isFetching && !answer.data && <Skeleton />}
        {answer.error && <div className="pad"><Failure error={answer.error} /></div>}
        {answer.data && <Result answer={answer.data} />}
      </div>
    </>
  );
}

/** `Name: value` in each line; a name that comes twice has a list. */
export function readHeaders(text: string): Record<string, string | string[]> {
  const found = new Map<string, string[]>();
  for (const line of text.split("\n")) {
    const at = line.indexOf(":");
    if (at > 0) found.set(line.slice(0, at).trim(), [...(found.get(line.slice(0, at).trim()) ?? []), line.slice(at + 1).trim()]);
  }
  return Object.fromEntries([...found].map(([name, values]) => [name, values.length === 1 ? (values[0] ?? "") : values]));
}

function Question({ asked }: { asked: Record<string, string> }): JSX.Element {
  const [form, setForm] = useState(asked);
  const [more, setMore] = useState(Boolean(asked.headers || asked.body || asked.ip || asked.consumer));
  const ask = (event?: FormEvent) => {
    event?.preventDefault();
    const url = (form.url ?? "").trim();
    setQuery({ ...form, url: url && !/^(https?:\/\/|\/)/.test(url) ? `http://${url}` : url, method: form.method === "GET" ? undefined : form.method }, { replace: false });
  };
  useKeys({ "ctrl+enter": () => ask() });
  const text = (name: string, label: Key, mono = true) => (
    <label><span className="soft small">{t(label)}</span><input className={mono ? "input mono" : "input"} value={form[name] ?? ""} autoComplete="off" spellCheck={false} onChange={(event) => setForm({ ...form, [name]: event.target.value })} /></label>
  );
  const area = (name: string, label: Key, placeholder: string) => (
    <label><span className="soft small">{t(label)}</span><textarea className="textarea mono" rows={3} placeholder={placeholder} value={form[name] ?? ""} spellCheck={false} onChange={(event) => setForm({ ...form, [name]: event.target.value })} /></label>
  );
  return (
    <form className="question" onSubmit={ask}>
      <div className="row wrap">
        <select className="select mono" style={{ width: 104 }} aria-label={t("explain.method")} value={form.method || "GET"} onChange={(event) => setForm({ ...form, method: event.target.value })}>{METHODS.map((method) => <option key={method}>{method}</option>)}</select>
        <input className="input mono grow" autoFocus data-autofocus aria-label={t("explain.url")} placeholder="https://shop.example.com/api/orders?id=1" value={form.url ?? ""} autoComplete="off" spellCheck={false} onChange={(event) => setForm({ ...form, url: event.target.value })} />
        <button type="button" className="button" aria-expanded={more} onClick={() => setMore(!more)}><Icon name={more ? "up" : "down"} size={12} />{t("explain.more")}</button>
        <button type="submit" className="button primary">{t("explain.ask")}</button>
      </div>
      {more && <div className="question-more">{area("headers", "explain.headers", "X-Team: blue")}{area("body", "explain.body", "")}{text("ip", "explain.ip")}{text("consumer", "explain.consumer")}</div>}
    </form>
  );
}

/** Why the gateway cannot use the route that a request meets. */
function useRejection(id: string | undefined): string | null {
  const rejected = useQuery({ queryKey: ["rejected"], queryFn: () => request<{ list: { kind?: string; id?: string; reason?: string }[] }>("/rejected"), enabled: id !== undefined, retry: false });
  return rejected.data?.list.find((one) => one.kind === "routes" && one.id === id)?.reason ?? null;
}

function Result({ answer }: { answer: Explanation }): JSX.Element {
  const { route } = answer;
  const rejection = useRejection(route?.id);
  // A route that cannot be used answers with the built-in `unavailable`.
  const broken = rejection !== null || answer.phases.some(({ plugins }) => plugins.some((one) => isUnavailable(one)));
  const refused = answer.refused;
  return (
    <div className="pad column">
      <div className={`verdict ${refused || !route || broken ? "none" : ""}`}>
        <Icon name={route && !refused && !broken ? "check" : "warning"} />
        <div className="grow">
          {refused ? <p>{t("explain.refused", { status: refused })}</p>
            : route ? <p>{t("explain.goes")} <Link to={address(["routes", route.id])}><strong>{route.name ?? route.id}</strong></Link> <code>{route.uri}</code></p>
            : <p>{t("explain.nowhere")}</p>}
          {route && !refused && broken && <p>{t("explain.broken")} {rejection ?? ""}</p>}
          <p className="soft small">{answer.request.method} {answer.request.scheme}://{answer.request.host}{answer.request.path} · {t("explain.from", { ip: answer.request.client_ip })} · {t("explain.at", { revision: answer.revision })}</p>
        </div>
      </div>
      {answer.notes.map((note) => <div key={note} className="notice" style={{ marginTop: 8 }}><p>{note}</p></div>)}
      {!route && !refused && <p className="pad-top"><Link className="button" to={address(["routes", "+new"])}>{t("list.new", { kind: t("kind.route") })}</Link></p>}
      <h2 className="section-title flat">{t("explain.candidates", { n: answer.candidates.length })}</h2>
      {answer.candidates.length === 0 ? <p className="soft">{t("explain.candidates.none")}</p> : <Candidates candidates={answer.candidates} />}
      {answer.more_candidates && <p className="soft small">{t("explain.candidates.more")}</p>}
      {route && <><h2 className="section-title flat">{t("explain.path")}</h2><Chain answer={answer} /></>}
      {answer.plugins.length > 0 && <><h2 className="section-title flat">{t("explain.sources")}</h2><Sources plugins={answer.plugins} /></>}
    </div>
  );
}

const TONE = { won: "ok", shadowed: "warn", lost: "" };

function Candidates({ candidates }: { candidates: Candidate[] }): JSX.Element {
  return (
    <Wide label={t("explain.candidates", { n: candidates.length })}>
      <table className="plain-table">
        <thead><tr><th scope="col">{t("explain.verdict")}</th><th scope="col">{t("explain.route")}</th><th scope="col" className="hide-narrow">{t("field.host")}</th><th scope="col" className="hide-narrow">{t("field.uri")}</th><th scope="col" className="number hide-narrow">{t("field.priority")}</th><th scope="col" className="hide-narrow">{t("explain.why")}</th></tr></thead>
        <tbody>
          {candidates.map((one) => (
            <tr key={one.route}>
              <td><span className={`tag ${TONE[one.verdict]}`}>{t(`verdict.${one.verdict}`)}</span></td>
              <td><Link to={address(["routes", one.route])}>{one.name ?? one.route}</Link>
                <div className="only-narrow"><span className="mono">{one.host ?? "*"} {one.uri}</span><p className="soft">{one.reason ?? ""}</p></div></td>
              <td className="hide-narrow">{one.host ?? <span className="soft">*</span>}</td>
              <td className="mono hide-narrow">{one.uri}</td>
              <td className="number hide-narrow">{one.priority}</td>
              <td className="soft hide-narrow">{one.reason ?? ""}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Wide>
  );
}

/** Not a plugin that somebody configured: it stands where a route cannot be used. Its priority is above all. */
const isUnavailable = (one: PhasePlugin): boolean => one.plugin === "unavailable" && one.priority > Number.MAX_SAFE_INTEGER;

function Chain({ answer }: { answer: Explanation }): JSX.Element {
  const { route } = answer;
  return (
    <ol className="chain">
      <li><span className="chain-head">{t("explain.request")}</span><code>{answer.request.method} {answer.request.path}</code></li>
      {answer.phases.map(({ phase, plugins }) => (
        <li key={phase}>
          <span className="chain-head mono">{phase}</span>
          {plugins.map((one) => isUnavailable(one) ? <span key={one.plugin} className="bad">{t("explain.unavailable")}</span> : (
            <span key={`${one.plugin} ${one.from}`} className={one.runs ? "chain-plugin" : "chain-plugin off"}>
              <Link to={address(["plugins", one.plugin])}>{one.plugin}</Link><span className="soft small">{one.priority}</span>
              <ObjectName resource={one.from} />
              {!one.runs && <span className="tag">{t("explain.skipped")}</span>}
            </span>
          ))}
        </li>
      ))}
      <li>
        <span className="chain-head">{t("explain.end")}</span>
        {route?.answers ? <span>{show(route.answers)}</span> : (
          <span className="row wrap">{route?.upstream ? <ObjectName resource={route.upstream} /> : <span className="soft">{t("explain.noupstream")}</span>}
            {route?.node ? <code>{route.node}</code> : <span className="soft">{t("explain.bybalancer")}</span>}</span>
        )}
      </li>
    </ol>
  );
}

function Sources({ plugins }: { plugins: PluginFields[] }): JSX.Element {
  return (
    <div className="sources">
      {plugins.map((one) => (
        <details key={`${one.plugin} ${one.from}`}>
          <summary><strong>{one.plugin}</strong> <span className="soft small">{one.from}{one.hides.length > 0 && ` · ${t("explain.hides", { names: one.hides.join(", ") })}`}</span></summary>
          <table className="plain-table">
            <tbody>
              {one.fields.map((field) => (
                <tr key={field.path}>
                  <th scope="row" className="mono">{field.path.slice(1).replaceAll("/", ".")}</th><td className="mono">{show(field.value)}</td>
                  <td>{field.from === "default" ? <span className="soft">{t("explain.default")}</span> : <ObjectName resource={field.from} />}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </details>
      ))}
    </div>
  );
}
