#!/usr/bin/env python3
"""What viewers of live traffic cost: CPU per request and p99.9 with 20 of them beside none, slices of equal time in turn.

    python3 perf/viewers.py [--viewers 20] [--rate 20000] [--rounds 15] [--seconds 3]

One worker and all other threads of the gateway on core 0; upstream, load (`tidegate bench --rate`) and viewers on core 1. CPU is that of the whole process:
what renders and sends the events counts as well.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import tempfile
import threading

from harness import figures, nginx, processes, tidegate

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TARGETS = {"CPU, us": 1.02, "p50, us": None, "p99, us": None, "p99.9, us": 1.1}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--viewers", type=int, default=20)
    parser.add_argument("--rate", type=int, default=20_000, help="requests per second (default 20000)")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=int, default=3, help="per slice (default 3)")
    options = parser.parse_args()
    processes.raise_limits()
    os.environ["PATH"] += ":/usr/sbin"
    os.sched_setaffinity(0, {processes.load_core()})
    binary, before = tidegate.find_binary(ROOT), processes.steal_ticks()
    with tempfile.TemporaryDirectory(prefix="tidegate-viewers-") as folder:
        os.chmod(folder, 0o755)
        port = processes.free_port()
        running = [processes.Server("upstream", nginx.upstream(folder, port), processes.load_core(), folder)]
        try:
            running[0].wait_for_port(port)
            gateway, ports = start(binary, folder, port)
            running.append(gateway)
            slices = measure(binary, gateway, ports, options)
        finally:
            for one in reversed(running):
                one.stop()
    headings = [f"{options.rate} requests/s", "no viewer", f"{options.viewers} viewers", "ratio", "95 % interval", "target", ""]
    print(figures.table(headings, [row(name, slices) for name in TARGETS]))
    print(f"events seen per slice: {statistics.median(slices['events']):.0f}; steal {processes.steal_percent(before):.2f} %")


def start(binary, folder, upstream_port):
    ports = {name: processes.free_port() for name in ("http", "control", "metrics", "admin")}
    prefix = os.path.join(folder, "gateway")
    os.makedirs(prefix)
    gateway = processes.Server("gateway", tidegate.command(binary, prefix, ports), processes.GATEWAY_CORE, prefix)
    for port in ("http", "admin"):
        gateway.wait_for_port(ports[port])
    tidegate.Admin(ports["admin"]).put("routes", "plain", {"uri": "/*", "upstream": tidegate.node(upstream_port)})
    return gateway, ports


def measure(binary, gateway, ports, options):
    slices = {kind: [] for kind in ("none", "viewers", "events")}
    one_slice(binary, gateway, ports, options, 0)
    for number in range(options.rounds):
        for kind in ("none", "viewers") if number % 2 == 0 else ("viewers", "none"):
            found, events = one_slice(binary, gateway, ports, options, options.viewers if kind == "viewers" else 0)
            slices[kind].append(found)
            if kind == "viewers":
                slices["events"].append(events)
        print(f"round {number + 1}/{options.rounds}", {kind: slices[kind][-1] for kind in ("none", "viewers")}, flush=True)
    return slices


def one_slice(binary, gateway, ports, options, count):
    viewers = [Viewer(ports["admin"]) for _ in range(count)]
    spent = gateway.cpu_seconds()
    command = [binary, "bench", "--rate", str(options.rate), "--connections", "64", "--threads", "1", "--duration", f"{options.seconds}s",
               "--style", "json", f"http://127.0.0.1:{ports['http']}/x"]
    result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    spent = gateway.cpu_seconds() - spent
    events = sum(viewer.close() for viewer in viewers)
    if result["statuses"] != [[200, result["requests"]]]:
        raise SystemExit(f"not all are answered: {result['statuses']}, {result['failures']}")
    percentiles = dict(map(tuple, result["corrected"]["percentiles"]))
    return {"CPU, us": 1e6 * spent / result["requests"], "p50, us": percentiles[50.0], "p99, us": percentiles[99.0],
            "p99.9, us": percentiles[99.9]}, events


class Viewer:
    """Reads `/apisix/admin/traffic` and counts its events."""

    def __init__(self, port):
        self.events = 0
        self.connection = socket.create_connection(("127.0.0.1", port), 30)
        self.connection.sendall(f"GET /apisix/admin/traffic HTTP/1.1\r\nHost: perf\r\nX-API-KEY: {tidegate.ADMIN_KEY}\r\n\r\n".encode())
        first = self.connection.recv(65536)
        if b" 200 " not in first[:20]:
            raise SystemExit(f"no live traffic: {first!r}")
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        while data := self.connection.recv(1 << 20):
            self.events += data.count(b"data:")

    def close(self):
        self.connection.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.connection.close()
        return self.events


def row(name, slices):
    none, viewers = ([one[name] for one in slices[kind]] for kind in ("none", "viewers"))
    ratios = [after / before for before, after in zip(none, viewers)]
    ratio, (low, high), target = statistics.median(ratios), figures.interval(ratios), TARGETS[name]
    return [name, figures.shown(statistics.median(none)), figures.shown(statistics.median(viewers)), f"{ratio:.3f}", f"{low:.3f} to {high:.3f}",
            f"<={target:.2f}" if target else "", "" if not target else "ok" if ratio <= target else "MISSED"]


if __name__ == "__main__":
    main()
