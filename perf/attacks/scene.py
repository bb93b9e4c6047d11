"""What every attack starts with: a gateway of its own, a quiet client beside the attack, and lines for the table."""

import http.client
import json
import multiprocessing
import os
import re
import socket
import subprocess
import time

from harness import load, processes, tidegate

# All cores: on its own core the gateway would have the time that others here take.
CORES = f"0-{(os.cpu_count() or 1) - 1}"
# On a busy machine a quiet client waits for other programs, too. Beside it runs the same client of a second gateway that
# nobody attacks: a wait above the target still meets it when it is at most this many times that of the control. Both are
# printed.
BUSY_FACTOR = 2.0
TRIES, LEAST_SECONDS = 3, 0.3
# A request of the quiet client that takes longer is an error.
PROBE_SECONDS = 3
KEY = "attack-key-0123456789"


class Scene:
    """One attack's folder, gateways and results."""

    def __init__(self, folder, binary, upstream_port, control_port, quick):
        self.folder, self.binary, self.upstream_port, self.control_port = folder, binary, upstream_port, control_port
        self.quick, self.rows, self.gateways, self.others = quick, [], [], []

    def gateway(self, edit=None, launcher=(), name=None):
        """A gateway that serves. `edit` changes config.yaml, `launcher` are words before the command."""
        made = Gateway(self, name or f"gateway{len(self.gateways)}", edit, launcher)
        self.gateways.append(made)
        made.start()
        return made

    def process(self, name, command, port=None):
        """Another server, such as redis."""
        server = processes.Server(name, command, CORES, self.folder)
        self.others.append(server)
        if port:
            server.wait_for_port(port)
        return server

    def check(self, what, measured, target, met):
        self.rows.append([what, str(measured), str(target), bool(met)])

    def at_most(self, what, value, limit, unit):
        self.check(what, f"{value:.1f} {unit}", f"<= {limit:g} {unit}", value <= limit)

    def waits(self, what, quiet, limit_ms):
        """The longest wait and the errors of a `Quiet` that has ended."""
        self.check(f"{what}: others wait", quiet.told(), f"<= {limit_ms:g} ms, 0 errors", quiet.within(limit_ms))

    def beside(self, gateway, what, work, target, limit_ms):
        """One line for `work()`, which returns (what was measured, whether it meets the target), and the others' wait.

        What stalls others does so every time, a busy machine only now and then: a wait that misses its target is measured
        again, and the line says how often it was measured.
        """
        for attempt in range(1, TRIES + 1):
            with Quiet(gateway) as quiet:
                end = time.monotonic() + LEAST_SECONDS
                measured, met = work()
                time.sleep(max(0.0, end - time.monotonic()))
            if not met or quiet.within(limit_ms):
                break
        again = f", try {attempt}" if attempt > 1 else ""
        self.check(what, f"{measured}; others {quiet.told()}{again}", f"{target}; {limit_ms:g} ms, 0 errors",
                   met and quiet.within(limit_ms))

    def close(self):
        """Every gateway that was not stopped on purpose must still be the process that was started."""
        for gateway in self.gateways:
            if gateway.running:
                self.check("the process lives", gateway.fate(), "same process", gateway.lives())
            gateway.stop()
        self.abandon()

    def abandon(self):
        for server in [gateway.server for gateway in self.gateways if gateway.server] + self.others:
            if server.child.poll() is None:
                server.child.send_signal(18)  # SIGCONT: one that is paused does not end.
                server.stop()


class Gateway:
    def __init__(self, scene, name, edit, launcher):
        self.scene, self.name, self.edit, self.launcher = scene, name, edit, list(launcher)
        self.prefix = os.path.join(scene.folder, name)
        self.ports = {name: processes.free_port() for name in ("http", "control", "metrics", "admin")}
        self.server, self.running = None, False
        os.makedirs(self.prefix)
        self.command = tidegate.command(scene.binary, self.prefix, self.ports)
        if edit:
            path = os.path.join(self.prefix, "conf", "config.yaml")
            with open(path) as file:
                text = edit(file.read())
            with open(path, "w") as file:
                file.write(text)

    def start(self):
        self.launch()
        for name in ("http", "admin"):
            self.server.wait_for_port(self.ports[name])

    def launch(self):
        self.server = processes.Server(self.name, [*self.launcher, *self.command], CORES, self.scene.folder)
        self.running = True

    def stop(self):
        self.running = False
        if self.server:
            self.server.stop()

    def kill(self):
        self.running = False
        self.server.child.kill()
        self.server.child.wait()

    def pid(self):
        return self.server.child.pid

    def lives(self):
        return self.server.child.poll() is None

    def ended(self, seconds):
        """Whether it ends within so long."""
        try:
            self.server.child.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def fate(self):
        code = self.server.child.poll()
        return f"{self.pid()} serves" if code is None else f"ended with {code}: {self.server.output()[-300:]!r}"

    def peak_mb(self):
        """The largest resident size since `forget_peak`."""
        return self._status("VmHWM")

    def rss_mb(self):
        return self._status("VmRSS")

    def forget_peak(self):
        with open(f"/proc/{self.pid()}/clear_refs", "w") as file:
            file.write("5")
        return self.rss_mb()

    def _status(self, field):
        with open(f"/proc/{self.pid()}/status") as status:
            return int(re.search(field + r":\s+(\d+)", status.read()).group(1)) / 1024

    def cpu_ms(self):
        return self.server.cpu_seconds() * 1000

    def put(self, kind, name, body):
        tidegate.Admin(self.ports["admin"]).put(kind, name, body)

    def route(self, name, uri, plugins=None, wait=True, **fields):
        """A route to the upstream; returns when it is served."""
        self.put("routes", name, {"uri": uri, "plugins": plugins or {}, "upstream": tidegate.node(self.scene.upstream_port),
                                  **fields})
        if wait and "vars" not in fields:
            wait_until(lambda: ask(self.ports["http"], uri.replace("*", ""))[0] not in (None, 404), f"route {name}")

    def admin(self, method, path, body=None, timeout=30):
        return ask(self.ports["admin"], "/apisix/admin" + path, method, json.dumps(body) if body is not None else None,
                   {"X-API-KEY": tidegate.ADMIN_KEY}, timeout)

    def ask(self, path, method="GET", body=None, headers=None, timeout=30):
        return ask(self.ports["http"], path, method, body, headers, timeout)

    def log(self, name="error.log"):
        with open(os.path.join(self.prefix, "logs", name), "rb") as file:
            return file.read()


def ask(port, path, method="GET", body=None, headers=None, timeout=30):
    """(status, body) of one request on a connection of its own; (None, what happened) where no answer came."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        client.request(method, path, body, headers or {})
        answer = client.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException) as error:
        # A refused upload is cut off; its answer may have come before.
        return early_answer(client, error)
    finally:
        client.close()


def early_answer(client, error):
    try:
        data = client.sock.recv(65536)
        return int(data.split(b" ", 2)[1]), data.partition(b"\r\n\r\n")[2]
    except (OSError, AttributeError, ValueError, IndexError):
        return None, repr(error).encode()


def wait_until(holds, what, seconds=20):
    """Asks again and again; returns how long it took."""
    start = time.monotonic()
    while not holds():
        if time.monotonic() - start > seconds:
            raise SystemExit(f"never within {seconds} s: {what}")
        time.sleep(0.005)
    return time.monotonic() - start


def raw(port, data, timeout=10):
    """A connection that has sent this."""
    connection = socket.create_connection(("127.0.0.1", port), timeout)
    connection.sendall(data)
    return connection


class Quiet:
    """A sequential keep-alive client in a process of its own, and one of the control, for as long as the attack goes."""

    def __init__(self, gateway, path="/quiet"):
        self.parts = []
        for port in (gateway.ports["http"], gateway.scene.control_port):
            ours, theirs = multiprocessing.Pipe()
            child = multiprocessing.Process(target=probe, args=(theirs, port, path), daemon=True)
            child.start()
            self.parts.append((child, ours))

    def __enter__(self):
        for _, pipe in self.parts:
            pipe.recv()
        return self

    def __exit__(self, *_):
        figures = []
        for child, pipe in self.parts:
            pipe.send(None)
            figures.append(pipe.recv() if pipe.poll(3 * PROBE_SECONDS) else (float("inf"), 1, 0))
            child.join(1)
            child.kill()
        (self.longest_ms, self.errors, self.count), (self.control_ms, _, _) = figures

    def within(self, limit_ms):
        return self.longest_ms <= max(limit_ms, BUSY_FACTOR * self.control_ms) and not self.errors and self.count > 0

    def told(self):
        errors = f", {self.errors} errors of {self.count}" if self.errors or not self.count else ""
        return f"{self.longest_ms:.1f} ms (control {self.control_ms:.1f} ms){errors}"


def connected(port):
    connection = load.Connection(port)
    connection.socket.settimeout(PROBE_SECONDS)
    return connection


def probe(pipe, port, path):
    request, connection = load.request_bytes(path), None
    longest, errors, count = 0.0, 0, -20
    while True:
        start = time.perf_counter()
        try:
            connection = connection or connected(port)
            errors += connection.get(request) != 200
        except (OSError, ValueError, IndexError, SystemExit):
            errors, connection = errors + 1, None
        count += 1
        if count == 0:
            longest, errors = 0.0, 0
            pipe.send(None)
        longest = max(longest, time.perf_counter() - start) if count > 0 else 0.0
        if pipe.poll(0.001):
            pipe.send((longest * 1000, errors, count))
            return
