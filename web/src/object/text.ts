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
    const value: unknown = syntax === "json" ? parseJson(text) : await parseYaml(text);
    return isObject(value) ? { object: value } : { problem: { line: 1, text: "object expected" } };
  } catch (error) {
    return { problem: problemOf(error, text) };
  }
}

/** JSON without what a reader of JSON drops in silence. */
export function parseJson(text: string): unknown {
  const value: unknown = JSON.parse(text);
  const lost = lostOf(text);
  if (lost) throw new Error(`${lost.what} at position ${lost.at}`);
  return value;
}

/** A name that comes twice in one object, or an integer that JavaScript rounds, in a text that is JSON. */
export function lostOf(text: string): { what: string; at: number } | null {
  const open: (Set<string> | null)[] = [];
  for (const token of text.matchAll(/"(?:[^"\\]|\\.)*"(\s*:)?|[{}[\]]|-?\d[\d.eE+-]*/g)) {
    const [part, colon] = token;
    if (part === "{") open.push(new Set());
    else if (part === "[") open.push(null);
    else if (part === "}" || part === "]") open.pop();
    else if (colon) {
      const name = JSON.parse(part.slice(0, part.length - colon.length)) as string;
      const names = open.at(-1);
      if (names?.has(name)) return { what: `"${name}" comes twice in the same object`, at: token.index };
      names?.add(name);
    } else if (/^-?\d+$/.test(part) && !Number.isSafeInteger(Number(part))) return { what: `${part} is too large for this page, which would round it`, at: token.index };
  }
  return null;
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
