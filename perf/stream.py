#!/usr/bin/env python3
"""Measures TCP and UDP beside nginx's stream module (Debian: libnginx-mod-stream): CPU time per unit of work, and idle memory.

    python3 perf/stream.py [--rounds 5] [--only bytes] [--quick]

One worker each on core 0, in turn; this process and a node on core 1. CPU is user and system time of the process: it survives a
busy machine, and says nothing of how long anything takes. Ratio: gateway to nginx; UDP: datagrams of one CPU second, so more is better.
"""

import argparse
import os
import statistics
import sys
import tempfile

from harness import figures, nginx, processes, stream_load, tidegate

MODULE = "/usr/lib/nginx/modules/ngx_stream_module.so"

# What it is called, its unit, what one round does, and the target of the ratio. `None`: the gateway's own figure counts.
SCENARIOS = {
    "bytes": ("TCP, pieces of 1 MB", "CPU s/GB", stream_load.move_bytes, "<= 0.9"),
    "connections": ("TCP, connect, 1 byte each way, close", "CPU us/connection", stream_load.connections, "<= 0.9"),
    "datagrams": ("UDP echo, 64 bytes", "datagrams/CPU s", stream_load.datagrams, ">= 1.2"),
    "idle": ("TCP, idle connections", "KiB/connection", stream_load.idle, "<= 1.5 KiB"),
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="default 5")
    parser.add_argument("--only", action="append", choices=list(SCENARIOS))
    parser.add_argument("--quick", action="store_true", help="an eighth of the work")
    return parser.parse_args()


def start_nginx(folder, tcp, udp, node):
    if not os.path.exists(MODULE):
        raise SystemExit(f"{MODULE} is missing; apt install libnginx-mod-stream")
    path = os.path.join(folder, "nginx.conf")
    with open(path, "w") as file:
        file.write(f"""load_module {MODULE};
daemon off; worker_processes 1; worker_rlimit_nofile 65536; pid {folder}/nginx.pid; error_log stderr error;
events {{ worker_connections 30000; }}
stream {{ proxy_timeout 600s;
server {{ listen 127.0.0.1:{tcp} backlog=4096; proxy_pass 127.0.0.1:{node}; }}
server {{ listen 127.0.0.1:{udp} udp; proxy_pass 127.0.0.1:{node}; }} }}
""")
    return processes.Server("nginx", ["nginx", "-c", path, "-p", folder, "-e", "stderr"], processes.GATEWAY_CORE, folder)


def start_gateway(folder, binary, tcp, udp, node):
    ports = {name: processes.free_port() for name in ("http", "control", "metrics")}
    upstream = tidegate.node(node)
    routes = [{"id": "tcp", "server_port": tcp, "upstream": upstream},
              {"id": "udp", "server_port": udp, "upstream": {**upstream, "scheme": "udp"}}]
    command = tidegate.command(binary, folder, ports, {"stream_routes": routes})
    path = os.path.join(folder, "conf", "config.yaml")
    with open(path) as file:
        text = file.read()
    stream = f"  proxy_mode: http&stream\n  stream_proxy: {{tcp: ['127.0.0.1:{tcp}'], udp: ['127.0.0.1:{udp}']}}\n"
    limits = "  client_limits: {udp_sessions_per_address: 10000}\n"
    with open(path, "w") as file:
        file.write(text.replace("apisix:\n", "apisix:\n" + stream + limits, 1))
    return processes.Server("gateway", command, processes.GATEWAY_CORE, folder)


def main():
    options = arguments()
    os.environ["PATH"] += ":/usr/sbin"
    processes.raise_limits()
    os.sched_setaffinity(0, {processes.load_core()})
    binary = tidegate.find_binary(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    share = 8 if options.quick else 1
    with tempfile.TemporaryDirectory(prefix="tidegate-stream-") as folder:
        os.chmod(folder, 0o755)
        node, rows = stream_load.Node(), []
        try:
            for name in options.only or SCENARIOS:
                rows.append(measure(name, options.rounds, share, folder, binary, node))
        finally:
            node.stop()
    print(figures.table(["what", "unit", "nginx", "gateway", "ratio (rounds)", "target"], rows))


def measure(name, rounds, share, folder, binary, node):
    what, unit, run, target = SCENARIOS[name]
    found = {"nginx": [], "gateway": []}
    for turn in range(1 if name == "idle" else rounds):
        for who, values in found.items():
            tcp, udp = processes.free_port(), processes.free_port()
            place = os.path.join(folder, f"{name}-{turn}-{who}")
            os.makedirs(place)
            server = (start_nginx(place, tcp, udp, node.port) if who == "nginx"
                      else start_gateway(place, binary, tcp, udp, node.port))
            try:
                server.wait_for_port(tcp)
                values.append(run(server, tcp, udp, node, share))
            finally:
                server.stop()
            print(f"{name} {turn} {who}: {values[-1]:.4g} {unit}", file=sys.stderr)
    ratios = sorted(own / other for own, other in zip(found["gateway"], found["nginx"]))
    middle = {who: statistics.median(values) for who, values in found.items()}
    ratio = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
    return [what, unit, f"{middle['nginx']:.4g}", f"{middle['gateway']:.4g}", ratio, target]


if __name__ == "__main__":
    main()
