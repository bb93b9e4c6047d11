"""Watches whether the cores of this machine run at all.

A process of the highest real-time priority on each core looks at the clock every 20 ms. When it comes too late, nothing of
lower priority has run on that core either: the hypervisor gave it to somebody else, or the kernel held it.
"""

import os
import subprocess
import sys
import time

TICK_SECONDS = 0.02
# Shorter ones are usual on a shared machine.
SHORTEST_SECONDS = 0.1


class Watch:
    """The watching processes. Without the right to real-time priority, `exact` is false: other work may be the cause then."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "standstills")
        self.exact = may_be_first()
        with open(self.path, "wb") as out:
            self.children = [subprocess.Popen([sys.executable, os.path.abspath(__file__), str(core)], stdout=out)
                             for core in range(os.cpu_count() or 1)]

    def stop(self):
        for child in self.children:
            child.terminate()
            child.wait()

    def found(self):
        """[(core, CLOCK_MONOTONIC at its end, seconds)], in order of time."""
        with open(self.path) as file:
            found = [line.split() for line in file]
        return sorted(((int(core), float(at), float(length)) for core, at, length in found), key=lambda one: one[1])


def may_be_first():
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        return True
    except OSError:
        return False


def tick(core):
    os.sched_setaffinity(0, {core})
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(os.sched_get_priority_max(os.SCHED_FIFO)))
    except OSError:
        pass
    before = time.monotonic()
    while True:
        time.sleep(TICK_SECONDS)
        now = time.monotonic()
        if now - before - TICK_SECONDS >= SHORTEST_SECONDS:
            print(core, f"{now:.3f}", f"{now - before:.3f}", flush=True)
        before = now


if __name__ == "__main__":
    tick(int(sys.argv[1]))
