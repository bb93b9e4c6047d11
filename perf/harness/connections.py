"""CPU of a connection with one request: without TLS, with a full handshake, a resumed one, and one with a client certificate.

The clients are Python's: slow, but only the CPU of the gateway is counted. Each request says `Connection: close`.
"""

import os
import socket
import ssl
import subprocess
import time

from . import figures, load, nginx, processes, tidegate, tls

KINDS = ("plain", "full", "resumed", "mutual")
TARGETS = {"full": 0.7, "resumed": 0.8}
MUTUAL = "mutual.perf.example"


def run(folder, binaries, upstream_port, rounds, seconds, say):
    """`binaries`: {"gateway": path} and perhaps {"before": path}."""
    folder = os.path.join(folder, "connections")
    os.makedirs(folder)
    os.chmod(folder, 0o755)
    pairs = certificates(folder)
    servers, measured = {}, {kind: {} for kind in KINDS}
    try:
        for who in ("nginx", *binaries):
            servers[who] = start(folder, who, binaries.get(who), upstream_port, pairs)
        contexts = {kind: context(kind, pairs) for kind in KINDS if kind != "plain"}
        for kind in KINDS:
            for number in range(rounds + 1):
                for who in servers if number % 2 == 0 else reversed(servers):
                    cost = one_round(*servers[who], kind, contexts.get(kind), seconds if number else 1)
                    # The first round warms up.
                    if number:
                        measured[kind].setdefault(who, []).append(cost)
            say(f"connections: {kind}: " + ", ".join(f"{who} {figures.percentile(values, 0.5):.0f} us" for who, values in measured[kind].items()))
    finally:
        for server, _ in servers.values():
            server.stop()
    return measured


def rows(result):
    return [figures.compared(f"connection, {kind}", "cpu_us", rounds, TARGETS.get(kind, 1.0)) for kind, rounds in result.items()]


def certificates(folder):
    """{name: (certificate, key)}: the server's two, and a client's with its CA."""
    def openssl(*words):
        subprocess.run(["openssl", *words], check=True, capture_output=True)

    pairs = {"plain": tls.certificate(folder)}
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    at = lambda name: os.path.join(folder, name)
    for name, subject in (("ca", "perf CA"), ("mutual", MUTUAL)):
        openssl("req", "-x509", *key, "-days", "30", "-keyout", at(name + ".key"), "-out", at(name + ".pem"), "-subj", f"/CN={subject}",
                *(["-addext", f"subjectAltName=DNS:{MUTUAL}"] if name == "mutual" else []))
        pairs[name] = (at(name + ".pem"), at(name + ".key"))
    openssl("req", *key, "-keyout", at("client.key"), "-out", at("client.csr"), "-subj", "/CN=client")
    with open(at("client.ext"), "w") as file:
        file.write("extendedKeyUsage=clientAuth\nsubjectAltName=DNS:client\n")
    openssl("x509", "-req", "-in", at("client.csr"), "-CA", at("ca.pem"), "-CAkey", at("ca.key"), "-CAcreateserial", "-days", "30",
            "-out", at("client.pem"), "-extfile", at("client.ext"))
    pairs["client"] = (at("client.pem"), at("client.key"))
    for _, secret in pairs.values():
        os.chmod(secret, 0o644)
    return pairs


def start(folder, who, binary, upstream_port, pairs):
    prefix = os.path.join(folder, who)
    os.makedirs(prefix)
    ports = {name: processes.free_port() for name in ("http", "tls", "control", "metrics")}
    if binary is None:
        command = nginx.command(prefix, who, nginx_servers(ports, upstream_port, pairs))
    else:
        ssls = [{"id": "plain", "sni": tls.NAME, **pem(pairs["plain"])},
                {"id": "mutual", "sni": MUTUAL, **pem(pairs["mutual"]), "client": {"ca": tls.read(pairs["ca"][0])}}]
        routes = [{"id": "all", "uri": "/*", "upstream": tidegate.node(upstream_port)}]
        command = tidegate.command(binary, prefix, ports, {"routes": routes, "ssls": ssls})
    server = processes.Server(f"connections-{who}", command, processes.GATEWAY_CORE, prefix)
    for name in ("http", "tls"):
        server.wait_for_port(ports[name])
    return server, ports


def pem(pair):
    return {"cert": tls.read(pair[0]), "key": tls.read(pair[1])}


def nginx_servers(ports, upstream_port, pairs):
    shared = (f"ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:SSL:20m; ssl_session_tickets off; proxy_http_version 1.1; "
              f"proxy_set_header Connection ''; proxy_set_header Host $http_host;")
    first = (f"server {{ listen 127.0.0.1:{ports['http']} backlog=4096; listen 127.0.0.1:{ports['tls']} ssl backlog=4096; server_name {tls.NAME}; "
             f"ssl_certificate {pairs['plain'][0]}; ssl_certificate_key {pairs['plain'][1]}; location / {{ proxy_pass http://backend; }} }}")
    second = (f"server {{ listen 127.0.0.1:{ports['tls']} ssl; server_name {MUTUAL}; ssl_certificate {pairs['mutual'][0]}; "
              f"ssl_certificate_key {pairs['mutual'][1]}; ssl_client_certificate {pairs['ca'][0]}; ssl_verify_client on; "
              "location / { proxy_pass http://backend; } }")
    return f"{shared} upstream backend {{ server 127.0.0.1:{upstream_port}; keepalive 100; keepalive_requests 1000000000; }} {first} {second}"


def context(kind, pairs):
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    if kind == "mutual":
        made.load_cert_chain(*pairs["client"])
    return made


def one_round(server, ports, kind, secure, seconds):
    """CPU of the server for each connection, in microseconds."""
    name = MUTUAL if kind == "mutual" else tls.NAME
    request = f"GET / HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode()
    session = exchange(ports, kind, secure, name, request, None) if kind == "resumed" else None
    before, count, until = server.cpu_seconds(), 0, time.monotonic() + seconds
    while time.monotonic() < until:
        # A session of TLS 1.3 is for one connection.
        session = exchange(ports, kind, secure, name, request, session)
        count += 1
    return (server.cpu_seconds() - before) * 1e6 / count


def exchange(ports, kind, secure, name, request, session):
    """One connection; returns the session to resume, for `resumed`."""
    connection = socket.create_connection(("127.0.0.1", ports["http" if kind == "plain" else "tls"]), 30)
    if secure:
        connection = secure.wrap_socket(connection, server_hostname=name, session=session)
    connection.sendall(request)
    answer = b""
    while more := connection.recv(65536):
        answer += more
    if not answer.startswith(b"HTTP/1.1 200"):
        raise SystemExit(f"connections, {kind}: {answer[:200]!r}")
    if session and not connection.session_reused:
        raise SystemExit("connections: the session was not resumed")
    kept = connection.session if kind == "resumed" else None
    connection.close()
    return kept
