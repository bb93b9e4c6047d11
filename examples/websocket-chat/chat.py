"""A chat over WebSockets with the standard library only: what one says, all hear.

chat.py serve PORT | listen URL COUNT | say URL NAME TEXT
"""

import base64
import hashlib
import os
import socket
import socketserver
import sys
import threading
from urllib.parse import urlsplit

MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
TEXT, CLOSE, PING, PONG = 1, 8, 9, 10


def read_head(file):
    lines = []
    while line := file.readline(8192).strip():
        lines.append(line.decode())
    return lines


def frame(kind, payload, masked=False):
    length = len(payload)
    head = bytes([0x80 | kind])
    bit = 0x80 if masked else 0
    head += bytes([bit | length]) if length < 126 else bytes([bit | 126]) + length.to_bytes(2, "big")
    if not masked:
        return head + payload
    mask = os.urandom(4)
    return head + mask + bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))


def read_frame(file):
    """Kind and payload of the next message of one frame; None at the end."""
    head = file.read(2)
    if len(head) < 2:
        return None
    length = head[1] & 0x7F
    if length == 126:
        length = int.from_bytes(file.read(2), "big")
    mask = file.read(4) if head[1] & 0x80 else bytes(4)
    payload = bytes(byte ^ mask[index % 4] for index, byte in enumerate(file.read(length)))
    return head[0] & 0x0F, payload


class Room(socketserver.StreamRequestHandler):
    people, lock = set(), threading.Lock()

    def handle(self):
        fields = [line.split(": ", 1) for line in read_head(self.rfile)[1:] if ": " in line]
        keys = [value for name, value in fields if name.lower() == "sec-websocket-key"]
        if not keys:
            self.wfile.write(b"HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\n\r\n")
            return
        accept = base64.b64encode(hashlib.sha1(keys[0].encode() + MAGIC).digest()).decode()
        self.wfile.write(
            f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Accept: {accept}\r\n\r\n".encode()
        )
        with self.lock:
            self.people.add(self.wfile)
        try:
            while message := read_frame(self.rfile):
                kind, payload = message
                if kind == CLOSE:
                    self.wfile.write(frame(CLOSE, payload))
                    return
                if kind == PING:
                    self.wfile.write(frame(PONG, payload))
                if kind == TEXT:
                    self.to_all(payload)
        finally:
            with self.lock:
                self.people.discard(self.wfile)

    def to_all(self, payload):
        with self.lock:
            for person in self.people:
                person.write(frame(TEXT, payload))


def connect(url):
    parts = urlsplit(url)
    connection = socket.create_connection((parts.hostname, parts.port or 80), timeout=30)
    key = base64.b64encode(os.urandom(16)).decode()
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    connection.sendall(
        f"GET {target} HTTP/1.1\r\nHost: {parts.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode()
    )
    file = connection.makefile("rb")
    head = read_head(file)
    if not head or " 101 " not in head[0]:
        sys.exit(f"refused: {head[0] if head else 'no answer'}")
    return connection, file


def main():
    match sys.argv[1:]:
        case ["serve", port]:
            socketserver.ThreadingTCPServer.allow_reuse_address = True
            with socketserver.ThreadingTCPServer(("127.0.0.1", int(port)), Room) as server:
                server.daemon_threads = True
                server.serve_forever()
        case ["listen", url, count]:
            _, file = connect(url)
            print("joined", flush=True)
            for _ in range(int(count)):
                message = read_frame(file)
                print(message[1].decode() if message else "the connection ended", flush=True)
        case ["say", url, name, text]:
            connection, file = connect(url)
            connection.sendall(frame(TEXT, f"{name}: {text}".encode(), masked=True))
            # One's own words come back: then all have them.
            read_frame(file)
            connection.sendall(frame(CLOSE, b"", masked=True))
        case _:
            sys.exit(__doc__)


main()
