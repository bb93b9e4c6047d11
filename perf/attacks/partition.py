"""Redis and etcd that hang or end: what does not need them goes on, and they count again when they are back."""

import json
import os
import signal
import subprocess
import time

from harness import processes, tidegate

from .scene import Quiet, wait_until

COUNT = 100_000


def run(scene):
    hung_redis(scene)
    for way in ("hangs", "is killed"):
        lost_etcd(scene, way)


def hung_redis(scene):
    port = processes.free_port()
    redis = scene.process("redis", ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir",
                                    scene.folder], port)
    gateway = scene.gateway(name="redis-gateway")
    rule = {"count": COUNT, "time_window": 3600, "key": "remote_addr", "policy": "redis", "redis_host": "127.0.0.1",
            "redis_port": port, "redis_timeout": 500, "allow_degradation": False}
    gateway.route("quiet", "/quiet")
    gateway.route("limited", "/limited", {"limit-count": rule})
    gateway.route("lenient", "/lenient", {"limit-count": {**rule, "allow_degradation": True}})
    wait_until(lambda: gateway.ask("/limited")[0] == 200, "the limit counts")
    redis.child.send_signal(signal.SIGSTOP)
    rounds, outcomes = (5 if scene.quick else 20), {}
    try:
        with Quiet(gateway) as quiet:
            for path in ("/limited", "/lenient"):
                start = time.monotonic()
                outcomes[path] = {gateway.ask(path, timeout=20)[0] for _ in range(rounds)}
                scene.at_most(f"Redis hangs: {rounds} requests of {path} together", time.monotonic() - start, 3, "s")
    finally:
        redis.child.send_signal(signal.SIGCONT)
    scene.check("Redis hangs: limit-count", f"{outcomes['/limited']}, allow_degradation {outcomes['/lenient']}",
                "an error, 200", outcomes["/lenient"] == {200} and outcomes["/limited"] <= {500, 503})
    scene.waits("Redis hangs", quiet, 5)
    back = wait_until(lambda: gateway.ask("/limited")[0] == 200, "the limit counts again")
    scene.at_most("Redis is back: the limit counts after", back, 5, "s")


class Etcd:
    def __init__(self, scene, name):
        self.scene, self.name = scene, name
        self.port, self.peer = processes.free_port(), processes.free_port()
        self.start()

    def start(self):
        own, peer = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{self.peer}"
        self.server = self.scene.process(self.name, [
            "etcd", "--name", "one", "--data-dir", os.path.join(self.scene.folder, self.name + "-data"),
            "--listen-client-urls", own, "--advertise-client-urls", own, "--listen-peer-urls", peer,
            "--initial-advertise-peer-urls", peer, "--initial-cluster", f"one={peer}", "--log-level", "error"], self.port)
        wait_until(lambda: self.put("/started", {}), "etcd takes writes")

    def put(self, key, value):
        """By the client of etcd, past the gateway."""
        return not subprocess.run(
            ["etcdctl", f"--endpoints=http://127.0.0.1:{self.port}", "--command-timeout=2s", "put", key, json.dumps(value)],
            env={**os.environ, "ETCDCTL_API": "3"}, capture_output=True, check=False).returncode


def by_etcd(port):
    head = (f"deployment:\n  etcd: {{host: [\"http://127.0.0.1:{port}\"], timeout: 5}}\n"
            "  role_traditional: {config_provider: etcd}\n")
    return lambda text: text.replace("deployment:\n", head)


def lost_etcd(scene, way):
    etcd = Etcd(scene, f"etcd-{way.replace(' ', '-')}")
    gateway = scene.gateway(by_etcd(etcd.port), name=etcd.name + "-gateway")
    gateway.route("quiet", "/quiet")
    with Quiet(gateway) as quiet:
        if way == "hangs":
            etcd.server.child.send_signal(signal.SIGSTOP)
        else:
            etcd.server.child.kill()
            etcd.server.child.wait()
        start = time.monotonic()
        status, answer = gateway.admin("PUT", "/routes/late", late(scene), timeout=40)
        took = time.monotonic() - start
        time.sleep(2 if scene.quick else 10)
        if way == "hangs":
            etcd.server.child.send_signal(signal.SIGCONT)
        else:
            etcd.start()
    scene.check(f"etcd {way}: a write", f"{status} {answer[:60]!r} after {took:.1f} s", "5xx within 15 s",
                status is not None and status >= 500 and took <= 15)
    scene.waits(f"etcd {way}", quiet, 5)
    after = {**late(scene), "id": "after", "uri": "/after"}
    stored = wait_until(lambda: etcd.put("/apisix/routes/after", after), "etcd takes writes")
    arrived = wait_until(lambda: gateway.ask("/after")[0] == 200, "a change after etcd is back", 60)
    scene.at_most(f"etcd {way}, then is back: a change arrives after", stored + arrived, 15, "s")
    status = gateway.ask("/quiet")[0]
    scene.check(f"etcd {way}: the old route afterwards", status, "200", status == 200)


def late(scene):
    return {"uri": "/late", "upstream": tidegate.node(scene.upstream_port)}
