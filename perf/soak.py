#!/usr/bin/env python3
"""Runs the gateway for a long time under load and prints how fast memory and descriptors grow.

    python3 perf/soak.py [--time 2h] [--rate 2000] [--reloads 20] [--csv FILE]

Load: requests at a fixed rate over the routes of `PATHS` (plain, key-auth with limit-count, gzip, a cache, Lua), and one
in forty on a new connection. Meanwhile routes are put and deleted, metrics are scraped every second, and the
configuration is reloaded: every second reload starts a new process. All reloads fall into the first third, so that the
slope of the second half (the last hour of two) belongs to one process that has filled what it fills once. The slope is that
of a least-squares line.

Cores are watched meanwhile (harness/standstill.py). A request that fails while a core stands still for longer than half
of the load's time limit is counted apart, as is such a standstill: it is the machine's fault, and the report says so.

Ends with 1 if another request failed, a change was refused, memory grew by more than 1 MB an hour or descriptors grew at all;
the gateway's folder, with its error log and the outcome of the load, is kept then.
"""

import argparse
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

from harness import churn, figures, load, nginx, processes, standstill, tidegate

ROUTES = 1000
CHANGES_PER_SECOND = 5
SAMPLE_SECONDS = 5
# Growth of the second half that is still measuring noise: the allocator keeps pages, the sampler sees one socket more.
MAX_MB_PER_HOUR, MAX_DESCRIPTORS_PER_HOUR = 1.0, 0.5
# The load's time limit for an answer, and from when on a standstill of a core may make one late.
LOAD_TIMEOUT = 10
LONG_STANDSTILL = LOAD_TIMEOUT / 2
KEY = "soak-key-0123456789"
LUA = "return function(conf, ctx) ngx.req.set_header('X-From-Lua', ngx.var.remote_addr) end"
LIMIT = {**tidegate.LIMIT, "key_type": "var"}
PATHS = {
    "/plain": {},
    "/guarded": {"key-auth": {}, "limit-count": LIMIT, "prometheus": {}},
    "/compressed": {"gzip": {"min_length": 20, "types": "*"}, "prometheus": {}},
    "/cached": {"proxy-cache": {"cache_strategy": "memory", "cache_zone": "memory_cache", "cache_ttl": 5}},
    "/lua": {"serverless-pre-function": {"phase": "rewrite", "functions": [LUA]}},
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time", default="10m", help="such as 90s, 10m or 2h (default 10m)")
    parser.add_argument("--rate", type=int, default=2000, help="requests per second (default 2000)")
    parser.add_argument("--reloads", type=int, default=20, help="default 20")
    parser.add_argument("--csv", help="where the samples go")
    return parser.parse_args()


def seconds(text):
    match = re.fullmatch(r"(\d+)([smh])", text)
    if not match:
        raise SystemExit(f"invalid time {text!r}: use 90s, 10m or 2h")
    return int(match.group(1)) * {"s": 1, "m": 60, "h": 3600}[match.group(2)]


class Soak:
    """One gateway with what disturbs it, and the samples taken of it."""

    def __init__(self, folder, binary, upstream_port, options):
        self.folder, self.binary, self.upstream_port, self.options = folder, binary, upstream_port, options
        self.prefix = os.path.join(folder, "gateway")
        self.ports = {name: processes.free_port() for name in ("http", "control", "metrics", "admin")}
        self.length = seconds(options.time)
        self.samples, self.faults, self.counts = [], [], {"changes": 0, "scrapes": 0, "reloads": 0}
        self.end = threading.Event()
        self.watch, self.standstills = standstill.Watch(folder), []

    def run(self):
        os.makedirs(self.prefix)
        command = tidegate.command(self.binary, self.prefix, self.ports)
        server = processes.Server("gateway", command, processes.GATEWAY_CORE, self.folder)
        try:
            for port in self.ports.values():
                server.wait_for_port(port)
            self.put_routes()
            return self.disturbed()
        finally:
            self.end.set()
            self.watch.stop()
            pid = self.pid()
            server.stop()
            if pid and pid != server.child.pid:
                os.kill(pid, 15)

    def put_routes(self):
        admin = tidegate.Admin(self.ports["admin"])
        admin.put("consumers", "soak", {"username": "soak", "plugins": {"key-auth": {"key": KEY}}})
        node = tidegate.node(self.upstream_port)
        for number, (path, plugins) in enumerate(PATHS.items()):
            admin.put("routes", f"soak{number}", {"uri": path, "plugins": plugins, "upstream": node})
        for number in range(ROUTES):
            admin.put("routes", f"r{number}", tidegate.route(self.upstream_port, number))
        churn.wait_until_live(self.ports["http"], f"/r{ROUTES - 1}")

    def disturbed(self):
        started = time.monotonic()
        steady = self.bench(self.options.rate - self.options.rate // 40, "steady", "-c", "40")
        fresh = self.bench(max(1, self.options.rate // 40), "fresh", "-c", "4", "--no-keepalive")
        threads = [threading.Thread(target=self.guarded, args=(work, started), daemon=True)
                   for work in (self.change, self.scrape, self.reload, self.sample)]
        for thread in threads:
            thread.start()
        for child in (steady, fresh):
            child.wait()
        self.end.set()
        for thread in threads:
            thread.join(60)
        self.standstills = [(core, at - started, length) for core, at, length in self.watch.found()]
        return [self.outcome(name) for name in ("steady", "fresh")]

    def bench(self, rate, name, *flags):
        """Load at a fixed rate in a process of its own; its outcome goes to a file."""
        urls = [f"http://127.0.0.1:{self.ports['http']}{path}" for path in PATHS]
        command = [self.binary, "bench", "-q", "-R", str(rate), "-d", f"{self.length}s", "-t", "1", "--no-probe",
                   "-H", f"apikey: {KEY}", "-H", "Accept-Encoding: gzip",
                   "--json", os.path.join(self.folder, f"{name}.json"), *flags, *urls]
        with open(os.path.join(self.folder, f"{name}.out"), "wb") as out:
            return subprocess.Popen(["taskset", "-c", str(processes.load_core()), *command], stdout=out, stderr=out)

    def outcome(self, name):
        try:
            with open(os.path.join(self.folder, f"{name}.json")) as file:
                return json.load(file)
        except OSError:
            with open(os.path.join(self.folder, f"{name}.out"), errors="replace") as file:
                raise SystemExit(f"the load did not end well:\n{file.read()[-2000:]}") from None

    def guarded(self, work, started):
        try:
            work(started)
        except (Exception, SystemExit) as error:  # pylint: disable=broad-except
            self.faults.append(f"{work.__name__}: {error!r}")

    def change(self, started):
        """Puts routes and deletes every tenth before it comes again. While a new process takes over, connections close and
        writes are refused with 503: a client tries again."""
        admin, number = tidegate.Admin(self.ports["admin"]), 0
        while not self.end.wait(max(0, started + number / CHANGES_PER_SECOND - time.monotonic())):
            number += 1
            name = f"r{number % ROUTES}"
            for attempt in range(20):
                try:
                    if number % 10 == 0:
                        delete(admin, name)
                    admin.put("routes", name, tidegate.route(self.upstream_port, number % ROUTES, number))
                    break
                except (OSError, http.client.HTTPException, SystemExit) as error:
                    if attempt == 19 or isinstance(error, SystemExit) and ": 503 " not in str(error):
                        raise
                    self.end.wait(0.25)
                    admin = tidegate.Admin(self.ports["admin"])
            self.counts["changes"] += 1

    def scrape(self, started):
        while not self.end.wait(max(0, started + self.counts["scrapes"] - time.monotonic())):
            try:
                churn.page(self.ports["metrics"])
            except (OSError, http.client.HTTPException, SystemExit):
                # A process that has just taken over has no series yet.
                self.end.wait(2)
                churn.page(self.ports["metrics"])
            self.counts["scrapes"] += 1

    def reload(self, started):
        """By turns without a difference, which keeps the process, and with one, which replaces it."""
        path = os.path.join(self.prefix, "conf", "config.yaml")
        for number in range(self.options.reloads):
            due = started + (number + 1) * self.length / 3 / (self.options.reloads + 1)
            if self.end.wait(max(0, due - time.monotonic())):
                return
            if number % 2:
                with open(path) as file:
                    text = file.read()
                with open(path, "w") as file:
                    file.write(re.sub(r"keepalive_timeout: 6\d\ds\n", f"keepalive_timeout: {600 + number}s\n", text, count=1))
            done = subprocess.run([self.binary, "reload", "--prefix", self.prefix], capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(f"reload {number}: {done.stdout}{done.stderr}")
            self.counts["reloads"] += 1

    def sample(self, started):
        while not self.end.wait(SAMPLE_SECONDS):
            pid = self.pid()
            try:
                with open(f"/proc/{pid}/status") as status:
                    kilobytes = int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1))
                descriptors = len(os.listdir(f"/proc/{pid}/fd"))
            except (OSError, AttributeError):
                continue
            self.samples.append((time.monotonic() - started, pid, kilobytes / 1024, descriptors))

    def pid(self):
        try:
            with open(os.path.join(self.prefix, "logs", "tidegate.pid")) as file:
                return int(file.read())
        except (OSError, ValueError):
            return None


def delete(admin, name):
    admin.connection.request("DELETE", f"/apisix/admin/routes/{name}", headers={"X-API-KEY": tidegate.ADMIN_KEY})
    answer = admin.connection.getresponse()
    answer.read()
    if answer.status not in (200, 404):
        raise SystemExit(f"DELETE {name}: {answer.status} ")


def slope(points):
    """Growth per hour of (seconds, value)."""
    count = len(points)
    if count < 2:
        return float("nan")
    mean_x, mean_y = sum(x for x, _ in points) / count, sum(y for _, y in points) / count
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return 3600 * sum((x - mean_x) * (y - mean_y) for x, y in points) / spread


def report(soak, outcomes):
    half = [one for one in soak.samples if one[0] >= soak.length / 2]
    memory = slope([(at, megabytes) for at, _, megabytes, _ in half])
    descriptors = slope([(at, open_files) for at, _, _, open_files in half])
    sent = sum(one["requests"] for one in outcomes)
    failed = sum(failures(one) for one in outcomes)
    excused = sum(failures_beside(soak.standstills, one) for one in outcomes)
    print(figures.table(["soak", "measured", "target"], [
        ["length, s", str(soak.length), ""],
        ["requests", f"{sent:,}", f"{soak.options.rate * soak.length:,}"],
        ["failed", f"{failed} {[(one['failures'], one['statuses']) for one in outcomes] if failed else ''}".strip(), "0"],
        ["of these while a core stood still", str(excused), ""],
        ["standstills of a core: number, longest, s",
         f"{len(soak.standstills)}, {max((one[2] for one in soak.standstills), default=0):.1f}", ""],
        ["changes, scrapes, reloads", "{changes}, {scrapes}, {reloads}".format(**soak.counts), ""],
        ["processes in the second half", str(len({pid for _, pid, _, _ in half})), "1"],
        ["memory at half time and at the end, MB", f"{half[0][2]:.1f}, {half[-1][2]:.1f}", ""],
        ["memory, MB per hour of the second half", f"{memory:+.2f}", f"<= {MAX_MB_PER_HOUR}"],
        ["descriptors at half time and at the end", f"{half[0][3]}, {half[-1][3]}", ""],
        ["descriptors per hour of the second half", f"{descriptors:+.2f}", f"<= {MAX_DESCRIPTORS_PER_HOUR}"],
    ]))
    for fault in soak.faults:
        print(f"fault: {fault}")
    for core, at, length in soak.standstills:
        if length >= LONG_STANDSTILL:
            print(f"core {core} stood still for {length:.1f} s until {at:.1f} s")
    return not (soak.faults or failed > excused or memory > MAX_MB_PER_HOUR or descriptors > MAX_DESCRIPTORS_PER_HOUR)


def failures(outcome):
    return outcome["bad_statuses"] + sum(count for _, count in outcome["failures"])


def failures_beside(standstills, outcome):
    """Failures that the load's time series has in a slot that a long standstill touches, or that follows one: a request
    that it delayed fails up to a time limit later."""
    slot = outcome["series"]["slot_ms"] / 1000
    long = [(at - length, at + LOAD_TIMEOUT) for _, at, length in standstills if length >= LONG_STANDSTILL]
    return sum(one["errors"] for number, one in enumerate(outcome["series"]["slots"])
               if any(start < (number + 1) * slot and number * slot < end for start, end in long))


def main():
    options = arguments()
    os.environ["PATH"] += ":/usr/sbin"
    processes.raise_limits()
    os.sched_setaffinity(0, {processes.load_core()})
    binary = tidegate.find_binary(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    folder = tempfile.mkdtemp(prefix="tidegate-soak-")
    os.chmod(folder, 0o755)
    port = processes.free_port()
    upstream = processes.Server("upstream", nginx.upstream(folder, port), processes.load_core(), folder)
    soak = Soak(folder, binary, port, options)
    try:
        upstream.wait_for_port(port)
        outcomes = soak.run()
    finally:
        upstream.stop()
        if options.csv:
            with open(options.csv, "w") as file:
                file.write("seconds,pid,rss_mb,descriptors\n")
                file.writelines(f"{at:.0f},{pid},{megabytes:.1f},{count}\n" for at, pid, megabytes, count in soak.samples)
    if report(soak, outcomes):
        shutil.rmtree(folder)
    else:
        print(f"kept: {folder}")
        sys.exit(1)


if __name__ == "__main__":
    main()
