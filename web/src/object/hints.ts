// What a form of a plugin begins with: the fields that it is usually about, and values that show their shape. Plugins that are not here
// show the fields that their schema requires.
import type { Json } from "../lib/api";

interface Hint {
  fields: string[];
  start?: Json;
}

const LIMIT = ["key_type", "key", "rejected_code", "rejected_msg", "policy"];
const HINTS: Record<string, Hint> = {
  "limit-count": { fields: ["count", "time_window", ...LIMIT], start: { count: 100, time_window: 60, rejected_code: 429 } },
  "limit-req": { fields: ["rate", "burst", ...LIMIT], start: { rate: 10, burst: 20, key: "remote_addr", rejected_code: 429 } },
  "limit-conn": { fields: ["conn", "burst", "default_conn_delay", ...LIMIT], start: { conn: 10, burst: 5, default_conn_delay: 0.1, key: "remote_addr", rejected_code: 429 } },
  "traffic-split": { fields: ["rules"], start: { rules: [{ weighted_upstreams: [{ upstream_id: "", weight: 1 }, { weight: 9 }] }] } },
  "key-auth": { fields: ["header", "query", "hide_credentials"] },
  "basic-auth": { fields: ["hide_credentials"] },
  "jwt-auth": { fields: ["header", "query", "cookie", "hide_credentials"] },
  "hmac-auth": { fields: ["allowed_algorithms", "clock_skew", "hide_credentials"] },
  "openid-connect": { fields: ["client_id", "client_secret", "discovery", "scope", "bearer_only"] },
  "forward-auth": { fields: ["uri", "request_headers", "upstream_headers", "client_headers"] },
  "opa": { fields: ["host", "policy"] },
  "ip-restriction": { fields: ["whitelist", "blacklist", "message"], start: { whitelist: ["10.0.0.0/8"] } },
  "ua-restriction": { fields: ["allowlist", "denylist", "message"] },
  "referer-restriction": { fields: ["whitelist", "blacklist", "message"] },
  "consumer-restriction": { fields: ["type", "whitelist", "blacklist", "rejected_msg"] },
  "uri-blocker": { fields: ["block_rules", "rejected_code"] },
  "cors": { fields: ["allow_origins", "allow_methods", "allow_headers", "allow_credential", "max_age"] },
  "csrf": { fields: ["key", "expires", "name"] },
  "proxy-rewrite": { fields: ["uri", "regex_uri", "host", "method", "headers"] },
  "response-rewrite": { fields: ["status_code", "body", "headers"] },
  "redirect": { fields: ["http_to_https", "uri", "regex_uri", "ret_code"], start: { http_to_https: true } },
  "proxy-cache": { fields: ["cache_strategy", "cache_zone", "cache_ttl", "cache_method", "cache_http_status"] },
  "proxy-mirror": { fields: ["host", "path", "sample_ratio"] },
  "request-id": { fields: ["header_name", "algorithm", "include_in_response"] },
  "request-validation": { fields: ["header_schema", "body_schema", "rejected_code", "rejected_msg"] },
  "fault-injection": { fields: ["abort", "delay"], start: { abort: { http_status: 503, percentage: 10 } } },
  "mocking": { fields: ["response_status", "content_type", "response_example", "delay"] },
  "api-breaker": { fields: ["break_response_code", "max_breaker_sec", "unhealthy", "healthy"] },
  "gzip": { fields: ["types", "min_length", "comp_level"] },
  "prometheus": { fields: ["prefer_name"] },
  "http-logger": { fields: ["uri", "auth_header", "log_format", "include_req_body"] },
  "kafka-logger": { fields: ["brokers", "kafka_topic", "log_format"] },
  "syslog": { fields: ["host", "port", "log_format"] },
};

export const mainFieldsOf = (plugin: string): string[] => HINTS[plugin]?.fields ?? [];
export const startOf = (plugin: string): Json | undefined => HINTS[plugin]?.start;
