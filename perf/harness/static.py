"""Static files: nginx with sendfile and open_file_cache against plugin static-files, on the same directory."""

import os

from . import figures, load, nginx, processes, tidegate

PAGE_BYTES = 1024
LARGE_BYTES = 10 * 1000 * 1000
CONNECTIONS = (10, 100, 1000)


def run(binary, folder, script, rounds, seconds, say):
    root = os.path.join(folder, "www")
    os.makedirs(root)
    for name, size in (("page.html", PAGE_BYTES), ("large.bin", LARGE_BYTES)):
        with open(os.path.join(root, name), "wb") as file:
            file.write(os.urandom(size))
    servers = start(binary, folder, root)
    try:
        return measure(servers, script, rounds, seconds, say)
    finally:
        for server, _ in servers.values():
            server.stop()


def start(binary, folder, root):
    servers = {}
    for who in ("nginx", "gateway"):
        prefix = os.path.join(folder, "static-" + who)
        os.makedirs(prefix)
        ports = {name: processes.free_port() for name in ("http", "control", "metrics")}
        if who == "nginx" or binary is None:
            http = (f"sendfile on; open_file_cache max=1000 inactive=60s; open_file_cache_valid 60s; "
                    f"types {{ text/html html; }} default_type application/octet-stream; "
                    f"server {{ listen 127.0.0.1:{ports['http']} reuseport backlog=4096; root {root}; }}")
            command = nginx.command(prefix, who, http)
        else:
            route = {"id": "static", "uri": "/*", "plugins": {"static-files": {"root": root}}}
            command = tidegate.command(binary, prefix, ports, {"routes": [route]})
        server = processes.Server("static-" + who, command, processes.GATEWAY_CORE, prefix)
        server.wait_for_port(ports["http"])
        servers[who] = (server, ports["http"])
    return servers


def measure(servers, script, rounds, seconds, say):
    cases = [(f"{PAGE_BYTES} bytes, c={count}", "/page.html", count) for count in CONNECTIONS]
    cases.append(("10 MB, c=4", "/large.bin", 4))
    results = {}
    for name, path, connections in cases:
        measured = {who: [] for who in servers}
        for number in range(rounds + 1):
            order = list(servers) if number % 2 == 0 else list(reversed(servers))
            for who in order:
                figure = once(*servers[who], path, script, connections, seconds if number else 1)
                # The first is for warming up.
                if number:
                    measured[who].append(figure)
            if number:
                say(f"static {name}: round {number}/{rounds}: " + ", ".join(
                    f"{who} {measured[who][-1]['rps']:,.0f}/s {measured[who][-1]['cpu_us']:.2f} us" for who in servers))
        results[name] = {
            "median": {who: figures.median_of(all_rounds) for who, all_rounds in measured.items()},
            "spread_percent": {who: {figure: round(figures.spread_percent(all_rounds, figure), 1)
                                     for figure in ("rps", "cpu_us", "p99_us")}
                               for who, all_rounds in measured.items()},
            "rounds": measured,
        }
    return results


def once(server, port, path, script, connections, seconds):
    before = server.cpu_seconds()
    result = load.wrk(port, path, script, seconds, connections=connections)
    used = server.cpu_seconds() - before
    return {"rps": result["requests"] / (result["duration_us"] / 1e6), "cpu_us": used * 1e6 / result["requests"],
            "p99_us": result["p99_us"]}


def rows(results):
    out = []
    for name, result in results.items():
        # Pages are judged by CPU, large files by throughput.
        judged = "rps" if name.startswith("10 MB") else "cpu_us"
        for figure in ("rps", "cpu_us", "p99_us"):
            target = 1.0 if figure == judged else None
            rounds = {who: [one[figure] for one in rounds] for who, rounds in result["rounds"].items()}
            out.append(figures.compared("static " + name, figure, rounds, target, figure == "rps"))
    return out
