"""Descriptors: idle clients and half ClientHellos take what a small limit allows."""

import socket
import time

from .scene import wait_until

LIMIT, CLIENTS = 256, 600
# The head of a TLS record that announces more than ever comes.
HALF_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"h" * 20
HALF_HEAD = b"GET /quiet HTTP/1.1\r\nHost: a\r\n"


def run(scene):
    gateway = scene.gateway(launcher=("sh", "-c", f'ulimit -n {LIMIT} && exec "$0" "$@"'))
    gateway.route("quiet", "/quiet")
    for name, data in (("idle clients", b""), ("half ClientHellos", HALF_HELLO), ("half heads", HALF_HEAD)):
        flood(scene, gateway, name, data)


def flood(scene, gateway, name, data):
    clients = connect(gateway.ports["http"], data)
    try:
        status, slowest = None, 0.0
        for number in range(10):
            start = time.monotonic()
            status, answer = gateway.admin("PUT", f"/routes/during{number}", {"uri": "/quiet", "upstream": {
                "type": "roundrobin", "nodes": {f"127.0.0.1:{scene.upstream_port}": 1}}})
            slowest = max(slowest, time.monotonic() - start)
            if status not in (200, 201):
                status = f"{status} {answer[:60]!r}"
                break
        scene.check(f"{len(clients)} {name}: 10 writes to the Admin API", f"{status}, slowest {slowest * 1000:.0f} ms",
                    "200 or 201, <= 1000 ms", status in (200, 201) and slowest <= 1)
    finally:
        for client in clients:
            client.close()
    start = time.monotonic()
    try:
        wait_until(lambda: gateway.ask("/quiet", timeout=5)[0] == 200, "the proxy serves", 10)
        took = time.monotonic() - start
    except SystemExit:
        took = float("inf")
    scene.at_most(f"{name} have left: the proxy serves after", took, 5, "s")


def connect(port, data):
    clients = []
    for _ in range(CLIENTS):
        try:
            client = socket.create_connection(("127.0.0.1", port), 2)
            client.sendall(data)
            clients.append(client)
        except OSError:
            # Refused or cut: as good as any other answer to a flood.
            continue
    return clients
