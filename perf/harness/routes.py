"""Two routes of one gateway: what one of them costs beyond the other."""

import os
import signal
import statistics
import time

from . import load, nginx, processes

TURN_SECONDS = 0.1


def cpu_seconds(pid):
    """Of all threads of one process, by the scheduler's account; not of its children."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/schedstat") as file:
                total += int(file.read().split()[0])
        except OSError:
            pass
    return total / 1e9


class Pair:
    """The paths of both routes, the plain one first, and the gateway that has them."""

    def __init__(self, pid, port, plain, other, folder):
        self.pid, self.port, self.paths = pid, port, (plain, other)
        self.script = os.path.join(folder, "plain.lua")
        with open(self.script, "w") as file:
            file.write(load.plain_script())

    def warm_up(self):
        for path in self.paths:
            load.wrk(self.port, path, self.script, 1)

    def cpu_us(self, seconds):
        """CPU microseconds for each request of both, under full load in turns of a tenth of a second."""
        spent, clients = dict.fromkeys(self.paths, 0.0), {}
        for path in self.paths:
            clients[path] = load.start_wrk(self.port, path, self.script, 2 * seconds)
            os.kill(clients[path].pid, signal.SIGSTOP)
        end, turn = time.monotonic() + 2 * seconds + 1, 0
        while any(client.poll() is None for client in clients.values()) and time.monotonic() < end + 10:
            path = self.paths[turn % 2]
            turn += 1
            if clients[path].poll() is not None:
                continue
            before = cpu_seconds(self.pid)
            os.kill(clients[path].pid, signal.SIGCONT)
            time.sleep(TURN_SECONDS)
            if time.monotonic() < end:
                os.kill(clients[path].pid, signal.SIGSTOP)
            spent[path] += cpu_seconds(self.pid) - before
        return [spent[path] * 1e6 / load.wrk_result(client, path)["requests"] for path, client in clients.items()]

    def p50_us(self, seconds):
        """The median latency of both in microseconds, one request after the other on one connection."""
        return [load.wrk(self.port, path, self.script, seconds, connections=1)["p50_us"] for path in self.paths]


def added(rounds):
    """The median of what the second has more than the first, and its range."""
    more = sorted(other - plain for plain, other in rounds)
    return statistics.median(more), more[0], more[-1]


def upstream(folder):
    """A server for both routes on the core of the load; its port."""
    port = processes.free_port()
    server = processes.Server("upstream", nginx.upstream(folder, port), processes.load_core(), folder)
    server.wait_for_port(port)
    return server, port
