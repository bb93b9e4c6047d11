"""TLS: the certificate of all scenarios, and full handshakes by `openssl s_time`."""

import os
import re
import subprocess

from . import figures, processes

NAME = "localhost"
TARGETS = {"cpu_us": 1.0}


def certificate(folder):
    """An ECDSA P-256 pair as most sites have one; returns the paths of certificate and key."""
    cert, key = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
         "-keyout", key, "-out", cert, "-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}"],
        check=True, capture_output=True,
    )
    os.chmod(key, 0o644)
    return cert, key


def read(path):
    with open(path) as file:
        return file.read()


def shake(server, port, seconds):
    """Full TLS 1.3 handshakes one after the other; the server's CPU for each, connection and close included."""
    before = server.cpu_seconds()
    output = subprocess.run(
        ["taskset", "-c", str(processes.load_core()), "openssl", "s_time", "-connect", f"127.0.0.1:{port}", "-new",
         "-tls1_3", "-time", str(seconds)],
        capture_output=True, text=True, check=False,
    )
    used = server.cpu_seconds() - before
    found = re.search(r"(\d+) connections in [\d.]+ real seconds", output.stdout)
    if not found or not int(found.group(1)):
        raise SystemExit(f"openssl s_time failed:\n{output.stdout}{output.stderr}")
    count = int(found.group(1))
    return {"cpu_us": used * 1e6 / count, "per_second": count / seconds}


def run_handshakes(servers, rounds, seconds, say):
    """As throughput.run, for handshakes."""
    measured = {who: [] for who in servers}
    for server, _ in servers.values():
        shake(server, server.tls_port, 1)
    for number in range(rounds):
        order = list(servers) if number % 2 == 0 else list(reversed(servers))
        for who in order:
            server, _ = servers[who]
            measured[who].append(shake(server, server.tls_port, seconds))
        say(f"handshake: round {number + 1}/{rounds}: " + ", ".join(
            f"{who} {measured[who][-1]['cpu_us']:.0f} us" for who in servers))
    medians = {who: figures.median_of(all_rounds) for who, all_rounds in measured.items()}
    spread = {who: {"cpu_us": round(figures.spread_percent(all_rounds, "cpu_us"), 1)}
              for who, all_rounds in measured.items()}
    return {"nginx_does": "the same", "targets": TARGETS, "median": medians, "spread_percent": spread,
            "rounds": measured}


def rows(result):
    return [figures.compared("handshake", "cpu_us", {who: [one["cpu_us"] for one in rounds] for who, rounds in result["rounds"].items()},
                             TARGETS["cpu_us"])]
