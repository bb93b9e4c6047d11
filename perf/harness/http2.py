"""HTTP/2 over TLS by h2load: 8 connections with 100 streams each, 1 KB answers."""

import re
import subprocess

from . import figures, processes, tls

CONNECTIONS, STREAMS = 8, 100
TARGETS = {"cpu_us": 1.0}


def load(server, port, requests, path="/", connections=CONNECTIONS):
    """The server's CPU for each request. Any failed request is an error: it was not measured."""
    before = server.cpu_seconds()
    output = subprocess.run(
        ["taskset", "-c", str(processes.load_core()), "h2load", "-t1", f"-c{connections}", f"-m{STREAMS}",
         f"-n{requests}", f"https://{tls.NAME}:{port}{path}"],
        capture_output=True, text=True, check=False,
    )
    used = server.cpu_seconds() - before
    done = re.search(r"finished in [^,]+, ([0-9.]+) req/s", output.stdout)
    if not done or f" {requests} succeeded, 0 failed" not in output.stdout or " h2" not in output.stdout:
        raise SystemExit(f"h2load failed:\n{output.stdout}{output.stderr}")
    return {"cpu_us": used * 1e6 / requests, "per_second": float(done.group(1))}


def run(servers, rounds, seconds, say, path="/"):
    """As throughput.run; some 20,000 requests for each second asked for."""
    requests = 20_000 * seconds
    measured = {who: [] for who in servers}
    for server, _ in servers.values():
        load(server, server.tls_port, 5_000, path)
    for number in range(rounds):
        order = list(servers) if number % 2 == 0 else list(reversed(servers))
        for who in order:
            server, _ = servers[who]
            measured[who].append(load(server, server.tls_port, requests, path))
        say(f"http2: round {number + 1}/{rounds}: " + ", ".join(
            f"{who} {measured[who][-1]['cpu_us']:.1f} us" for who in servers))
    medians = {who: figures.median_of(all_rounds) for who, all_rounds in measured.items()}
    spread = {who: {"cpu_us": round(figures.spread_percent(all_rounds, "cpu_us"), 1)}
              for who, all_rounds in measured.items()}
    return {"nginx_does": "the same", "targets": TARGETS, "median": medians, "spread_percent": spread,
            "rounds": measured}


def rows(result):
    return [figures.compared("http2", "cpu_us", {who: [one["cpu_us"] for one in rounds] for who, rounds in result["rounds"].items()},
                             TARGETS["cpu_us"])]
