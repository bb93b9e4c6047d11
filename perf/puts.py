#!/usr/bin/env python3
"""How long writes of the Admin API take, and what the slowest of them waited for.

    python3 perf/puts.py [--runs 5] [--folder /var/tmp]

Two scenarios with the embedded store, each write durable when it is answered: 3,000 PUTs one after the other, and 20 PUTs a second beside 5,000 routes. For each PUT:
the time that the store's writer spent in fsync and fdatasync (the kernel's tracer; root), that in which the copy of the last good configuration
did so meanwhile, and the time for which its writer,
its compiler and its control threads were ready and had no core (schedstat). The disk's own figure is shown beside: an append of 4 KB with
fdatasync, in the same folder, with nothing else running there.
"""

import argparse
import os
import re
import tempfile
import time

from harness import figures, processes, tidegate, waits

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
IN_A_ROW, ROUTES, PER_SECOND, SECONDS = 3000, 5000, 20, 30
TARGET_MS = 50
CALL = re.compile(r"-(\d+)\s+\[\d+\]\s+\S+\s+([\d.]+): sys_(fsync|fdatasync)(\(| -> )")
THREADS = ("store-writer", "compiler", "control", "last-good")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="of each scenario (default 5)")
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="where the store is: on the disk in question")
    options = parser.parse_args()
    processes.raise_limits()
    os.sched_setaffinity(0, {processes.load_core()})
    binary, rows = tidegate.find_binary(ROOT), []
    for number in range(options.runs):
        for name, scenario in (("3,000 in a row", in_a_row), ("20/s, 5,000 routes", beside_routes)):
            with tempfile.TemporaryDirectory(prefix="tidegate-puts-", dir=options.folder) as folder:
                disk = own_syncs(folder)
                rows.append([f"{name}, run {number + 1}", *measure(binary, folder, scenario), f"{max(disk):.1f}"])
            print(" ".join(map(str, rows[-1])), flush=True)
    headings = ["ms", "PUTs", "p50", "p99", "slowest", "of it in fsync", "beside the copy's", "without a core", "the rest", "over 50 without fsync",
                "disk: slowest fdatasync of 1,000"]
    print("\n" + figures.table(headings, rows))


def own_syncs(folder):
    """Milliseconds of appends to a file of our own."""
    found = []
    with open(os.path.join(folder, "disk"), "wb", buffering=0) as file:
        for _ in range(1000):
            file.write(b"x" * 4096)
            begun = time.monotonic()
            os.fdatasync(file.fileno())
            found.append((time.monotonic() - begun) * 1e3)
    return found


def measure(binary, folder, scenario):
    ports = {name: processes.free_port() for name in ("http", "control", "metrics", "admin")}
    server = processes.Server("puts", tidegate.command(binary, folder, ports), processes.GATEWAY_CORE, folder)
    try:
        server.wait_for_port(ports["admin"])
        puts, syncs = scenario(server.child.pid, tidegate.Admin(ports["admin"]))
    finally:
        server.stop()
    for put in puts:
        put["fsync"], put["copy"] = (sum(max(0, min(end, put["end"]) - max(begin, put["begin"])) for begin, end, by in syncs
                                         if by.startswith("store-writer") == own) * 1e3 for own in (True, False))
    slowest = max(puts, key=lambda put: put["ms"])
    times = [put["ms"] for put in puts]
    fsync = min(slowest["fsync"], slowest["ms"])
    rest = slowest["ms"] - fsync - slowest["waited"]
    late = sum(put["ms"] - put["fsync"] > TARGET_MS for put in puts)
    shown = (figures.percentile(times, 0.5), figures.percentile(times, 0.99), slowest["ms"], fsync, slowest["copy"], slowest["waited"],
             max(0, rest))
    return [len(puts), *(f"{value:.1f}" for value in shown), late]


def in_a_row(pid, admin):
    with Syncs(pid) as syncs:
        puts = [put(pid, admin, number) for number in range(IN_A_ROW)]
    return puts, syncs.found


def beside_routes(pid, admin):
    for number in range(ROUTES):
        admin.put("routes", f"r{number}", tidegate.route(1, number))
    with Syncs(pid) as syncs:
        puts, begun = [], time.monotonic()
        for number in range(PER_SECOND * SECONDS):
            time.sleep(max(0, begun + number / PER_SECOND - time.monotonic()))
            puts.append(put(pid, admin, number * 7 % ROUTES))
    return puts, syncs.found


def put(pid, admin, number):
    before = without_core(pid)
    begin = time.monotonic()
    admin.put("routes", f"r{number}", tidegate.route(1, number, int(begin)))
    end = time.monotonic()
    after = without_core(pid)
    # One after the other: the longest of them is what a write can have waited for.
    waited = max((after[name] - before.get(name, 0) for name in after), default=0) / 1e6
    return {"begin": begin, "end": end, "ms": (end - begin) * 1e3, "waited": min(waited, (end - begin) * 1e3)}


def without_core(pid):
    """Nanoseconds for which threads were ready to run and did not."""
    found = {}
    for task, name in waits.threads(pid).items():
        if name.startswith(THREADS):
            try:
                with open(f"/proc/{pid}/task/{task}/schedstat") as file:
                    found[task] = int(file.read().split()[1])
            except OSError:
                pass
    return found


class Syncs:
    """When threads of a process were in fsync or fdatasync; nothing where that cannot be traced."""

    def __init__(self, pid):
        self.pid, self.found = pid, []
        self.folder = os.path.join(waits.TRACING, "instances", f"tidegate-puts-{os.getpid()}")

    def __enter__(self):
        try:
            os.mkdir(self.folder)
        except OSError:
            self.folder = None
            return self
        self.write("trace_clock", "mono")
        self.write("buffer_size_kb", 20_000)
        self.write("set_event_pid", " ".join(str(task) for task in waits.threads(self.pid)))
        self.write("options/event-fork", 1)
        for name in ("fsync", "fdatasync"):
            for side in ("enter", "exit"):
                self.write(f"events/syscalls/sys_{side}_{name}/enable", 1)
        return self

    def __exit__(self, *_):
        if not self.folder:
            return
        self.write("tracing_on", 0)
        begun, names = {}, {str(task): name for task, name in waits.threads(self.pid).items()}
        with open(os.path.join(self.folder, "trace"), errors="replace") as trace:
            for call in filter(None, map(CALL.search, trace)):
                task, at = call[1], float(call[2])
                if call[4] == "(":
                    begun[task] = at
                elif task in begun:
                    self.found.append((begun.pop(task), at, names.get(task, "")))
        self.write("events/enable", 0)
        os.rmdir(self.folder)

    def write(self, name, value):
        with open(os.path.join(self.folder, name), "w") as file:
            file.write(str(value))


if __name__ == "__main__":
    main()
