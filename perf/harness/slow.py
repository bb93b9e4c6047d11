"""Slow clients by slowhttptest (header, body and read modes) while wrk is served."""

import subprocess
import time

from . import figures, load, processes

CONNECTIONS = 2000
MODES = {
    "header": ["-H", "-i", "2", "-x", "16"],
    "body": ["-B", "-i", "2", "-s", "65536", "-x", "16", "-t", "POST"],
    "read": ["-X", "-n", "1", "-w", "16", "-y", "64", "-z", "16", "-k", "8"],
}
# p99 of good clients, over what it is when nobody is slow.
MOST = 2.0


def run(servers, upstream_port, script, seconds, say):
    """For each mode: p99 quiet, then with 2,000 slow connections open; of nginx too.

    slowhttptest keeps its core busy, which is wrk's as well. So there is a control: the gateway's p99 while the slow
    connections are those of the upstream alone. What is above that is the gateway's.
    """
    results = {}
    for mode in MODES:
        nginx, gateway = servers["nginx"][1], servers["gateway"][1]
        quiet = load.wrk(gateway, "/", script, seconds)
        peer_quiet = load.wrk(nginx, "/", script, seconds)
        control, _ = with_slow(mode, upstream_port, gateway, script, seconds)
        peer, _ = with_slow(mode, nginx, nginx, script, seconds)
        busy, clients = with_slow(mode, gateway, gateway, script, seconds)
        results[mode] = {"quiet_p99_us": quiet["p99_us"], "slow_p99_us": busy["p99_us"],
                         "control_p99_us": control["p99_us"], "nginx_quiet_p99_us": peer_quiet["p99_us"],
                         "nginx_slow_p99_us": peer["p99_us"], **clients,
                         "quiet_rps": quiet["requests"] / (quiet["duration_us"] / 1e6),
                         "slow_rps": busy["requests"] / (busy["duration_us"] / 1e6)}
        say(f"slow {mode}: p99 {quiet['p99_us']} us quiet, {busy['p99_us']} us with {clients['connections']} slow "
            f"connections, {control['p99_us']} us when they are another server's; nginx {peer_quiet['p99_us']} us "
            f"quiet, {peer['p99_us']} us")
    return results


def with_slow(mode, slow_port, port, script, seconds):
    """wrk on one port while slow connections are open on one; its figures, and what became of the slow ones."""
    slow = subprocess.Popen(
        ["taskset", "-c", str(processes.load_core()), "slowhttptest", "-c", str(CONNECTIONS), "-r", "1000",
         "-l", str(seconds + 60), "-p", "5", "-v", "1", "-u", f"http://127.0.0.1:{slow_port}/upload", *MODES[mode]],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )
    try:
        held = wait_for_connections(slow_port, CONNECTIONS * 9 // 10)
        figures_of_wrk = load.wrk(port, "/", script, seconds)
        held = min(held, established(slow_port))
    finally:
        slow.terminate()
        output, _ = slow.communicate(timeout=30)
    wait_for_end(slow_port)
    return figures_of_wrk, {"connections": held, "available": "service available:   NO" not in output}


def established(port):
    """Connections of clients to this port."""
    wanted = f":{port:04X}"
    with open("/proc/net/tcp") as table:
        rows = [line.split() for line in table][1:]
    return sum(row[1].endswith(wanted) and row[3] == "01" for row in rows)


def wait_for_connections(port, count, seconds=60):
    deadline = time.monotonic() + seconds
    while (open_now := established(port)) < count:
        if time.monotonic() > deadline:
            raise SystemExit(f"slowhttptest holds only {open_now} connections")
        time.sleep(0.05)
    return open_now


def wait_for_end(port, seconds=90):
    deadline = time.monotonic() + seconds
    while established(port) > 100 and time.monotonic() < deadline:
        time.sleep(0.1)


def rows(results):
    out = []
    for mode, one in results.items():
        ratio = one["slow_p99_us"] / one["quiet_p99_us"]
        met = "ok" if ratio <= MOST and one["available"] else "MISSED"
        out.append([f"slow {mode}", f"p99_us, {one['connections']} slow", figures.shown(one["quiet_p99_us"]),
                    figures.shown(one["slow_p99_us"]), f"{ratio:.2f}", "", f"<={MOST:.2f}", met])
        for name, before, after in (("of another server", "quiet_p99_us", "control_p99_us"),
                                    ("of nginx, p99 of nginx", "nginx_quiet_p99_us", "nginx_slow_p99_us")):
            out.append(["", name, figures.shown(one[before]), figures.shown(one[after]),
                        f"{one[after] / one[before]:.2f}", "", "", ""])
    return out
