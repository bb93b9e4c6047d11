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


def run(server, port, script, seconds, say):
    """For each mode: p99 quiet, then with 2,000 slow connections open."""
    results = {}
    for mode, arguments in MODES.items():
        quiet = load.wrk(port, "/", script, seconds)
        slow = subprocess.Popen(
            ["taskset", "-c", str(processes.load_core()), "slowhttptest", "-c", str(CONNECTIONS), "-r", "1000",
             "-l", str(seconds + 15), "-p", "5", "-v", "1", "-u", f"http://127.0.0.1:{port}/upload", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        try:
            held = wait_for_connections(port, CONNECTIONS * 9 // 10)
            busy = load.wrk(port, "/", script, seconds)
            held = min(held, established(port))
        finally:
            slow.terminate()
            output, _ = slow.communicate(timeout=30)
        results[mode] = {"quiet_p99_us": quiet["p99_us"], "slow_p99_us": busy["p99_us"], "connections": held,
                         "quiet_rps": quiet["requests"] / (quiet["duration_us"] / 1e6),
                         "slow_rps": busy["requests"] / (busy["duration_us"] / 1e6),
                         "available": "service available:   NO" not in output}
        say(f"slow {mode}: p99 {quiet['p99_us']} us quiet, {busy['p99_us']} us with {held} slow connections")
        wait_for_end(port)
    return results


def established(port):
    """Connections of clients to this port."""
    wanted = f":{port:04X}"
    with open("/proc/net/tcp") as table:
        rows = [line.split() for line in table][1:]
    return sum(row[1].endswith(wanted) and row[3] == "01" for row in rows)


def wait_for_connections(port, count, seconds=20):
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
    return out
