#!/usr/bin/env python3
"""Attacks the gateway from outside and prints what it did about it.

    python3 perf/attack.py [--only NAME ...] [--quick]

Each attack has a gateway of its own and, where others are said to wait, a client of a plain route beside it. An attack
that fails on its own, or does not end, counts as failed, and the next one has its turn. --quick makes them smaller, with
the same targets. Needs nginx, redis-server, etcd and unshare; root for cgroups.

Ends with 1 if a target was missed.
"""

import argparse
import importlib
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback

from attacks.scene import CORES, Scene
from harness import figures, nginx, processes, tidegate

ATTACKS = ("memory", "work", "lua", "descriptors", "disk", "store", "objects", "labels", "partition", "identity", "upgrade")
MOST_SECONDS = 300


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=ATTACKS, metavar="NAME", help=", ".join(ATTACKS))
    parser.add_argument("--quick", action="store_true", help="fewer repetitions and smaller floods")
    return parser.parse_args()


def too_long(*_):
    raise TimeoutError(f"it did not end within {MOST_SECONDS} s")


def attack(name, scene):
    """The lines of one attack; none of its processes is left."""
    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(MOST_SECONDS)
    try:
        importlib.import_module(f"attacks.{name}").run(scene)
        scene.close()
    except (Exception, SystemExit) as error:  # pylint: disable=broad-except
        traceback.print_exc()
        told = f"{type(error).__name__}: {error}".split("\n", maxsplit=1)[0][:120]
        scene.check("the attack itself", told, "it ends", False)
    finally:
        signal.alarm(0)
        scene.abandon()
    return [[f"{name}: {what}", measured, target, "ok" if met else "FAILED"] for what, measured, target, met in scene.rows]


def upstream(folder, name):
    own, port = os.path.join(folder, name), processes.free_port()
    os.makedirs(own)
    os.chmod(own, 0o777)
    server = processes.Server(name, nginx.upstream(own, port), CORES, folder)
    server.wait_for_port(port)
    return server, port


def control(folder, binary, port):
    """A gateway that nobody attacks, with an upstream of its own."""
    own = os.path.join(folder, "control-gateway")
    os.makedirs(own)
    scene = Scene(own, binary, port, None, False)
    scene.gateway().route("quiet", "/quiet")
    return scene


def main():
    options = arguments()
    os.environ["PATH"] += ":/usr/sbin"
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    processes.raise_limits()
    binary = tidegate.find_binary(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    rows = []
    with tempfile.TemporaryDirectory(prefix="tidegate-attack-") as folder:
        os.chmod(folder, 0o755)
        (attacked, port), (spared, spared_port) = upstream(folder, "upstream"), upstream(folder, "control")
        beside = control(folder, binary, spared_port)
        control_port = beside.gateways[0].ports["http"]
        try:
            for name in options.only or ATTACKS:
                own, started = os.path.join(folder, f"attack-{name}"), time.monotonic()
                os.makedirs(own)
                found = attack(name, Scene(own, binary, port, control_port, options.quick))
                print(f"{name}: {time.monotonic() - started:.0f} s, {sum(row[3] != 'ok' for row in found)} failed",
                      file=sys.stderr, flush=True)
                rows += found
                shutil.rmtree(own, ignore_errors=True)
        finally:
            beside.abandon()
            attacked.stop()
            spared.stop()
    print(figures.table(["attack", "measured", "target", "verdict"], rows))
    sys.exit(1 if any(row[3] != "ok" for row in rows) else 0)


if __name__ == "__main__":
    main()
