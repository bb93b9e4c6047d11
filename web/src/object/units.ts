// What a field means, where its schema says so, and the units of fields whose schemas have no words.
import { t } from "../lib/i18n";
import type { Path } from "../lib/json";
import type { Schema } from "./schema";

const SECONDS = /\/(time_window|cache_ttl|max_age|break_response_code_sec|max_breaker_sec|retry_timeout|clock_skew|idle_timeout|expires|interval|inactive_timeout|buffer_duration|retry_delay|default_conn_delay|delay\/duration)$|^\/(upstream\/)?(timeout\/(connect|send|read))$/;

export function helpOf(path: Path, schema: Schema, isNumber: boolean): string {
  if (typeof schema.description === "string" && schema.description) return schema.description;
  return isNumber && SECONDS.test(`/${path.join("/")}`) ? t("form.seconds") : "";
}
