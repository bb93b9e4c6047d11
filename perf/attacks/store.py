"""The store: damaged files, and kill -9 under writers. What was acknowledged is served, or a start says why not."""

import os
import random
import shutil
import threading
import time

from .scene import wait_until

ROUTES, PAGE, SEED = 50, 4096, 15


def run(scene):
    damages(scene)
    kills(scene)


def names(gateway):
    """What the gateway holds: its routes with their versions, and how the guarded one is answered."""
    status, _ = gateway.admin("GET", "/routes/0")
    if status != 200:
        return None
    held = {}
    for number in range(ROUTES):
        status, answer = gateway.admin("GET", f"/routes/{number}")
        if status == 200:
            held[number] = answer
    return held


def damages(scene):
    gateway = scene.gateway(name="damaged")
    for number in range(ROUTES):
        gateway.put("routes", number, {"uri": f"/x{number}", "plugins": {"mocking": {"response_example": f"text {number}"}}})
    gateway.put("global_rules", "1", {"plugins": {"key-auth": {}}})
    wait_until(lambda: gateway.ask("/x0")[0] == 401, "the guard")
    gateway.stop()
    data, good = os.path.join(gateway.prefix, "data"), os.path.join(scene.folder, "good")
    shutil.copytree(data, good)
    with open(os.path.join(good, "tidegate.redb"), "rb") as file:
        content = file.read()
    chance, outcomes = random.Random(SEED), {"refused": 0, "served whole": 0, "silent": []}
    for number in range(20 if scene.quick else 1000):
        damaged, what = damage(bytearray(content), chance)
        shutil.rmtree(data)
        shutil.copytree(good, data)
        with open(os.path.join(data, "tidegate.redb"), "wb") as file:
            file.write(damaged)
        outcome = start_with(gateway, len(damaged) < len(content))
        if outcome in outcomes:
            outcomes[outcome] += 1
        else:
            outcomes["silent"].append(f"{number}: {what}: {outcome}")
    scene.check(f"damages of the store, seed {SEED}",
                f"{outcomes['refused']} refused, {outcomes['served whole']} served whole, {outcomes['silent'] or 0} silent",
                "0 silent", not outcomes["silent"])


def damage(content, chance):
    kind = chance.choice(("bits", "truncated", "zero page"))
    if kind == "bits":
        places = [chance.randrange(len(content)) for _ in range(3)]
        for place in places:
            content[place] ^= 1 << chance.randrange(8)
        return content, f"bits at {places}"
    if kind == "truncated":
        length = chance.randrange(len(content))
        return content[:length], f"truncated to {length}"
    page = chance.randrange(len(content) // PAGE)
    content[page * PAGE:(page + 1) * PAGE] = bytes(PAGE)
    return content, f"page {page} zero"


def start_with(gateway, truncated):
    """What became of a start: refused with words, everything served, or something worse.

    Flipped bits and zeros may hit what is not in use. What was cut off is missed, and has to be told of.
    """
    told_before = len(gateway.log())
    gateway.launch()
    gateway.running = False
    try:
        for name in ("http", "admin"):
            gateway.server.wait_for_port(gateway.ports[name], 20)
    except SystemExit:
        told = gateway.server.output()
        ended = gateway.server.child.poll()
        gateway.stop()
        if ended is None:
            return "neither serves nor ends"
        words = "damaged" in told or "backup" in told or "truncated" in told
        return "refused" if ended > 0 and words and "panicked" not in told else f"ended with {ended}: {told[-200:]!r}"
    try:
        answers = [gateway.ask(f"/x{number}")[0] for number in (0, ROUTES // 2, ROUTES - 1)]
        held = names(gateway)
        if held and len(held) == ROUTES and all(b"text %d\"" % number in text for number, text in held.items()) \
                and answers == [401] * 3:
            told = gateway.log()[told_before:] + gateway.server.output().encode()
            return "served whole" if not truncated or b"damaged" in told or b"last good" in told else "nothing was told"
        return f"{len(held or [])} of {ROUTES} routes, answers {answers}"
    finally:
        gateway.stop()


def kills(scene):
    """Writers note what was acknowledged; after each kill all of it must be there."""
    gateway, rounds, lost, acknowledged = scene.gateway(name="killed"), (5 if scene.quick else 200), [], {}
    chance = random.Random(SEED)
    for _ in range(rounds):
        end = threading.Event()
        writers = [threading.Thread(target=write, args=(gateway, writer, acknowledged, end)) for writer in range(4)]
        for writer in writers:
            writer.start()
        time.sleep(chance.uniform(0.05, 0.4))
        gateway.kill()
        end.set()
        for writer in writers:
            writer.join()
        gateway.start()
        for name, version in acknowledged.items():
            status, answer = gateway.admin("GET", f"/routes/{name}")
            # A later version was stored and its acknowledgement cut off.
            if status != 200 or not any(f'"v{version + more}"'.encode() in answer for more in (0, 1)):
                lost.append((name, version, status))
    scene.check(f"kill -9 x {rounds} under 4 writers", f"{sum(acknowledged.values())} acknowledged, lost {lost[:5] or 0}",
                "0 lost", not lost and acknowledged)


def write(gateway, writer, acknowledged, end):
    number = 0
    while not end.is_set():
        name = f"w{writer}-{number % 5}"
        version = acknowledged.get(name, 0) + 1
        status, _ = gateway.admin("PUT", f"/routes/{name}", {"uri": f"/{name}", "desc": f"v{version}", "plugins": {
            "mocking": {"response_example": "x"}}}, timeout=5)
        if status in (200, 201):
            acknowledged[name] = version
        elif status is None:
            # Killed. What became of this write is open: the same version comes again.
            return
        number += 1
