#!/usr/bin/env python3
"""What a plugin in WebAssembly costs that sets one header field of each response (docs/guide/wasm).

Two routes of one gateway, with and without the plugin, are asked in turn as fast as the gateway answers. Shown is the processor time of
the gateway's process for each request. --module measures another module, with --conf as its configuration. The gateway is the release
binary; TIDEGATE_BIN names another.

    perf/wasm.py [--seconds 5] [--rounds 9] [--module FILE] [--conf TEXT]
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import tempfile

from ext_plugin import BINARY, ROOT, cpu_seconds, free_port, wait_for

# Microseconds: what a request may cost with the plugin beyond one without.
MOST_CPU_US = 2
CONFIG = """
apisix:
  node_listen: [{{ip: 127.0.0.1, port: {http}}}]
  ssl: {{enable: false}}
  enable_admin: false
  enable_control: false
nginx_config: {{worker_processes: 1, http: {{enable_access_log: false}}}}
deployment: {{role: data_plane, role_data_plane: {{config_provider: yaml}}}}
wasm: {{plugins: [{{name: measured, priority: 1, file: {module}}}]}}
"""


def measure(folder, pid, url, seconds):
    result = os.path.join(folder, "result.json")
    command = [BINARY, "bench", url, "-q", "-c", "16", "-t", "1", "-d", f"{seconds}s", "--json", result]
    before = cpu_seconds(pid)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    cpu = cpu_seconds(pid) - before
    with open(result) as file:
        found = json.load(file)
    assert found["bad_statuses"] == 0 and not found["failures"], found["statuses"]
    # Of the bench's warm-up, too; it is as long on both routes.
    return cpu / found["requests"] * 1e6


def serve(folder, http, upstream, module, conf):
    os.makedirs(f"{folder}/conf")
    os.makedirs(f"{folder}/logs")
    target = {"type": "roundrobin", "nodes": {f"127.0.0.1:{upstream}": 1}}
    routes = [{"id": "plain", "uri": "/plain", "upstream": target},
              {"id": "wasm", "uri": "/wasm", "upstream": target, "plugins": {"measured": {"conf": conf}}}]
    with open(f"{folder}/conf/config.yaml", "w") as file:
        file.write(CONFIG.format(http=http, module=module))
    with open(f"{folder}/conf/apisix.yaml", "w") as file:
        file.write(json.dumps({"routes": routes}) + "\n#END\n")
    log = open(f"{folder}/gateway.log", "w")
    return subprocess.Popen([BINARY, "run", "--prefix", folder, "-c", f"{folder}/conf/config.yaml"], stdout=log, stderr=log)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--module", default=f"{ROOT}/docs/guide/wasm/greet.wasm")
    parser.add_argument("--conf", default="hello")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        http, upstream = free_port(), free_port()
        echo = subprocess.Popen([BINARY, "echo", "-p", str(upstream), "--size", "5"], stdout=subprocess.DEVNULL)
        gateway = serve(folder, http, upstream, os.path.abspath(asked.module), asked.conf)
        try:
            wait_for(upstream)
            wait_for(http)
            added = []
            for number in range(asked.rounds + 1):
                plain, wasm = (measure(folder, gateway.pid, f"http://127.0.0.1:{http}/{path}", asked.seconds if number else 1)
                               for path in ("plain", "wasm"))
                if number:
                    added.append(wasm - plain)
                    print(f"CPU {plain:.2f} and {wasm:.2f} us", flush=True)
        finally:
            gateway.send_signal(signal.SIGTERM)
            gateway.wait(20)
            echo.kill()
            echo.wait()
    cpu = statistics.median(added)
    print(f"the plugin takes {cpu:.2f} us of the gateway's process (at most {MOST_CPU_US}), {min(added):.2f} to {max(added):.2f}")
    return 0 if cpu <= MOST_CPU_US else 1


if __name__ == "__main__":
    raise SystemExit(main())
