// Objects as JSON or YAML. The library for YAML is loaded when YAML is first chosen.
import type { Json } from "../lib/api";
import { isObject } from "../lib/json";
import type { Syntax } from "./editor";

export interface Problem {
  line: number;
  text: string;
}

export async function write(object: unknown, syntax: Syntax): Promise<string> {
  if (syntax === "json") return `${JSON.stringify(object, null, 2)}\n`;
  const { stringify } = await import("yaml");
  return stringify(object, { lineWidth: 0 });
}

export async function parseText(text: string, syntax: Syntax): Promise<{ object: Json } | { problem: Problem }> {
  try {
    const value: unknown = syntax === "json" ? JSON.parse(text) : await parseYaml(text);
    return isObject(value) ? { object: value } : { problem: { line: 1, text: "object expected" } };
  } catch (error) {
    return { problem: problemOf(error, text) };
  }
}

async function parseYaml(text: string): Promise<unknown> {
  const { parse } = await import("yaml");
  return parse(text, { maxAliasCount: 100 });
}

export function problemOf(error: unknown, text: string): Problem {
  const message = error instanceof Error ? error.message : String(error);
  const yaml = (error as { linePos?: { line: number }[] }).linePos?.[0]?.line;
  const line = /line (\d+)/.exec(message)?.[1];
  const position = /position (\d+)/.exec(message)?.[1];
  const at = yaml ?? (line ? Number(line) : position ? text.slice(0, Number(position)).split("\n").length : text.trimEnd().split("\n").length);
  return { line: at, text: message.split("\n")[0] ?? message };
}
