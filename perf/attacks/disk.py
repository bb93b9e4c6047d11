"""A disk that is full, and one that becomes read-only: reads go on, writes are refused with words, nothing is lost."""

import os
import time

from .scene import wait_until

DISK = 'mount -t tmpfs -o size=SIZE tmpfs "$0/data" && exec "$@"'
READ_ONLY_DISK = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
TEXT = "z" * 20_000


def run(scene):
    rounds = 3 if scene.quick else 20
    for name, attack, size in (("full", full, "6m"), ("read-only", read_only, "100m")):
        prefix = os.path.join(scene.folder, name)
        gateway = scene.gateway(name=name, launcher=(
            "unshare", "--map-root-user", "--mount", "sh", "-c", DISK.replace("SIZE", size), prefix))
        # As the gateway sees it.
        attack(scene, gateway, f"/proc/{gateway.pid()}/root{prefix}/data", rounds)


def write(gateway, number):
    body = {"uri": f"/x{number}", "plugins": {"mocking": {"response_example": TEXT}}}
    return gateway.admin("PUT", f"/routes/{number}", body)


def full(scene, gateway, data, rounds):
    kept, slowest, refusals = [], 0.0, set()
    for _ in range(rounds):
        with open(os.path.join(data, "filler"), "wb", buffering=0) as filler:
            fill(filler)
            wait_until(lambda: not stored(gateway, kept, refusals), "a full disk refuses a write")
            end = time.monotonic() + (0.5 if scene.quick else 2)
            while time.monotonic() < end:
                fill(filler)
                stored(gateway, kept, refusals)
        os.unlink(os.path.join(data, "filler"))
        slowest = max(slowest, wait_until(lambda: stored(gateway, kept, refusals), "writable again"))
        make_room(gateway, kept)
    scene.at_most(f"full {rounds} times: writable after", slowest, 1, "s")
    scene.check("full: how writes are refused", sorted(refusals), "503 with a reason", refusals == {(503, True)})
    lost = lost_routes(gateway, kept)
    scene.check("full: acknowledged routes that are lost", lost, "none", not lost)
    lost = lost_after_kill(gateway, data, kept)
    scene.check("full: acknowledged routes lost by a kill -9", lost, "none", not lost)


def make_room(gateway, kept):
    """For the next round."""
    while len(kept) > 3:
        if gateway.admin("DELETE", f"/routes/{kept[0]}")[0] == 200:
            kept.pop(0)


def stored(gateway, kept, refusals):
    """Whether a new route was acknowledged."""
    number = kept[-1] + 1 if kept else 0
    status, answer = write(gateway, number)
    if status in (200, 201):
        kept.append(number)
        return True
    refusals.add((status, b"space" in answer))
    return False


def fill(file):
    try:
        while file.write(b"\1" * 4096):
            pass
    except OSError:
        pass


def lost_routes(gateway, kept):
    return [number for number in kept if gateway.admin("GET", f"/routes/{number}")[0] != 200]


def lost_after_kill(gateway, data, kept):
    """Kills the gateway, puts what is on its disk where the next start looks without that disk, and looks."""
    folder = os.open(data, os.O_RDONLY)
    try:
        gateway.kill()
        for name in os.listdir(f"/proc/self/fd/{folder}"):
            path = f"/proc/self/fd/{folder}/{name}"
            if os.path.isfile(path):
                with open(path, "rb") as source, open(os.path.join(gateway.prefix, "data", name), "wb") as target:
                    target.write(source.read())
    finally:
        os.close(folder)
    gateway.launcher = []
    gateway.start()
    return lost_routes(gateway, kept)


def read_only(scene, gateway, data, rounds):
    """The same folder again above itself, read-only: what is opened now cannot be written, what is open still can."""
    def mounted(command):
        inside = f"nsenter -t {gateway.pid()} -m -- sh -c '{command}'"
        if os.system(inside.replace("DATA", f"{gateway.prefix}/data")):
            raise SystemExit(f"this fails: {command}")

    refusals, kept, slowest, unread = set(), [], 0.0, 0
    stored(gateway, kept, refusals)
    for _ in range(rounds):
        mounted("mount --bind DATA DATA && mount -o remount,bind,ro DATA")
        for _ in range(10):
            stored(gateway, kept, refusals)
            unread += gateway.ask(f"/x{kept[0]}")[0] != 200
        mounted("umount DATA")
        slowest = max(slowest, wait_until(lambda: stored(gateway, kept, refusals), "writable again"))
        make_room(gateway, kept)
    scene.check("read-only: reads that failed", unread, "0", unread == 0)
    scene.check("read-only: answers to writes", sorted(refusals) or "all stored by the open file",
                "503 with a reason, or stored", not refusals or refusals == {(503, True)})
    scene.at_most("read-only: writable after", slowest, 1, "s")
    lost = lost_routes(gateway, kept)
    scene.check("read-only: acknowledged routes that are lost", lost, "none", not lost)
    start_read_only(scene)


def start_read_only(scene):
    """A start on a read-only file system is refused with words, or serves; the next one on a writable one serves all."""
    gateway = scene.gateway(name="start")
    kept = [number for number in range(5) if write(gateway, number)[0] == 201]
    gateway.stop()
    gateway.launcher = ["unshare", "--map-root-user", "--mount", "sh", "-c", READ_ONLY_DISK,
                        os.path.join(gateway.prefix, "data")]
    gateway.launch()
    gateway.running = False
    try:
        gateway.server.wait_for_port(gateway.ports["admin"], 20)
        outcome, met = "serves", not lost_routes(gateway, kept)
    except SystemExit as error:
        outcome, met = str(error)[-160:].strip(), "Read-only file system" in str(error) and "panicked" not in str(error)
    gateway.stop()
    scene.check("read-only: a start", outcome, "serves, or tells why not", met)
    gateway.launcher = []
    gateway.start()
    lost = lost_routes(gateway, kept)
    scene.check("read-only: lost after it", lost, "none", not lost and len(kept) == 5)
