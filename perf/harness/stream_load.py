"""Load for sessions of TCP and UDP, and the node that they go to."""

import os
import resource
import selectors
import socket
import struct
import sys
import time

PIECE = bytes(1 << 20)


class Node:
    """A process that sends back what it gets; after eight bytes `SEND` and a number, so many pieces of 1 MB."""

    def __init__(self):
        tcp = socket.create_server(("127.0.0.1", 0), backlog=4096)
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.port = tcp.getsockname()[1]
        udp.bind(("127.0.0.1", self.port))
        self.pid = os.fork()
        if self.pid == 0:
            try:
                serve(tcp, udp)
            finally:
                os._exit(0)
        tcp.close()
        udp.close()

    def stop(self):
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)


def serve(tcp, udp):
    waiting = selectors.EpollSelector()
    for listening in (tcp, udp):
        listening.setblocking(False)
        waiting.register(listening, selectors.EVENT_READ)
    while True:
        for key, _ in waiting.select():
            if key.fileobj is tcp:
                accept(tcp, waiting)
            elif key.fileobj is udp:
                echo_datagrams(udp)
            else:
                echo(key.fileobj, waiting)


def accept(tcp, waiting):
    while True:
        try:
            connection, _ = tcp.accept()
        except BlockingIOError:
            return
        waiting.register(connection, selectors.EVENT_READ)


def echo(connection, waiting):
    data = connection.recv(65536)
    if data.startswith(b"SEND"):
        connection.setblocking(True)
        for _ in range(struct.unpack("<4xI", data)[0]):
            connection.sendall(PIECE)
    elif data:
        connection.sendall(data)
    else:
        waiting.unregister(connection)
        connection.close()


def echo_datagrams(udp):
    try:
        while True:
            data, address = udp.recvfrom(2048)
            udp.sendto(data, address)
    except BlockingIOError:
        pass


def connect(port):
    return socket.create_connection(("127.0.0.1", port))


def move_bytes(server, tcp, _udp, _node, share):
    """CPU seconds per gigabyte (of 10^9 bytes) from the node to a client that reads 1 MB at a time."""
    count, room = 6000 // share, bytearray(1 << 20)
    with connect(tcp) as client:
        before, left = server.cpu_seconds(), count << 20
        client.sendall(struct.pack("<4sI", b"SEND", count))
        while left:
            taken = client.recv_into(room)
            if not taken:
                raise SystemExit(f"{server.name} lost {left} bytes")
            left -= taken
        return (server.cpu_seconds() - before) / ((count << 20) / 1e9)


def connections(server, tcp, _udp, _node, share):
    """CPU microseconds per connection, 32 at a time."""
    waves = 800 // share
    wave(tcp, 32)
    before = server.cpu_seconds()
    for _ in range(waves):
        wave(tcp, 32)
    return (server.cpu_seconds() - before) * 1e6 / (waves * 32)


def wave(tcp, count):
    clients = [connect(tcp) for _ in range(count)]
    for client in clients:
        client.send(b"x")
    for client in clients:
        if client.recv(1) != b"x":
            raise SystemExit("no answer")
    for client in clients:
        client.close()


def datagrams(server, _tcp, udp, _node, share):
    """Datagrams of 64 bytes that came back, per CPU second; of 64 clients that each wait for their answer."""
    clients = []
    for _ in range(64):
        client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        client.connect(("127.0.0.1", udp))
        client.settimeout(1)
        clients.append(client)
    rounds, got, text = 3000 // share, 0, bytes(64)
    echo_round(clients, text)
    before = server.cpu_seconds()
    for _ in range(rounds):
        got += echo_round(clients, text)
    spent = server.cpu_seconds() - before
    if got < rounds * len(clients) * 0.99:
        raise SystemExit(f"{server.name} lost {rounds * len(clients) - got} datagrams")
    for client in clients:
        client.close()
    return got / spent


def echo_round(clients, text):
    for client in clients:
        client.send(text)
    got = 0
    for client in clients:
        try:
            client.recv(128)
            got += 1
        except TimeoutError:
            pass
    return got


def idle(server, tcp, _udp, _node, share):
    """KiB of memory per connection that has sent and got a byte, and has been silent for five seconds.

    Of each the proxy has two descriptors: where a process may open 20,000, there are 9,000 connections."""
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    count = min(10_000, descriptors // 2 - 1000) // share
    held = []
    wave(tcp, 64)
    before = server.memory_bytes()[0]
    for _ in range(count):
        client = connect(tcp)
        client.settimeout(20)
        client.send(b"x")
        try:
            client.recv(1)
        except OSError as error:
            raise SystemExit(f"{server.name}, connection {len(held)}: {error}")
        held.append(client)
    time.sleep(5)
    after = server.memory_bytes()[0]
    for client in held:
        client.close()
    print(f"idle: {count} connections", file=sys.stderr)
    return (after - before) / count / 1024
