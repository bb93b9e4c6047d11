"""The gateway under measurement: its configuration, its binary, its Admin API."""

import http.client
import json
import os

from . import nginx, tls

ADMIN_KEY = "perf-admin-key"
LIMIT = {"count": 1_000_000_000, "time_window": 60, "key": "remote_addr", "policy": "local"}

_CONFIG = """apisix:
  node_listen: [{{ip: 127.0.0.1, port: {port}}}]
  ssl: {ssl}
  enable_admin: {admin}
  control: {{ip: 127.0.0.1, port: {control}}}
nginx_config:
  worker_processes: 1
  worker_rlimit_nofile: 65536
  event: {{worker_connections: 30000}}
  http:
    enable_access_log: false
    keepalive_timeout: 600s
    upstream: {{keepalive: 1000, keepalive_requests: 1000000000, keepalive_timeout: 600s}}
plugin_attr:
  prometheus: {{refresh_interval: 1, export_addr: {{ip: 127.0.0.1, port: {metrics}}}}}
deployment:
"""
_YAML = """  role: data_plane
  role_data_plane: {config_provider: yaml}
"""
_EMBEDDED = """  role: traditional
  admin:
    admin_listen: {{ip: 127.0.0.1, port: {admin_port}}}
    admin_key: [{{name: admin, key: {key}, role: admin}}]
"""


def find_binary(root):
    """The release binary; TIDEGATE_BIN overrides."""
    target = os.environ.get("CARGO_TARGET_DIR") or os.path.join(root, "target")
    binary = os.environ.get("TIDEGATE_BIN") or os.path.join(target, "release", "tidegate")
    if not os.access(binary, os.X_OK):
        raise SystemExit(f"no gateway at {binary}; run 'make build' or set TIDEGATE_BIN")
    return os.path.abspath(binary)


def command(binary, folder, ports, resources=None):
    """Writes a prefix; returns the command. `resources`: what apisix.yaml holds, or None for the Admin API."""
    conf = os.path.join(folder, "conf")
    for name in ("conf", "logs", "data"):
        os.makedirs(os.path.join(folder, name), exist_ok=True)
    text = _CONFIG.format(
        port=ports["http"],
        ssl=f"{{fallback_sni: {tls.NAME}, listen: [{{ip: 127.0.0.1, port: {ports['tls']}}}]}}" if "tls" in ports
        else "{enable: false}",
        control=ports["control"],
        metrics=ports["metrics"],
        admin="true" if resources is None else "false",
    )
    if resources is None:
        text += _EMBEDDED.format(admin_port=ports["admin"], key=ADMIN_KEY)
    else:
        text += _YAML
        with open(os.path.join(conf, "apisix.yaml"), "w") as file:
            # JSON is YAML; one object a line keeps error messages with line numbers useful.
            for kind, objects in resources.items():
                file.write(f"{kind}:\n" + "".join(f"  - {json.dumps(one)}\n" for one in objects))
            file.write("#END\n")
    with open(os.path.join(conf, "config.yaml"), "w") as file:
        file.write(text)
    return [binary, "run", "--prefix", folder, "-c", os.path.join(conf, "config.yaml")]


def resources(upstream_port, keys, pair):
    """Routes and consumers of all wrk scenarios."""
    upstream = node(upstream_port)
    routes = [
        {"id": "plain", "uri": "/*", "upstream": upstream},
        {"id": "counted", "uri": "/counted", "upstream": upstream, "plugins": {"limit-count": LIMIT, "prometheus": {}}},
        {"id": "mock", "uri": "/mock", "plugins": {"mocking": {
            "response_example": nginx.BODY, "content_type": "text/plain", "with_mock_header": False}}},
    ]
    for number in range(len(keys)):
        routes.append({"id": f"k{number}", "uri": f"/k/{number}", "upstream": upstream,
                       "plugins": {"key-auth": {}, "limit-count": LIMIT}})
    consumers = [{"username": f"consumer_{number}", "plugins": {"key-auth": {"key": key}}}
                 for number, key in enumerate(keys)]
    cert, key = pair
    ssls = [{"id": "tls", "sni": tls.NAME, "cert": tls.read(cert), "key": tls.read(key)}]
    return {"routes": routes, "consumers": consumers, "ssls": ssls}


def many_routes(upstream_port, count):
    return [route(upstream_port, number) for number in range(count)]


def route(upstream_port, number, version=0):
    return {"id": f"r{number}", "uri": f"/r{number}", "desc": f"version {version}",
            "plugins": {"prometheus": {}}, "upstream": node(upstream_port)}


def node(upstream_port):
    return {"type": "roundrobin", "nodes": {f"127.0.0.1:{upstream_port}": 1}}


class Admin:
    """An Admin API client that keeps its connection."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def put(self, kind, name, body):
        fields = {key: value for key, value in body.items() if key != "id"}
        self.connection.request("PUT", f"/apisix/admin/{kind}/{name}", json.dumps(fields),
                                {"X-API-KEY": ADMIN_KEY, "Content-Type": "application/json"})
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status not in (200, 201):
            raise SystemExit(f"PUT {kind}/{name}: {answer.status} {text.decode(errors='replace')}")
