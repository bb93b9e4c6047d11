"""Memory of idle connections, and the time from start to the first answer."""

import os
import statistics
import time

from . import figures, load, nginx, processes, tidegate


def idle(server, port, count):
    """Bytes per idle keep-alive connection that has served one request."""
    warm = [load.Connection(port) for _ in range(64)]
    request = load.request_bytes("/")
    for connection in warm:
        connection.get(request)
    before = server.memory_bytes()
    held = []
    for _ in range(count):
        connection = load.Connection(port)
        connection.get(request)
        held.append(connection)
    after = server.memory_bytes()
    for connection in warm + held:
        connection.reset()
    return {"rss_bytes": (after[0] - before[0]) / count, "pss_bytes": (after[1] - before[1]) / count,
            "base_rss_bytes": before[0]}


def run_idle(servers, count, say):
    limit = processes.raise_limits()
    count = min(count, limit - 500)
    result = {"connections": count}
    for who, (server, port) in servers.items():
        result[who] = idle(server, port, count)
        say(f"memory: {who}: {result[who]['pss_bytes']:,.0f} bytes per idle connection")
    return result


def idle_rows(result):
    return [figures.single("memory", label, result["nginx"][key], result["gateway"][key], 1.0)
            for key, label in (("pss_bytes", "B/idle conn (PSS)"), ("rss_bytes", "B/idle conn (RSS)"),
                               ("base_rss_bytes", "B resident, 64 conns"))]


def first_answer(name, command, port, path, folder):
    server = processes.Server(name, command, processes.GATEWAY_CORE, folder)
    request = load.request_bytes(path)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                connection = load.Connection(port)
                status = connection.get(request)
                connection.reset()
                if status == 200:
                    return (time.perf_counter() - server.spawned) * 1000
            except (OSError, SystemExit, ValueError, IndexError):
                pass
            if server.child.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"{name} never answered {path}:\n{server.output()}")
            time.sleep(0.001)
    finally:
        server.stop()


def run_start(binary, folder, upstream_port, rounds, routes, say):
    """Start to first answer on the last of `routes` routes. Without a binary nginx stands in."""
    measured = {"nginx": [], "gateway": []}
    for number in range(rounds):
        for who in measured:
            port = processes.free_port()
            prefix = os.path.join(folder, f"start-{who}-{number}")
            os.makedirs(prefix)
            if who == "nginx" or binary is None:
                command = nginx.with_routes(prefix, "start", port, upstream_port, routes)
            else:
                ports = {"http": port, "control": processes.free_port(), "metrics": processes.free_port()}
                resources = {"routes": tidegate.many_routes(upstream_port, routes)}
                command = tidegate.command(binary, prefix, ports, resources)
            measured[who].append(first_answer(who, command, port, f"/r{routes - 1}", prefix))
    result = {who: statistics.median(values) for who, values in measured.items()}
    say(f"start: nginx {result['nginx']:.0f} ms, gateway {result['gateway']:.0f} ms")
    return {"routes": routes, "median_ms": result, "rounds": measured}


def start_rows(result):
    median = result["median_ms"]
    return [figures.single("start", f"ms, {result['routes']} routes", median["nginx"], median["gateway"], 1.0)]
