#!/usr/bin/env python3
"""How evenly connections are spread over workers: 16 and 1,000 of them on 2, 4 and 8 workers, each after one request.

    python3 perf/even.py [--runs 5]

16 connections may differ by one, 1,000 by 5 %: of what each worker would have if all had the same.
"""

import argparse
import http.client
import os
import tempfile
import time

from harness import figures, load, nginx, processes, tidegate

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WORKERS = (2, 4, 8)
# (connections, how much workers may differ by, of so many)
COUNTS = ((16, lambda workers: 1), (1000, lambda workers: 1000 // workers // 20))
PATIENCE = 10


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="of each number of workers (default 5)")
    options = parser.parse_args()
    processes.raise_limits()
    os.environ["PATH"] += ":/usr/sbin"
    binary, rows = tidegate.find_binary(ROOT), []
    with tempfile.TemporaryDirectory(prefix="tidegate-even-") as folder:
        os.chmod(folder, 0o755)
        port = processes.free_port()
        upstream = processes.Server("upstream", nginx.upstream(folder, port), processes.load_core(), folder)
        try:
            upstream.wait_for_port(port)
            for workers in WORKERS:
                runs = [measure(binary, os.path.join(folder, f"{workers}-{run}"), port, workers) for run in range(options.runs)]
                for (count, allowed), found in zip(COUNTS, zip(*runs)):
                    widest = max(found, key=lambda held: max(held) - min(held))
                    apart = max(widest) - min(widest)
                    rows.append([workers, count, f"{min(widest)} to {max(widest)}", apart, allowed(workers),
                                 "ok" if apart <= allowed(workers) else "MISSED"])
        finally:
            upstream.stop()
    print(figures.table(["workers", "connections", "widest of the runs", "difference", "target", ""], rows))


def measure(binary, prefix, upstream_port, workers):
    """Open connections of each worker, for each of the numbers."""
    ports = {name: processes.free_port() for name in ("http", "control", "metrics")}
    os.makedirs(prefix)
    command = tidegate.command(binary, prefix, ports, {"routes": [tidegate.route(upstream_port, 0)]})
    conf = os.path.join(prefix, "conf", "config.yaml")
    with open(conf) as file:
        text = file.read()
    with open(conf, "w") as file:
        file.write(text.replace("worker_processes: 1\n", f"worker_processes: {workers}\n"))
    server = processes.Server("even", command, processes.GATEWAY_CORE, prefix)
    try:
        server.wait_for_port(ports["http"])
        server.wait_for_port(ports["metrics"])
        settle(ports["metrics"], 0)
        connections, found = [], []
        for count, _ in COUNTS:
            while len(connections) < count:
                connections.append(load.Connection(ports["http"]))
                connections[-1].get(load.request_bytes("/r0"))
            found.append(settle(ports["metrics"], count))
        return found
    finally:
        server.stop()


def settle(port, count):
    """Waits until the workers together have so many; the page is as old as a second."""
    deadline = time.monotonic() + PATIENCE
    while True:
        lines = [line for line in page(port).splitlines() if line.startswith("apisix_worker_connections{")]
        held = [int(float(line.rsplit(" ", 1)[1])) for line in lines]
        if held and sum(held) == count:
            return held
        if time.monotonic() > deadline:
            raise SystemExit(f"workers have {held} connections, not {count}")
        time.sleep(0.05)


def page(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/apisix/prometheus/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    return text


if __name__ == "__main__":
    main()
