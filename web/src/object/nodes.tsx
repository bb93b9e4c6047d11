// The nodes of an upstream, in either of their forms: a row for each, with what is wrong below it.
import { type JSX, useEffect, useRef } from "react";
import { t } from "../lib/i18n";
import { isObject } from "../lib/json";
import { Icon } from "../ui/icons";
import { type Common, focusLast, RemoveRow, useRows } from "./widgets";

export interface Node {
  host: string;
  port: string;
  weight: string;
  /** Fields of the long form that have no column here. */
  more: Record<string, unknown>;
}

export function readNodes(value: unknown): Node[] {
  if (Array.isArray(value)) {
    return value.filter(isObject).map(({ host, port, weight, ...more }) => ({ host: String(host ?? ""), port: port === undefined ? "" : String(port), weight: String(weight ?? 1), more }));
  }
  if (!isObject(value)) return [];
  return Object.entries(value).map(([address, weight]) => {
    const match = /^(.*?)(?::(\d+))?$/.exec(address);
    return { host: match?.[1] ?? address, port: match?.[2] ?? "", weight: String(weight), more: {} };
  });
}

/** In the form that the value had: `{"host:port": weight}` or a list of objects. */
export function writeNodes(nodes: Node[], short: boolean): unknown {
  const number = (text: string) => (/^\d+$/.test(text) ? Number(text) : text);
  if (short) return Object.fromEntries(nodes.filter((node) => node.host).map((node) => [node.port ? `${node.host}:${node.port}` : node.host, number(node.weight)]));
  return nodes.map((node) => ({ host: node.host, ...(node.port ? { port: number(node.port) } : {}), weight: number(node.weight), ...node.more }));
}

type Field = "host" | "port" | "weight";

const isPort = (text: string): boolean => /^\d{1,5}$/.test(text) && Number(text) >= 1 && Number(text) <= 65535;

/** What is wrong with a node, at which of its fields; an empty one is only missing. */
export function faultOf({ host, port, weight }: Node): { field: Field; text: string } | null {
  const node = host || t("field.node");
  const bare = host.replace(/^[a-z][a-z0-9+.-]*:\/\//i, "").replace(/[/?#].*$/, "");
  if (bare !== host) return { field: "host", text: t(host.includes("://") ? "node.scheme" : "node.path", { host, bare }) };
  if (/\s/.test(host)) return { field: "host", text: t("node.space", { host }) };
  if (/^[0-9a-f]*:[0-9a-f:]*:[0-9a-f]*$/i.test(host)) return { field: "host", text: t("node.brackets", { host }) };
  const inHost = /^[^:[\]]*:(.*)$/.exec(host)?.[1] ?? /\]:(.*)$/.exec(host)?.[1];
  if (inHost !== undefined && inHost !== "" && !isPort(inHost)) return { field: "host", text: t("node.port", { node, port: inHost }) };
  if (port !== "" && !isPort(port)) return { field: "port", text: t("node.port", { node, port }) };
  if (weight !== "" && !/^\d+$/.test(weight)) return { field: "weight", text: t("node.weight", { node, weight }) };
  return null;
}

export function NodesInput({ value, onChange, onWrong, label, id, disabled, ...rest }: Common & { label: string; onWrong?: (wrong: boolean) => void }): JSX.Element {
  const group = useRef<HTMLDivElement>(null);
  const [rows, setRows] = useRows(value, readNodes, (nodes) => writeNodes(nodes, !Array.isArray(value)), onChange);
  const wrong = rows.some((row) => faultOf(row) !== null);
  const tell = useRef(onWrong);
  tell.current = onWrong;
  useEffect(() => {
    tell.current?.(wrong);
    return () => tell.current?.(false);
  }, [wrong]);
  const edit = (index: number, change: Partial<Node>) => setRows(rows.map((row, i) => (i === index ? { ...row, ...change } : row)));
  const cell = (row: Node, i: number, name: Field, fault: Field | undefined) => (
    <input className="input mono" value={row[name]} disabled={disabled} aria-label={t(`field.${name}`)} placeholder={t(`field.${name}`)} aria-invalid={fault === name || undefined} aria-describedby={fault === name ? `${id}-${i}-fault` : rest["aria-describedby"]} inputMode={name === "host" ? undefined : "numeric"} onChange={(event) => edit(i, { [name]: event.target.value })} />
  );
  return (
    <div className="rows" role="group" aria-labelledby={label} ref={group}>
      {rows.length > 0 && <div className="rows-row three soft small" aria-hidden="true"><span>{t("field.host")}</span><span>{t("field.port")}</span><span>{t("field.weight")}</span></div>}
      {rows.map((row, i) => {
        const fault = disabled ? null : faultOf(row);
        return (
          <div key={i} className="rows-row three">
            {cell(row, i, "host", fault?.field)}{cell(row, i, "port", fault?.field)}{cell(row, i, "weight", fault?.field)}
            <RemoveRow disabled={disabled} name={[row.host, row.port].filter(Boolean).join(":") || t("field.node")} onClick={() => setRows(rows.filter((_, at) => at !== i))} />
            {fault && <p id={`${id}-${i}-fault`} className="fault whole">{fault.text}</p>}
          </div>
        );
      })}
      {!disabled && <button type="button" className="button" onClick={() => { setRows([...rows, { host: "", port: "", weight: "1", more: {} }]); focusLast(group); }}><Icon name="plus" size={12} />{t("form.add.node")}</button>}
    </div>
  );
}
