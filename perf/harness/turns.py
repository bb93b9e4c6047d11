"""Two gateways under load in short turns, for machines whose speed changes from one second to the next.

Both have a wrk of their own with its connections open; one of the two is stopped (SIGSTOP) while the other has its turn. What slows
the machine for longer than a turn slows both alike, and the ratio of a round is that of equal time.
"""

import os
import signal
import time

from . import figures, load, throughput

TURN_SECONDS = 0.1


def run(name, servers, scripts, rounds, seconds, say):
    """As throughput.run; `seconds` of load for each of the two. Latencies are those of stopped clients: not returned."""
    path, script, instead, targets = throughput.SCENARIOS[name]
    scheme = "https" if name == "tls" else "http"
    for server, port in servers.values():
        throughput.once(server, port, path, scripts[script], 1, scheme)
    measured = {who: [] for who in servers}
    for number in range(rounds):
        order = list(servers) if number % 2 == 0 else list(reversed(servers))
        for who, result in one_round(order, servers, path, scripts[script], seconds, scheme).items():
            measured[who].append(result)
        say(f"{name}: round {number + 1}/{rounds}: " + ", ".join(
            f"{who} {measured[who][-1]['cpu_us']:.2f} us" for who in servers))
    medians = {who: figures.median_of(all_rounds) for who, all_rounds in measured.items()}
    return {"nginx_does": instead, "targets": targets, "median": medians, "rounds": measured}


def one_round(order, servers, path, script, seconds, scheme):
    before = {who: servers[who][0].cpu_seconds() for who in order}
    clients = {}
    for who in order:
        server, port = servers[who]
        port = server.tls_port if scheme == "https" else port
        clients[who] = load.start_wrk(port, path, script, len(order) * seconds, scheme)
        os.kill(clients[who].pid, signal.SIGSTOP)
    end, turn = time.monotonic() + len(order) * seconds + 1, 0
    while any(client.poll() is None for client in clients.values()) and time.monotonic() < end + 10:
        who = order[turn % len(order)]
        turn += 1
        if clients[who].poll() is None:
            os.kill(clients[who].pid, signal.SIGCONT)
            time.sleep(TURN_SECONDS)
            if time.monotonic() < end:
                os.kill(clients[who].pid, signal.SIGSTOP)
    results = {who: load.wrk_result(client, path) for who, client in clients.items()}
    return {who: {"cpu_us": (servers[who][0].cpu_seconds() - before[who]) * 1e6 / results[who]["requests"]}
            for who in order}
