// What the three sketches show: the routes, the request and the hour of a shop's gateway. Nothing here is random, so that
// pictures of two sketches differ only by their design.
const ICONS = {
  overview: "M3 12.5 6.2 8.6 8.8 11 13 5.5M2.5 2.5v11h11",
  routes: "M3.5 12.5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3Zm9-6a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3ZM5 11h4a2 2 0 0 0 2-2V6.5",
  services: "M8 2 13.5 5 8 8 2.5 5 8 2ZM2.5 8 8 11l5.5-3M2.5 11 8 14l5.5-3",
  upstreams: "M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.01M5 11h.01",
  consumers: "M8 8a2.75 2.75 0 1 0 0-5.5A2.75 2.75 0 0 0 8 8Zm-5.5 5.5c.6-2.5 2.6-4 5.5-4s4.9 1.5 5.5 4",
  ssl: "M4 7V5a4 4 0 0 1 8 0v2M3 7h10v6.500H3z",
  plugins: "M6 2.500v3M10 2.500v3M4 5.500h8V8a4 4 0 0 1-8 0zM8 12v2",
  explain: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10Zm3.6-1.400L14 14",
  traffic: "M2 8h3l1.5-4.5 3 9L11 8h3",
  changes: "M8 4.500V8l2.5 1.500M2.7 6A5.6 5.6 0 1 1 2.5 9M2.5 3v3h3",
};
const icon = (name) => `<svg viewBox="0 0 16 16" width="16" height="16" fill="none" stroke="currentColor" stroke-width="1.4" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true"><path d="${ICONS[name]}"/></svg>`;
const NAV = [["overview", "Overview", ""], ["traffic", "Traffic", ""], ["explain", "Explain", ""], ["changes", "Changes", "3"],
  ["routes", "Routes", "148"], ["services", "Services", "31"], ["upstreams", "Upstreams", "42"], ["consumers", "Consumers", "867"],
  ["ssl", "Certificates", "12"], ["plugins", "Plugins", "94"]];
const METHODS = { all: "any", g: "GET", gp: "GET POST", p: "POST" };
const ROUTES = [
  ["checkout-api", "gp", "shop.example.com", "/api/checkout/*", "checkout", ["key-auth", "limit-count", "cors"], "payments", 412, 38, 0.1, 1],
  ["orders-read", "g", "shop.example.com", "/api/orders/*", "orders", ["jwt-auth", "proxy-cache"], "orders", 1284, 21, 0, 1],
  ["orders-write", "p", "shop.example.com", "/api/orders", "orders", ["jwt-auth", "limit-req"], "orders", 96, 64, 0.4, 1],
  ["catalog", "g", "shop.example.com", "/api/catalog/*", "catalog", ["proxy-cache", "gzip"], "catalog", 3910, 6, 0, 1],
  ["catalog-canary", "g", "shop.example.com", "/api/catalog/*", "catalog-next", ["traffic-split"], "catalog", 196, 9, 1.2, 1],
  ["search", "gp", "shop.example.com", "/api/search", "search", ["limit-count", "request-id"], "search", 742, 112, 2.8, 1],
  ["payments-webhook", "p", "hooks.example.com", "/stripe/events", "payments", ["ip-restriction", "hmac-auth"], "payments", 12, 41, 0, 1],
  ["images", "g", "static.example.com", "/img/*", "media", ["proxy-cache", "referer-restriction"], "media", 5120, 2, 0, 1],
  ["admin-console", "all", "admin.example.com", "/*", "backoffice", ["openid-connect"], "internal", 18, 84, 0, 1],
  ["legacy-soap", "p", "soap.example.com", "/OrderService", "legacy", ["body-transformer", "api-breaker"], "legacy", 3, 920, 8.4, 1],
  ["beta-recommend", "g", "shop.example.com", "/api/recommend", "ml-recommend", ["forward-auth"], "search", 0, 0, 0, 0],
  ["grpc-inventory", "p", "grpc.example.com", "/inventory.v1.Stock/*", "inventory", ["grpc-transcode"], "inventory", 288, 12, 0, 1],
  ["health", "g", "*", "/healthz", "", ["mocking"], "internal", 4, 1, 0, 1],
  ["websocket", "g", "live.example.com", "/ws", "notify", ["key-auth"], "internal", 61, 5, 0.1, 1],
].map(([name, m, host, path, service, plugins, team, rps, p99, errors, on]) => ({ name, methods: METHODS[m], host, path, service, plugins, team, rps, p99, errors, on }));
const wave = (i, seed) => 0.62 + 0.2 * Math.sin(i / 9 + seed) + 0.09 * Math.sin(i / 2.3 + seed * 3) + 0.05 * Math.sin(i * 1.7 + seed);
function area(w, h, seed, colour, from = 0.12) {
  const points = Array.from({ length: 90 }, (_, i) => `${(i / 89 * w).toFixed(1)},${(h - wave(i, seed) * h * 0.86).toFixed(1)}`);
  return `<svg viewBox="0 0 ${w} ${h}" preserveAspectRatio="none" width="100%" height="${h}" aria-hidden="true"><path d="M0,${h} L${points.join(" L")} L${w},${h}Z" fill="${colour}" opacity="${from}"/><path d="M${points.join(" L")}" fill="none" stroke="${colour}" stroke-width="1.5" vector-effect="non-scaling-stroke"/></svg>`;
}
function heat(columns, rows, colour) {
  let cells = "";
  for (let x = 0; x < columns; x++) for (let y = 0; y < rows; y++) {
    const middle = rows * 0.66 + 1.4 * Math.sin(x / 7) - (x > columns * 0.62 && x < columns * 0.72 ? 3 : 0);
    const much = Math.exp(-((y - middle) ** 2) / 3) + 0.25 * Math.exp(-((y - middle + 4) ** 2) / 2);
    if (much > 0.04) cells += `<rect x="${x * 10}" y="${y * 10}" width="9.2" height="9.2" fill="${colour}" opacity="${Math.min(1, much).toFixed(2)}"/>`;
  }
  return `<svg viewBox="0 0 ${columns * 10} ${rows * 10}" preserveAspectRatio="none" width="100%" height="150" aria-hidden="true">${cells}</svg>`;
}
const CANDIDATES = [["checkout-api", "won", "priority 10, path has the longest prefix"], ["catalog", "lost", "path: /api/catalog/* does not fit"],
  ["shop-fallback", "shadowed", "by checkout-api, priority 10 before 0"]];
const BODY = `{
  "name": "checkout-api",
  "uri": "/api/checkout/*",
  "host": "shop.example.com",
  "methods": ["GET", "POST"],
  "priority": 10,
  "service_id": "checkout",
  "labels": { "team": "payments" },
  "plugins": {
    "key-auth": {},
    "limit-count": {
      "count": 200,
      "time_window": 60,
      "key": "consumer_name",
      "rejected_code": 429
    },
    "cors": { "allow_origins": "https://shop.example.com" }
  }
}`;
const view = () => (location.hash || "#list").slice(1);
if (new URLSearchParams(location.search).has("dark")) document.documentElement.dataset.theme = "dark";
