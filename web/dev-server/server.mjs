// Serves dist/ below /ui/ and passes everything below /apisix/ on to the Admin API, until the gateway serves the console itself.
// The headers are those that the gateway is to send. Only for development and tests:
//
//   node dev-server/server.mjs --listen 127.0.0.1:29000 --admin http://127.0.0.1:9180 [--control http://127.0.0.1:9090]
import { readFileSync } from "node:fs";
import http from "node:http";
import { brotliDecompressSync } from "node:zlib";
import { parseArgs } from "node:util";

const { values } = parseArgs({ options: { listen: { type: "string", default: "127.0.0.1:29000" }, admin: { type: "string", default: "http://127.0.0.1:9180" }, control: { type: "string" } } });
const dist = new URL("../dist/", import.meta.url);
const files = new Map(JSON.parse(readFileSync(new URL("files.json", dist), "utf8")).map((file) => [file.path, { ...file, packed: readFileSync(new URL(`${file.path}.br`, dist)) }]));

const HEADERS = {
  "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; worker-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
  "X-Content-Type-Options": "nosniff",
  "Referrer-Policy": "no-referrer",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
};
/** Answers of the Control API that the Admin API is to have as well. */
const CONTROL = { "/apisix/admin/rejected": "/v1/rejected", "/apisix/admin/healthcheck": "/v1/healthcheck" };

function serveFile(request, response, path) {
  const name = path.slice("/ui/".length);
  // A path that names no file is a place in the console, which the page itself shows.
  const file = files.get(name) ?? (/\.\w+$/.test(name) && name.startsWith("assets/") ? null : files.get("index.html"));
  if (!file) return response.writeHead(404, HEADERS).end();
  const packed = /\bbr\b/.test(request.headers["accept-encoding"] ?? "");
  const cache = file.path.startsWith("assets/") ? "public, max-age=31536000, immutable" : "no-cache";
  response.writeHead(200, { ...HEADERS, "Content-Type": file.type, "Cache-Control": cache, Vary: "Accept-Encoding", ETag: `"${file.sha256.slice(0, 32)}"`, ...(packed ? { "Content-Encoding": "br" } : {}) });
  response.end(request.method === "HEAD" ? undefined : packed ? file.packed : brotliDecompressSync(file.packed));
}

function pass(request, response, path) {
  const control = values.control && CONTROL[path];
  const target = new URL(control ? values.control + control : values.admin + request.url);
  const inner = http.request(target, { method: request.method, headers: { ...request.headers, host: target.host } }, (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers);
    answer.pipe(response);
  });
  inner.on("error", () => response.headersSent ? response.destroy() : response.writeHead(502).end());
  response.on("close", () => inner.destroy());
  request.pipe(inner);
}

const server = http.createServer((request, response) => {
  const path = (request.url ?? "/").split("?")[0];
  if (path.startsWith("/apisix/")) return pass(request, response, path);
  if (path === "/" || path === "/ui") return response.writeHead(302, { Location: "/ui/" }).end();
  if (path.startsWith("/ui/")) return serveFile(request, response, path);
  response.writeHead(404).end();
});
const [host, port] = values.listen.split(":");
server.listen(Number(port), host, () => console.log(`http://${host}:${server.address().port}/ui/`));
