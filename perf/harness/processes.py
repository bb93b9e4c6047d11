"""Pinned child processes, and what the kernel knows about them."""

import glob
import os
import resource
import signal
import socket
import subprocess
import time

TICKS = os.sysconf("SC_CLK_TCK")
GATEWAY_CORE = 0
LOAD_CORE = 1


def raise_limits():
    """Opens the file limit as far as this user may; 10,000 idle connections need two descriptors each side."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in (100_000, hard):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, max(hard, wanted)))
            return wanted
        except (ValueError, OSError):
            continue
    return soft


def load_core():
    """The core for load and upstream: another than the gateway's, where there is one."""
    return LOAD_CORE if (os.cpu_count() or 1) > 1 else GATEWAY_CORE


def free_port():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


def steal_ticks():
    """(ticks that the hypervisor took from this machine, all ticks), since it started."""
    with open("/proc/stat") as stat:
        fields = [int(field) for field in stat.readline().split()[1:9]]
    return fields[7], sum(fields)


def steal_percent(since):
    """Of the time since an earlier `steal_ticks`."""
    stolen, total = steal_ticks()
    return 100 * (stolen - since[0]) / max(1, total - since[1])


class Server:
    """A server process tree on one core. Its output goes to a file, shown when it fails."""

    def __init__(self, name, command, core, folder, env=None, session=False):
        self.name = name
        self.log = os.path.join(folder, name + ".out")
        self.tls_port = None
        self.spawned = time.perf_counter()
        with open(self.log, "wb") as log:
            self.child = subprocess.Popen(
                ["taskset", "-c", str(core), *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **(env or {})},
                start_new_session=session,
            )

    def wait_for_port(self, port, seconds=60):
        deadline = time.monotonic() + seconds
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                if self.child.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"{self.name} does not listen on {port}:\n{self.output()}") from None
                time.sleep(0.001)

    def output(self):
        with open(self.log, errors="replace") as log:
            return log.read()[-4000:]

    def pids(self):
        """The process and all its descendants."""
        found, queue = [], [self.child.pid]
        while queue:
            pid = queue.pop()
            found.append(pid)
            try:
                for task in os.listdir(f"/proc/{pid}/task"):
                    with open(f"/proc/{pid}/task/{task}/children") as children:
                        queue.extend(int(child) for child in children.read().split())
            except OSError:
                continue
        return found

    def cpu_seconds(self):
        """User and system time of all threads since start."""
        total = 0
        for pid in self.pids():
            try:
                with open(f"/proc/{pid}/stat") as stat:
                    # The name, in brackets, may hold spaces.
                    fields = stat.read().rpartition(")")[2].split()
            except OSError:
                continue
            total += int(fields[11]) + int(fields[12])
        return total / TICKS

    def thread_ticks(self, name):
        """User and system time of the threads of that name, in the kernel's ticks."""
        total = 0
        for stat in (path for pid in self.pids() for path in glob.glob(f"/proc/{pid}/task/*/stat")):
            with open(stat) as file:
                text = file.read()
            if f"({name})" in text:
                fields = text.rpartition(")")[2].split()
                total += int(fields[11]) + int(fields[12])
        return total

    def memory_bytes(self):
        """(resident, proportional) set size."""
        rss = pss = 0
        for pid in self.pids():
            try:
                with open(f"/proc/{pid}/smaps_rollup") as rollup:
                    for line in rollup:
                        if line.startswith("Rss:"):
                            rss += int(line.split()[1]) * 1024
                        elif line.startswith("Pss:"):
                            pss += int(line.split()[1]) * 1024
            except OSError:
                continue
        return rss, pss

    def stop(self):
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
            try:
                self.child.wait(10)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()
