#!/usr/bin/env python3
"""What ext-plugin-pre-req costs with a runner of Apache's library for Go that sets one header field.

Two routes of one gateway, with and without the plugin, are asked in turn at the same rate. Shown are the processor time of the
gateway's process for each request, without that of the runner, and how much later responses come. Needs Go, and the module proxy or its
cache. The gateway is the release binary; TIDEGATE_BIN names another.

    perf/ext_plugin.py [--rate 1000] [--seconds 10] [--rounds 5]
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

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BINARY = os.environ.get("TIDEGATE_BIN", f"{ROOT}/target/release/tidegate")
# Microseconds: what a request may cost with the plugin beyond one without.
MOST_CPU_US = 15
MOST_ADDED_US = 60
CONFIG = """
apisix:
  node_listen: [{{ip: 127.0.0.1, port: {http}}}]
  ssl: {{enable: false}}
  enable_admin: false
  enable_control: false
nginx_config: {{worker_processes: 1, http: {{enable_access_log: false}}}}
deployment: {{role: data_plane, role_data_plane: {{config_provider: yaml}}}}
ext-plugin: {{cmd: ["{runner}", run]}}
plugins: [ext-plugin-pre-req]
"""


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def wait_for(port):
    for _ in range(500):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise SystemExit(f"nothing listens on {port}")


def cpu_seconds(pid):
    """Of all threads of the process, by the scheduler's account."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/schedstat") as file:
                total += int(file.read().split()[0])
        except OSError:
            pass
    return total / 1e9


def load(folder, url, rate, seconds):
    result = os.path.join(folder, "result.json")
    command = [BINARY, "bench", url, "-q", "-c", "8", "-t", "1", "-R", str(rate), "-d", f"{seconds}s", "--json", result]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with open(result) as file:
        found = json.load(file)
    assert found["bad_statuses"] == 0 and not found["failures"], found["statuses"]
    return found


def measure(folder, pid, url, rate, seconds):
    before = cpu_seconds(pid)
    found = load(folder, url, rate, seconds)
    # Of the bench's warm-up, too; it is as long on both routes.
    cpu = (cpu_seconds(pid) - before) / found["requests"] * 1e6
    p50 = dict((p, us) for p, us in found["latency"]["percentiles"])[50.0]
    return cpu, p50


def serve(folder, http, upstream, runner):
    os.makedirs(f"{folder}/conf")
    os.makedirs(f"{folder}/logs")
    conf = {"name": "tester", "value": json.dumps({"do": "header", "text": "x"})}
    target = {"type": "roundrobin", "nodes": {f"127.0.0.1:{upstream}": 1}}
    routes = [{"id": "plain", "uri": "/plain", "upstream": target},
              {"id": "ext", "uri": "/ext", "upstream": target, "plugins": {"ext-plugin-pre-req": {"conf": [conf]}}}]
    with open(f"{folder}/conf/config.yaml", "w") as file:
        file.write(CONFIG.format(http=http, runner=runner))
    with open(f"{folder}/conf/apisix.yaml", "w") as file:
        file.write(json.dumps({"routes": routes}) + "\n#END\n")
    log = open(f"{folder}/gateway.log", "w")
    return subprocess.Popen([BINARY, "run", "--prefix", folder, "-c", f"{folder}/conf/config.yaml"], stdout=log, stderr=log)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runner = f"{folder}/runner"
        subprocess.run(["go", "build", "-o", runner, "."], cwd=f"{ROOT}/tests/runner-go", check=True)
        http, upstream = free_port(), free_port()
        echo = subprocess.Popen([BINARY, "echo", "-p", str(upstream), "--size", "5"], stdout=subprocess.DEVNULL)
        gateway = serve(folder, http, upstream, runner)
        try:
            wait_for(upstream)
            wait_for(http)
            for path in ("plain", "ext"):
                load(folder, f"http://127.0.0.1:{http}/{path}", asked.rate, 2)
            rounds = []
            for _ in range(asked.rounds):
                plain, ext = (measure(folder, gateway.pid, f"http://127.0.0.1:{http}/{path}", asked.rate, asked.seconds)
                              for path in ("plain", "ext"))
                rounds.append((ext[0] - plain[0], ext[1] - plain[1]))
                print(f"CPU {plain[0]:.1f} and {ext[0]:.1f} us, p50 {plain[1]:.0f} and {ext[1]:.0f} us", flush=True)
        finally:
            gateway.send_signal(signal.SIGTERM)
            gateway.wait(20)
            echo.kill()
            echo.wait()
    cpu, added = (statistics.median(column) for column in zip(*rounds))
    print(f"the plugin takes {cpu:.1f} us of the gateway's process (at most {MOST_CPU_US}) and adds {added:.0f} us at the median (at most {MOST_ADDED_US})")
    return 0 if cpu <= MOST_CPU_US and added <= MOST_ADDED_US else 1


if __name__ == "__main__":
    raise SystemExit(main())
