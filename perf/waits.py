#!/usr/bin/env python3
"""How long a worker that could run waited behind other threads of the gateway: the longest of each minute (root, tracefs).

    python3 perf/waits.py [--seconds 60] [--only plain] [--only gzip] [--only changes]

One worker on core 0 with all other threads, requests one after the other from core 1. Meanwhile 114,000 series are scraped each second, as plain text and
compressed, or 50 routes of 50,000 are changed each second, each change durable and in use before the next.
"""

import argparse
import os
import tempfile

from harness import figures, manyroutes, nginx, processes, scrape, tidegate, waits

ROOT = os.path.dirname(os.path.abspath(__file__))
SCENARIOS = {"plain": "114,000 series, scraped each second, plain text", "gzip": "the same, compressed",
             "changes": f"{manyroutes.PER_SECOND} changes/s on {manyroutes.ROUTES:,} routes"}
TARGET_US = 500
PART = 10


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="of each scenario (default 60)")
    parser.add_argument("--only", action="append", choices=SCENARIOS, help="may be given several times")
    options = parser.parse_args()
    processes.raise_limits()
    os.environ["PATH"] += ":/usr/sbin"
    os.sched_setaffinity(0, {processes.load_core()})
    binary, rows = tidegate.find_binary(os.path.dirname(ROOT)), []
    with tempfile.TemporaryDirectory(prefix="tidegate-waits-") as folder:
        os.chmod(folder, 0o755)
        port = processes.free_port()
        upstream = processes.Server("upstream", nginx.upstream(folder, port), processes.load_core(), folder)
        try:
            upstream.wait_for_port(port)
            for name in options.only or SCENARIOS:
                before = processes.steal_ticks()
                measure = changed if name == "changes" else scraped
                found = waits.longest(measure(name, binary, folder, port, options.seconds))
                if not found:
                    raise SystemExit("the scheduler cannot be traced here: root and tracefs are needed")
                rows.append([SCENARIOS[name], *(found[key] for key in ("waits", "p99", "p999", "max", "by", "over_500us")),
                             f"{processes.steal_percent(before):.2f} %"])
                print(" ".join(map(str, rows[-1])), flush=True)
        finally:
            upstream.stop()
    headings = ["microseconds", "waits", "p99", "p99.9", "longest", "behind", f"over {TARGET_US} us", "steal"]
    print("\n" + figures.table(headings, rows))


def scraped(kind, binary, folder, upstream_port, seconds):
    with scrape.gateway(binary, os.path.join(folder, kind), upstream_port) as (ports, pid, _):
        child = scrape.scraper(ports["metrics"], kind)
        try:
            return sum((scrape.measure(ports["http"], pid, part)[1] for part in parts(seconds)), [])
        finally:
            child.terminate()
            child.wait()


def changed(_, binary, folder, upstream_port, seconds):
    gateway = manyroutes.Gateway(binary, folder, "changes")
    try:
        gateway.start()
        gateway.fill(manyroutes.routes(upstream_port, manyroutes.ROUTES))
        return sum((manyroutes.held_up(gateway, upstream_port, part, print) or [] for part in parts(seconds)), [])
    finally:
        gateway.stop()


def parts(seconds):
    """A trace of more than that loses events."""
    return [min(PART, seconds - begun) for begun in range(0, seconds, PART)]


if __name__ == "__main__":
    main()
