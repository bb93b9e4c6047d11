// After `vite build`: each file of dist becomes FILE.br, and dist/files.json says what they are. The gateway serves these
// bytes, so that nothing is compressed while it runs. The same sources make the same bytes.
import { createHash } from "node:crypto";
import { appendFileSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { extname, join, relative } from "node:path";
import { brotliCompressSync, constants } from "node:zlib";

const DIST = new URL("../dist/", import.meta.url).pathname;
const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", ".woff2": "font/woff2", ".md": "text/markdown; charset=utf-8" };
/** Bytes of a first load: the page, what it names, and the fonts. */
const BUDGET = 350 * 1024;

const walk = (folder) => readdirSync(folder).sort().flatMap((name) => (statSync(join(folder, name)).isDirectory() ? walk(join(folder, name)) : [join(folder, name)]));

// Vite lists the libraries; the fonts are files to it.
for (const font of ["inter", "jetbrains-mono"]) {
  const folder = new URL(`../node_modules/@fontsource-variable/${font}/`, import.meta.url);
  const { version } = JSON.parse(readFileSync(new URL("package.json", folder), "utf8"));
  appendFileSync(join(DIST, "licences.md"), `\n## @fontsource-variable/${font} - ${version} (OFL-1.1)\n\n${readFileSync(new URL("LICENSE", folder), "utf8").trim()}\n`);
}

// What the page loads before it runs anything.
const named = [...readFileSync(join(DIST, "index.html"), "utf8").matchAll(/"\/ui\/([^"]+)"/g)].map((match) => match[1]);

const files = walk(DIST).filter((file) => !file.endsWith(".br") && !file.endsWith("files.json"));
const listed = files.map((file) => {
  const bytes = readFileSync(file);
  const type = TYPES[extname(file)];
  if (!type) throw new Error(`${file}: unknown type`);
  const packed = brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_LGWIN]: 22, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length } });
  writeFileSync(`${file}.br`, packed);
  rmSync(file);
  return { path: relative(DIST, file), type, bytes: bytes.length, brotli: packed.length, sha256: createHash("sha256").update(bytes).digest("hex") };
});
writeFileSync(join(DIST, "files.json"), `${JSON.stringify(listed, null, 1)}\n`);

const first = listed.filter(({ path }) => named.includes(path) || /^index\.html$|^icon\.svg$|assets\/worker-.*\.js$|\.woff2$/.test(path));
const sum = (all) => all.reduce((total, file) => total + file.brotli, 0);
console.log(`first load ${(sum(first) / 1024).toFixed(1)} KiB, all ${(sum(listed) / 1024).toFixed(1)} KiB in ${listed.length} files (brotli)`);
if (sum(first) > BUDGET) {
  console.error(`the first load is larger than ${BUDGET / 1024} KiB`);
  process.exit(1);
}
