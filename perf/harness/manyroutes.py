"""50,000 routes and 20,000 consumers: memory, start, lookup, and latency while the configuration changes.

Gateway on its core, upstream and load on the other; changes come from a process of their own on the load's core. Load
is a constant rate, half of what the machine can do here, so that a pause of the gateway is in the figures.
"""

import http.client
import json
import os
import statistics
import subprocess
import sys
import time

from . import figures, load, processes, tidegate, waits

ROUTES, FEW = 50_000, 100
CONSUMERS = 20_000
PER_SECOND = 50
BATCH = 1000
SLICES = 3
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Gateway:
    """One with a store of its own, which survives restarts."""

    def __init__(self, binary, folder, name):
        self.name, self.prefix = name, os.path.join(folder, name)
        os.makedirs(self.prefix)
        self.ports = {port: processes.free_port() for port in ("http", "control", "metrics", "admin")}
        self.command = tidegate.command(binary, self.prefix, self.ports)
        self.server = None

    def start(self):
        """Seconds until the first answer."""
        started = time.monotonic()
        self.server = processes.Server(self.name, self.command, processes.GATEWAY_CORE, self.prefix)
        self.server.wait_for_port(self.ports["http"])
        load.Connection(self.ports["http"]).get(load.request_bytes("/r0"))
        return time.monotonic() - started

    def stop(self):
        if self.server:
            self.server.stop()
        self.server = None

    def fill(self, objects):
        """Each (path, value), many in one transaction."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ports["admin"], timeout=60)
        for first in range(0, len(objects), BATCH):
            changes = [{"method": "PUT", "path": path, "value": value} for path, value in objects[first:first + BATCH]]
            ask(connection, "POST", "/apisix/admin/transactions?wait=applied", {"changes": changes})

    def memory_mib(self):
        return self.server.memory_bytes()[0] / 1024 / 1024


def ask(connection, method, path, value):
    connection.request(method, path, json.dumps(value),
                       {"X-API-KEY": tidegate.ADMIN_KEY, "Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    if answer.status not in (200, 201):
        raise SystemExit(f"{method} {path}: {answer.status} {text[:300]!r}")


def routes(upstream_port, count):
    return [(f"/routes/r{number}", route(upstream_port, number)) for number in range(count)]


def route(upstream_port, number, version=0):
    """Without the metrics plugin: the first request of each route would make its series, which is not a lookup."""
    return {"uri": f"/r{number}", "desc": f"version {version}", "upstream": tidegate.node(upstream_port)}


def consumers(count):
    return [(f"/consumers/c{number}", consumer(number)) for number in range(count)]


def consumer(number, version=0):
    return {"username": f"c{number}", "desc": f"version {version}", "plugins": {"key-auth": {"key": f"key-{number}"}}}


def run(binary, folder, upstream_port, rounds, seconds, say):
    if binary is None:
        raise SystemExit("manyroutes: nginx has no Admin API to stand in with")
    many, few = Gateway(binary, folder, "many"), Gateway(binary, folder, "few")
    result = {"routes": ROUTES}
    try:
        for gateway, count in ((few, FEW), (many, ROUTES)):
            gateway.start()
            gateway.fill(routes(upstream_port, count))
            gateway.stop()
            say(f"manyroutes: {count:,} routes are in the store")
        result["start_s"] = round(statistics.median(restart(many) for _ in range(rounds)), 3)
        result["memory_mib"] = round(many.memory_mib(), 1)
        few.start()
        result["lookup"] = lookup(few, many, folder, rounds, seconds)
        few.stop()
        result["changes"] = changes(binary, many, upstream_port, seconds, say)
        result["held_up"] = waits.longest(held_up(many, upstream_port, max(seconds, 10), say))
        result["memory_after_mib"] = round(many.memory_mib(), 1)
        many.stop()
        result["consumers"] = key_auth(binary, folder, upstream_port, seconds, say)
    finally:
        many.stop()
        few.stop()
    return result


def restart(gateway):
    gateway.stop()
    return gateway.start()


def lookup(few, many, folder, rounds, seconds):
    """CPU per request with random paths."""
    measured = {few.name: [], many.name: []}
    for _ in range(rounds):
        for gateway, count in ((few, FEW), (many, ROUTES)):
            script = os.path.join(folder, f"{gateway.name}.lua")
            with open(script, "w") as file:
                file.write("math.randomseed(7)\nrequest = function() return wrk.format('GET', '/r' .. "
                           f"math.random(0, {count - 1})) end\n" + load.plain_script())
            before = gateway.server.cpu_seconds()
            answered = load.wrk(gateway.ports["http"], "/r0", script, seconds)["requests"]
            measured[gateway.name].append((gateway.server.cpu_seconds() - before) * 1e6 / answered)
    return {name: round(statistics.median(values), 2) for name, values in measured.items()}


def held_up(gateway, upstream_port, seconds, say):
    """The waits of the worker behind other threads of the gateway, with changes; `None` where that cannot be traced."""
    child = disturber("routes", gateway, upstream_port, seconds)
    try:
        with waits.Trace(gateway.server.child.pid) as trace:
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                load.sequential(gateway.ports["http"], "/r7", 500)
    except waits.Unavailable as reason:
        say(f"manyroutes: {reason}")
        return None
    finally:
        told(child)
    return trace.waits


def changes(binary, gateway, upstream_port, seconds, say):
    """Quiet and disturbed slices in turn."""
    rate = half_load(binary, gateway)
    say(f"manyroutes: {rate} requests/s")
    each = max(seconds, 20)
    quiet, disturbed, live = [], [], []
    for _ in range(SLICES):
        quiet.append(constant(binary, gateway, rate, each, "/r{{rand 0 49999}}"))
        child = disturber("routes", gateway, upstream_port, each)
        disturbed.append(constant(binary, gateway, rate, each, "/r{{rand 0 49999}}"))
        live += told(child)
    return {"rate": rate, "quiet": quiet, "disturbed": disturbed, "live_ms": spread(live)}


def key_auth(binary, folder, upstream_port, seconds, say):
    gateway = Gateway(binary, folder, "consumers")
    try:
        gateway.start()
        gateway.fill([("/routes/r0", {"uri": "/r0", "plugins": {"key-auth": {}},
                                      "upstream": tidegate.node(upstream_port)}), *consumers(CONSUMERS)])
        gateway.stop()
        start = gateway.start()
        say(f"manyroutes: {CONSUMERS:,} consumers, start {start:.2f} s")
        each = max(seconds, 20)
        headers = ["-H", "apikey: key-{{rand 0 19999}}"]
        quiet = constant(binary, gateway, 2000, each, "/r0", headers)
        child = disturber("consumers", gateway, upstream_port, each)
        disturbed = constant(binary, gateway, 2000, each, "/r0", headers)
        return {"count": CONSUMERS, "start_s": round(start, 3), "memory_mib": round(gateway.memory_mib(), 1),
                "quiet": quiet, "disturbed": disturbed, "live_ms": spread(told(child))}
    finally:
        gateway.stop()


def half_load(binary, gateway):
    report = bench(binary, gateway, ["-d", "3s"], "/r{{rand 0 49999}}")
    return int(report["requests"] / report["seconds"] / 2)


def constant(binary, gateway, rate, seconds, path, more=()):
    report = bench(binary, gateway, ["-R", str(rate), "-d", f"{seconds}s", *more], path)
    found = {str(percent): value for percent, value in report["latency"]["percentiles"]}
    return {"p50_us": found["50.0"], "p99_us": found["99.0"], "p999_us": found["99.9"], "max_us": found["100.0"]}


def bench(binary, gateway, options, path):
    url = f"http://127.0.0.1:{gateway.ports['http']}{path}"
    output = subprocess.run(
        ["taskset", "-c", str(processes.load_core()), binary, "bench", "-t", "1", "-c", "32", "--style", "json",
         *options, url], capture_output=True, text=True, check=False)
    if output.returncode != 0:
        raise SystemExit(f"bench of {url} failed:\n{output.stdout[-500:]}{output.stderr[-1000:]}")
    return json.loads(output.stdout)


def disturber(kind, gateway, upstream_port, seconds):
    return subprocess.Popen(
        ["taskset", "-c", str(processes.load_core()), sys.executable, "-m", "harness.manyroutes", kind,
         str(gateway.ports["admin"]), str(upstream_port), str(time.time() + seconds)],
        cwd=ROOT, stdout=subprocess.PIPE, text=True)


def told(child):
    output, _ = child.communicate(timeout=60)
    if child.returncode != 0:
        raise SystemExit("manyroutes: the process that changes the configuration failed, see above")
    return [float(value) for value in output.split()]


def spread(values):
    values = sorted(values)
    at = lambda part: round(values[min(len(values) - 1, int(len(values) * part))], 2)
    return {"changes": len(values), "p50": at(0.5), "p99": at(0.99), "max": round(values[-1], 2)}


def disturb(kind, admin_port, upstream_port, until):
    """In the child: how long each change took until all workers ran it, in milliseconds."""
    connection = http.client.HTTPConnection("127.0.0.1", admin_port, timeout=30)
    interval = 1 / PER_SECOND if kind == "routes" else 0.1
    number, due = 0, time.monotonic()
    while time.time() < until:
        number += 7
        if kind == "routes":
            value = route(upstream_port, number % ROUTES, number)
            path = f"/apisix/admin/routes/r{number % ROUTES}?wait=applied"
        else:
            path = f"/apisix/admin/consumers/c{number % CONSUMERS}?wait=applied"
            value = consumer(number % CONSUMERS, number)
        started = time.monotonic()
        ask(connection, "PUT", path, value)
        print(f"{(time.monotonic() - started) * 1000:.2f}")
        due += interval
        time.sleep(max(0.0, due - time.monotonic()))


def middle(slices, name):
    return statistics.median(one[name] for one in slices)


def rows(result):
    lookups, changed, keys = result["lookup"], result["changes"], result["consumers"]
    over = lookups["many"] / lookups["few"] - 1
    ratio = middle(changed["disturbed"], "p999_us") / middle(changed["quiet"], "p999_us")
    beyond = (keys["disturbed"]["max_us"] - keys["quiet"]["max_us"]) / 1000
    shown = figures.shown
    waited = result["held_up"]
    longest = f"{shown(waited['max'])} us, behind {waited['by']}; {waited['over_500us']} of {waited['waits']} over 500 us" if waited else "-"
    return [
        [f"longest wait of a worker behind other threads of the gateway, {PER_SECOND} changes/s", longest, "<= 500 us"],
        [f"{result['routes']:,} routes, memory", f"{result['memory_mib']} MiB", "< 250 MiB"],
        ["start to first answer", f"{result['start_s']} s", "< 2 s"],
        [f"CPU/request, random paths, {FEW} and {result['routes']:,} routes",
         f"{lookups['few']} and {lookups['many']} us, {over:+.1%}", "<= +5 %"],
        [f"{changed['live_ms']['changes']} changes, PUT to live", f"p50 {changed['live_ms']['p50']} ms, p99 "
         f"{changed['live_ms']['p99']} ms", "p99 < 50 ms"],
        [f"p99.9 at {changed['rate']}/s, quiet and with {PER_SECOND} changes/s",
         f"{shown(middle(changed['quiet'], 'p999_us'))} and {shown(middle(changed['disturbed'], 'p999_us'))} us, {ratio:.2f} x",
         "<= 1.15 x"],
        [f"{keys['count']:,} consumers, slowest request, quiet and with a change each 100 ms",
         f"{shown(keys['quiet']['max_us'])} and {shown(keys['disturbed']['max_us'])} us, {beyond:+.1f} ms", "<= +5 ms"],
    ]


if __name__ == "__main__":
    disturb(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
