#!/usr/bin/env python3
"""Fails when a change costs more than 1 % of instructions per request.

    python3 perf/check.py BEFORE AFTER

Two release builds: the commit that the change starts from, and the change. Plain, limit-count + prometheus, and key-auth + limit-count, counted by
callgrind: repeatable on a noisy machine, and blind to the kernel and to caches (perf/against.py measures CPU).
"""

import argparse
import os
import tempfile

import against
from harness import figures, nginx, processes

SCENARIOS = ("plain", "counted", "auth")
MOST = 1.01


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", help="the binary to compare with")
    parser.add_argument("after", help="the binary in question")
    options = parser.parse_args()
    os.environ["PATH"] += ":/usr/sbin"
    binaries = {"before": os.path.abspath(options.before), "after": os.path.abspath(options.after)}
    with tempfile.TemporaryDirectory(prefix="tidegate-check-") as folder:
        os.chmod(folder, 0o755)
        port, frames_port = processes.free_port(), processes.free_port()
        upstream = processes.Server("upstream", nginx.upstream(folder, port, frames_port), processes.load_core(), folder)
        try:
            upstream.wait_for_port(port)
            counted = against.instructions(folder, binaries, (port, frames_port), SCENARIOS)
        finally:
            upstream.stop()
    ratios = {name: one["after"] / one["before"] for name, one in counted.items()}
    rows = [[name, *(f"{counted[name][who]:,.0f}" for who in binaries), f"{ratio:.4f}",
             "ok" if ratio <= MOST else "missed"] for name, ratio in ratios.items()]
    print(figures.table(["instructions per request", "before", "after", "ratio", f"<= {MOST}"], rows))
    if max(ratios.values()) > MOST:
        raise SystemExit("the change costs more than 1 % of instructions per request: see where (callgrind_annotate), or say why in the commit")


if __name__ == "__main__":
    main()
