#!/usr/bin/env python3
"""Compares two builds of the gateway: CPU per request in turn, and instructions per request.

    python3 perf/against.py BEFORE AFTER [--only plain] [--rounds 15] [--seconds 3] [--instructions]

Both gateways run at once, one worker each on core 0; only one has load at a time, in turns of a tenth of a second.
CPU: the ratio of each round, its median, and a 95 % interval from resampled rounds (bootstrap). The time that the
hypervisor took from this machine meanwhile (steal) is shown beside it.
Instructions: callgrind counts some thousand requests less the same run with fewer, so the start cancels out.
Repeatable on a noisy machine (HTTP/2: to some per cent, for frames share writes as it happens), blind to the kernel and to caches.
"""

import argparse
import os
import re
import statistics
import sys
import tempfile
import time

from harness import figures, http2, load, nginx, processes, throughput, tidegate, tls, turns

KEYS = [f"key-{number:03d}-0123456789abcdef" for number in range(100)]
FEW, MANY = 500, 4500
# HTTP/2 over TLS by h2load: to an upstream of HTTP/1, and to one with scheme grpc.
FRAMES = {"http2": "/", "grpc": "/grpc"}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", help="the binary to compare with")
    parser.add_argument("after", help="the binary in question")
    parser.add_argument("--only", action="append", choices=[*throughput.SCENARIOS, *FRAMES], metavar="SCENARIO",
                        help="one of %(choices)s; may be given several times (default: plain)")
    parser.add_argument("--rounds", type=int, default=15, help="default 15")
    parser.add_argument("--seconds", type=int, default=3, help="seconds per round (default 3)")
    parser.add_argument("--instructions", action="store_true", help="count instructions instead; needs valgrind")
    return parser.parse_args()


def main():
    options = arguments()
    os.environ["PATH"] += ":/usr/sbin"
    processes.raise_limits()
    os.sched_setaffinity(0, {processes.load_core()})
    binaries = {"before": os.path.abspath(options.before), "after": os.path.abspath(options.after)}
    with tempfile.TemporaryDirectory(prefix="tidegate-against-") as folder:
        os.chmod(folder, 0o755)
        port = processes.free_port()
        frames_port = processes.free_port()
        upstream = processes.Server("upstream", nginx.upstream(folder, port, frames_port), processes.load_core(), folder)
        try:
            upstream.wait_for_port(port)
            if options.instructions:
                counted = instructions(folder, binaries, (port, frames_port), options.only or ["plain"])
                rows = [[name, *(f"{one[who]:,.0f}" for who in binaries), f"{one['after'] / one['before']:.4f}"]
                        for name, one in counted.items()]
                print(figures.table(["instructions per request", "before", "after", "ratio"], rows))
            else:
                cpu(folder, binaries, port, options, frames_port)
        finally:
            upstream.stop()


def cpu(folder, binaries, upstream_port, options, frames_port):
    pair, servers = tls.certificate(folder), {}
    try:
        for who, binary in binaries.items():
            servers[who] = start(folder, who, binary, upstream_port, pair, frames_port=frames_port)
        scripts, rows = throughput.write_scripts(folder, KEYS), []
        for name in options.only or ["plain"]:
            stolen, total = processes.steal_ticks()
            result = (http2.run(servers, options.rounds, options.seconds, say, FRAMES[name]) if name in FRAMES
                      else turns.run(name, servers, scripts, options.rounds, options.seconds, say))
            ratios = [after["cpu_us"] / before["cpu_us"]
                      for before, after in zip(result["rounds"]["before"], result["rounds"]["after"])]
            low, high = figures.interval(ratios)
            now_stolen, now_total = processes.steal_ticks()
            rows.append([name, *(f"{result['median'][who]['cpu_us']:.2f}" for who in binaries),
                         f"{statistics.median(ratios):.3f}", f"{low:.3f} to {high:.3f}",
                         f"{100 * (now_stolen - stolen) / max(1, now_total - total):.1f} %"])
        print(figures.table(["CPU per request, us", "before", "after", "ratio", "95 % interval", "steal"], rows))
    finally:
        for server, _ in servers.values():
            server.stop()


def start(folder, who, binary, upstream_port, pair, before=(), frames_port=None):
    prefix = os.path.join(folder, who)
    os.makedirs(prefix, exist_ok=True)
    ports = {name: processes.free_port() for name in ("http", "tls", "control", "metrics")}
    resources = tidegate.resources(upstream_port, KEYS, pair)
    if frames_port:
        resources["routes"].append({"id": "grpc", "uri": "/grpc",
                                    "upstream": {**tidegate.node(frames_port), "scheme": "grpc"}})
    command = tidegate.command(binary, prefix, ports, resources)
    server = processes.Server(who, [*before, *command], processes.GATEWAY_CORE, prefix)
    server.wait_for_port(ports["http"])
    server.tls_port = ports["tls"]
    return server, ports["http"]


def instructions(folder, binaries, upstream_ports, names):
    """Per request, by scenario and binary."""
    pair, found = tls.certificate(folder), {}
    for name in names:
        counted = found[name] = {}
        for who, binary in binaries.items():
            runs = {count: once(folder, f"{who}-{name}-{count}", binary, upstream_ports, pair, name, count)
                    for count in (FEW, MANY)}
            counted[who] = (runs[MANY] - runs[FEW]) / (MANY - FEW)
            say(f"{name}: {who} {counted[who]:,.0f} instructions per request")
    return found


def once(folder, who, binary, upstream_ports, pair, name, count):
    """Instructions of all threads of one gateway from its start to its end, with so many requests in between."""
    out = os.path.join(folder, who + ".callgrind")
    valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"]
    server, port = start(folder, who, binary, upstream_ports[0], pair, valgrind, upstream_ports[1])
    if name in FRAMES:
        # One connection: a worker that shakes hands with eight at valgrind's speed counts as stuck.
        http2.load(server, server.tls_port, count, FRAMES[name], connections=1)
    else:
        one_by_one(port, name, count)
    wait_for_other_threads(server)
    server.stop()
    with open(out) as file:
        total = re.search(r"^(?:summary|totals): (\d+)", file.read(), re.MULTILINE)
    if not total:
        raise SystemExit(f"callgrind counted nothing:\n{server.output()}")
    return int(total.group(1))


def wait_for_other_threads(server, patience=60):
    """Until the thread that looks for fields without effect is through: a stop ends its work early, and with it what callgrind counts."""
    before, until = None, time.monotonic() + patience
    while time.monotonic() < until:
        now = server.thread_ticks("field-log")
        if now == before:
            return
        before = now
        time.sleep(2)
    raise SystemExit("the start did not end: other threads were still at work")


def one_by_one(port, name, count):
    path, script = throughput.SCENARIOS[name][:2]
    connection = load.Connection(port)
    for number in range(count):
        status = connection.get(request(path, script, number))
        if status != 200:
            raise SystemExit(f"{path} answered {status}")
    connection.reset()


def request(path, script, number):
    fields = {"Host": "perf.example"}
    if script == "keys":
        path, fields["apikey"] = f"/k/{number % len(KEYS)}", KEYS[number % len(KEYS)]
    if script == "browser":
        fields.update(load.BROWSER_HEADERS)
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode()


def say(text):
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
