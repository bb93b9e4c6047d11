// Which objects use a plugin, or refer to another object. Lists are read page by page, so that many objects take no memory.
import type { Entry, Json } from "./api";
import { request } from "./api";
import { isObject } from "./json";

const PAGE = 500;
/** Objects that may have plugins or refer to others. */
export const USERS = ["routes", "services", "consumers", "consumer_groups", "plugin_configs", "global_rules", "stream_routes"] as const;

/** The field that refers to an object of a kind. */
const FIELDS: Record<string, string> = { services: "service_id", upstreams: "upstream_id", plugin_configs: "plugin_config_id", consumer_groups: "group_id", protos: "proto_id", ssls: "client_cert_id", stream_routes: "superior_id" };

export const hasPlugin = (value: Json, plugin: string): boolean => isObject(value.plugins) && Object.hasOwn(value.plugins, plugin);

/** Whether the object, or anything in it, refers to that of a kind with this identifier. */
export function refersTo(value: unknown, kind: string, id: string): boolean {
  const field = FIELDS[kind];
  if (field === undefined) return false;
  if (Array.isArray(value)) return value.some((one) => refersTo(one, kind, id));
  return isObject(value) && Object.entries(value).some(([name, inner]) => (name === field && String(inner) === id) || refersTo(inner, kind, id));
}

/** Their names, such as `routes/1`. A kind that is not for the session, or not there, has none. */
export async function findUsers(isUser: (value: Json) => boolean, signal?: AbortSignal): Promise<string[]> {
  const found: string[] = [];
  for (const kind of USERS) {
    const first = found.length;
    for (let page = 1; ; page++) {
      const answer = await request<{ list?: Entry[]; total?: number }>(`/${kind}?page=${page}&page_size=${PAGE}`, { signal }).catch((error: unknown) => {
        if (signal?.aborted) throw error;
        return null;
      });
      const list = Array.isArray(answer?.list) ? answer.list : [];
      found.push(...list.filter((entry) => isUser(entry.value)).map((entry) => entry.key.replace(/^\/apisix\//, "")));
      if (list.length < PAGE) break;
    }
    found.push(...found.splice(first).sort());
  }
  return found;
}
