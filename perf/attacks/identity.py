"""openid-connect and ldap-auth with servers that answer anything but what they should: nothing opens or waits forever."""

import base64
import json
import os
import socket
import threading
import time

from .scene import Quiet

# Timeouts of the plugins are 3 s (openid-connect, a few requests in a row) and 10 s (ldap-auth).
MOST_SECONDS, MOST_MB, TRIES = 12, 64, 4
REFUSED = {"401", "403", "500", "502", "503", "504"}


class Hostile:
    """A server that lets `answer(connection, request, port)` do its worst; each connection has a thread."""

    def __init__(self, answer):
        self.answer, self.listener = answer, socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection:
            try:
                connection.settimeout(30)
                self.answer(connection, connection.recv(65536), self.port)
            except OSError:
                pass


def page(connection, body, extra="Content-Type: application/json\r\n", status="200 OK"):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"HTTP/1.1 {status}\r\n{extra}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    connection.sendall(head.encode() + body)


def document(port):
    base = f"http://127.0.0.1:{port}"
    return {"issuer": base, "jwks_uri": f"{base}/jwks", "introspection_endpoint": f"{base}/introspect",
            "authorization_endpoint": f"{base}/auth", "token_endpoint": f"{base}/token",
            "userinfo_endpoint": f"{base}/userinfo"}


def garbage(connection, _request, _port):
    connection.sendall(os.urandom(100_000))


def huge(connection, _request, _port):
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"issuer\": \"")
    while True:
        connection.sendall(b"x" * 65536)


def huge_head(connection, _request, _port):
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        connection.sendall(b"X-A: " + b"x" * 8000 + b"\r\n")


def drip(connection, _request, _port):
    for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b" " * 100_000:
        connection.sendall(bytes([byte]))
        time.sleep(0.5)


def silent(connection, _request, _port):
    connection.recv(1)


def circle(connection, _request, port):
    page(connection, b"", f"Location: http://127.0.0.1:{port}/again\r\n", "302 Found")


def nested(connection, _request, _port):
    page(connection, b"[" * 1_000_000)


def wrong_types(connection, _request, _port):
    page(connection, {"issuer": [], "jwks_uri": 5, "introspection_endpoint": {"a": None}, "authorization_endpoint": True})


def good_then(rest):
    """A good discovery document, then `rest` for keys and introspection."""
    def answer(connection, request, port):
        if b"well-known" in request.split(b"\r\n", 1)[0]:
            page(connection, document(port))
        else:
            rest(connection, request, port)
    return answer


def yes_but(body):
    return good_then(lambda connection, _request, _port: page(connection, body))


# The controls are not attacks: where they do not open, the refusals of the others say nothing.
PROVIDERS = {
    "control: active": yes_but({"active": True, "sub": "a", "client_id": "a"}),
    "garbage": garbage, "an answer without end": huge, "a head without end": huge_head, "a slow drip": drip,
    "silence": silent,
    "a redirect to itself": circle, "deep nesting": nested, "wrong types": wrong_types, "keys: garbage": good_then(garbage),
    "keys: without end": good_then(huge), "keys: silence": good_then(silent), "keys: none": yes_but({"keys": []}),
    "keys: wrong": yes_but({"keys": [{"kty": "oct", "k": ""}, {"kty": "RSA", "n": "AQ", "e": "AQ"}, {"kty": None}, 5]}),
    "active: text": yes_but({"active": "true"}), "active: 1": yes_but({"active": 1}), "active: missing": yes_but({}),
    "active: list": yes_but([{"active": True}]),
}


def token(algorithm, claims, signature=b""):
    parts = [json.dumps({"alg": algorithm, "typ": "JWT"}).encode(), json.dumps(claims).encode(), signature]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


# BER: a bind response with success for another message, announced lengths that never come, and worse.
SUCCESS = b"\x07\x0a\x01\x00\x04\x00\x04\x00"
DIRECTORIES = {
    "control: success": lambda connection, *_: connection.sendall(b"\x30\x0c\x02\x01\x01\x61" + SUCCESS),
    "random bytes": lambda connection, *_: connection.sendall(os.urandom(65536)),
    "a length of 4 GB": lambda connection, *_: (
        connection.sendall(b"\x30\x84\xff\xff\xff\xff\x02\x01\x01"), connection.recv(1)),
    "4 GB in fact": lambda connection, *_: (connection.sendall(b"\x30\x84\xff\xff\xff\xff"), flood(connection)),
    "a length of 127 bytes": lambda connection, *_: connection.sendall(b"\x30\xff" + b"\xff" * 127),
    "indefinite length": lambda connection, *_: (connection.sendall(b"\x30\x80" * 10_000), connection.recv(1)),
    "silence": silent,
    "a close": lambda connection, *_: None,
    "success for another message": lambda connection, *_: connection.sendall(b"\x30\x0c\x02\x01\x63\x61" + SUCCESS),
    "success of another operation": lambda connection, *_: connection.sendall(b"\x30\x0c\x02\x01\x01\x65" + SUCCESS),
    "a code of two bytes": lambda connection, *_: connection.sendall(
        b"\x30\x0d\x02\x01\x01\x61\x08\x0a\x02\x01\x00\x04\x00\x04\x00"),
    "an empty code": lambda connection, *_: connection.sendall(b"\x30\x0b\x02\x01\x01\x61\x06\x0a\x00\x04\x00\x04\x00"),
    "a slow drip": lambda connection, *_: [(connection.sendall(b"\x00"), time.sleep(0.5)) for _ in range(100)],
}


def flood(connection):
    while True:
        connection.sendall(b"\0" * 65536)


def run(scene):
    gateway = scene.gateway()
    gateway.route("quiet", "/quiet")
    gateway.put("consumers", "user01", {"username": "user01", "plugins": {"ldap-auth": {"user_dn": "cn=user01,dc=a"}}})
    for number, (name, answer) in enumerate(PROVIDERS.items()):
        provider = Hostile(answer)
        settings = {"client_id": "a", "client_secret": "b", "bearer_only": True, "timeout": 3, "ssl_verify": False,
                    "discovery": f"http://127.0.0.1:{provider.port}/.well-known/openid-configuration"}
        if name.startswith("keys"):
            settings["use_jwks"] = True
        claims = {"iss": f"http://127.0.0.1:{provider.port}", "sub": "a", "aud": "a", "exp": int(time.time()) + 600}
        tokens = [token("none", claims), token("None", claims), token("HS256", claims, b"x" * 32),
                  token("RS256", claims, b"\1")]
        attacked(scene, gateway, f"openid-connect, {name}", f"/oidc{number}", {"openid-connect": settings},
                 [{"Authorization": f"Bearer {one}"} for one in tokens], {"200"} if name.startswith("control") else REFUSED)
        provider.listener.close()
    for number, (name, answer) in enumerate(DIRECTORIES.items()):
        directory = Hostile(answer)
        settings = {"base_dn": "dc=a", "ldap_uri": f"127.0.0.1:{directory.port}", "uid": "cn"}
        basic = {"Authorization": "Basic " + base64.b64encode(b"user01:password").decode()}
        attacked(scene, gateway, f"ldap-auth, {name}", f"/ldap{number}", {"ldap-auth": settings}, [basic] * TRIES,
                 {"200"} if name.startswith("control") else REFUSED)
        directory.listener.close()


def attacked(scene, gateway, name, path, plugins, headers, wanted):
    """All requests at once; each has to be answered so in time."""
    gateway.put("routes", path[1:], {"uri": path, "plugins": plugins,
                                     "upstream": {"type": "roundrobin", "nodes": {f"127.0.0.1:{scene.upstream_port}": 1}}})
    before, outcomes = gateway.forget_peak(), []

    def one(fields):
        start = time.monotonic()
        status, _ = gateway.ask(path, headers=fields, timeout=40)
        outcomes.append((status, time.monotonic() - start))

    with Quiet(gateway) as quiet:
        threads = [threading.Thread(target=one, args=(fields,), daemon=True) for fields in headers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(45)
    grown, statuses = gateway.peak_mb() - before, sorted({str(status) for status, _ in outcomes})
    slowest = max((took for _, took in outcomes), default=float("inf"))
    met = (set(statuses) <= wanted and len(outcomes) == len(headers)
           and slowest <= MOST_SECONDS and grown <= MOST_MB and not quiet.errors)
    scene.check(name, f"{', '.join(statuses)}, {slowest:.1f} s, +{max(grown, 0):.1f} MB; others {quiet.told()}",
                f"{'opens' if wanted == {'200'} else 'refused'}, <= {MOST_SECONDS} s, + <= {MOST_MB} MB, 0 errors", met)
