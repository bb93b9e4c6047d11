// Which route a request would meet, why the others would not have it, and what would run. The question is in the address, but
// for its headers and its body, which may be credentials: addresses stay in the history of the browser.
import { useQuery } from "@tanstack/react-query";
import { type FormEvent, type JSX, useEffect, useState } from "react";
import { request } from "../lib/api";
import { isKey, type Key, t } from "../lib/i18n";
import { useKeys } from "../lib/keys";
import { address, setQuery, usePlace } from "../lib/router";
import { useMayChange } from "../lib/session";
import { useRevision } from "../lib/status";
import { Empty, Failure, Header, Link, Skeleton, Wide } from "../ui/basics";
import { ObjectName, show } from "../ui/diff";
import { Icon } from "../ui/icons";

/** A reason, of which the sentence is made here. */
interface Cause {
  code: string;
  values: Record<string, string>;
}
interface Candidate {
  route: string;
  name: string | null;
  uri: string;
  host: string | null;
  priority: number;
  verdict: "won" | "shadowed" | "lost" | "disabled";
  shadowed_by: string | null;
  reason: string | null;
  cause: Cause | null;
}
interface PhasePlugin {
  plugin: string;
  priority: number;
  from: string;
  runs: boolean;
  does: "not_reached" | "skipped" | "continues" | "splits" | "answers" | "may_answer" | "after_answer";
  status?: number | null;
  reason?: string;
  cause?: Cause;
}
interface Answerer {
  plugin: string | null;
  phase: string | null;
  from: string | null;
  status: number | null;
  reason: string;
  cause: Cause;
}
interface Destination {
  upstream: string;
  weight: number;
  percent: number;
  node: string | null;
  nodes: string[];
  more_nodes: boolean;
}
interface Ending {
  outcome: "upstream" | "answered" | "may_be_answered";
  answer: Answerer | null;
  may_answer: Answerer[];
  status_changed_by: string[];
  upstreams: Destination[];
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
  result: Ending;
  route: { id: string; name: string | null; uri: string; host: string | null; service: string | null; plugin_config: string | null; upstream: string | null; node: string | null; answers: unknown } | null;
  candidates: Candidate[];
  more_candidates: boolean;
  phases: { phase: string; plugins: PhasePlugin[] }[];
  plugins: PluginFields[];
  notes: string[];
  note_causes: Cause[];
}

const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "CONNECT", "PURGE"];

/** Headers and bodies of questions, by the number that stands in the address. They are gone when the page is loaded again. */
const typed = new Map<string, { headers: string; body: string }>();

export function Explain(): JSX.Element {
  const { query } = usePlace();
  const admin = useMayChange();
  const number = query.get("typed") ?? "";
  const isLost = number !== "" && !typed.has(number);
  const asked = { ...Object.fromEntries(["method", "url", "ip", "consumer"].map((name) => [name, query.get(name) ?? ""])), headers: "", body: "", ...typed.get(number) } as Record<string, string>;
  const answer = useQuery({
    queryKey: ["explain", asked], enabled: Boolean(asked.url) && admin && !isLost, retry: false,
    queryFn: ({ signal }) => request<Explanation>("/explain", {
      signal,
      body: {
        url: asked.url, method: asked.method || "GET", headers: readHeaders(asked.headers ?? ""),
        ...(asked.body ? { body: asked.body } : {}), ...(asked.ip ? { client_ip: asked.ip } : {}), ...(asked.consumer ? { consumer: asked.consumer } : {}),
      },
    }),
  });
  // The answer is about the configuration of now.
  const revision = useRevision().data?.compiled;
  const isOld = answer.data !== undefined && revision !== undefined && answer.data.revision < revision;
  useEffect(() => { if (isOld) void answer.refetch(); }, [isOld, revision]);
  return (
    <>
      <Header title={t("nav.explain")} />
      <Question key={JSON.stringify(asked)} asked={asked} mayAsk={admin} onAgain={() => void answer.refetch()} />
      <div className="scroll">
        {!admin && <div className="pad"><div className="notice warn"><Icon name="warning" /><p>{t("explain.viewer")}</p></div></div>}
        {admin && isLost && <div className="pad"><div className="notice warn"><Icon name="warning" /><p>{t("explain.lost")}</p></div></div>}
        {admin && !asked.url && <Empty icon="explain" title={t("explain.empty")}>{t("explain.empty.text")}</Empty>}
        {answer.isFetching && !answer.data && <Skeleton />}
        {answer.error && <div className="pad"><Failure error={answer.error} /></div>}
        {answer.data && <Result answer={answer.data} url={asked.url ?? ""} />}
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

/** The first line that is no header. */
export const badLine = (text: string): string | undefined => text.split("\n").find((line) => line.trim() !== "" && line.indexOf(":") < 1);

function Question({ asked, mayAsk, onAgain }: { asked: Record<string, string>; mayAsk: boolean; onAgain: () => void }): JSX.Element {
  const [form, setForm] = useState(asked);
  const [more, setMore] = useState(Boolean(asked.headers || asked.body || asked.ip || asked.consumer));
  const bad = badLine(form.headers ?? "");
  const ask = (event?: FormEvent) => {
    event?.preventDefault();
    if (!mayAsk || bad !== undefined) return;
    const { headers = "", body = "", ...rest } = form;
    const text = (form.url ?? "").trim();
    const next = { ...rest, url: text && !/^(https?:\/\/|\/)/.test(text) ? `http://${text}` : text, method: form.method === "GET" ? "" : (form.method ?? ""), headers, body };
    const isSame = Object.entries(next).every(([name, value]) => value === (name === "method" && asked.method === "GET" ? "" : (asked[name] ?? "")));
    if (isSame) return onAgain();
    const number = headers || body ? String(typed.size + 1) : undefined;
    if (number) typed.set(number, { headers, body });
    setQuery({ ...rest, url: next.url, method: next.method || undefined, typed: number }, { replace: false });
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
        <button type="submit" className="button primary" disabled={!mayAsk || bad !== undefined}>{t("explain.ask")}</button>
      </div>
      {more && <div className="question-more">{area("headers", "explain.headers", "X-Team: blue")}{area("body", "explain.body", "")}{text("ip", "explain.ip")}{text("consumer", "explain.consumer")}</div>}
      {bad !== undefined && <p className="bad small" role="alert">{t("explain.badheader", { line: bad.trim() })}</p>}
    </form>
  );
}

/** Why the gateway cannot use the route that a request meets. */
function useRejection(id: string | undefined): string | null {
  const rejected = useQuery({ queryKey: ["rejected"], queryFn: () => request<{ list: { kind?: string; id?: string; reason?: string }[] }>("/rejected"), enabled: id !== undefined, retry: false });
  return rejected.data?.list.find((one) => one.kind === "routes" && one.id === id)?.reason ?? null;
}

/** The reason in the language of the console; as the gateway says it where there is no text for it. */
function sentence(cause: Cause | null | undefined, otherwise: string | null | undefined): string {
  const key = `cause.${cause?.code ?? ""}${cause?.code === "decided" && cause.values.value ? ".says" : ""}`;
  return cause && isKey(key) ? t(key, cause.values) : (otherwise ?? "");
}

const namesOf = (list: Answerer[]): string => [...new Set(list.map((one) => (one.status ? t("explain.named", { plugin: one.plugin ?? "", status: String(one.status) }) : (one.plugin ?? ""))))].join(t("explain.or"));

function Result({ answer, url }: { answer: Explanation; url: string }): JSX.Element {
  const { route, result } = answer;
  const rejection = useRejection(route?.id);
  const why = result.answer && sentence(result.answer.cause, result.answer.reason);
  return (
    <div className="pad column">
      <div className={result.outcome === "upstream" ? "verdict" : "verdict none"}>
        <Icon name={result.outcome === "upstream" ? "check" : "warning"} />
        <div className="grow">
          <p><strong>{headline(result)}</strong>{result.outcome === "upstream" && <> <Destinations all={result.upstreams} /></>}</p>
          {why && <p>{why}</p>}
          {result.outcome === "may_be_answered" && <p>{t("explain.otherwise")} <Destinations all={result.upstreams} /></p>}
          {result.status_changed_by.length > 0 && <p>{t("explain.changes", { names: result.status_changed_by.join(", ") })}</p>}
          {rejection && <p>{t("explain.broken")} {rejection}</p>}
          {route && <p className="soft small">{t("explain.goes")} <Link to={address(["routes", route.id])}>{route.name ?? route.id}</Link> <code>{route.uri}</code></p>}
          <p className="soft small">{answer.request.method} {url.startsWith("/") ? `${answer.request.scheme}://${answer.request.host}${url}` : url} · {t("explain.from", { ip: answer.request.client_ip })} · {t("explain.at", { revision: answer.revision })}</p>
        </div>
      </div>
      {answer.notes.map((note, at) => <div key={note} className="notice" style={{ marginTop: 8 }}><p>{sentence(answer.note_causes[at], note)}</p></div>)}
      {!route && !answer.refused && <p className="pad-top"><Link className="button" to={address(["routes", "+new"])}>{t("list.new", { kind: t("kind.route") })}</Link></p>}
      <h2 className="section-title flat">{t("explain.candidates", { n: answer.candidates.length })}</h2>
      {answer.candidates.length === 0 ? <p className="soft">{t("explain.candidates.none")}</p> : <Candidates candidates={answer.candidates} />}
      {answer.more_candidates && <p className="soft small">{t("explain.candidates.more")}</p>}
      {(route || answer.phases.length > 0) && <><h2 className="section-title flat">{t("explain.path")}</h2><Chain answer={answer} /></>}
      {answer.plugins.length > 0 && <><h2 className="section-title flat">{t("explain.sources")}</h2><Sources plugins={answer.plugins} /></>}
    </div>
  );
}

function headline({ outcome, answer, may_answer }: Ending): string {
  const names = namesOf(may_answer);
  if (outcome === "upstream") return t("explain.reaches");
  if (!answer) return names ? t("explain.may", { names }) : t("explain.uncertain");
  const status = answer.status === null ? "" : String(answer.status);
  const by = answer.plugin ?? "";
  const said = by ? (status ? t("explain.answered", { status, plugin: by }) : t("explain.answered.somehow", { plugin: by })) : t("explain.answered.gateway", { status });
  return names ? t("explain.unless", { said, names }) : said;
}

/** Each upstream with its part of the requests, and the node where it is known. */
function Destinations({ all }: { all: Destination[] }): JSX.Element {
  if (all.length === 0) return <span className="soft">{t("explain.noupstream")}</span>;
  return (
    <span className="row wrap">
      {all.map((one, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: two may be the same upstream
        <span key={at} className="row wrap">
          <ObjectName resource={one.upstream} />
          {all.length > 1 && <span>{t("explain.percent", { percent: String(one.percent) })}</span>}
          {one.node ? <code>{one.node}</code> : <span className="soft">{t("explain.bybalancer")}</span>}
        </span>
      ))}
    </span>
  );
}

const TONE = { won: "ok", shadowed: "warn", lost: "", disabled: "" };

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
                <div className="only-narrow"><span className="mono">{one.host ?? "*"} {one.uri}</span><p className="soft">{sentence(one.cause, one.reason)}</p></div></td>
              <td className="hide-narrow">{one.host ?? <span className="soft">*</span>}</td>
              <td className="mono hide-narrow">{one.uri}</td>
              <td className="number hide-narrow">{one.priority}</td>
              <td className="soft hide-narrow">{sentence(one.cause, one.reason)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Wide>
  );
}

/** Not a plugin that somebody configured: it stands where a route cannot be used. Its priority is above all. */
const isUnavailable = (one: PhasePlugin): boolean => one.plugin === "unavailable" && one.priority > Number.MAX_SAFE_INTEGER;

/** What comes of a plugin's turn, if it is more than that the request continues. */
function Does({ one }: { one: PhasePlugin }): JSX.Element | null {
  const status = one.status ? ` ${one.status}` : "";
  if (one.does === "answers" || one.does === "may_answer") {
    const tag = one.does === "answers" ? t("explain.does.answers") : t("explain.does.may_answer");
    return <><span className={`tag ${one.does === "answers" ? "bad" : "warn"}`}>{tag}{status}</span><span className="soft small">{sentence(one.cause, one.reason)}</span></>;
  }
  if (one.does === "splits") return <span className="tag">{t("explain.does.splits")}</span>;
  if (one.does === "not_reached") return <span className="tag">{t("explain.does.not_reached")}</span>;
  return one.runs ? null : <span className="tag">{t("explain.skipped")}</span>;
}

function Chain({ answer }: { answer: Explanation }): JSX.Element {
  const { result } = answer;
  return (
    <ol className="chain">
      <li><span className="chain-head">{t("explain.request")}</span><code>{answer.request.method} {answer.request.path}</code></li>
      {answer.phases.map(({ phase, plugins }) => (
        <li key={phase}>
          <span className="chain-head mono">{phase}</span>
          {plugins.map((one) => isUnavailable(one) ? <span key={one.plugin} className="bad">{t("explain.unavailable")}</span> : (
            <span key={`${one.plugin} ${one.from}`} className={one.does === "not_reached" || !one.runs ? "chain-plugin off" : "chain-plugin"}>
              <Link to={address(["plugins", one.plugin])}>{one.plugin}</Link><span className="soft small">{one.priority}</span>
              <ObjectName resource={one.from} />
              <Does one={one} />
            </span>
          ))}
        </li>
      ))}
      <li>
        <span className="chain-head">{t("explain.end")}</span>
        {result.answer ? <span className="soft">{t("explain.does.not_reached")}</span> : <Destinations all={result.upstreams} />}
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
