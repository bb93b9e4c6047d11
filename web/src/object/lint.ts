// What is valid and still hardly meant, where the page can tell.
import type { Json } from "../lib/api";
import { readCertificate } from "../lib/certificate";
import { t } from "../lib/i18n";
import { isObject } from "../lib/json";
import { readNodes } from "./widgets";

export function lint(kind: string, object: Json): string[] {
  if (kind === "ssls") return ofCertificate(object);
  const upstream = kind === "upstreams" ? object : object.upstream;
  const nodes = isObject(upstream) ? readNodes(upstream.nodes) : [];
  return nodes.length > 0 && nodes.every((node) => node.weight === "0") ? [t("lint.weights")] : [];
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
