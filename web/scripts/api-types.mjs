// Writes src/lib/api-types.ts from `tidegate openapi`: node scripts/api-types.mjs BINARY-OR-JSON [--check].
// Only schemas are taken, without those of plugins: forms read these from the running gateway.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";

const [source, check] = process.argv.slice(2);
if (!source) {
  console.error("usage: node scripts/api-types.mjs BINARY-OR-JSON [--check]");
  process.exit(2);
}
const text = source.endsWith(".json") ? readFileSync(source, "utf8") : execFileSync(source, ["openapi"], { maxBuffer: 64 << 20, encoding: "utf8" });
const schemas = JSON.parse(text).components.schemas;
const named = Object.keys(schemas).filter((name) => !name.startsWith("plugin.")).sort();

function typeOf(schema, indent) {
  if (schema === true || schema === undefined) return "unknown";
  if (schema === false) return "never";
  if (schema.$ref) {
    const name = schema.$ref.split("/").pop();
    return named.includes(name) ? name : "Record<string, unknown>";
  }
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.properties) return objectType(schema, indent);
  const choices = schema.oneOf ?? schema.anyOf;
  if (choices && choices.every((one) => one.type || one.$ref || one.enum || one.const !== undefined)) return union(choices.map((one) => typeOf(one, indent)));
  if (Array.isArray(schema.type)) return union(schema.type.map((type) => typeOf({ ...schema, type }, indent)));
  switch (schema.type) {
    case "string": return "string";
    case "integer": case "number": return "number";
    case "boolean": return "boolean";
    case "null": return "null";
    case "array": return schema.items ? `(${typeOf(schema.items, indent)})[]` : "unknown[]";
    case "object": return `Record<string, ${valuesOf(schema, indent)}>`;
    default: return "unknown";
  }
}

const union = (types) => [...new Set(types)].join(" | ");

function valuesOf(schema, indent) {
  const patterns = Object.values(schema.patternProperties ?? {});
  if (patterns.length) return union(patterns.map((one) => typeOf(one, indent)));
  return typeof schema.additionalProperties === "object" ? typeOf(schema.additionalProperties, indent) : "unknown";
}

function objectType(schema, indent) {
  const required = new Set(schema.required ?? []);
  const inner = `${indent}  `;
  const lines = Object.keys(schema.properties).sort().map((name) => {
    const quoted = /^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name);
    return `${inner}${quoted}${required.has(name) ? "" : "?"}: ${typeOf(schema.properties[name], inner)};`;
  });
  return `{\n${lines.join("\n")}\n${indent}}`;
}

const target = new URL("../src/lib/api-types.ts", import.meta.url);
const written = ["// Made by scripts/api-types.mjs from `tidegate openapi`; do not edit.", ""]
  .concat(named.map((name) => `export type ${name} = ${typeOf(schemas[name], "")};\n`)).join("\n");
if (check) {
  if (readFileSync(target, "utf8") !== written) {
    console.error("src/lib/api-types.ts does not agree with the gateway: run `make ui-types`");
    process.exit(1);
  }
} else {
  writeFileSync(target, written);
}
