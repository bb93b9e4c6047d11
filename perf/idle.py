#!/usr/bin/env python3
"""Memory of connections that are open and silent, beside nginx: bytes of the gateway for each.

    python3 perf/idle.py [--count 5000] [--only websocket]

Each connection has served one request, or its first message, and then waits: HTTP/1.1 keep-alive, the same over TLS 1.3, HTTP/2 over TLS, a WebSocket,
a stream of server-sent events. The last two have a connection to the upstream (`tidegate echo`) as well. Proportional set size
(PSS) of the gateway's processes after less that before, divided by their number; buffers of the kernel are not in it.
"""

import argparse
import os
import shutil
import socket
import ssl
import struct
import tempfile
import time

from harness import figures, load, nginx, processes, tidegate, tls

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
KINDS = ("keepalive", "tls", "http2", "websocket", "events")
# At most: of nginx's, and for keep-alive in bytes as well.
TARGET, TARGET_BYTES = 1.0, {"keepalive": 900}
WARM = 64
# `tidegate echo` takes 1,000 connections, so there are several.
PER_UPSTREAM = 900


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=5000, help="connections of each kind (default 5000)")
    parser.add_argument("--only", action="append", choices=KINDS, metavar="KIND", help="one of %(choices)s; may be given several times")
    options = parser.parse_args()
    os.environ["PATH"] += ":/usr/sbin"
    if not shutil.which("nginx"):
        raise SystemExit("nginx is not installed; run scripts/install-deps.sh")
    count = min(options.count, processes.raise_limits() // 2 - 500)
    binary = tidegate.find_binary(ROOT)
    with tempfile.TemporaryDirectory(prefix="tidegate-idle-") as folder:
        os.chmod(folder, 0o755)
        rows = [row(kind, count, measure(folder, binary, kind, count)) for kind in options.only or KINDS]
    print(figures.table(["bytes per connection", "connections", "nginx", "tidegate", "ratio", "target", ""], rows))


def row(kind, count, found):
    ratio = found["gateway"] / found["nginx"]
    most = TARGET_BYTES.get(kind)
    met = found["gateway"] <= most if most else ratio <= TARGET
    return [kind, count, figures.shown(found["nginx"]), figures.shown(found["gateway"]), f"{ratio:.2f}",
            f"<={most} bytes" if most else f"<={TARGET:.2f}", "ok" if met else "MISSED"]


def measure(folder, binary, kind, count):
    """A fresh gateway of each sort, so that no memory of another kind of connection is used again."""
    pair, found = tls.certificate(folder), {}
    for who in ("nginx", "gateway"):
        running = []
        try:
            upstreams = start_upstreams(folder, binary, count, running)
            server, ports = start(folder, f"{who}-{kind}", who, binary, upstreams, pair, running)
            found[who] = per_connection(server, ports, kind, count)
        finally:
            for one in reversed(running):
                one.stop()
    return found


def start_upstreams(folder, binary, count, running):
    ports = []
    for number in range((count + WARM) // PER_UPSTREAM + 1):
        ports.append(processes.free_port())
        command = [binary, "echo", "--listen", f"127.0.0.1:{ports[-1]}", "--events", "2", "--event-interval", "1h"]
        running.append(processes.Server(f"echo-{number}", command, processes.load_core(), folder))
        running[-1].wait_for_port(ports[-1])
    return ports


def start(folder, name, who, binary, upstreams, pair, running):
    prefix = os.path.join(folder, name)
    os.makedirs(prefix)
    ports = {port: processes.free_port() for port in ("http", "tls", "control", "metrics")}
    if who == "nginx":
        command = nginx.command(prefix, name, nginx_server(ports, upstreams, pair))
    else:
        command = tidegate.command(binary, prefix, ports, resources(upstreams, pair))
    server = processes.Server(name, command, processes.GATEWAY_CORE, prefix)
    running.append(server)
    for port in ("http", "tls"):
        server.wait_for_port(ports[port])
    return server, ports


def nginx_server(ports, upstreams, pair):
    servers = "".join(f"server 127.0.0.1:{port};" for port in upstreams)
    return f"""
    map $http_upgrade $connection_upgrade {{ default upgrade; '' ''; }}
    upstream backend {{ {servers} keepalive 16; }}
    server {{ listen 127.0.0.1:{ports['http']} backlog=4096; listen 127.0.0.1:{ports['tls']} ssl http2 backlog=4096;
      ssl_certificate {pair[0]}; ssl_certificate_key {pair[1]}; ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:SSL:20m;
      ssl_session_tickets off; http2_max_requests 100000; http2_idle_timeout 600s;
      location / {{ proxy_pass http://backend; proxy_http_version 1.1; proxy_set_header Host $http_host; proxy_buffering off;
        proxy_read_timeout 3600s; proxy_send_timeout 3600s; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $connection_upgrade; }} }}"""


def resources(upstreams, pair):
    upstream = {"type": "roundrobin", "nodes": {f"127.0.0.1:{port}": 1 for port in upstreams},
                "timeout": {"connect": 60, "send": 3600, "read": 3600}}
    routes = [{"id": "all", "uri": "/*", "enable_websocket": True, "upstream": upstream}]
    return {"routes": routes, "ssls": [{"id": "tls", "sni": tls.NAME, "cert": tls.read(pair[0]), "key": tls.read(pair[1])}]}


def per_connection(server, ports, kind, count):
    held = [OPEN[kind](ports) for _ in range(WARM)]
    before = settled(server)
    held += [OPEN[kind](ports) for _ in range(count)]
    used = settled(server) - before
    for connection in held:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
    return used / count


def settled(server):
    """The memory once it no longer changes: what a start has left goes back to the system after a while."""
    last, until = None, time.monotonic() + 15
    while time.monotonic() < until:
        now = server.memory_bytes()[1]
        if now == last:
            break
        last = now
        time.sleep(1.5)
    return now


def connect(port):
    connection = socket.create_connection(("127.0.0.1", port), 30)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def secure(port, protocol):
    context = CONTEXTS.setdefault(protocol, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols([protocol])
    connection = context.wrap_socket(connect(port), server_hostname=tls.NAME)
    if connection.selected_alpn_protocol() != protocol:
        raise SystemExit(f"the gateway does not speak {protocol}")
    return connection


CONTEXTS = {}


def keepalive(ports):
    return answered(connect(ports["http"]))


def over_tls(ports):
    return answered(secure(ports["tls"], "http/1.1"))


def answered(connection):
    connection.sendall(load.request_bytes("/bytes/64"))
    until(connection, b"\r\n\r\n", 64)
    return connection


def until(connection, mark, beyond=0):
    """Reads up to a mark, and so many bytes."""
    data = b""
    while mark not in data or len(data.partition(mark)[2]) < beyond:
        more = connection.recv(65536)
        if not more:
            raise SystemExit(f"closed after {data!r}")
        data += more
    return data


def websocket(ports):
    connection = connect(ports["http"])
    connection.sendall(b"GET /ws HTTP/1.1\r\nHost: perf.example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                       b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
    if not until(connection, b"\r\n\r\n").startswith(b"HTTP/1.1 101"):
        raise SystemExit("no WebSocket")
    # A text of two letters, masked with zeros.
    connection.sendall(b"\x81\x82\x00\x00\x00\x00hi")
    until(connection, b"\x81\x02hi")
    return connection


def events(ports):
    connection = connect(ports["http"])
    connection.sendall(b"GET /events HTTP/1.1\r\nHost: perf.example\r\nAccept: text/event-stream\r\n\r\n")
    until(connection, b"data:")
    return connection


def http2(ports):
    connection = secure(ports["tls"], "h2")
    # :method GET, :scheme https, :path by name, :authority by name.
    path, host = b"/bytes/64", tls.NAME.encode()
    block = b"\x82\x87\x04" + bytes([len(path)]) + path + b"\x01" + bytes([len(host)]) + host
    connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"") + frame(1, 5, 1, block))
    data, ended = b"", False
    while not ended:
        more = connection.recv(65536)
        if not more:
            raise SystemExit("the HTTP/2 connection was closed")
        data += more
        while len(data) >= 9 and len(data) >= 9 + int.from_bytes(data[:3], "big"):
            length, kind, flags, stream = int.from_bytes(data[:3], "big"), data[3], data[4], int.from_bytes(data[5:9], "big")
            data = data[9 + length:]
            if kind == 4 and not flags & 1:
                connection.sendall(frame(4, 1, 0, b""))
            if kind in (3, 7):
                raise SystemExit(f"a frame of type {kind} ended the HTTP/2 stream")
            ended = ended or (stream == 1 and kind in (0, 1) and bool(flags & 1))
    return connection


def frame(kind, flags, stream, payload):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


OPEN = {"keepalive": keepalive, "tls": over_tls, "http2": http2, "websocket": websocket, "events": events}

if __name__ == "__main__":
    main()
