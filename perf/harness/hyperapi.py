"""hyperapi on the configuration of its own load test against the gateway with the same file (`run --from`).

A page of 27 bytes behind the service `/mws`, the key in the path, a limit that is never reached. wrk for CPU, `ab` with
200 connections as the published test: keep-alive against hyperapi, without it against nginx that only proxies.
"""

import os
import shutil
import subprocess

from . import figures, load, nginx, processes

PAGE = "x" * 27
PATH = "/mws/~aaaa-bbbb/test.html"
CONNECTIONS = 200

_CONFIG = """services:
- service_id: test/mws
  path: /mws
  protocol: http
  auth: {{type: AppKey}}
  timeout: 3
  load_balance: load
  upstreams:
  - {{id: "1", target: "http://127.0.0.1:{port}", timeout: 3, max_conn: 1000, weight: 100, version: "1",
      error_threshold: 1000, error_reset: 60, retry_delay: 10}}
  filters: []
  sla:
  - name: Default
    filters:
    - {{type: RateLimit, setting: {{interval: 1, limit: 100000000, burst: 100000000}}}}
clients:
- {{client_id: test/client, app_key: aaaa-bbbb, pub_key: "", ip_whitelist: [], services: {{test/mws: Default}}}}
"""

_OWN = """apisix: {{ssl: {{enable: false}}, node_listen: [{{ip: 127.0.0.1, port: {http}}}], control: {{ip: 127.0.0.1, port: {control}}}}}
nginx_config:
  worker_processes: 1
  worker_rlimit_nofile: 65536
  event: {{worker_connections: 30000}}
  http:
    enable_access_log: false
    upstream: {{keepalive: 1000, keepalive_requests: 1000000000, keepalive_timeout: 600s}}
plugin_attr: {{prometheus: {{export_addr: {{ip: 127.0.0.1, port: {metrics}}}}}}}
deployment: {{role: data_plane, role_data_plane: {{config_provider: yaml}}}}
"""

# case -> (peer, [(figure, gateway / peer, at most or at least)])
CASES = {
    "wrk": ("hyperapi", {"requests_per_cpu_second": 4.0}),
    "ab -k": ("hyperapi", {"rps": 3.0, "p99_ms": 0.5}),
    "ab": ("nginx", {"rps": 0.95}),
}


def find():
    """HYPERAPI_BIN, else what is in the PATH; None if there is none."""
    return os.environ.get("HYPERAPI_BIN") or shutil.which("hyperapi")


def run(binary, folder, script, rounds, seconds, say):
    program = find()
    if not (program and os.access(program, os.X_OK)):
        say("hyperapi: left out: it is not installed; cargo install hyperapi --version 0.2.2, or set HYPERAPI_BIN")
        return {"left_out": "hyperapi is not installed"}
    folder = os.path.join(folder, "hyperapi")
    os.makedirs(folder)
    servers = {}
    try:
        start(program, binary, folder, servers)
        return {name: measure(name, servers, script, rounds, seconds, say) for name in CASES}
    finally:
        for server, _, _ in servers.values():
            server.stop()


def start(program, binary, folder, servers):
    """Fills `servers`: name -> (server, port, path of the page). Each in a session of its own, as the kernel shares
    CPU by session here."""
    ports = {name: processes.free_port() for name in ("page", "hyperapi", "nginx", "http", "control", "metrics")}
    listen = "listen 127.0.0.1:{} reuseport backlog=4096; default_type text/html;"
    page = f"server {{ {listen.format(ports['page'])} location / {{ return 200 '{PAGE}'; }} }}"
    proxy = (f"upstream page {{ server 127.0.0.1:{ports['page']}; keepalive 1000; keepalive_requests 1000000000; }} "
             f"server {{ {listen.format(ports['nginx'])} location /mws/~aaaa-bbbb/ {{ proxy_pass http://page/; "
             'proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $http_host; } }')
    config = os.path.join(folder, "hyperapi.yaml")
    write(config, _CONFIG.format(port=ports["page"]))
    prefix = os.path.join(folder, "gateway")
    os.makedirs(os.path.join(prefix, "conf"))
    write(os.path.join(prefix, "conf", "config.yaml"), _OWN.format(**ports))
    commands = {
        "page": (nginx.command(folder, "page", page), "page", processes.load_core(), "/test.html"),
        "nginx": (nginx.command(folder, "proxy", proxy), "nginx", processes.GATEWAY_CORE, PATH),
        # Its runtime starts a thread for each processor it may run on: one, as it is pinned.
        "hyperapi": ([program, "-c", config, "-L", f"127.0.0.1:{ports['hyperapi']}"], "hyperapi",
                     processes.GATEWAY_CORE, PATH),
        "gateway": ([binary, "run", "--prefix", prefix, "--from", f"hyperapi:{config}"], "http",
                    processes.GATEWAY_CORE, PATH),
    }
    for name, (command, port, core, path) in commands.items():
        server = processes.Server(name, command, core, folder, session=True)
        servers[name] = (server, ports[port], path)
        server.wait_for_port(ports[port])
        if name == "hyperapi":
            # It listens before it has read its file, and answers 200 meanwhile.
            load.wait_for_body(ports[port], path, PAGE.encode())


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def measure(name, servers, script, rounds, seconds, say):
    peer = CASES[name][0]
    pair = {peer: servers[peer], "gateway": servers["gateway"]}
    measured = {who: [] for who in pair}
    for number in range(rounds + 1):
        for who in list(pair) if number % 2 == 0 else list(reversed(pair)):
            server, port, path = pair[who]
            figure = once(name, server, port, path, script, seconds if number else 1)
            # The first is for warming up.
            if number:
                measured[who].append(figure)
        if number:
            say(f"hyperapi {name}: round {number}/{rounds}: " + ", ".join(
                f"{who} {measured[who][-1]['rps']:,.0f}/s {measured[who][-1]['cpu_us']:.2f} us" for who in pair))
    return {
        "peer": peer,
        "median": {who: figures.median_of(all_rounds) for who, all_rounds in measured.items()},
        "spread_percent": {who: {figure: round(figures.spread_percent(all_rounds, figure), 1) for figure in all_rounds[0]}
                           for who, all_rounds in measured.items()},
        "rounds": measured,
    }


def once(name, server, port, path, script, seconds):
    before = server.cpu_seconds()
    if name == "wrk":
        result = load.wrk(port, path, script, seconds)
        requests, rps, p99 = result["requests"], result["requests"] / (result["duration_us"] / 1e6), result["p99_us"] / 1e3
    else:
        requests, rps, p99 = ab(port, path, seconds, name == "ab -k")
    used = max(server.cpu_seconds() - before, 1 / processes.TICKS)
    return {"rps": rps, "cpu_us": used * 1e6 / requests, "requests_per_cpu_second": requests / used, "p99_ms": p99}


def ab(port, path, seconds, keepalive):
    """(requests, requests per second, p99 in ms). ab counts in whole milliseconds."""
    command = ["taskset", "-c", str(processes.load_core()), "ab", "-q", "-c", str(CONNECTIONS), "-t", str(seconds),
               "-n", "100000000", *(["-k"] if keepalive else []), f"http://127.0.0.1:{port}{path}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds * 10 + 60)
    found = {}
    for line in done.stdout.splitlines():
        words = line.replace("%", " %").split()
        for start_of_line in ("Complete requests:", "Requests per second:", "Failed requests:", "Non-2xx responses:"):
            if line.startswith(start_of_line):
                found[start_of_line] = float(line[len(start_of_line):].split()[0])
        if words[:2] == ["99", "%"]:
            found["p99"] = float(words[2])
    bad = found.get("Failed requests:", 0) + found.get("Non-2xx responses:", 0)
    if done.returncode or bad or not found.get("Complete requests:"):
        raise SystemExit(f"ab on port {port} failed ({bad:.0f} failed requests):\n{done.stdout}{done.stderr}")
    return found["Complete requests:"], found["Requests per second:"], found["p99"]


def rows(results):
    if "left_out" in results:
        return []
    out = []
    for name, result in results.items():
        peer, targets = CASES[name]
        for figure in ("rps", "cpu_us", "requests_per_cpu_second", "p99_ms"):
            theirs, own = result["median"][peer][figure], result["median"]["gateway"][figure]
            ratio, target = own / theirs if theirs else 0, targets.get(figure)
            noise = max(spread[figure] for spread in result["spread_percent"].values())
            less = figure in ("cpu_us", "p99_ms")
            shown = f"{'<=' if less else '>='}{target:.2f}" if target else ""
            met = "" if target is None else "ok" if (ratio <= target if less else ratio >= target) else "MISSED"
            out.append([f"{name} ({peer})", figure, figures.shown(theirs), figures.shown(own), f"{ratio:.2f}",
                        f"{noise:.0f}%", shown, met])
    return out
