"""Latency while a hundred thousand series are scraped every second.

Requests one after the other on one connection, with nobody scraping, with a scrape of plain text each second, and with a
compressed one as Prometheus asks for, by a process of its own. Slices of equal time alternate, so that a slow minute of the machine
falls on all; the time that the hypervisor took in a slice is shown, and slices in which it rose are flagged.
The same slices give the waits of the worker behind other threads of the gateway, where the scheduler can be traced.
"""

import contextlib
import http.client
import os
import subprocess
import sys
import time

from . import churn, figures, load, processes, tidegate, waits

# Each route that was used has about 54 series: a status, two of bandwidth, three histograms of latency.
ROUTES = 2000
SLICES = 5
KINDS = ("quiet", "plain", "gzip")
# More of a slice's time than this makes its tail the machine's.
STEAL_PERCENT = 0.5


def run(binary, folder, upstream_port, seconds, say):
    with gateway(binary, os.path.join(folder, "scrape"), upstream_port) as (ports, pid, series):
        say(f"scrape: {series:,} series")
        return {"series": series, **slices(ports, pid, seconds, say)}


@contextlib.contextmanager
def gateway(binary, prefix, upstream_port):
    """One with all series: its ports, its process, and how many series those are."""
    ports = {name: processes.free_port() for name in ("http", "control", "metrics")}
    os.makedirs(prefix)
    resources = {"routes": tidegate.many_routes(upstream_port, ROUTES)}
    server = processes.Server("scrape", tidegate.command(binary, prefix, ports, resources), processes.GATEWAY_CORE,
                              prefix)
    try:
        server.wait_for_port(ports["http"])
        connection = load.Connection(ports["http"])
        for number in range(ROUTES):
            connection.get(load.request_bytes(f"/r{number}"))
        connection.reset()
        yield ports, server.child.pid, wait_for_series(ports["metrics"])
    finally:
        server.stop()


def wait_for_series(port):
    """The page is rendered once per refresh interval; all routes must be on it."""
    deadline = time.monotonic() + 30
    while True:
        text = churn.page(port)
        if all(f'route="r{number}"'.encode() in text for number in (0, ROUTES // 2, ROUTES - 1)):
            return sum(not line.startswith(b"#") for line in text.splitlines())
        if time.monotonic() > deadline:
            raise SystemExit("scrape: not all routes are on the metrics page after 30 seconds")
        time.sleep(0.1)


def slices(ports, pid, seconds, say):
    latencies, steal, traced = ({kind: [] for kind in KINDS} for _ in range(3))
    slowest = 0.0
    for _ in range(SLICES):
        for kind in KINDS:
            before = processes.steal_ticks()
            child = scraper(ports["metrics"], kind)
            measured, trace = measure(ports["http"], pid, seconds)
            if child:
                child.terminate()
                slowest = max([slowest, *map(float, child.communicate()[0].split())])
            latencies[kind].append(measured)
            steal[kind].append(processes.steal_percent(before))
            traced[kind] += trace
    if not any(traced.values()):
        say("scrape: the scheduler cannot be traced here (root and tracefs): no waits of workers")
    return {"slowest_scrape_ms": slowest, "seconds": seconds * SLICES,
            **{kind: {**figures.summary(sum(latencies[kind], [])), "measured": sum(map(len, latencies[kind])),
                      "over_1ms": sum(value > 1000 for value in sum(latencies[kind], [])),
                      "over_2ms": sum(value > 2000 for value in sum(latencies[kind], [])),
                      "p999_of_slices": [figures.summary(one)["p999_us"] for one in latencies[kind]],
                      "steal_percent": [round(one, 2) for one in steal[kind]],
                      "wait_us": waits.longest(traced[kind])} for kind in KINDS}}


def measure(port, pid, seconds):
    until = time.monotonic() + seconds
    measured = []
    try:
        with waits.Trace(pid) as trace:
            while time.monotonic() < until:
                measured += load.sequential(port, "/r0", 500)
        return measured, trace.waits
    except waits.Unavailable:
        while time.monotonic() < until:
            measured += load.sequential(port, "/r0", 500)
        return measured, []


def scraper(port, kind):
    """The process that scrapes, after its first page."""
    if kind == "quiet":
        return None
    child = subprocess.Popen(
        ["taskset", "-c", str(processes.load_core()), sys.executable, "-m", "harness.scrape", str(port), kind],
        cwd=os.path.dirname(os.path.dirname(os.path.abspath(__file__))), stdout=subprocess.PIPE, text=True)
    child.stdout.readline()
    return child


def rows(result):
    out = []
    for kind in KINDS:
        one = result[kind]
        stolen = sum(value > STEAL_PERCENT for value in one["steal_percent"])
        out.append([{"quiet": "quiet", "plain": "scraped, plain text", "gzip": "scraped, gzip"}[kind], one["measured"],
                    *[figures.shown(one[name]) for name in
                      ("p50_us", "p99_us", "p999_us", "max_us", "over_1ms", "over_2ms", "over_5ms", "over_10ms")],
                    figures.shown(one["wait_us"]["max"]) if one["wait_us"] else "-",
                    f"{stolen} of {len(one['steal_percent'])}"])
    return out


def scrape(port, kind):
    """Seconds that a page takes."""
    start = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/apisix/prometheus/metrics", headers={"Accept-Encoding": "gzip"} if kind == "gzip" else {})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    if answer.status != 200 or answer.getheader("Content-Encoding", "plain") != kind or not text:
        raise SystemExit(f"metrics answered {answer.status}, {len(text)} bytes, {answer.getheader('Content-Encoding')}")
    return time.monotonic() - start


if __name__ == "__main__":
    while True:
        started = time.monotonic()
        print(f"{scrape(int(sys.argv[1]), sys.argv[2]) * 1000:.1f}", flush=True)
        time.sleep(max(0, 1 - (time.monotonic() - started)))
