"""Slow clients by slowhttptest (header, body and read modes) while wrk is served."""

import http.client
import re
import subprocess
import threading
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
# For the slow connections to stand, and for them to end. Nothing else here takes longer than it is told to.
PATIENCE_SECONDS = 20
# What the slow connections cost is measured for so long before wrk starts.
ALONE_SECONDS = 3


def run(servers, upstream_port, script, seconds, say):
    """For each mode: p99 quiet, then with 2,000 slow connections open; of nginx too.

    slowhttptest keeps its core busy, which is wrk's as well: it runs when wrk leaves time, as if it were on another machine;
    how much it sends then is told. What is left of its part shows in a control: the gateway's p99 while the slow
    connections are those of the upstream alone. What is above that is the gateway's. A mode that fails says why, and the
    next one has its turn.
    """
    results = {}
    for mode in MODES:
        started = time.monotonic()
        try:
            results[mode] = run_mode(mode, servers, upstream_port, script, seconds)
        except SystemExit as problem:
            results[mode] = {"failed": str(problem)}
        results[mode]["took_s"] = round(time.monotonic() - started, 1)
        say(f"slow {mode}: {told(results[mode])}; {results[mode]['took_s']} s")
    return results


def run_mode(mode, servers, upstream_port, script, seconds):
    (nginx, nginx_port), (gateway, port) = servers["nginx"], servers["gateway"]
    quiet = middle(port, script, seconds)
    peer_quiet = middle(nginx_port, script, seconds)
    control, _ = with_slow(mode, upstream_port, None, port, script, seconds)
    peer, peer_clients = with_slow(mode, nginx_port, nginx, nginx_port, script, seconds)
    busy, clients = with_slow(mode, port, gateway, port, script, seconds)
    return {"quiet_p99_us": quiet["p99_us"], "slow_p99_us": busy["p99_us"], "control_p99_us": control["p99_us"],
            "nginx_quiet_p99_us": peer_quiet["p99_us"], "nginx_slow_p99_us": peer["p99_us"],
            "nginx_alone_cpu": peer_clients["alone_cpu"], **clients, "quiet_rps": rate(quiet), "slow_rps": rate(busy)}


def middle(port, script, seconds):
    """Of three runs of wrk the one with the middle p99: a single one varies by more than slow clients change it."""
    runs = [load.wrk(port, "/", script, seconds) for _ in range(3)]
    return sorted(runs, key=lambda run: run["p99_us"])[1]


def told(one):
    if "failed" in one:
        return "FAILED: " + one["failed"]
    return (f"p99 {one['quiet_p99_us']} us quiet, {one['slow_p99_us']} us with {one['connections']} slow connections "
            f"({one['slow_p99_us'] / one['quiet_p99_us']:.2f}), {one['control_p99_us']} us when they are another "
            f"server's; nginx {one['nginx_quiet_p99_us']} us quiet, {one['nginx_slow_p99_us']} us "
            f"({one['nginx_slow_p99_us'] / one['nginx_quiet_p99_us']:.2f}); CPU for the slow ones alone "
            f"{one['alone_cpu']:.1%}, nginx {one['nginx_alone_cpu']:.1%}; they send {one['alone_bytes']:.0f} bytes/s alone, "
            f"{one['bytes']:.0f} beside wrk; {one['probes']} probes, {one['unanswered']} "
            "unanswered")


def rate(figures_of_wrk):
    return figures_of_wrk["requests"] / (figures_of_wrk["duration_us"] / 1e6)


def with_slow(mode, slow_port, server, port, script, seconds):
    """wrk on one port while slow connections are open on one; its figures, and what became of the slow ones."""
    # The gateways' idle connections to the upstream are none of the slow ones.
    others = established(slow_port)
    length = str(3 * int(seconds) + ALONE_SECONDS + 3 * PATIENCE_SECONDS)
    slow = subprocess.Popen(
        ["chrt", "--idle", "0", "taskset", "-c", str(processes.load_core()), "slowhttptest", "-c", str(CONNECTIONS),
         "-r", "1000", "-l", length, "-p", "5", "-v", "1", "-u", f"http://127.0.0.1:{slow_port}/upload", *MODES[mode]],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    clients = {}
    try:
        held = wait_for_connections(slow_port, others + CONNECTIONS * 99 // 100) - others
        with Probe(slow_port) as probe:
            if server:
                before = time.monotonic(), received(slow_port)
                clients["alone_cpu"] = cpu_share(server)
                clients["alone_bytes"] = dripped(slow_port, before)
            before = time.monotonic(), received(slow_port)
            figures_of_wrk = middle(port, script, seconds)
            clients["bytes"] = dripped(slow_port, before)
        clients |= {"connections": min(held, established(slow_port) - others), "probes": probe.asked,
                    "unanswered": probe.unanswered}
    finally:
        slow.kill()
        slow.wait()
    wait_for_end(slow_port, others + 100)
    return figures_of_wrk, clients


def cpu_share(server):
    """Of one core, while nobody but the slow clients wants anything."""
    before, started = server.cpu_seconds(), time.monotonic()
    time.sleep(ALONE_SECONDS)
    return (server.cpu_seconds() - before) / (time.monotonic() - started)


def dripped(port, before):
    """Bytes a second that the slow clients sent since then; those of wrk are closed by now."""
    started, bytes_then = before
    return (received(port) - bytes_then) / (time.monotonic() - started)


def received(port):
    """Bytes that the connections of this port have received."""
    command = ["ss", "-tinH", "state", "established", f"sport = :{port}"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return sum(int(found) for found in re.findall(r"bytes_received:(\d+)", told))


class Probe:
    """A request on a connection of its own several times a second: whether the server takes in new clients."""

    def __init__(self, port):
        self.port, self.asked, self.unanswered = port, 0, 0
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.ask, daemon=True)

    def ask(self):
        while not self.stop.wait(0.25):
            self.asked += 1
            client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            try:
                client.request("GET", "/")
                if client.getresponse().status != 200:
                    self.unanswered += 1
            except (OSError, http.client.HTTPException):
                self.unanswered += 1
            finally:
                client.close()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()


def established(port):
    """Connections of clients to this port."""
    wanted = f":{port:04X}"
    with open("/proc/net/tcp") as table:
        rows = [line.split() for line in table][1:]
    return sum(row[1].endswith(wanted) and row[3] == "01" for row in rows)


def wait_for_connections(port, count):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (open_now := established(port)) < count:
        if time.monotonic() > deadline:
            raise SystemExit(f"slowhttptest holds only {open_now} connections after {PATIENCE_SECONDS} s")
        time.sleep(0.05)
    return open_now


def wait_for_end(port, most):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (left := established(port)) > most:
        if time.monotonic() > deadline:
            raise SystemExit(f"{left} connections stand {PATIENCE_SECONDS} s after their clients ended")
        time.sleep(0.1)


def rows(results):
    out = []
    for mode, one in results.items():
        if "failed" in one:
            out.append([f"slow {mode}", one["failed"], *[""] * 7, f"<={MOST:.2f}", "FAILED"])
            continue
        ratio = one["slow_p99_us"] / one["quiet_p99_us"]
        met = ratio <= MOST and not one["unanswered"]
        out.append(figures.single(f"slow {mode}", f"p99_us, quiet and {one['connections']} slow", one["quiet_p99_us"],
                                  one["slow_p99_us"], MOST, met))
        for name, before, after in (("of another server", "quiet_p99_us", "control_p99_us"),
                                    ("of nginx, p99 of nginx", "nginx_quiet_p99_us", "nginx_slow_p99_us")):
            out.append(figures.single("", name, one[before], one[after]))
        out.append(figures.single("", "CPU for them alone, %", 100 * one["nginx_alone_cpu"], 100 * one["alone_cpu"]))
    return out
