// Writes src/locales/plugins.en.ts and plugins.zh.ts from the first sentence of each page in docs/plugins: node scripts/plugin-texts.mjs [--check].
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

for (const [language, ending] of [["en", ".md"], ["zh", ".zh-CN.md"]]) {
  const pages = readdirSync(docs).filter((file) => file.endsWith(ending) && (language === "zh" || !file.endsWith(".zh-CN.md")) && !/^(README|index)\b/.test(file)).sort();
  const lines = pages.map((file) => `  ${JSON.stringify(file.slice(0, -ending.length))}: ${JSON.stringify(sentence(file))},`);
  const written = `// Made by scripts/plugin-texts.mjs from docs/plugins; do not edit.\nexport const plugins = {\n${lines.join("\n")}\n};\n`;
  const target = new URL(`../src/locales/plugins.${language}.ts`, import.meta.url);
  if (!check) writeFileSync(target, written);
  else if (readFileSync(target, "utf8") !== written) {
    console.error(`src/locales/plugins.${language}.ts is not what docs/plugins say: run npm run plugin-texts`);
    process.exit(1);
  }
}
