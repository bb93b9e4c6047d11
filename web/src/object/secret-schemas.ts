// The Admin API has no schema for secret managers; these are the fields of docs/guide/secrets.md.
import type { Json } from "../lib/api";

const text = { type: "string" };

export const SECRET_SCHEMAS: Record<string, Json> = {
  vault: { required: ["uri", "prefix", "token"], properties: { uri: text, prefix: text, token: text, namespace: text } },
  aws: { required: ["access_key_id", "secret_access_key"], properties: { access_key_id: text, secret_access_key: text, session_token: text, region: { ...text, default: "us-east-1" }, endpoint_url: text } },
  gcp: {
    properties: {
      auth_file: text, ssl_verify: { type: "boolean", default: true },
      auth_config: { type: "object", required: ["client_email", "private_key", "project_id"], properties: { client_email: text, private_key: { ...text, maxLength: 65536 }, project_id: text, token_uri: text, entries_uri: text, scope: { type: "array", items: text } } },
    },
  },
};
