"""10,000 absurd objects at the Admin API: each is stored or refused with a 4xx, none crashes, hangs or opens anything."""

import json
import random
import time

from harness import tidegate

from .scene import KEY, ask, wait_until

SEED, SLOWEST_MS = 15, 2000
KINDS = ("routes", "services", "upstreams", "consumers", "ssls", "global_rules", "plugin_configs", "consumer_groups",
         "protos", "plugin_metadata", "secrets", "stream_routes", "credentials", "no_such_kind")
FIELDS = ("uri", "uris", "host", "hosts", "remote_addr", "methods", "vars", "filter_func", "plugins", "upstream",
          "upstream_id", "service_id", "priority", "timeout", "status", "labels", "name", "desc", "script", "nodes",
          "type", "hash_on", "key", "checks", "retries", "scheme", "tls", "pass_host", "discovery_type", "service_name",
          "username", "group_id", "cert", "snis", "content", "enable_websocket", "create_time", "id", "_meta",
          "__proto__", "keepalive_pool", "value")
PLUGINS = ("key-auth", "basic-auth", "jwt-auth", "hmac-auth", "limit-count", "limit-req", "limit-conn",
           "ip-restriction", "cors", "proxy-rewrite", "response-rewrite", "redirect", "uri-blocker", "ua-restriction",
           "request-validation", "prometheus", "http-logger", "proxy-cache", "traffic-split", "serverless-pre-function",
           "body-transformer", "fault-injection", "openid-connect", "ldap-auth", "mocking", "gzip", "workflow",
           "consumer-restriction", "no-such-plugin", "grpc-transcode")
PLUGIN_FIELDS = ("count", "time_window", "key", "policy", "rate", "burst", "whitelist", "blacklist", "regex_uri", "uri",
                 "headers", "block_rules", "denylist", "body_schema", "functions", "phase", "rules", "abort", "delay",
                 "discovery", "ldap_uri", "_meta", "vars", "cache_key", "template", "allow_origins", "proto_id",
                 "redis_host", "code")
LEAVES = (None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, -2**63, 1e308, -0.0, 0.1, "", " ", "/", "/*", "*",
          "a" * 5000, "\u0000", "\u202e", "\ud83d\ude00", "../../etc/passwd", "127.0.0.1:1", "127.0.0.1:99999", "::1",
          "[::1]:80", "300.1.1.1", "0.0.0.0/0", "(((((", "(a+)+$", "[", "\\", "$var", "${a", "{{a}}", "%00",
          "return function() end", "while true do end", "roundrobin", "chash", "GET", "POST", "local", "redis", "==", "~~",
          "IN", "-----BEGIN CERTIFICATE-----", "$secret://a/b/c", "$env://A", ":param", "/:a/*b", "^/(.*)", "http_x",
          "arg_x", "post_arg.a.b", [], {}, [[]], {"": ""}, [None], "1" * 400)


def run(scene):
    gateway, chance, count = scene.gateway(), random.Random(SEED), (1000 if scene.quick else 10_000)
    gateway.put("consumers", "one", {"username": "one", "plugins": {"key-auth": {"key": KEY}}})
    gateway.route("guarded", "/guarded", {"key-auth": {}}, priority=1_000_000, host="guarded.example", wait=False)
    named = {"Host": "guarded.example"}
    wait_until(lambda: gateway.ask("/guarded", headers=named)[0] == 401, "the guard")
    statuses, bad, slowest, opened = {}, [], 0.0, 0
    for number in range(count):
        path, text = absurd(chance, number)
        start = time.monotonic()
        status, answer = ask(gateway.ports["admin"], f"/apisix/admin/{path}", "PUT", text,
                             {"X-API-KEY": tidegate.ADMIN_KEY}, 20)
        slowest = max(slowest, time.monotonic() - start)
        statuses[status] = statuses.get(status, 0) + 1
        if status is None or status >= 500:
            bad.append(f"{path} {text[:200]} -> {status} {answer[:100]!r}")
        if not gateway.lives():
            break
        if number % 20 == 0:
            opened += gateway.ask("/guarded", headers=named, timeout=5)[0] in (200, 404)
    told = ", ".join(f"{status}: {times}" for status, times in sorted(statuses.items(), key=str))
    scene.check(f"{count:,} absurd objects, seed {SEED}", f"{told} {bad[:2] if bad else ''}", "stored or 4xx",
                not bad and sum(statuses.values()) == count)
    scene.at_most("absurd objects: the slowest answer", slowest * 1000, SLOWEST_MS, "ms")
    scene.check("absurd objects: times a guarded route was open", opened, "0", opened == 0)
    restarted(scene, gateway, named)


def restarted(scene, gateway, named):
    """What was stored must not keep the gateway from starting."""
    gateway.stop()
    gateway.start()
    status = gateway.ask("/guarded", headers=named)[0]
    scene.check("absurd objects: the guarded route after a restart", status, "401", status == 401)


def absurd(chance, number):
    """A path below /apisix/admin and a body, which is mostly JSON."""
    kind = chance.choice(KINDS)
    name = "one/credentials/" if kind == "credentials" else ""
    path = f"{'consumers' if name else kind}/{name}o{number % 500}"
    if kind == "plugin_metadata":
        path = f"{kind}/{chance.choice(PLUGINS)}"
    elif kind == "secrets":
        path = f"{kind}/vault/o{number % 500}"
    text = json.dumps(thing(chance, kind))
    if chance.random() < 0.05:
        cut = chance.randrange(len(text))
        text = text[:cut] + chance.choice(("", "}", "\x00", "[" * 3000, "\\u", "1e99999")) + text[cut + 1:]
    return path, text.encode(errors="replace")


def thing(chance, kind):
    """What could be stored, with some absurd fields."""
    node = {"type": "roundrobin", "nodes": {"127.0.0.1:1": 1}}
    seeds = {"routes": {"uri": f"/{chance.randrange(1000)}", "upstream": node}, "services": {"upstream": node},
             "global_rules": {"plugins": {"limit-count": {"count": 10**9, "time_window": 1, "key": "remote_addr"}}},
             "upstreams": node, "consumers": {"username": "two"}, "plugin_configs": {"plugins": {}},
             "protos": {"content": 'syntax = "proto3"; message A { A a = 1; }'}, "consumer_groups": {"plugins": {}},
             "credentials": {"plugins": {"key-auth": {"key": "k"}}}}
    made = dict(seeds.get(kind, {}))
    for _ in range(chance.randrange(4)):
        made[chance.choice(FIELDS)] = value(chance, 3)
    if chance.random() < 0.5 and kind != "global_rules":
        made["plugins"] = {chance.choice(PLUGINS): settings(chance) for _ in range(chance.randrange(1, 3))}
    return made if chance.random() < 0.97 else chance.choice(LEAVES)


def settings(chance):
    return {chance.choice(PLUGIN_FIELDS): value(chance, 3) for _ in range(chance.randrange(5))}


def value(chance, depth):
    shape = chance.random()
    if not depth or shape < 0.6:
        return chance.choice(LEAVES)
    if shape < 0.8:
        return [value(chance, depth - 1) for _ in range(chance.randrange(4))]
    return {chance.choice(FIELDS + PLUGIN_FIELDS): value(chance, depth - 1) for _ in range(chance.randrange(4))}
