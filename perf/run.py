#!/usr/bin/env python3
"""Measures the gateway against Debian's nginx, and an earlier build of it, on this machine, in one run, and prints a table.

One worker each, pinned to core 0; upstream (nginx) and load (wrk) on core 1; 1 KB answers, 64 connections.
CPU per request is the figure to trust on a small machine: requests per second also depend on how fast the
shared load core is. Ratios are medians of the rounds' own, with their 95 % intervals; below the table is what the machine did meanwhile.
Results go to perf/results/ as JSON.
"""

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from harness import (
    accuracy, churn, connections, figures, footprint, http2, hyperapi, manyroutes, nginx, plugins, processes, profiled, scrape, slow, static,
    throughput, tidegate, tls)

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OTHERS = ("plugins", "handshake", "connections", "http2", "slow", "memory", "start", "scrape", "churn", "static", "hyperapi",
          "manyroutes", "accuracy", "profiled")
KEYS = [f"key-{number:03d}-0123456789abcdef" for number in range(100)]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="short rounds: for checking, not for quoting")
    parser.add_argument("--only", action="append", choices=[*throughput.SCENARIOS, *OTHERS], metavar="SCENARIO",
                        help="one of %(choices)s; may be given several times")
    parser.add_argument("--plugin", action="append", choices=plugins.SCENARIOS, metavar="PLUGIN",
                        help="of --only plugins: one of %(choices)s; may be given several times")
    parser.add_argument("--rounds", type=int, help="rounds per scenario (default 5; quick: 3)")
    parser.add_argument("--seconds", type=int, help="seconds per round (default 5; quick: 2)")
    parser.add_argument("--against", metavar="COMMIT",
                        help="measure an earlier build beside this one: a commit, which is built below target/, or a binary")
    parser.add_argument("--target", choices=["tidegate", "nginx"], default="tidegate",
                        help="nginx: a second nginx stands in for the gateway, to check the harness")
    return parser.parse_args()


def main():
    options = arguments()
    for program in ("nginx", "wrk", "taskset"):
        if not (shutil.which(program) or shutil.which(program, path="/usr/sbin")):
            raise SystemExit(f"{program} is not installed; run scripts/install-deps.sh")
    os.environ["PATH"] += ":/usr/sbin"
    processes.raise_limits()
    os.sched_setaffinity(0, {processes.load_core()})
    wanted = options.only or [*throughput.SCENARIOS, *OTHERS]
    rounds = options.rounds or (3 if options.quick else 5)
    seconds = options.seconds or (2 if options.quick else 5)
    binary = tidegate.find_binary(ROOT) if options.target == "tidegate" else None
    before = earlier(options.against) if options.against else None
    results = {"about": {**about(options, rounds, seconds, binary), "against": options.against}}
    machine = Machine()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="tidegate-perf-") as folder:
        # nginx's workers run as another user when its master is root.
        os.chmod(folder, 0o755)
        try:
            measure(folder, wanted, rounds, seconds, (binary, before), options.quick, options.plugin, results)
        except KeyboardInterrupt:
            say("interrupted: what was measured before follows")
    results["machine"] = machine.since()
    show(results)
    print(f"\nsaved as {save(results)}")


def measure(folder, wanted, rounds, seconds, binaries, quick, which, results):
    running, (binary, before) = [], binaries
    try:
        upstream_port = processes.free_port()
        running.append(processes.Server("upstream", nginx.upstream(folder, upstream_port), processes.load_core(), folder))
        running[-1].wait_for_port(upstream_port)
        servers = start_gateways(folder, upstream_port, binaries, running)
        scripts = throughput.write_scripts(folder, KEYS)
        for name in wanted:
            if name in throughput.SCENARIOS:
                results[name] = throughput.run(name, servers, scripts, rounds, seconds, say)
        if "handshake" in wanted:
            results["handshake"] = tls.run_handshakes(servers, rounds, seconds, say)
        if "connections" in wanted and binary:
            builds = {"before": before, "gateway": binary} if before else {"gateway": binary}
            results["connections"] = connections.run(folder, builds, upstream_port, rounds, seconds, say)
        if "http2" in wanted:
            results["http2"] = http2.run(servers, rounds, seconds, say)
        if "slow" in wanted:
            results["slow"] = slow.run(servers, upstream_port, scripts["plain"], seconds + 1, say)
        if "memory" in wanted:
            results["memory"] = footprint.run_idle(servers, 2000 if quick else 10_000, say)
        for server in running[1:]:
            server.stop()
        if "static" in wanted:
            results["static"] = static.run(binary, folder, scripts["plain"], rounds, seconds, say)
        if "hyperapi" in wanted and binary:
            results["hyperapi"] = hyperapi.run(binary, folder, scripts["plain"], rounds, seconds, say)
        if "plugins" in wanted and binary:
            results["plugins"] = plugins.run(binary, folder, upstream_port, which, rounds, seconds, say)
        if "start" in wanted:
            results["start"] = footprint.run_start(binary, folder, upstream_port, rounds, 1000, say)
        if "manyroutes" in wanted and binary:
            results["manyroutes"] = manyroutes.run(binary, folder, upstream_port, rounds, seconds, say)
        if "accuracy" in wanted and binary:
            results["accuracy"] = accuracy.run(binary, ROOT, folder, rounds, seconds, say)
        if "profiled" in wanted and binary:
            results["profiled"] = profiled.run(binary, folder, upstream_port, seconds, say)
        if "scrape" in wanted and binary:
            results["scrape"] = scrape.run(binary, folder, upstream_port, seconds, say)
        if "churn" in wanted:
            results["churn"] = churn.run(binary, folder, upstream_port, 2000 if quick else 10_000, say)
    finally:
        for server in running:
            server.stop()


def start_gateways(folder, upstream_port, binaries, running):
    (now, before), servers, pair = binaries, {}, tls.certificate(folder)
    for who, binary in (("nginx", None), ("before", before), ("gateway", now)):
        if who == "before" and not binary:
            continue
        prefix = os.path.join(folder, who)
        os.makedirs(prefix)
        ports = {name: processes.free_port() for name in ("http", "tls", "control", "metrics")}
        if binary is None:
            command = nginx.gateway(prefix, who, ports["http"], upstream_port, KEYS, (ports["tls"], *pair))
        else:
            command = tidegate.command(binary, prefix, ports, tidegate.resources(upstream_port, KEYS, pair))
        server = processes.Server(who, command, processes.GATEWAY_CORE, prefix)
        running.append(server)
        server.wait_for_port(ports["http"])
        server.tls_port = ports["tls"]
        servers[who] = (server, ports["http"])
    return servers


def show(results):
    rows = []
    for name in throughput.SCENARIOS:
        if name in results:
            rows += throughput.rows(name, results[name])
    if "handshake" in results:
        rows += tls.rows(results["handshake"])
    if "connections" in results:
        rows += connections.rows(results["connections"])
    if "http2" in results:
        rows += http2.rows(results["http2"])
    if "slow" in results:
        rows += slow.rows(results["slow"])
    if "memory" in results:
        rows += footprint.idle_rows(results["memory"])
    if "start" in results:
        rows += footprint.start_rows(results["start"])
    if "static" in results:
        rows += static.rows(results["static"])
    if rows:
        print("\n" + figures.table(figures.HEADINGS, rows))
    if "left_out" not in results.get("hyperapi", {"left_out": ""}):
        headings = ["against", "figure", "theirs", "tidegate", "ratio", "+-", "target", ""]
        print("\n" + figures.table(headings, hyperapi.rows(results["hyperapi"])))
    if "plugins" in results:
        headings = ["plugin", "figure", "plain", "with it", "us", "over", "rounds", "target", ""]
        print("\n" + figures.table(headings, plugins.rows(results["plugins"])))
    if "manyroutes" in results:
        print("\n" + figures.table(["many routes", "measured", "target"], manyroutes.rows(results["manyroutes"])))
    if "accuracy" in results:
        print("\n" + figures.table(accuracy.HEADINGS, accuracy.rows(results["accuracy"])))
    if "profiled" in results:
        print("\n" + figures.table(profiled.HEADINGS, profiled.rows(results["profiled"])))
    if "scrape" in results:
        headings = [f"{results['scrape']['series']:,} series, us", "requests", "p50", "p99", "p99.9", "max", ">1 ms", ">2 ms",
                    ">5 ms", ">10 ms", "longest wait", "slices with steal"]
        print("\n" + figures.table(headings, scrape.rows(results["scrape"])))
    if "churn" in results:
        headings = ["latency, us", "p50", "p99", "p99.9", "max", ">5 ms", ">10 ms"]
        print("\n" + figures.table(headings, churn.rows(results["churn"])))
        if "disturber" in results["churn"]:
            print("during churn: " + json.dumps(results["churn"]["disturber"]))
    print("\nmachine: " + ", ".join(f"{name} {value}" for name, value in results["machine"].items()))


class Machine:
    """What the machine did while it was measured."""

    def __init__(self):
        self.steal, self.load = processes.steal_ticks(), os.getloadavg()[0]

    def since(self):
        autogroup = "/proc/sys/kernel/sched_autogroup_enabled"
        return {"kernel": platform.release(), "cores": os.cpu_count(), "load before": round(self.load, 2),
                "load after": round(os.getloadavg()[0], 2), "steal": f"{processes.steal_percent(self.steal):.2f} %",
                "sched_autogroup": open(autogroup).read().strip() if os.path.exists(autogroup) else "none"}


def earlier(what):
    """A binary of an earlier commit, built once in a work tree of its own."""
    if os.access(what, os.X_OK) and os.path.isfile(what):
        return os.path.abspath(what)
    commit = subprocess.run(["git", "rev-parse", "--short=12", "--verify", what + "^{commit}"], cwd=ROOT, check=False,
                            capture_output=True, text=True).stdout.strip()
    if not commit:
        raise SystemExit(f"--against: {what} is neither a commit nor a program")
    target = os.environ.get("CARGO_TARGET_DIR") or os.path.join(ROOT, "target")
    folder = os.path.join(target, "against", commit)
    binary = os.path.join(folder, "target", "release", "tidegate")
    if not os.access(binary, os.X_OK):
        say(f"building {commit} in {folder}")
        if not os.path.exists(folder):
            subprocess.run(["git", "worktree", "add", "--detach", folder, commit], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        environment = {name: value for name, value in os.environ.items() if name != "CARGO_TARGET_DIR"}
        subprocess.run(["cargo", "build", "--release", "-p", "tidegate", "--features", "wasm"], cwd=folder, check=True, env=environment)
    return binary


def about(options, rounds, seconds, binary):
    def output(command):
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        except OSError:
            return ""
        return (done.stdout + done.stderr).strip().splitlines()[0] if done.stdout + done.stderr else ""

    cpu = ""
    with open("/proc/cpuinfo") as info:
        cpu = next((line.partition(":")[2].strip() for line in info if line.startswith("model name")), "")
    return {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "commit": output(["git", "rev-parse", "--short", "HEAD"]),
            "target": options.target, "gateway": output([binary, "version"]) if binary else "nginx stand-in",
            "nginx": output(["nginx", "-v"]), "wrk": output(["wrk", "-v"]), "kernel": platform.release(), "cpu": cpu,
            "cores": os.cpu_count(), "rounds": rounds, "seconds": seconds, "quick": options.quick}


def save(results):
    folder = os.path.join(ROOT, "perf", "results")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, time.strftime("%Y%m%d-%H%M%S") + ".json")
    with open(path, "w") as file:
        json.dump(results, file, indent=1)
    return os.path.relpath(path, ROOT)


def say(text):
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
