"""Latency while routes change and metrics are scraped: the 2021 APISIX jitter report, made harder.

10,000 requests one after the other on one connection: straight to the upstream, through nginx, through a quiet
gateway, and through one that takes 20 route changes a second with 5,000 routes and has its metrics scraped every second.
The disturber is a process of its own, so that this one's timing stays clean.
"""

import concurrent.futures
import http.client
import os
import subprocess
import sys
import time

from . import figures, load, nginx, processes, tidegate

ROUTES = 5000
PUTS_PER_SECOND = 20
LOADERS = 8


def disturb(admin_port, metrics_port, upstream_port, until):
    """Runs in the child process: changes and scrapes until the time comes."""
    admin = tidegate.Admin(admin_port)
    number, slowest_put, slowest_scrape = 0, 0.0, 0.0
    next_put = next_scrape = time.monotonic()
    while time.time() < until:
        now = time.monotonic()
        if now >= next_put:
            number += 1
            admin.put("routes", f"r{number % ROUTES}", tidegate.route(upstream_port, number % ROUTES, number))
            slowest_put = max(slowest_put, time.monotonic() - now)
            next_put += 1 / PUTS_PER_SECOND
        elif now >= next_scrape:
            slowest_scrape = max(slowest_scrape, scrape(metrics_port))
            next_scrape += 1
        else:
            time.sleep(min(next_put, next_scrape) - now)
    print(f"{number} {slowest_put * 1000:.1f} {slowest_scrape * 1000:.1f}")


def scrape(port):
    start = time.monotonic()
    page(port)
    return time.monotonic() - start


def page(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/apisix/prometheus/metrics")
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    if answer.status != 200 or b"apisix_http_status" not in text:
        raise SystemExit(f"metrics answered {answer.status}, {len(text)} bytes, without apisix_http_status")
    return text


def run(binary, folder, upstream_port, requests, say):
    result = {"requests": requests, "routes": ROUTES, "puts_per_second": PUTS_PER_SECOND}
    result["direct"] = figures.summary(load.sequential(upstream_port, "/", requests))
    result["nginx"] = figures.summary(through_nginx(folder, upstream_port, requests))
    if binary is None:
        say("churn: nginx stands in for the gateway and has no Admin API; only direct and nginx are measured")
        return result
    ports = {name: processes.free_port() for name in ("http", "control", "metrics", "admin")}
    prefix = os.path.join(folder, "churn")
    os.makedirs(prefix)
    server = processes.Server("churn", tidegate.command(binary, prefix, ports), processes.GATEWAY_CORE, prefix)
    try:
        server.wait_for_port(ports["http"])
        server.wait_for_port(ports["admin"])
        start = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(LOADERS) as loaders:
            list(loaders.map(lambda first: put_routes(ports["admin"], upstream_port, first), range(LOADERS)))
        result["load_seconds"] = round(time.monotonic() - start, 2)
        say(f"churn: {ROUTES} routes put in {result['load_seconds']} s")
        path = f"/r{ROUTES - 1}"
        wait_until_live(ports["http"], path)
        result["quiet"] = figures.summary(load.sequential(ports["http"], path, requests))
        result["churn"] = disturbed(ports, upstream_port, path, requests, result)
    finally:
        server.stop()
    return result


def through_nginx(folder, upstream_port, requests):
    """The same through nginx, on the gateway's core: what this machine makes of a proxy in between."""
    prefix, port = os.path.join(folder, "churn-nginx"), processes.free_port()
    os.makedirs(prefix)
    command = nginx.gateway(prefix, "churn-nginx", port, upstream_port, ["key"])
    server = processes.Server("churn-nginx", command, processes.GATEWAY_CORE, prefix)
    try:
        server.wait_for_port(port)
        return load.sequential(port, "/", requests)
    finally:
        server.stop()


def put_routes(admin_port, upstream_port, first):
    """One of several loaders: each takes every LOADERS-th route."""
    admin = tidegate.Admin(admin_port)
    for number in range(first, ROUTES, LOADERS):
        admin.put("routes", f"r{number}", tidegate.route(upstream_port, number))


def disturbed(ports, upstream_port, path, requests, result):
    """Measures in slices until the requests are done and at least ten seconds of changes have passed."""
    seconds = 12
    child = subprocess.Popen(
        ["taskset", "-c", str(processes.load_core()), sys.executable, "-m", "harness.churn", str(ports["admin"]),
         str(ports["metrics"]), str(upstream_port), str(time.time() + seconds)],
        cwd=os.path.dirname(os.path.dirname(os.path.abspath(__file__))), stdout=subprocess.PIPE, text=True)
    latencies, finish = [], time.monotonic() + seconds - 1
    while time.monotonic() < finish or len(latencies) < requests:
        latencies += load.sequential(ports["http"], path, 1000)
    output, _ = child.communicate(timeout=60)
    if child.returncode != 0:
        raise SystemExit("churn: the process that changes routes failed, see above")
    puts, slowest_put_ms, slowest_scrape_ms = output.split()
    result["disturber"] = {"puts": int(puts), "slowest_put_ms": float(slowest_put_ms),
                           "slowest_scrape_ms": float(slowest_scrape_ms), "requests_measured": len(latencies)}
    # Spread over the whole time, as many as the quiet run had.
    step = max(1, len(latencies) // requests)
    return {**figures.summary(latencies[::step][:requests]), "max_us_of_all": round(max(latencies), 1)}


def wait_until_live(port, path):
    deadline = time.monotonic() + 10
    while load.Connection(port).get(load.request_bytes(path)) != 200:
        if time.monotonic() > deadline:
            raise SystemExit(f"churn: {path} is not live ten seconds after its PUT")
        time.sleep(0.01)


def rows(result):
    out = []
    for who in ("direct", "nginx", "quiet", "churn"):
        if who in result:
            one = result[who]
            out.append([f"sequential, {who}", *[figures.shown(one[name]) for name in
                       ("p50_us", "p99_us", "p999_us", "max_us", "over_5ms", "over_10ms")]])
    return out


if __name__ == "__main__":
    disturb(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
