#!/usr/bin/env python3
"""Instructions of the codec, of writing a head and of the plugin chain, per operation.

    python3 perf/benches.py [--before CHECKOUT]

Builds the tests named `counted` in the bench profile and runs each under callgrind with ROUNDS rounds, and with twice as many: the
difference is the work of ROUNDS operations, without the start. The figures repeat on a noisy machine; they are blind to the kernel
and to caches. With --before, the same of another checkout beside them.
"""

import argparse
import json
import os
import re
import subprocess

from harness import figures

ROUNDS = 2000
# Package, how cargo names the test target, the module of the tests.
PLACES = [("tidegate-protocol", ["--test", "counted"], ""), ("tidegate-proxy", ["--lib"], "tests::counted::")]


def build(checkout, package, target):
    command = ["cargo", "bench", "--package", package, *target, "--no-run", "--message-format", "json"]
    lines = subprocess.run(command, cwd=checkout, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    programs = [json.loads(line).get("executable") for line in lines if line.startswith("{")]
    programs = [program for program in programs if program]
    if not programs:
        raise SystemExit(f"cargo built no tests of {package}")
    return programs[-1]


def instructions(program, test, rounds):
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, "--exact", test, "--test-threads", "1"]
    run = subprocess.run(command, env={**os.environ, "TIDEGATE_ROUNDS": str(rounds)}, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True)
    found = re.search(r"Collected : (\d+)", run.stdout)
    if run.returncode or not found or " 1 passed" not in run.stdout:
        raise SystemExit(f"{test} failed:\n{run.stdout}")
    return int(found.group(1))


def figures_of(checkout):
    counted = {}
    for package, target, module in PLACES:
        program = build(checkout, package, target)
        listed = subprocess.run([program, "--list", *([module] if module else [])], check=True, stdout=subprocess.PIPE, text=True)
        for test in re.findall(r"^(\S+): test$", listed.stdout, re.MULTILINE):
            one, two = (instructions(program, test, rounds) for rounds in (ROUNDS, 2 * ROUNDS))
            counted[test.removeprefix(module).replace("_", " ")] = (two - one) / ROUNDS
    return counted


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", help="a checkout of the commit to compare with")
    options = parser.parse_args()
    here = figures_of(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    before = figures_of(options.before) if options.before else {}
    rows = [[name, f"{before[name]:,.0f}" if name in before else "-", f"{count:,.0f}",
             f"{count / before[name]:.4f}" if name in before else "-"] for name, count in here.items()]
    print(figures.table(["instructions per operation", "before", "now", "ratio"], rows))


if __name__ == "__main__":
    main()
