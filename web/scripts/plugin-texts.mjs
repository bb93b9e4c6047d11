// Writes src/locales/plugins.en.ts and plugins.zh.ts from the first sentence of each page in docs/plugins, and fields.en.ts and fields.zh.ts
// from their tables of fields: node scripts/plugin-texts.mjs [--check].
import { readdirSync, readFileSync, writeFileSync } from "node:fs";

const docs = new URL("../../docs/plugins/", import.meta.url);
const check = process.argv[2] === "--check";

function sentence(file) {
  const text = readFileSync(new URL(file, docs), "utf8");
  const paragraph = text.split(/\n{2,}/).slice(2).find((one) => /^[^#`|<\[-]/.test(one)) ?? "";
  const plain = paragraph.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").replace(/[`*]/g, "").replace(/\s+/g, " ").trim();
  const end = plain.search(/。|[.:](?= |$)/);
  return end < 0 ? plain : plain.slice(0, end + (plain[end] === ":" ? 0 : 1));
}

/** The last column of the tables of fields, by the names of the fields; sentences that lead to other parts of the page are left out. */
function meanings(file) {
  const text = readFileSync(new URL(file, docs), "utf8");
  const tables = [...text.matchAll(/<!-- fields: (?:plugin|consumer) -->(.*?)<!-- end of fields -->/gs)];
  const rows = tables.flatMap(([, table]) => table.split("\n").filter((line) => line.startsWith("| `")));
  const cells = rows.map((line) => line.split(/(?<!\\)\|/).slice(1, -1).map((cell) => cell.trim().replaceAll("\\|", "|")));
  const found = cells.map((row) => [row[0].replaceAll("`", ""), plainly(row.at(-1))]).filter(([, meaning]) => meaning);
  return Object.fromEntries(found.reverse());
}

function plainly(cell) {
  const own = cell.split(/(?<=[.;] +)|(?<=[。；])/).filter((part) => !/\]\(#|^see (above|below)|^见[上下]文/.test(part));
  const words = own.join("").replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").replace(/[`*]/g, "").replace(/\s+/g, " ").trim();
  return words.replace(/[;；:：.。]$/, "").replaceAll("<br>", " ");
}

function write(name, text) {
  const target = new URL(`../src/locales/${name}.ts`, import.meta.url);
  if (!check) writeFileSync(target, text);
  else if (readFileSync(target, "utf8") !== text) {
    console.error(`src/locales/${name}.ts is not what docs/plugins say: run npm run plugin-texts`);
    process.exit(1);
  }
}

const MADE = "// Made by scripts/plugin-texts.mjs from docs/plugins; do not edit.\n";

for (const [language, ending] of [["en", ".md"], ["zh", ".zh-CN.md"]]) {
  const pages = readdirSync(docs).filter((file) => file.endsWith(ending) && (language === "zh" || !file.endsWith(".zh-CN.md")) && !/^(README|index)\b/.test(file)).sort();
  const name = (file) => file.slice(0, -ending.length);
  const lines = pages.map((file) => `  ${JSON.stringify(name(file))}: ${JSON.stringify(sentence(file))},`);
  write(`plugins.${language}`, `${MADE}export const plugins = {\n${lines.join("\n")}\n};\n`);
  const fields = pages.map((file) => `  ${JSON.stringify(name(file))}: ${JSON.stringify(meanings(file))},`);
  write(`fields.${language}`, `${MADE}export const fields: Record<string, Record<string, string>> = {\n${fields.join("\n")}\n};\n`);
}
