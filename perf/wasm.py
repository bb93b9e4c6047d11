#!/usr/bin/env python3
"""What a plugin in WebAssembly costs that sets one header field of each response (docs/guide/wasm).

Two routes of one gateway, with and without the plugin, are asked in turn as fast as the gateway answers. Shown is the processor time of
the gateway's process for each request. --module measures another module, with --conf as its configuration. Then a filter that loops
for ever is asked, and other requests beside it: shown is when its requests end. The gateway is the release binary; TIDEGATE_BIN names
another.

    perf/wasm.py [--seconds 5] [--rounds 9] [--loops 20] [--module FILE] [--conf TEXT]
"""

import argparse
import http.client
import json
import os
import signal
import statistics
import subprocess
import tempfile
import threading
import time

from ext_plugin import BINARY, ROOT, cpu_seconds, free_port, wait_for

# Microseconds: what a request may cost with the plugin beyond one without.
MOST_CPU_US = 2
# Milliseconds, on a machine that does nothing else: when a request ends whose filter does not.
MOST_LOOP_MS = 50
CONFIG = """
apisix:
  node_listen: [{{ip: 127.0.0.1, port: {http}}}]
  ssl: {{enable: false}}
  enable_admin: false
  enable_control: false
nginx_config: {{worker_processes: 1, http: {{enable_access_log: false}}}}
deployment: {{role: data_plane, role_data_plane: {{config_provider: yaml}}}}
wasm:
  plugins:
    - {{name: measured, priority: 1, file: {module}}}
    - {{name: endless, priority: 2, file: {endless}}}
"""


def endless():
    """A module whose proxy_on_request_headers is (loop (br 0))."""
    def section(number, *items):
        content = bytes([len(items)]) + b"".join(items)
        return bytes([number, len(content)]) + content

    def export(name, kind, index):
        return bytes([len(name)]) + name + bytes([kind, index])

    types = section(1, bytes.fromhex("600000"), bytes.fromhex("60037f7f7f017f"))
    functions = section(3, b"\0", b"\1")
    memory = section(5, b"\0\1")
    exports = section(7, export(b"memory", 2, 0), export(b"proxy_abi_version_0_2_1", 0, 0), export(b"proxy_on_request_headers", 0, 1))
    code = section(10, bytes.fromhex("02000b"), bytes.fromhex("080003400c000b000b"))
    return b"\0asm\1\0\0\0" + types + functions + memory + exports + code


def ask(port, path):
    """Its status, and the milliseconds that it took."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    begun = time.monotonic()
    connection.request("GET", path)
    status = connection.getresponse().status
    return status, (time.monotonic() - begun) * 1000


def loop(port, count):
    ended, others = threading.Event(), []

    def beside():
        while not ended.is_set():
            others.append(ask(port, "/wasm"))
            time.sleep(0.005)

    thread = threading.Thread(target=beside)
    thread.start()
    took = []
    for _ in range(count):
        status, ms = ask(port, "/endless")
        assert status == 503, status
        took.append(ms)
    ended.set()
    thread.join()
    assert all(status == 200 for status, _ in others), others
    print(f"an endless loop ends its request in {statistics.median(took):.1f} ms (at most {MOST_LOOP_MS}), {min(took):.1f} to {max(took):.1f}; "
          f"{len(others)} others meanwhile are answered, after {max(ms for _, ms in others):.1f} ms at most")
    return statistics.median(took) <= MOST_LOOP_MS


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


def serve(folder, port, upstream, module, conf):
    os.makedirs(f"{folder}/conf")
    os.makedirs(f"{folder}/logs")
    target = {"type": "roundrobin", "nodes": {f"127.0.0.1:{upstream}": 1}}
    routes = [{"id": "plain", "uri": "/plain", "upstream": target},
              {"id": "wasm", "uri": "/wasm", "upstream": target, "plugins": {"measured": {"conf": conf}}},
              {"id": "endless", "uri": "/endless", "upstream": target, "plugins": {"endless": {"conf": "x"}}}]
    with open(f"{folder}/endless.wasm", "wb") as file:
        file.write(endless())
    with open(f"{folder}/conf/config.yaml", "w") as file:
        file.write(CONFIG.format(http=port, module=module, endless=f"{folder}/endless.wasm"))
    with open(f"{folder}/conf/apisix.yaml", "w") as file:
        file.write(json.dumps({"routes": routes}) + "\n#END\n")
    log = open(f"{folder}/gateway.log", "w")
    return subprocess.Popen([BINARY, "run", "--prefix", folder, "-c", f"{folder}/conf/config.yaml"], stdout=log, stderr=log)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--loops", type=int, default=20)
    parser.add_argument("--module", default=f"{ROOT}/docs/guide/wasm/greet.wasm")
    parser.add_argument("--conf", default="hello")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        port, upstream = free_port(), free_port()
        echo = subprocess.Popen([BINARY, "echo", "-p", str(upstream), "--size", "5"], stdout=subprocess.DEVNULL)
        gateway = serve(folder, port, upstream, os.path.abspath(asked.module), asked.conf)
        try:
            wait_for(upstream)
            wait_for(port)
            added = []
            for number in range(asked.rounds + 1):
                plain, wasm = (measure(folder, gateway.pid, f"http://127.0.0.1:{port}/{path}", asked.seconds if number else 1)
                               for path in ("plain", "wasm"))
                if number:
                    added.append(wasm - plain)
                    print(f"CPU {plain:.2f} and {wasm:.2f} us", flush=True)
            ends = loop(port, asked.loops)
        finally:
            gateway.send_signal(signal.SIGTERM)
            gateway.wait(20)
            echo.kill()
            echo.wait()
    cpu = statistics.median(added)
    print(f"the plugin takes {cpu:.2f} us of the gateway's process (at most {MOST_CPU_US}), {min(added):.2f} to {max(added):.2f}")
    return 0 if cpu <= MOST_CPU_US and ends else 1


if __name__ == "__main__":
    raise SystemExit(main())
