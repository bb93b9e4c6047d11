"""How long workers that could run waited behind other threads of their own process, by the scheduler's own trace (root, tracefs).

A worker is runnable from the moment it is woken, or loses its core, until it gets a core. While it waits, whatever other thread of
the gateway runs on its core holds it up. Time that foreign processes have on that core in between is not counted, and neither is time for which
the hypervisor had the core, where `perf` is installed: its timer (each 0.2 ms) then beats late.
"""

import collections
import os
import re
import signal
import subprocess
import tempfile

TRACING = "/sys/kernel/tracing"
BUFFER_KB = 150_000
EVENT = re.compile(r"\[(?P<cpu>\d+)\]\s+\S+\s+(?P<time>[\d.]+): (?P<name>sched_\w+): (?P<rest>.*)")
SWITCH = re.compile(r"prev_comm=.* prev_pid=(\d+) prev_prio=\d+ prev_state=(\S+) ==> next_comm=.* next_pid=(\d+)")
BEAT_US = 200
# The kernel keeps interrupts off for less than that.
LATE_US = 1000
BEAT = re.compile(r"\[(\d+)\]\s+([\d.]+):")
WOKEN = re.compile(r" pid=(\d+) .*target_cpu=(\d+)")


class Unavailable(Exception):
    """This machine or user cannot trace the scheduler; says why."""


class Trace:
    """A trace of what concerns a process's threads, from `with` to its end."""

    def __init__(self, pid):
        self.pid = pid
        self.folder = os.path.join(TRACING, "instances", f"tidegate-{os.getpid()}")

    def __enter__(self):
        if not os.path.exists(os.path.join(TRACING, "trace")):
            subprocess.run(["mount", "-t", "tracefs", "nodev", TRACING], capture_output=True, check=False)
        try:
            os.mkdir(self.folder)
        except OSError as error:
            raise Unavailable(f"no scheduler trace: {error}") from None
        self.names = threads(self.pid)
        comms = sorted({re.sub(r"\d+$", "*", name) for name in self.names.values()} | {"control"})
        either = " || ".join(f'{side}_comm ~ "{comm}"' for comm in comms for side in ("prev", "next"))
        woken = " || ".join(f'comm ~ "{comm}"' for comm in comms if comm.startswith("worker"))
        self.write("buffer_size_kb", BUFFER_KB)
        self.write("trace_clock", "mono")
        for event, wanted in (("sched_switch", either), ("sched_waking", woken)):
            self.write(f"events/sched/{event}/filter", wanted)
            self.write(f"events/sched/{event}/enable", 1)
        self.beats = Beats()
        self.write("tracing_on", 1)
        return self

    def __exit__(self, *_):
        self.write("tracing_on", 0)
        late = self.beats.late()
        # Threads that were made meanwhile; those that have ended since are missing.
        self.names |= threads(self.pid)
        with open(os.path.join(self.folder, "trace"), errors="replace") as trace:
            self.waits = list(waits(trace, self.names, late))
        lost = sum(int(line.split(":")[1]) for cpu in os.listdir(os.path.join(self.folder, "per_cpu"))
                   for line in open(os.path.join(self.folder, "per_cpu", cpu, "stats")) if line.startswith("overrun"))
        for event in ("sched_switch", "sched_waking"):
            self.write(f"events/sched/{event}/enable", 0)
        os.rmdir(self.folder)
        if lost:
            raise SystemExit(f"the scheduler's trace lost {lost} events: measure for a shorter time")

    def write(self, name, value):
        with open(os.path.join(self.folder, name), "w") as file:
            file.write(str(value))


class Beats:
    """When a timer on each core went off: it wakes nobody, so that the scheduler decides nothing because of it."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tidegate-beats-")
        self.path = os.path.join(self.folder.name, "beats")
        try:
            self.child = subprocess.Popen(
                ["perf", "record", "-q", "-a", "-e", "cpu-clock", "-c", str(BEAT_US * 1000), "-k", "mono", "-o", self.path],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except OSError:
            self.child = None

    def late(self):
        """Of each core: (begin, end) in microseconds of each time for which it stood still."""
        found, last = collections.defaultdict(list), {}
        if self.child:
            self.child.send_signal(signal.SIGINT)
            self.child.wait()
            said = subprocess.run(["perf", "script", "-i", self.path, "-F", "cpu,time"], capture_output=True, text=True, check=False)
            for line in said.stdout.splitlines():
                beat = BEAT.search(line)
                if beat:
                    core, now = int(beat[1]), float(beat[2]) * 1e6
                    before = last.get(core, now) + BEAT_US
                    if now - before > LATE_US:
                        found[core].append((before, now))
                    last[core] = now
        self.folder.cleanup()
        return found


def longest(found):
    """Of waits, if there are any: their number, percentiles of the time behind own threads, and who was in the way of the longest."""
    if not found:
        return None
    behind = sorted(wait["behind_us"] for wait in found)
    at = lambda part: round(behind[min(len(behind) - 1, int(len(behind) * part))], 1)
    worst = max(found, key=lambda wait: wait["behind_us"])
    return {"waits": len(behind), "p99": at(0.99), "p999": at(0.999), "max": round(behind[-1], 1),
            "over_500us": sum(value > 500 for value in behind), "by": worst["by"]}


def threads(pid):
    found = {}
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/comm") as comm:
                found[int(task)] = comm.read().strip()
        except OSError:
            pass
    return found


def waits(lines, names, late):
    """Each wait of a worker: how long others of `names` ran on its core meanwhile, and which had most of it. Without the times in `late`."""
    since, running, behind = {}, {}, {}
    for line in lines:
        event = EVENT.search(line)
        if not event:
            continue
        cpu, now = int(event["cpu"]), float(event["time"]) * 1e6
        if event["name"] == "sched_waking":
            found = WOKEN.search(event["rest"])
            if found and int(found[1]) in names and int(found[1]) not in since:
                begin(since, behind, int(found[1]), int(found[2]), now)
            continue
        found = SWITCH.search(event["rest"])
        if not found:
            continue
        prev, state, after = int(found[1]), found[2], int(found[3])
        ran = running.pop(cpu, None)
        if ran and ran[0] == prev and prev in names:
            for worker, (core, start) in since.items():
                if core == cpu and worker != prev:
                    begun = max(start, ran[1])
                    time = now - begun - sum(max(0, min(end, now) - max(at, begun)) for at, end in late[cpu])
                    behind[worker][names[prev]] = behind[worker].get(names[prev], 0) + time
        # One that leaves its core had got it: the switch is missing where a process that the kernel hides from traces ran before.
        for worker in (prev, after):
            if worker in since:
                core, start = since.pop(worker)
                others = behind.pop(worker)
                by = max(others, key=others.get) if others else ""
                yield {"us": now - start, "behind_us": sum(others.values()), "by": by}
        running[cpu] = (after, now)
        if names.get(prev, "").startswith("worker") and state.startswith("R"):
            begin(since, behind, prev, cpu, now)


def begin(since, behind, worker, cpu, now):
    since[worker] = (cpu, now)
    behind[worker] = {}
