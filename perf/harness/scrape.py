"""Latency while a hundred thousand series are scraped every second.

Requests one after the other on one connection, first with nobody scraping, then with a scrape each second by a process
of its own. Quiet and scraped slices alternate, so that a slow minute of the machine falls on both.
"""

import os
import subprocess
import sys
import time

from . import churn, figures, load, processes, tidegate

# Each route that was used has about 54 series: a status, two of bandwidth, three histograms of latency.
ROUTES = 2000
SLICES = 5


def run(binary, folder, upstream_port, requests, say):
    ports = {name: processes.free_port() for name in ("http", "control", "metrics")}
    prefix = os.path.join(folder, "scrape")
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
        series = wait_for_series(ports["metrics"])
        say(f"scrape: {series:,} series")
        return {"series": series, **slices(ports, upstream_port, requests)}
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


def slices(ports, upstream_port, requests):
    # The scraper shares a core with client and upstream: what it does to them shows without a gateway in between.
    latencies = {"quiet": [], "direct, scraped": [], "scraped": []}
    slowest = 0.0
    for _ in range(SLICES):
        latencies["quiet"] += load.sequential(ports["http"], "/r0", requests // SLICES)
        child = subprocess.Popen(
            ["taskset", "-c", str(processes.load_core()), sys.executable, "-m", "harness.scrape", str(ports["metrics"])],
            cwd=os.path.dirname(os.path.dirname(os.path.abspath(__file__))), stdout=subprocess.PIPE, text=True)
        child.stdout.readline()
        for who, port in (("direct, scraped", upstream_port), ("scraped", ports["http"])):
            measured, until = [], time.monotonic() + 4
            while time.monotonic() < until or len(measured) < requests // SLICES:
                measured += load.sequential(port, "/r0", 500)
            latencies[who] += measured
        child.terminate()
        slowest = max([slowest, *map(float, child.communicate()[0].split())])
    return {"slowest_scrape_ms": slowest, "measured": {who: len(all_of) for who, all_of in latencies.items()},
            **{who: figures.summary(all_of) for who, all_of in latencies.items()}}


def rows(result):
    return [[f"sequential, {who}", *[figures.shown(result[who][name]) for name in
            ("p50_us", "p99_us", "p999_us", "max_us", "over_5ms", "over_10ms")]] for who in ("quiet", "scraped", "direct, scraped")]


if __name__ == "__main__":
    while True:
        started = time.monotonic()
        print(f"{churn.scrape(int(sys.argv[1])) * 1000:.1f}", flush=True)
        time.sleep(max(0, 1 - (time.monotonic() - started)))
