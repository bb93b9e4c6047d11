"""The wrk scenarios: gateway and nginx in turn, the median of several rounds."""

import os

from . import figures, load

# name -> (path, script, what nginx does in its place, targets: gateway / nginx, at most or at least)
SCENARIOS = {
    "plain": ("/", "plain", "the same", {"cpu_us": 1.0, "rps": 1.0, "p99_us": 1.0}),
    "counted": ("/counted", "plain", "a plain proxy, nothing counted", {"cpu_us": 1.1, "rps": 0.9, "p99_us": 1.1}),
    "auth": ("/k/0", "keys", "key check by map, nothing counted", {"cpu_us": 1.1, "rps": 0.9, "p99_us": 1.1}),
    "browser": ("/browser", "browser", "the same", {"cpu_us": 1.0, "rps": 1.0, "p99_us": 1.0}),
    "tls": ("/", "plain", "the same", {"cpu_us": 1.0, "rps": 1.0, "p99_us": 1.0}),
    "mock": ("/mock", "plain", "return 200", {"cpu_us": 1.0, "rps": 1.0, "p99_us": 1.0}),
}
FIGURES = ("rps", "cpu_us", "p50_us", "p99_us", "p999_us")


def write_scripts(folder, keys):
    scripts = {"plain": load.plain_script(), "keys": load.keys_script(keys), "browser": load.browser_script()}
    paths = {}
    for name, text in scripts.items():
        paths[name] = os.path.join(folder, name + ".lua")
        with open(paths[name], "w") as file:
            file.write(text)
    return paths


def once(server, port, path, script, seconds, scheme="http"):
    before = server.cpu_seconds()
    result = load.wrk(server.tls_port if scheme == "https" else port, path, script, seconds, scheme)
    used = server.cpu_seconds() - before
    return {
        "rps": result["requests"] / (result["duration_us"] / 1e6),
        "cpu_us": used * 1e6 / result["requests"],
        "p50_us": result["p50_us"],
        "p99_us": result["p99_us"],
        "p999_us": result["p999_us"],
        "max_us": result["max_us"],
    }


def run(name, servers, scripts, rounds, seconds, say):
    """`servers`: {"nginx": (server, port), "gateway": (server, port)}. Who goes first alternates."""
    path, script, instead, targets = SCENARIOS[name]
    measured = {who: [] for who in servers}
    scheme = "https" if name == "tls" else "http"
    for server, port in servers.values():
        once(server, port, path, scripts[script], 1, scheme)
    for number in range(rounds):
        order = list(servers) if number % 2 == 0 else list(reversed(servers))
        for who in order:
            server, port = servers[who]
            measured[who].append(once(server, port, path, scripts[script], seconds, scheme))
        say(f"{name}: round {number + 1}/{rounds}: " + ", ".join(
            f"{who} {measured[who][-1]['rps']:,.0f}/s {measured[who][-1]['cpu_us']:.2f} us" for who in servers))
    medians = {who: figures.median_of(all_rounds) for who, all_rounds in measured.items()}
    spread = {who: {figure: round(figures.spread_percent(all_rounds, figure), 1) for figure in FIGURES}
              for who, all_rounds in measured.items()}
    return {"nginx_does": instead, "targets": targets, "median": medians, "spread_percent": spread, "rounds": measured}


def rows(name, result):
    return [figures.compared(name, figure, by_round(result, figure), result["targets"].get(figure), figure == "rps") for figure in FIGURES]


def by_round(result, figure):
    return {who: [one[figure] for one in rounds] for who, rounds in result["rounds"].items()}
