"""Latency while a CPU profile is taken (`GET /v1/profile`), beside the same gateway without one.

Requests one after the other on one connection, in slices of equal time that alternate, so that a slow minute of the machine falls on both.
"""

import http.client
import os
import statistics
import threading
import time

from . import figures, load, processes, tidegate

SLICES = 15
KINDS = ("quiet", "profiled")
TARGET = 1.05


def run(binary, folder, upstream_port, seconds, say):
    ports = {name: processes.free_port() for name in ("http", "control", "metrics")}
    prefix = os.path.join(folder, "profiled")
    os.makedirs(prefix)
    routes = {"routes": [tidegate.route(upstream_port, 0)]}
    command = tidegate.command(binary, prefix, ports, routes)
    switch_on(os.path.join(prefix, "conf", "config.yaml"), ports["control"])
    server = processes.Server("profiled", command, processes.GATEWAY_CORE, prefix)
    try:
        server.wait_for_port(ports["http"])
        measured = {kind: [] for kind in KINDS}
        for number in range(SLICES):
            for kind in KINDS if number % 2 == 0 else reversed(KINDS):
                measured[kind].append(figures.summary(one_slice(ports, kind, seconds)))
            say(f"profiled: slice {number + 1}/{SLICES}: p99 " + ", ".join(
                f"{kind} {measured[kind][-1]['p99_us']} us" for kind in KINDS))
        return {"seconds": seconds, "slices": measured}
    finally:
        server.stop()


def switch_on(path, port):
    with open(path) as file:
        text = file.read()
    with open(path, "w") as file:
        file.write(text.replace(f"port: {port}}}", f"port: {port}, profiling: true}}"))


def one_slice(ports, kind, seconds):
    profile = threading.Thread(target=take, args=(ports["control"], seconds)) if kind == "profiled" else None
    if profile:
        profile.start()
        # It reads the program's tables before it begins.
        time.sleep(0.3)
    until = time.monotonic() + seconds
    latencies = []
    while time.monotonic() < until:
        latencies += load.sequential(ports["http"], "/r0", 500)
    if profile:
        profile.join()
    return latencies


def take(port, seconds):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds + 30)
    connection.request("GET", f"/v1/profile?format=folded&seconds={seconds + 1}")
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    if answer.status != 200 or "worker-0;" not in text:
        raise SystemExit(f"the profile is answered {answer.status}: {text[:500]}")


def rows(result):
    out = []
    for figure, target in (("p50_us", TARGET), ("p99_us", TARGET), ("p999_us", None)):
        quiet, profiled = ([one[figure] for one in result["slices"][kind]] for kind in KINDS)
        ratios = [after / before for before, after in zip(quiet, profiled)]
        ratio, (low, high) = statistics.median(ratios), figures.interval(ratios)
        out.append([f"one at a time, {figure}", figures.shown(statistics.median(quiet)),
                    figures.shown(statistics.median(profiled)), f"{ratio:.3f}", f"{low:.3f} to {high:.3f}",
                    f"<={target:.2f}" if target else "", "" if not target else "ok" if ratio <= target else "MISSED"])
    return out


HEADINGS = ["while a profile is taken", "quiet", "profiled", "ratio", "95 % interval", "target", ""]
