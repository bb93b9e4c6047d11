"""Upgrades while slow heads, half handshakes, malformed requests and new connections keep the gateway busy."""

import os
import socket
import subprocess
import threading
import time

from .scene import ask

HALF_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"h" * 20
MALFORMED = (b"GET / HTTP/9.9\r\n\r\n", b"\x00\xff" * 500,
             b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
             b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nzz",
             b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 200)
UPGRADES, SLOW = 3, 200


def run(scene):
    gateway, end, faults, counts = scene.gateway(), threading.Event(), [], {"good": 0, "hostile": 0}
    gateway.route("quiet", "/quiet")
    port = gateway.ports["http"]
    works = (slow_heads, half_hellos, malformed, malformed)
    threads = [threading.Thread(target=work, args=(port, end, counts), daemon=True) for work in works]
    threads += [threading.Thread(target=good, args=(port, end, counts, faults), daemon=True) for _ in range(2)]
    pids = [gateway.pid()]
    try:
        # Its connection is told to close by the process that drains; it may not lose a request by that.
        for thread in threads:
            thread.start()
        for _ in range(UPGRADES):
            time.sleep(1 if scene.quick else 5)
            done = subprocess.run([scene.binary, "upgrade", "--prefix", gateway.prefix], capture_output=True, text=True,
                                  timeout=90, check=False)
            if done.returncode:
                faults.append(f"upgrade: {done.stdout}{done.stderr}"[:300])
            pids.append(served_by(gateway))
        time.sleep(1)
    finally:
        end.set()
        for thread in threads:
            thread.join(20)
        last = served_by(gateway)
        answer = ask(port, "/quiet")[0]
        gateway.running = False
        # The first process drains what hostile clients held; the last one is not a child of ours.
        for pid in set(pids[1:]) - {None}:
            try:
                os.kill(pid, 15)
            except OSError:
                continue
    scene.check(f"{UPGRADES} upgrades", f"processes {pids}", f"{UPGRADES + 1} processes, the last serves",
                len(set(pids)) == UPGRADES + 1 and last == pids[-1] and answer == 200)
    scene.check(f"good requests beside {counts['hostile']:,} hostile ones",
                f"{counts['good']:,}, {len(faults)} failed {faults[:2] or ''}", "0 failed", not faults and counts["good"])


def served_by(gateway):
    try:
        with open(os.path.join(gateway.prefix, "logs", "tidegate.pid")) as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def good(port, end, counts, faults):
    """New connections, each with one request."""
    while not end.is_set():
        status, answer = ask(port, "/quiet", timeout=20)
        counts["good"] += 1
        if status != 200:
            faults.append(f"{status} {answer[:80]!r}")


def slow_heads(port, end, counts):
    clients = []
    while not end.wait(0.01):
        counts["hostile"] += open_one(clients, port, b"GET /quiet HTTP/1.1\r\nHost: a\r\n")
        for client in clients[-20:]:
            try:
                client.sendall(b"X-A: b\r\n")
            except OSError:
                continue


def half_hellos(port, end, counts):
    clients = []
    while not end.wait(0.01):
        counts["hostile"] += open_one(clients, port, HALF_HELLO)


def open_one(clients, port, data):
    """One more that stays open, in the place of the oldest."""
    if len(clients) >= SLOW:
        clients.pop(0).close()
    try:
        client = socket.create_connection(("127.0.0.1", port), 5)
        clients.append(client)
        client.sendall(data)
    except OSError:
        return 0
    return 1


def malformed(port, end, counts):
    number = 0
    while not end.is_set():
        number += 1
        try:
            with socket.create_connection(("127.0.0.1", port), 5) as client:
                client.sendall(MALFORMED[number % len(MALFORMED)])
                client.settimeout(2)
                client.recv(4096)
        except OSError:
            continue
        counts["hostile"] += 1
