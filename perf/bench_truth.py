#!/usr/bin/env python3
"""Compares what `tidegate bench` says with what is so.

    TIDEGATE_BIN=target/release/tidegate python3 perf/bench_truth.py [--rounds 5] [--only cpu|corrected|speed|healthy]

cpu: the server's CPU time for each request beside that of its control group (needs root).
corrected: the corrected p99.9 of servers that take 1, 10 and 100 ms, at 400 requests/s, beside the server's own record.
speed: requests per second and CPU time per request of one core beside wrk and h2load, in turn.
healthy: findings about healthy servers, each --rounds times; there should be none.

Servers that are not installed are left out, and named.
"""

import argparse
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

BIN = os.environ.get("TIDEGATE_BIN", "target/release/tidegate")
GROUPS = pathlib.Path("/sys/fs/cgroup")
# Version 1 has a hierarchy for each controller.
if (GROUPS / "cpuacct").is_dir():
    GROUPS = GROUPS / "cpuacct"

GO = r"""
package main
import ("fmt";"net/http";"os";"sort";"strconv";"sync";"time")
func main() {
	wait, _ := strconv.Atoi(os.Args[2])
	var lock sync.Mutex
	var took []float64
	http.HandleFunc("/stats", func(w http.ResponseWriter, r *http.Request) {
		lock.Lock(); defer lock.Unlock()
		sort.Float64s(took)
		fmt.Fprintf(w, "%f", took[int(float64(len(took)-1)*0.999)])
	})
	http.HandleFunc("/reset", func(w http.ResponseWriter, r *http.Request) {
		lock.Lock(); defer lock.Unlock()
		took = nil
	})
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		begun := time.Now()
		if wait > 0 { time.Sleep(time.Duration(wait) * time.Millisecond) }
		fmt.Fprint(w, "hello")
		lock.Lock(); took = append(took, time.Since(begun).Seconds()*1000); lock.Unlock()
	})
	panic(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
"""
NODE = "require('http').createServer((q, a) => a.end('hello')).listen(%d, '127.0.0.1')"
PYTHON = """
import http.server, socketserver
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        self.send_response(200); self.send_header('Content-Length', '5'); self.end_headers(); self.wfile.write(b'hello')
    def log_message(self, *a): pass
    disable_nagle_algorithm = True
    wbufsize = -1
class S(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 512
S(('127.0.0.1', %d), H).serve_forever()
"""
JAVA = """
import com.sun.net.httpserver.*; import java.net.*; import java.util.concurrent.*;
public class Main { public static void main(String[] a) throws Exception {
  System.setProperty("sun.net.httpserver.nodelay", "true");
  HttpServer s = HttpServer.create(new InetSocketAddress("127.0.0.1", %d), 512);
  s.createContext("/", e -> { byte[] b = "hello".getBytes(); e.sendResponseHeaders(200, b.length); e.getResponseBody().write(b); e.close(); });
  s.setExecutor(Executors.newCachedThreadPool()); s.start(); } }
"""
WSGI = "def app(e, s):\n    s('200 OK', [('Content-Length', '5')])\n    return [b'hello']\n"


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Server:
    """A server in a folder and a control group of its own."""

    def __init__(self, name, make):
        self.name, self.port = name, free_port()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="truth-"))
        command = make(self.port, self.folder)
        self.group = GROUPS / f"truth-{self.port}"
        try:
            self.group.mkdir()
        except OSError:
            self.group = None
        join = (lambda: (self.group / "cgroup.procs").write_text("0")) if self.group else None
        self.process = subprocess.Popen(
            command, cwd=self.folder, preexec_fn=join, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.wait()

    def wait(self):
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise SystemExit(f"{self.name} does not listen")
                time.sleep(0.05)

    def cpu(self):
        if (self.group / "cpuacct.usage").exists():
            return int((self.group / "cpuacct.usage").read_text()) / 1e9
        lines = (self.group / "cpu.stat").read_text().split("\n")
        return int(next(line for line in lines if line.startswith("usage_usec")).split()[1]) / 1e6

    def stop(self):
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.group:
            deadline = time.monotonic() + 5
            while time.monotonic() < deadline:
                try:
                    self.group.rmdir()
                    break
                except OSError:
                    time.sleep(0.05)


def write(folder, name, text):
    (folder / name).write_text(text)
    return str(folder / name)


def nginx(port, folder):
    conf = f"""daemon off; worker_processes 2; pid {folder}/pid; error_log {folder}/error.log; events {{}}
http {{ access_log off; keepalive_requests 10000000; server {{ listen 127.0.0.1:{port} backlog=1024; location / {{ return 200 hello; }} }} }}"""
    return ["nginx", "-c", write(folder, "nginx.conf", conf), "-p", str(folder)]


def haproxy(port, folder):
    conf = f"""global
  nbthread 2
defaults
  mode http
  timeout client 30s
  timeout server 30s
  timeout connect 5s
frontend f
  bind 127.0.0.1:{port}
  http-request return status 200 content-type text/plain string hello
"""
    return ["haproxy", "-f", write(folder, "haproxy.cfg", conf), "-db"]


GO_PROGRAM = None


def go(wait):
    def make(port, folder):
        global GO_PROGRAM
        if GO_PROGRAM is None:
            kept = pathlib.Path(tempfile.mkdtemp(prefix="truth-go-"))
            source = write(kept, "main.go", GO)
            subprocess.run(["go", "build", "-o", str(kept / "server"), source], check=True, cwd=kept,
                           env={**os.environ, "GO111MODULE": "off", "GOFLAGS": ""})
            GO_PROGRAM = str(kept / "server")
        return [GO_PROGRAM, str(port), str(wait)]
    return make


def java(port, folder):
    write(folder, "Main.java", JAVA % port)
    return ["java", "-Dsun.net.httpserver.nodelay=true", str(folder / "Main.java")]


def gunicorn(port, folder):
    write(folder, "wsgi_app.py", WSGI)
    return ["gunicorn", "-w", "2", "-k", "gthread", "--threads", "8", "-b", f"127.0.0.1:{port}", "wsgi_app:app"]


ALL = {
    "nginx": ("nginx", nginx),
    "haproxy": ("haproxy", haproxy),
    "go": ("go", go(0)),
    "node": ("node", lambda port, folder: ["node", "-e", NODE % port]),
    "python threads": ("python3", lambda port, folder: ["python3", "-c", PYTHON % port]),
    "java": ("java", java),
    "gunicorn": ("gunicorn", gunicorn),
}


def servers():
    for name, (program, make) in ALL.items():
        path = os.environ["PATH"] + ":/usr/sbin:/usr/local/go/bin"
        os.environ["PATH"] = path
        if shutil.which(program) is None:
            print(f"{name}: {program} is not installed, left out", file=sys.stderr)
            continue
        yield name, make


def bench(port, *words, pinned=()):
    command = [*pinned, BIN, "bench", f"http://127.0.0.1:{port}/", "--style", "json", *words]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)


def cpu(rounds):
    print("server            bench us  kernel us  ratio")
    for name, make in servers():
        for words in (["-R", "400", "-c", "8"], ["-R", "200", "-c", "8", "--no-keepalive"]):
            server = Server(name, make)
            ratios = []
            for _ in range(rounds):
                bench(server.port, "-d", "1s", *words, "--no-probe")
                before = server.cpu()
                found = bench(server.port, "-d", "3s", *words, "--no-probe", "--no-warmup")
                kernel = server.cpu() - before
                ratios.append((found["server"]["cpu_seconds"] / found["requests"] * 1e6, kernel / found["requests"] * 1e6))
            server.stop()
            own, kernel = (statistics.median(pair[at] for pair in ratios) for at in (0, 1))
            label = name + ("" if "--no-keepalive" not in words else ", no keep-alive")
            print(f"{label:<32} {own:8.1f}  {kernel:9.1f}  {own / kernel:.3f}", flush=True)


def ask(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
        return answer.read()


def corrected(rounds):
    print("server   corrected p99.9 ms   its own record ms   difference")
    for wait in (1, 10, 100):
        rows = []
        for _ in range(rounds):
            server = Server("go", go(wait))
            bench(server.port, "-R", "400", "-c", "64", "-d", "1s", "--no-probe")
            # Both records are of the same requests.
            ask(server.port, "/reset")
            found = bench(server.port, "-R", "400", "-c", "64", "-d", "10s", "--no-probe", "--no-warmup")
            p999 = dict((at, us) for at, us in found["corrected"]["percentiles"])[99.9] / 1000
            own = float(ask(server.port, "/stats"))
            server.stop()
            rows.append((p999, own))
        p999, own = (statistics.median(row[at] for row in rows) for at in (0, 1))
        print(f"{wait:>3} ms {p999:14.2f} {own:20.2f} {p999 - own:14.2f}", flush=True)


def speed(rounds):
    server = Server("nginx", nginx)
    url = f"http://127.0.0.1:{server.port}/"
    tools = {
        "tidegate bench": lambda: bench(server.port, "-c", "64", "-t", "1", "-d", "3s", "--no-probe", pinned=("taskset", "-c", "0"))["requests"] / 3,
        "wrk": lambda: figure(["wrk", "-t1", "-c64", "-d3s", url], "Requests/sec:"),
        "h2load": lambda: figure(["h2load", "--h1", "-t1", "-c64", "-D", "3", url], "finished in"),
    }
    all_figures = {name: [] for name in tools}
    costs = {name: [] for name in tools}
    for _ in range(rounds):
        for name, run in tools.items():
            before = cpu_of_children()
            all_figures[name].append(run())
            costs[name].append((cpu_of_children() - before) / all_figures[name][-1] / 3 * 1e6)
    server.stop()
    for name, figures in all_figures.items():
        print(f"{name:<16} {statistics.median(figures):10.0f} requests/s  ({min(figures):.0f} to {max(figures):.0f})  "
              f"{statistics.median(costs[name]):6.2f} us CPU per request")


def cpu_of_children():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def figure(command, mark):
    out = subprocess.run(["taskset", "-c", "0", *command], capture_output=True, text=True, check=False).stdout
    line = next(line for line in out.split("\n") if mark in line)
    words = line.replace(",", " ").split()
    return float(words[1]) if mark.endswith(":") else float(words[words.index("req/s") - 1])


def healthy(rounds):
    found_any = 0
    for name, make in servers():
        server = Server(name, make)
        bench(server.port, "-R", "200", "-c", "8", "-d", "2s", "--no-probe")
        names = []
        for _ in range(rounds):
            found = bench(server.port, "-R", "300", "-c", "8", "-d", "3s")
            names.append([one["name"] for one in found["findings"]])
        server.stop()
        found_any += sum(bool(one) for one in names)
        print(f"{name:<16} {names}", flush=True)
    print(f"{found_any} runs with a finding")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=["cpu", "corrected", "speed", "healthy"])
    arguments = parser.parse_args()
    for name, run in {"cpu": cpu, "corrected": corrected, "speed": speed, "healthy": healthy}.items():
        if arguments.only in (None, name):
            run(arguments.rounds)


main()
