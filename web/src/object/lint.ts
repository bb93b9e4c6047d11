// What is valid and still hardly meant, where the page can tell.
import type { Json } from "../lib/api";
import { readCertificate } from "../lib/certificate";
import { t } from "../lib/i18n";
import { isObject } from "../lib/json";
import { readNodes } from "./nodes";

export function lint(kind: string, object: Json): string[] {
  if (kind === "ssls") return ofCertificate(object);
  const upstream = kind === "upstreams" ? object : object.upstream;
  return [...(isObject(upstream) ? ofNodes(upstream, kind === "stream_routes") : []), ...(kind === "routes" ? ofPaths(object) : [])];
}

/** Of schemes of HTTP; a stream has no port of its own. */
const PORTS: Record<string, string> = { http: "80", https: "443", grpc: "80", grpcs: "443" };

function ofNodes(upstream: Json, stream: boolean): string[] {
  const nodes = readNodes(upstream.nodes);
  const bare = nodes.filter((node) => node.host && !node.port).map((node) => node.host);
  const port = PORTS[String(upstream.scheme ?? "http")];
  return [
    ...(nodes.length > 0 && nodes.every((node) => node.weight === "0") ? [t("lint.weights")] : []),
    ...(bare.length > 0 && port && !stream ? [t("lint.port", { name: bare.join(", "), port, n: bare.length })] : []),
  ];
}

function ofPaths(route: Json): string[] {
  const paths = [route.uri, ...(Array.isArray(route.uris) ? route.uris : [])].filter((one): one is string => typeof one === "string");
  // The last star takes the rest of the path, and what stands behind it is a name.
  const odd = paths.filter((path) => /[^/]\*[^/]+$/.test(path));
  return odd.length > 0 ? [t("lint.star", { paths: odd.join(", ") })] : [];
}

function ofCertificate(object: Json): string[] {
  const facts = readCertificate(object.cert);
  if (!facts || object.type === "client") return [];
  const wanted = [object.sni, ...(Array.isArray(object.snis) ? object.snis : [])].filter((one): one is string => typeof one === "string" && one !== "");
  const missing = wanted.filter((one) => !facts.names.some((name) => isFor(name, one)));
  return [...(facts.end * 1000 < Date.now() ? [t("lint.ended")] : []), ...(missing.length ? [t("lint.names", { names: missing.join(", ") })] : [])];
}

function isFor(name: string, sni: string): boolean {
  const [a, b] = [name.toLowerCase(), sni.toLowerCase()];
  return a === b || (a.startsWith("*.") && !b.startsWith("*.") && b.slice(b.indexOf(".")) === a.slice(1));
}
