#!/usr/bin/env python3
"""What ext-plugin-pre-req costs with a runner of Apache's library for Go that sets one header field.

Two routes of one gateway, with and without the plugin, are asked in turn. Shown are the processor time of the gateway's process for each
request under full load (64 connections, turns of a tenth of a second), without that of the runner, and how much later responses come to
one client that sends one request after the other. The gateway's worker is on core 0, the upstream and the load on core 1; the runner is a
process of the gateway and shares its core, or the other one with --apart. `exchange` is what such a runner takes to answer a client
that does nothing else: what no gateway can be below. Needs Go, and the module proxy or its cache. The gateway is the release binary;
TIDEGATE_BIN names another.

    perf/ext_plugin.py [--seconds 3] [--rounds 7] [--apart]
"""

import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import tempfile
import time

from harness import processes, routes, tidegate

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Microseconds: what a request may cost with the plugin beyond one without.
MOST_CPU_US = 15
MOST_ADDED_US = 60
CONF = {"name": "tester", "value": json.dumps({"do": "header", "text": "x"})}


def serve(folder, binary, upstream, runner):
    ports = {name: processes.free_port() for name in ("http", "control", "metrics")}
    target = tidegate.node(upstream)
    listed = [{"id": "plain", "uri": "/plain", "upstream": target},
              {"id": "ext", "uri": "/ext", "upstream": target, "plugins": {"ext-plugin-pre-req": {"conf": [CONF]}}}]
    command = tidegate.command(binary, folder, ports, {"routes": listed})
    with open(os.path.join(folder, "conf", "config.yaml"), "a") as file:
        file.write(f"ext-plugin: {{cmd: [{json.dumps(runner)}, run]}}\nplugins: [ext-plugin-pre-req]\n")
    gateway = processes.Server("gateway", command, processes.GATEWAY_CORE, folder)
    gateway.wait_for_port(ports["http"])
    return gateway, ports["http"]


def exchange(runner, folder, core):
    """Microseconds from a question of HTTPReqCall to its answer, in the middle."""
    path = os.path.join(folder, "alone.sock")
    environment = {**os.environ, "APISIX_LISTEN_ADDRESS": f"unix:{path}", "APISIX_CONF_EXPIRE_TIME": "3600"}
    alone = subprocess.Popen(["taskset", "-c", str(core), runner, "run"], env=environment, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    # Of the core that the gateway has otherwise.
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {processes.GATEWAY_CORE})
    try:
        while not os.path.exists(path):
            time.sleep(0.01)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            # Of an unknown configuration: the runner reads it, looks for the configuration and answers.
            question = bytes.fromhex("0200001c") + bytes.fromhex("0c000000080008000000040008000000" "0400000000000000" "00000000")
            took = []
            for _ in range(3000):
                begun = time.perf_counter()
                client.sendall(question)
                if not client.recv(4096):
                    raise SystemExit("the runner has closed the connection")
                took.append((time.perf_counter() - begun) * 1e6)
            return statistics.median(took)
    finally:
        os.sched_setaffinity(0, own)
        alone.kill()
        alone.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--apart", action="store_true", help="the runner on the core of the load")
    asked = parser.parse_args()
    os.environ["PATH"] += ":/usr/sbin"
    os.sched_setaffinity(0, {processes.load_core()})
    with tempfile.TemporaryDirectory(prefix="tidegate-ext-") as folder:
        os.chmod(folder, 0o755)
        runner = f"{folder}/runner"
        subprocess.run(["go", "build", "-o", runner, "."], cwd=f"{ROOT}/tests/runner-go", check=True)
        upstream, port = routes.upstream(folder)
        gateway, http = serve(folder, tidegate.find_binary(ROOT), port, runner)
        try:
            core = processes.load_core() if asked.apart else processes.GATEWAY_CORE
            for pid in gateway.pids()[1:]:
                subprocess.run(["taskset", "-acp", str(core), str(pid)], check=True, stdout=subprocess.DEVNULL)
            pair = routes.Pair(gateway.pids()[0], http, "/plain", "/ext", folder)
            pair.warm_up()
            cpu, p50 = [], []
            for _ in range(asked.rounds):
                cpu.append(pair.cpu_us(asked.seconds))
                p50.append(pair.p50_us(1))
                print(f"CPU {cpu[-1][0]:.1f} and {cpu[-1][1]:.1f} us, p50 {p50[-1][0]:.0f} and {p50[-1][1]:.0f} us", flush=True)
            floor = exchange(runner, folder, core)
        finally:
            gateway.stop()
            upstream.stop()
    (cost, low, high), (later, soonest, latest) = routes.added(cpu), routes.added(p50)
    print(f"the plugin takes {cost:.1f} us ({low:.1f} to {high:.1f}) of the gateway's process (at most {MOST_CPU_US}) and adds {later:.0f} us "
          f"({soonest:.0f} to {latest:.0f}) at the median (at most {MOST_ADDED_US}); an exchange with the runner alone: {floor:.0f} us")
    return 0 if cost <= MOST_CPU_US and later <= MOST_ADDED_US else 1


if __name__ == "__main__":
    raise SystemExit(main())
