// Reading JSON schemas for forms: what a field is, in the few words that a form needs.
import type { Json } from "../lib/api";
import { isObject } from "../lib/json";

export type Schema = Json;

/** Texts of several lines by their names, where the schema sets no length. */
const LONG = /cert$|^cert|certificate|pem$|template$|^model$|^policy_text$|^content$|^script$/;

export type Widget = "text" | "long" | "number" | "switch" | "choice" | "choices" | "list" | "map" | "group" | "nodes" | "json";

const own = (schema: Schema, name: string): unknown => (Object.hasOwn(schema, name) ? schema[name] : undefined);
export const objectAt = (schema: Schema, name: string): Schema => { const value = own(schema, name); return isObject(value) ? value : {}; };

/** The fields of an object, those of its branches (`oneOf`, `anyOf`, `then`...) included. */
export function propertiesOf(schema: Schema): Record<string, Schema> {
  const found: Record<string, Schema> = {};
  const collect = (from: unknown, depth: number) => {
    if (!isObject(from) || depth > 3) return;
    for (const [name, value] of Object.entries(objectAt(from, "properties"))) if (isObject(value) && !Object.hasOwn(found, name)) found[name] = value;
    for (const branches of [from.oneOf, from.anyOf, from.allOf]) if (Array.isArray(branches)) for (const branch of branches) collect(branch, depth + 1);
    for (const branch of [from.then, from.else]) collect(branch, depth + 1);
    for (const branch of Object.values(objectAt(from, "dependencies"))) collect(branch, depth + 1);
  };
  collect(schema, 0);
  return found;
}

export const requiredOf = (schema: Schema): string[] => (Array.isArray(schema.required) ? schema.required.filter((name) => typeof name === "string") : []);

/** The branch of `anyOf` or `oneOf` that a simple widget can edit: text rather than number, a list rather than a map. */
export function plain(schema: Schema): Schema {
  const branches = [schema.anyOf, schema.oneOf].find(Array.isArray)?.filter(isObject);
  if (schema.type !== undefined || !branches?.length) return schema;
  if (branches.every((branch) => branch.type === "string" || branch.enum)) return branches.find((branch) => branch.enum) ?? { type: "string" };
  return { ...schema, type: branches.map((branch) => branch.type).filter((type) => type !== undefined) };
}

export function typesOf(schema: Schema): string[] {
  const type = plain(schema).type;
  return (Array.isArray(type) ? type.flat() : [type]).filter((one) => typeof one === "string");
}

export function widgetOf(name: string, given: Schema): Widget {
  const schema = plain(given);
  const types = [...new Set(typesOf(given))];
  if (name === "nodes" && types.includes("object")) return "nodes";
  if (Array.isArray(schema.enum)) return "choice";
  if (types.length === 2 && types.every((type) => ["string", "integer", "number"].includes(type))) return "text";
  if (types.length !== 1) return "json";
  switch (types[0]) {
    case "boolean": return "switch";
    case "integer": case "number": return "number";
    case "string": return Number(schema.maxLength ?? 0) > 4096 || LONG.test(name) ? "long" : "text";
    case "array": return listWidget(schema);
    case "object": return Object.keys(propertiesOf(schema)).length ? "group" : isMap(schema) ? "map" : "json";
    default: return "json";
  }
}

function listWidget(schema: Schema): Widget {
  const items = objectAt(schema, "items");
  if (Array.isArray(plain(items).enum)) return "choices";
  const types = typesOf(items);
  return types.length === 1 && ["string", "integer", "number"].includes(types[0] ?? "") ? "list" : "json";
}

function isMap(schema: Schema): boolean {
  const values = [...Object.values(objectAt(schema, "patternProperties")), objectAt(schema, "additionalProperties")].filter((one) => isObject(one) && Object.keys(one).length);
  return values.length > 0 && values.every((one) => typesOf(one as Schema)[0] === "string");
}

/** `1 to 300`, `at least 1`: the bounds of a number or of a text, for people. */
export function boundsOf(schema: Schema): { least?: number; most?: number } {
  const least = schema.minimum ?? schema.exclusiveMinimum;
  return { least: typeof least === "number" ? least : undefined, most: typeof schema.maximum === "number" ? schema.maximum : undefined };
}

export interface FieldDoc {
  path: string;
  type: string;
  required: boolean;
  /** Asked for by one of several alternatives. */
  either: boolean;
  fallback: string;
  bounds: string;
}

/** All fields of a schema with the fields inside of them, for the catalogue. */
export function describe(schema: Schema, prefix = "", depth = 0): FieldDoc[] {
  const required = requiredOf(schema);
  const either = [schema.oneOf, schema.anyOf].flatMap((branches) => (Array.isArray(branches) ? branches.filter(isObject).flatMap(requiredOf) : []));
  return Object.entries(propertiesOf(schema)).filter(([name]) => prefix || name !== "_meta").flatMap(([name, field]) => {
    const simple = plain(field);
    const types = typesOf(field);
    const items = objectAt(simple, "items");
    const inner = types.includes("object") ? simple : types.includes("array") ? items : {};
    const path = `${prefix}${name}${types.includes("array") && Object.keys(propertiesOf(items)).length ? "[]" : ""}`;
    const { least, most } = boundsOf(simple);
    const row: FieldDoc = {
      path, required: required.includes(name), either: !required.includes(name) && either.includes(name),
      type: Array.isArray(simple.enum) ? simple.enum.map(String).join(" | ") : types.join(" | ") || "any",
      fallback: simple.default === undefined ? "" : JSON.stringify(simple.default),
      bounds: [least !== undefined ? `${simple.minimum === undefined ? ">" : "≥"} ${least}` : "", most !== undefined ? `≤ ${most}` : ""].filter(Boolean).join(", "),
    };
    return [row, ...(depth < 3 ? describe(inner, `${path}.`, depth + 1) : [])];
  });
}

/** Fields that have to be written before the others; each with what is inside of it. */
export function inOrder(fields: FieldDoc[]): FieldDoc[] {
  const outer = (field: FieldDoc) => field.path.split(".")[0]?.replace("[]", "");
  const first = new Set(fields.filter((field) => (field.required || field.either) && !field.path.includes(".")).map(outer));
  return [...fields.filter((field) => first.has(outer(field))), ...fields.filter((field) => !first.has(outer(field)))];
}
