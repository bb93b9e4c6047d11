import { expect, test } from "vitest";
import { restore, unsavedOf } from "./unsaved";

test("what was changed comes back on top of what is stored now", () => {
  const base = { name: "cart", desc: "old", retries: 1, timeout: { read: 3 } };
  const kept = unsavedOf(base, { name: "cart", desc: "new", timeout: { read: 3, send: 4 } }, ["cart"]);
  expect(kept.short).toBe(false);
  expect(restore({ ...base, name: "basket" }, JSON.parse(JSON.stringify(kept)))).toEqual({ name: "basket", desc: "new", timeout: { read: 3, send: 4 } });
});

test.each([
  [{ plugins: { "key-auth": { key: "SECRET" } } }],
  [{ plugins: { "basic-auth": { username: "a", password: "SECRET" } } }],
  [{ plugins: { "jwt-auth": { key: "SECRET", secret: "SECRET", private_key: "SECRET" } } }],
  [{ plugins: { "openid-connect": { client_id: "a", client_secret: "SECRET" } } }],
  [{ plugins: { "http-logger": { uri: "http://u:SECRET@h/", auth_header: "Basic SECRET" } } }],
  [{ plugins: { "proxy-rewrite": { headers: { set: { Authorization: "Bearer SECRET", "X-API-Key": "SECRET" } } } } }],
  [{ plugins: { "proxy-rewrite": { headers: { add: ["Bearer SECRET"] } } } }],
  [{ plugins: { "limit-count": { redis_password: "SECRET" } } }],
  [{ cert: "public", key: "-----BEGIN PRIVATE KEY----- SECRET" }],
  [{ certs: ["-----BEGIN PRIVATE KEY----- SECRET"], keys: ["-----BEGIN PRIVATE KEY----- SECRET"] }],
  [{ tls: { client_key: "SECRET" } }],
  [{ access_key_id: "SECRET", secret_access_key: "SECRET", session_token: "SECRET" }],
  [{ plugins: { "ai-proxy": { auth: { header: { Authorization: "SECRET" }, query: { api_key: "SECRET" } } } } }],
])("no secret of %j is kept", (object) => {
  const kept = unsavedOf({}, object, []);
  expect(JSON.stringify(kept)).not.toContain("SECRET");
  expect(kept.short).toBe(true);
});

test("the variable of a limit is no secret", () => {
  expect(unsavedOf({}, { plugins: { "limit-req": { rate: 1, key: "remote_addr" } } }, []).short).toBe(false);
});
