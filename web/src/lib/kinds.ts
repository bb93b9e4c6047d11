// The kinds of objects: their addresses, names and columns. A screen that shows objects reads all it needs from here.
import type { Json } from "./api";
import type { Key } from "./i18n";
import { readCertificate } from "./certificate";
import { isObject } from "./json";

export interface Column {
  name: string;
  title: Key;
  value: (object: Json, id: string) => string;
  mono?: boolean;
  /** Shown until the columns are chosen. */
  shown?: boolean;
  /** Stays where there is room for few. */
  first?: boolean;
  width: number;
  number?: boolean;
}

export interface Kind {
  /** In addresses of the console and of the Admin API. */
  name: string;
  title: Key;
  one: Key;
  teach: Key;
  icon: string;
  /** Name of its schema; null where the manager or plugin decides. */
  schema: string | null;
  /** Where the identifier is. */
  idField: string;
  columns: Column[];
  /** Fields that a form shows before any of them is set. */
  main: string[];
  /** A start for a new object. */
  blank: Json;
  /** GET leaves secrets out, so that changes are sent as a merge patch. */
  patched?: boolean;
  plugins?: "route" | "consumer";
}

const text = (value: unknown): string => (value === undefined || value === null ? "" : typeof value === "object" ? JSON.stringify(value) : String(value));
const list = (one: unknown, many: unknown): string => (Array.isArray(many) ? many.map(text).join(" ") : text(one));
const names = (value: unknown): string => (isObject(value) ? Object.keys(value).join(" ") : "");
export const labelsOf = (object: Json): string[] => (isObject(object.labels) ? Object.entries(object.labels).map(([key, value]) => `${key}:${text(value)}`) : []);
export const pluginsOf = (object: Json): string[] => (isObject(object.plugins) ? Object.keys(object.plugins) : []);

/** `10.0.0.1:80` of either form of `nodes`. */
export function nodesOf(upstream: unknown): string {
  if (!isObject(upstream)) return "";
  if (Array.isArray(upstream.nodes)) return upstream.nodes.map((node) => (isObject(node) ? `${text(node.host)}${node.port === undefined ? "" : `:${text(node.port)}`}` : "")).join(" ");
  return upstream.nodes ? names(upstream.nodes) : [text(upstream.discovery_type), text(upstream.service_name)].filter(Boolean).join("/");
}

const leadsTo = (object: Json): string => text(object.upstream_id) || nodesOf(object.upstream);
const enabled = (object: Json): string => (object.status === 0 ? "0" : "1");

const name: Column = { name: "name", title: "field.name", value: (o, id) => text(o.name) || id, shown: true, width: 200 };
const id: Column = { name: "id", title: "field.id", value: (_, id) => id, mono: true, width: 160 };
const desc: Column = { name: "desc", title: "field.desc", value: (o) => text(o.desc), width: 220 };
const labels: Column = { name: "labels", title: "field.labels", value: (o) => labelsOf(o).join(" "), shown: true, width: 170 };
const plugins: Column = { name: "plugins", title: "field.plugins", value: (o) => names(o.plugins), shown: true, width: 210 };
const updated: Column = { name: "updated", title: "field.update_time", value: (o) => text(o.update_time), width: 130, number: true };
const status: Column = { name: "status", title: "field.status", value: enabled, width: 90 };
const tail = [labels, desc, id, updated];

const define = (kind: Omit<Kind, "idField" | "blank"> & Partial<Kind>): Kind => ({ idField: "id", blank: {}, ...kind });

export const KINDS: Kind[] = [
  define({
    name: "routes", title: "kind.routes", one: "kind.route", teach: "teach.routes", icon: "routes", schema: "route", plugins: "route",
    main: ["name", "desc", "labels", "uri", "uris", "methods", "host", "hosts", "priority", "service_id", "upstream_id", "upstream", "status"],
    blank: { uri: "/", upstream: { type: "roundrobin", nodes: {} } },
    columns: [
      name,
      { name: "methods", title: "field.methods", value: (o) => list("", o.methods), shown: true, width: 110, mono: true },
      { name: "host", title: "field.host", value: (o) => list(o.host, o.hosts), shown: true, width: 170 },
      { name: "path", title: "field.uri", value: (o) => list(o.uri, o.uris), shown: true, first: true, width: 220, mono: true },
      { name: "priority", title: "field.priority", value: (o) => text(o.priority ?? 0), shown: true, width: 80, number: true },
      { name: "service", title: "field.service_id", value: (o) => text(o.service_id), shown: true, width: 130 },
      { name: "upstream", title: "field.upstream", value: leadsTo, width: 170, mono: true },
      plugins,
      status, ...tail,
    ],
  }),
  define({
    name: "services", title: "kind.services", one: "kind.service", teach: "teach.services", icon: "services", schema: "service", plugins: "route",
    main: ["name", "desc", "labels", "hosts", "upstream_id", "upstream"], blank: { upstream: { type: "roundrobin", nodes: {} } },
    columns: [name, { name: "host", title: "field.host", value: (o) => list("", o.hosts), shown: true, width: 200 }, { name: "upstream", title: "field.upstream", value: leadsTo, shown: true, width: 230, mono: true }, plugins, ...tail],
  }),
  define({
    name: "upstreams", title: "kind.upstreams", one: "kind.upstream", teach: "teach.upstreams", icon: "upstreams", schema: "upstream",
    main: ["name", "desc", "labels", "type", "scheme", "nodes", "retries", "pass_host", "checks"], blank: { type: "roundrobin", nodes: {} },
    columns: [
      name,
      { name: "type", title: "field.type", value: (o) => text(o.type) || "roundrobin", shown: true, width: 120 },
      { name: "scheme", title: "field.scheme", value: (o) => text(o.scheme) || "http", shown: true, width: 90 },
      { name: "nodes", title: "field.nodes", value: nodesOf, shown: true, width: 320, mono: true }, ...tail,
    ],
  }),
  define({
    name: "consumers", title: "kind.consumers", one: "kind.consumer", teach: "teach.consumers", icon: "consumers", schema: "consumer", plugins: "consumer", idField: "username",
    main: ["username", "desc", "labels", "group_id"],
    columns: [
      { name: "name", title: "field.username", value: (_, id) => id, shown: true, width: 220 },
      { name: "group", title: "field.group_id", value: (o) => text(o.group_id), shown: true, width: 160 },
      plugins, { ...labels }, { ...desc, shown: true }, updated,
    ],
  }),
  define({
    name: "consumer_groups", title: "kind.consumer_groups", one: "kind.consumer_group", teach: "teach.consumer_groups", icon: "groups", schema: "consumer_group", plugins: "route",
    main: ["name", "desc", "labels"], blank: { plugins: {} }, columns: [name, plugins, { ...desc, shown: true }, labels, id, updated],
  }),
  define({
    name: "ssls", title: "kind.ssls", one: "kind.ssl", teach: "teach.ssls", icon: "ssls", schema: "ssl", patched: true,
    main: ["snis", "sni", "cert", "key", "type", "client", "labels", "status"], blank: { snis: [], cert: "", key: "" },
    columns: [
      { name: "name", title: "field.snis", value: (o, id) => list(o.sni, o.snis) || id, shown: true, width: 280 },
      { name: "type", title: "field.type", value: (o) => text(o.type) || "server", shown: true, width: 100 },
      { name: "ends", title: "ssl.ends", value: (o) => text(readCertificate(o.cert)?.end), shown: true, width: 130 },
      { ...status, shown: true }, labels, { ...id, shown: true }, desc, updated,
    ],
  }),
  define({
    name: "global_rules", title: "kind.global_rules", one: "kind.global_rule", teach: "teach.global_rules", icon: "rules", schema: "global_rule", plugins: "route",
    main: [], blank: { plugins: {} }, columns: [{ ...id, name: "name", shown: true }, { ...plugins, width: 360 }, updated],
  }),
  define({
    name: "plugin_configs", title: "kind.plugin_configs", one: "kind.plugin_config", teach: "teach.plugin_configs", icon: "plugins", schema: "plugin_config", plugins: "route",
    main: ["name", "desc", "labels"], blank: { plugins: {} }, columns: [name, plugins, { ...desc, shown: true }, labels, id, updated],
  }),
  define({
    name: "plugin_metadata", title: "kind.plugin_metadata", one: "kind.plugin_metadatum", teach: "teach.plugin_metadata", icon: "metadata", schema: null,
    main: [], columns: [{ ...id, name: "name", title: "field.plugin", shown: true }, { name: "value", title: "field.value", value: (o) => JSON.stringify(o), shown: true, width: 480, mono: true }],
  }),
  define({
    name: "stream_routes", title: "kind.stream_routes", one: "kind.stream_route", teach: "teach.stream_routes", icon: "stream", schema: "stream_route", plugins: "route",
    main: ["name", "desc", "labels", "server_port", "server_addr", "remote_addr", "sni", "service_id", "upstream_id", "upstream"],
    blank: { upstream: { type: "roundrobin", nodes: {} } },
    columns: [
      name,
      { name: "port", title: "field.server_port", value: (o) => text(o.server_port), shown: true, width: 90, number: true },
      { name: "sni", title: "field.sni", value: (o) => text(o.sni), shown: true, width: 180 },
      { name: "upstream", title: "field.upstream", value: leadsTo, shown: true, width: 230, mono: true }, plugins, ...tail,
    ],
  }),
  define({
    name: "protos", title: "kind.protos", one: "kind.proto", teach: "teach.protos", icon: "protos", schema: "proto",
    main: ["name", "desc", "content"], blank: { content: "" }, columns: [name, { ...desc, shown: true }, { ...id, shown: true }, labels, updated],
  }),
  define({
    name: "secrets", title: "kind.secrets", one: "kind.secret", teach: "teach.secrets", icon: "secrets", schema: null,
    main: ["uri", "prefix", "token"], columns: [{ ...id, name: "name", shown: true }, { name: "uri", title: "field.uri", value: (o) => text(o.uri) || text(o.endpoint_url), shown: true, width: 320, mono: true }, updated],
  }),
];

export const CREDENTIALS: Kind = define({
  name: "credentials", title: "kind.credentials", one: "kind.credential", teach: "teach.credentials", icon: "secrets", schema: "credential", plugins: "consumer",
  main: ["name", "desc", "labels"], blank: { plugins: {} }, columns: [name, plugins, { ...desc, shown: true }, labels, id, updated],
});

export interface Where {
  kind: Kind;
  /** The collection: ["routes"], or ["consumers", "jack", "credentials"]. */
  collection: string[];
  /** Parts of the identifier; two of a secret (manager and name); none for the list. */
  id: string[];
}

/** What a path of the console names among the objects, if anything. */
export function locate(path: string[]): Where | null {
  const kind = KINDS.find((one) => one.name === path[0]);
  if (!kind) return null;
  if (kind.name === "consumers" && path[2] === "credentials") return path.length <= 4 ? { kind: CREDENTIALS, collection: path.slice(0, 3), id: path.slice(3) } : null;
  const most = kind.name === "secrets" ? 3 : 2;
  return path.length <= most ? { kind, collection: path.slice(0, 1), id: path.slice(1) } : null;
}

export const apiPath = (parts: string[]): string => `/${parts.map(encodeURIComponent).join("/")}`;

/** The identifier in an answer's key, such as `/apisix/consumers/jack/credentials/c` in the collection of jack. */
export function idOfKey(key: string, collection: string[]): string {
  const parts = key.replace(/^\/apisix\//, "").split("/");
  return parts.slice(collection.length).join("/");
}
