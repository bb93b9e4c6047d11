// What plugins do, in the words of the documentation, and other words that people look for. Loaded when a plugin is first added.
import { useEffect, useState } from "react";
import { currentLanguage, useLanguage } from "../lib/i18n";
import type { Path } from "../lib/json";

export interface PluginWords {
  text: string;
  also: string;
}
type All = Record<string, PluginWords>;

/** Names of the trade that no description has. */
const ALSO: Record<string, string> = {
  "traffic-split": "canary blue green weight a/b ab test rollout 灰度 金丝雀 蓝绿",
  "limit-count": "rate limit quota throttle 429 限流 配额", "limit-req": "rate limit throttle leaky bucket 429 限流", "limit-conn": "concurrency connections rate limit 429 并发 限流",
  "key-auth": "api key apikey token 密钥", "jwt-auth": "token bearer", "openid-connect": "oidc oauth oauth2 sso login 登录", "basic-auth": "password user htpasswd 密码",
  "ip-restriction": "allow deny whitelist blacklist firewall acl 白名单 黑名单", "cors": "origin browser cross 跨域", "proxy-rewrite": "path header strip prefix 重写",
  "response-rewrite": "header body status 重写", "redirect": "https 301 302 重定向", "api-breaker": "circuit breaker 熔断", "proxy-cache": "cache 缓存", "proxy-mirror": "shadow copy 镜像",
  "fault-injection": "chaos delay abort error 故障", "mocking": "mock stub 模拟", "prometheus": "metrics grafana 指标", "opentelemetry": "trace tracing otel 追踪", "zipkin": "trace tracing jaeger 追踪",
  "uri-blocker": "waf block 拦截", "request-id": "correlation trace", "client-control": "body size limit upload 上传", "gzip": "compress 压缩", "brotli": "compress 压缩", "csrf": "token form",
  "consumer-restriction": "acl authorization allow deny 授权", "forward-auth": "external authorization 授权", "ldap-auth": "active directory ad", "real-ip": "x-forwarded-for client address",
};

export const matchesWords = (words: PluginWords | undefined, typed: string): boolean => {
  const wanted = typed.toLowerCase().split(/\s+/).filter(Boolean);
  return words !== undefined && wanted.length > 0 && wanted.every((word) => `${words.text} ${words.also}`.toLowerCase().includes(word));
};

export function usePluginWords(): All {
  const [all, setAll] = useState<All>({});
  useEffect(() => {
    let gone = false;
    const texts = currentLanguage() === "zh" ? import("../locales/plugins.zh") : import("../locales/plugins.en");
    void texts.then(({ plugins }) => {
      const list: Record<string, string> = plugins;
      if (!gone) setAll(Object.fromEntries(Object.entries(list).map(([name, text]) => [name, { text, also: ALSO[name] ?? "" }])));
    }).catch(() => undefined);
    return () => { gone = true; };
  }, []);
  return all;
}

type Meanings = Record<string, Record<string, string>>;

/** What a field of a plugin means, and in which unit it is, in the words of the documentation. */
export function useMeanings(wanted: boolean): (path: Path) => string {
  const language = useLanguage();
  const [all, setAll] = useState<Meanings>({});
  useEffect(() => {
    if (!wanted) return;
    let gone = false;
    const texts = language === "zh" ? import("../locales/fields.zh") : import("../locales/fields.en");
    void texts.then(({ fields }) => { if (!gone) setAll(fields); }).catch(() => undefined);
    return () => { gone = true; };
  }, [language, wanted]);
  return (path) => meaningOf(all, path);
}

/** `path` begins with `plugins` and the plugin's name. */
export function meaningOf(all: Meanings, path: Path): string {
  const [, plugin, ...names] = path;
  const field = names.reduce<string>((name, next) => (typeof next === "number" ? `${name}[]` : name ? `${name}.${next}` : next), "");
  const found = Object.hasOwn(all, String(plugin)) ? all[String(plugin)] : undefined;
  return found && Object.hasOwn(found, field) ? (found[field] ?? "") : "";
}
