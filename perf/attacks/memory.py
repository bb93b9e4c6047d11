"""Memory: what a client without a key, or a sink that never answers, can make the gateway hold."""

import os
import socket
import threading

from harness import load

from .scene import KEY, Quiet, ask, raw

CHUNK = b"x" * 65536
GROUP = "/sys/fs/cgroup/memory"
GROUP_BYTES = 2 << 30
NUMBERS = b'{"b":[' + b"1," * 10_000_000 + b"1]}"
# With 400 request-validation says which limit the body is over; with 404 the condition of the route does not hold.
ANSWERS = {"/vars": (404, 401, 413), "/checked": (200, 400, 413), "/turned": (200, 413)}
SCHEMA = {"type": "object", "properties": {"b": {"type": "array"}}}


def run(scene):
    strangers(scene)
    trees(scene)
    under_a_limit(scene)
    limiter_keys(scene)
    silent_sink(scene)


def together(count, work):
    """Runs work(number) in so many threads; returns what they returned."""
    results = [None] * count

    def one(number):
        results[number] = work(number)

    threads = [threading.Thread(target=one, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return results


def upload(port, length):
    """Sends a body without a key as far as the peer takes it; the status of the answer."""
    head = f"PUT /apisix/admin/routes/1 HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n".encode()
    with raw(port, head, 30) as connection:
        try:
            for _ in range(length // len(CHUNK)):
                connection.sendall(CHUNK)
        except OSError:
            pass
        try:
            return int(connection.recv(65536).split(b" ", 2)[1])
        except (OSError, IndexError, ValueError) as error:
            return repr(error)


def strangers(scene):
    gateway = scene.gateway()
    # The code that refuses is loaded by then.
    ask(gateway.ports["admin"], "/apisix/admin/routes", "PUT", "{}")
    before = gateway.forget_peak()
    statuses = together(8, lambda _: upload(gateway.ports["admin"], 118 << 20))
    scene.at_most("8 strangers post 118 MB each to the Admin API", gateway.peak_mb() - before, 5, "MB")
    scene.check("8 strangers: what they see", statuses, "401 each", statuses == [401] * 8)


def add_routes(gateway):
    gateway.put("consumers", "one", {"username": "one", "plugins": {"key-auth": {"key": KEY}}})
    gateway.route("quiet", "/quiet")
    gateway.route("vars", "/vars", {"key-auth": {}}, vars=[["post_arg.a", "==", "1"]])
    gateway.route("checked", "/checked", {"request-validation": {"body_schema": SCHEMA}})
    gateway.route("turned", "/turned", {"body-transformer": {"request": {"input_format": "json", "template": "{{b}}"}}})


def trees(scene):
    """20 MB that would be 80 times as much as a tree."""
    headers = {"Content-Type": "application/json"}
    for path, wanted in ANSWERS.items():
        gateway = scene.gateway()
        add_routes(gateway)
        before = gateway.forget_peak()

        def work():
            status, _ = gateway.ask(path, "POST", NUMBERS, headers, 60)
            grown = gateway.peak_mb() - before
            return f"+{grown:.1f} MB, answer {status}", grown <= 60 and status in wanted

        scene.beside(gateway, f"20 MB of numbers at {path}", work, f"+ <= 60 MB, one of {wanted}", 5)
        gateway.stop()


def under_a_limit(scene):
    """64 at once in a memory cgroup, where one may be made; else the resident size is bounded."""
    group = os.path.join(GROUP, f"tidegate-attack-{os.getpid()}")
    launcher = ()
    try:
        os.mkdir(group)
        with open(os.path.join(group, "memory.limit_in_bytes"), "w") as file:
            file.write(str(GROUP_BYTES))
        launcher = ("sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$0" "$@"')
    except OSError:
        pass
    try:
        gateway = scene.gateway(launcher=launcher)
        add_routes(gateway)
        gateway.forget_peak()
        paths = ("/vars", "/checked", "/turned")
        with Quiet(gateway) as quiet:
            statuses = together(16 if scene.quick else 64, lambda number: gateway.ask(
                paths[number % 3], "POST", NUMBERS, {"Content-Type": "application/json"}, 100)[0])
        said = {status: statuses.count(status) for status in sorted(set(statuses), key=str)}
        met = gateway.lives() and set(said) <= {200, 400, 401, 404, 408, 413, 503}
        scene.check(f"{len(statuses)} at once, {'2 GB cgroup' if launcher else 'no cgroup'}",
                    f"{gateway.fate()}, {said}" + (f", peak {gateway.peak_mb():.0f} MB" if gateway.lives() else ""),
                    "lives; 503 beyond the budget", met and (launcher or gateway.peak_mb() < 2048))
        scene.check("quiet route meanwhile", f"{quiet.errors} errors of {quiet.count}, longest {quiet.longest_ms:.0f} ms",
                    "0 errors", not quiet.errors and quiet.count)
        gateway.stop()
    finally:
        if launcher:
            os.rmdir(group)


def limiter_keys(scene):
    gateway = scene.gateway()
    rule = {"count": 1_000_000, "time_window": 3600, "key_type": "var", "key": "http_x_key", "policy": "local"}
    gateway.route("limited", "/limited", {"limit-count": rule})
    count, before = (20_000 if scene.quick else 200_000), gateway.forget_peak()
    connection, padding = load.Connection(gateway.ports["http"]), "k" * 7_790
    refused = sum(connection.get(f"GET /limited HTTP/1.1\r\nHost: a\r\nX-Key: {number:010}{padding}\r\n\r\n".encode()) != 200
                  for number in range(count))
    scene.at_most(f"{count:,} limiter keys of 7.8 KB", gateway.peak_mb() - before, 64, "MB")
    scene.check("limiter keys: refused", refused, "0", refused == 0)


def silent_sink(scene):
    """Accepts, reads nothing, answers nothing."""
    gateway, count = scene.gateway(), (600 if scene.quick else 6_000)
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as sink:
        logger = {"uri": f"http://127.0.0.1:{sink.getsockname()[1]}/log", "include_req_body": True, "timeout": 60,
                  "batch_max_size": 1}
        gateway.route("logged", "/logged", {"http-logger": logger})
        gateway.route("quiet", "/quiet")
        before, connection = gateway.forget_peak(), load.Connection(gateway.ports["http"])
        request = b"POST /logged HTTP/1.1\r\nHost: a\r\nContent-Length: 524288\r\n\r\n" + b"y" * 524_288
        with Quiet(gateway) as quiet:
            wrong = sum(connection.get(request) != 200 for _ in range(count))
    scene.at_most(f"a silent log sink under {count:,} posts of 512 KB", gateway.peak_mb() - before, 64, "MB")
    scene.check("a silent log sink: posts refused", wrong, "0", wrong == 0)
    scene.waits("a silent log sink", quiet, 5)
