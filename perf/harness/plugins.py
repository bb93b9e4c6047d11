"""What each plugin costs: its route against a plain route of the same gateway, in turn."""

import base64
import hashlib
import hmac
import json
import os
import statistics
import subprocess
import time

from . import figures, load, processes, throughput, tidegate

SECRET = "perf-secret-of-thirty-two-bytes-x"
HEADERS = {"set": {"X-Gateway": "tidegate", "X-Env": "perf"}}
LUA = "return function(conf, ctx) ngx.req.set_header('X-From-Lua', 'yes') end"
LUA_NOTHING = "return function(conf, ctx) end"

# name -> (plugins of the route, credential, at most this many percent over the plain route)
SCENARIOS = {
    "key-auth": ({"key-auth": {}}, "key", 6),
    "jwt-auth HS256": ({"jwt-auth": {}}, "hs256", 6),
    "jwt-auth RS256": ({"jwt-auth": {}}, "rs256", 10),
    "basic-auth": ({"basic-auth": {}}, "basic", 6),
    "cors": ({"cors": {}}, None, 6),
    "ip-restriction": ({"ip-restriction": {"whitelist": ["127.0.0.0/24", "10.0.0.0/8", "192.168.0.0/16"]}}, None, 6),
    "proxy-rewrite": ({"proxy-rewrite": {"uri": "/rewritten", "headers": HEADERS}}, None, 6),
    "response-rewrite": ({"response-rewrite": {"headers": HEADERS}}, None, 6),
    "request-id": ({"request-id": {}}, None, 6),
    "limit-req": ({"limit-req": {"rate": 1e8, "burst": 1e8, "key": "remote_addr"}}, None, 6),
    "limit-count": ({"limit-count": tidegate.LIMIT}, None, None),
    "prometheus": ({"prometheus": {}}, None, None),
    "ten together": ({
        "key-auth": {}, "cors": {}, "ip-restriction": {"whitelist": ["127.0.0.0/24"]},
        "proxy-rewrite": {"headers": HEADERS}, "response-rewrite": {"headers": HEADERS}, "request-id": {},
        "limit-req": {"rate": 1e8, "burst": 1e8, "key": "remote_addr"}, "limit-count": tidegate.LIMIT,
        "prometheus": {}, "ua-restriction": {"denylist": ["bad-bot", "worse-bot"]},
    }, "key", 15),
    "serverless, sets a header": (
        {"serverless-pre-function": {"phase": "rewrite", "functions": [LUA]}}, None, None),
    "serverless, does nothing": (
        {"serverless-pre-function": {"phase": "rewrite", "functions": [LUA_NOTHING]}}, None, None),
}
# Microseconds over the plain route, where the target is one of time.
AT_MOST_US = {"serverless, sets a header": 1.5}


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def token(algorithm, key, sign):
    head = base64url(json.dumps({"alg": algorithm, "typ": "JWT"}).encode())
    body = base64url(json.dumps({"key": key, "exp": int(time.time()) + 86_400}).encode())
    return f"{head}.{body}.{base64url(sign(f'{head}.{body}'.encode()))}"


def credentials(folder):
    """name -> (request header, consumer)."""
    private, public = os.path.join(folder, "rsa.pem"), os.path.join(folder, "rsa.pub")
    openssl("genrsa", "-out", private, "2048")
    openssl("rsa", "-in", private, "-pubout", "-out", public)
    with open(public) as file:
        public_key = file.read()
    hs256 = token("HS256", "hs", lambda text: hmac.new(SECRET.encode(), text, hashlib.sha256).digest())
    rs256 = token("RS256", "rs", lambda text: openssl("dgst", "-sha256", "-sign", private, data=text))
    basic = base64.b64encode(b"basic:password").decode()
    return {
        "key": ("apikey: key-of-perf", {"key-auth": {"key": "key-of-perf"}}),
        "basic": (f"Authorization: Basic {basic}", {"basic-auth": {"username": "basic", "password": "password"}}),
        "hs256": (f"Authorization: Bearer {hs256}", {"jwt-auth": {"key": "hs", "secret": SECRET}}),
        "rs256": (f"Authorization: Bearer {rs256}",
                  {"jwt-auth": {"key": "rs", "algorithm": "RS256", "public_key": public_key}}),
    }


def openssl(*words, data=None):
    return subprocess.run(["openssl", *words], input=data, capture_output=True, check=True).stdout


def run(binary, folder, upstream_port, wanted, rounds, seconds, say):
    prefix = os.path.join(folder, "plugins")
    os.makedirs(prefix)
    known = credentials(prefix)
    routes = [{"id": "plain", "uri": "/plain", "upstream": tidegate.node(upstream_port)}]
    for number, (plugins, _, _) in enumerate(SCENARIOS.values()):
        routes.append({"id": f"p{number}", "uri": f"/p{number}", "plugins": plugins,
                       "upstream": tidegate.node(upstream_port)})
    consumers = [{"username": name, "plugins": plugins} for name, (_, plugins) in known.items()]
    ports = {name: processes.free_port() for name in ("http", "control", "metrics")}
    resources = {"routes": routes, "consumers": consumers}
    server = processes.Server("plugins", tidegate.command(binary, prefix, ports, resources),
                              processes.GATEWAY_CORE, prefix)
    try:
        server.wait_for_port(ports["http"])
        return measure(server, ports["http"], known, prefix, wanted or list(SCENARIOS), rounds, seconds, say)
    finally:
        server.stop()


def measure(server, port, known, folder, wanted, rounds, seconds, say):
    """Each plugin's rounds stand between two of the plain route, for the machine's speed drifts."""
    scripts = {}
    for number, (_, credential, _) in enumerate(SCENARIOS.values()):
        field = known[credential][0] if credential else "Accept: text/html"
        scripts[number] = os.path.join(folder, f"p{number}.lua")
        name, _, value = field.partition(": ")
        agent = load.BROWSER_HEADERS["User-Agent"]
        with open(scripts[number], "w") as file:
            file.write(f"wrk.headers[{json.dumps(name)}] = {json.dumps(value)}\n"
                       f"wrk.headers[\"User-Agent\"] = {json.dumps(agent)}\n" + load.plain_script())
    measured = {name: {"own": [], "plain": []} for name in wanted}
    throughput.once(server, port, "/plain", scripts[0], 1)
    for turn in range(rounds):
        for number, name in enumerate(SCENARIOS):
            if name not in wanted:
                continue
            # The plain route gets the same request headers: their parsing is not the plugin's cost.
            paths = [("own", f"/p{number}"), ("plain", "/plain")]
            for kind, path in paths if turn % 2 == 0 else reversed(paths):
                measured[name][kind].append(throughput.once(server, port, path, scripts[number], seconds)["cpu_us"])
            own, plain = (measured[name][kind][-1] for kind in ("own", "plain"))
            # All plugins take minutes for a round.
            say(f"plugins: round {turn + 1}/{rounds}: {name} {own:.2f} us, without {plain:.2f} us")
    return {name: result(name, both) for name, both in measured.items()}


def result(name, measured):
    ratios = [own / plain for own, plain in zip(measured["own"], measured["plain"])]
    return {"cpu_us": statistics.median(measured["own"]), "plain_cpu_us": statistics.median(measured["plain"]),
            "over_percent": round(100 * (statistics.median(ratios) - 1), 1), "rounds": measured,
            "at_most_percent": SCENARIOS[name][2], "at_most_us": AT_MOST_US.get(name)}


def rows(results):
    out = []
    for name, one in results.items():
        percents = [100 * (own / plain - 1) for own, plain in zip(one["rounds"]["own"], one["rounds"]["plain"])]
        over_us = one["cpu_us"] - one["plain_cpu_us"]
        target, met = "", ""
        if one["at_most_percent"] is not None:
            target, met = f"<=+{one['at_most_percent']}%", one["over_percent"] <= one["at_most_percent"]
        if one["at_most_us"] is not None:
            target, met = f"<=+{one['at_most_us']} us", over_us <= one["at_most_us"]
        out.append([name, "cpu_us", figures.shown(one["plain_cpu_us"]), figures.shown(one["cpu_us"]),
                    f"{over_us:+.2f}", f"{one['over_percent']:+.1f}%", f"{min(percents):+.0f}..{max(percents):+.0f}%",
                    target, {True: "ok", False: "MISSED"}.get(met, "")])
    return out
