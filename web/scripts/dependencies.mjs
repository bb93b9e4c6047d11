// Writes dependencies.tsv: name, version, its date, newest version, its date, licence of each library that package.json names.
// It asks the npm registry, once for each; scripts/dependencies.py makes a table of docs/dependencies.md from the file.
// And it refuses licences that the console must not carry, for all packages of the lock file.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";

const here = (name) => new URL(`../${name}`, import.meta.url);
const { dependencies, devDependencies } = JSON.parse(readFileSync(here("package.json"), "utf8"));
const { packages } = JSON.parse(readFileSync(here("package-lock.json"), "utf8"));

const refused = Object.entries(packages).filter(([path, one]) => path && (!one.license || /(^|[^L])GPL|AGPL|SSPL|BUSL/.test(one.license)));
if (refused.length) {
  console.error(`licences to look at: ${refused.map(([path, one]) => `${path} (${one.license})`).join(", ")}`);
  process.exit(1);
}
const rows = Object.entries({ ...dependencies, ...devDependencies }).sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, version]) => {
  const { time, license, "dist-tags": tags } = JSON.parse(execFileSync("npm", ["view", name, "time", "license", "dist-tags", "--json"], { encoding: "utf8", maxBuffer: 64 << 20 }));
  const date = (of) => (time[of] ?? "?").slice(0, 10);
  return [name, version, date(version), tags.latest, date(tags.latest), license].join("\t");
});
writeFileSync(here("dependencies.tsv"), `${rows.join("\n")}\n`);
