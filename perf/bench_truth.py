#!/usr/bin/env python3
"""Compares what `tidegate bench` says with what is so.

    TIDEGATE_BIN=target/release/tidegate python3 perf/bench_truth.py [--rounds 5] [--only cpu|corrected|speed|healthy]

cpu: the server's CPU time for each request beside that of its control group (needs root).
corrected: the corrected p99.9 of servers that take 1, 10 and 100 ms, at 400 requests/s, beside the server's own record. That
begins when the system received the request and ends when the answer is written, so that what it takes to wake the server is in
both; what remains is the client's: sending late and reading late. A bare client (harness/bare_client.c: one thread, epoll, one
timer) shows how much of that is this machine's, over the same servers in turn.
speed: requests per second and CPU time per request of one core beside wrk and h2load, in turn.
healthy: findings about healthy servers, each --rounds times; there should be none.

Servers that are not installed are left out, and named.
"""

import argparse
import atexit
import functools
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
SCHEDULE = ["-R", "400", "-c", "64"]
GROUPS = pathlib.Path("/sys/fs/cgroup")
# Version 1 has a hierarchy for each controller.
if (GROUPS / "cpuacct").is_dir():
    GROUPS = GROUPS / "cpuacct"

GO = r"""
package main
import ("fmt";"net/http";"os")
func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello") })
	panic(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
"""
# The record of each request begins with the time at which the system received it (SO_TIMESTAMPNS).
CONSTANT = r"""
package main
import ("bytes";"encoding/binary";"fmt";"net";"os";"sort";"strconv";"sync";"syscall";"time")
var lock sync.Mutex
var took []float64
func received(oob []byte) int64 {
	messages, _ := syscall.ParseSocketControlMessage(oob)
	for _, one := range messages {
		if one.Header.Level == syscall.SOL_SOCKET && one.Header.Type == syscall.SO_TIMESTAMPNS {
			return int64(binary.NativeEndian.Uint64(one.Data))*1e9 + int64(binary.NativeEndian.Uint64(one.Data[8:]))
		}
	}
	return 0
}
func serve(connection *net.TCPConn, wait time.Duration) {
	defer connection.Close()
	raw, _ := connection.SyscallConn()
	raw.Control(func(fd uintptr) { syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_TIMESTAMPNS, 1) })
	buffer, oob := make([]byte, 4096), make([]byte, 128)
	for {
		var length, more int
		var err error
		raw.Read(func(fd uintptr) bool {
			length, more, _, _, err = syscall.Recvmsg(int(fd), buffer, oob, 0)
			return err != syscall.EAGAIN
		})
		if err != nil || length <= 0 { return }
		came, body, counts := received(oob[:more]), "hello", false
		if bytes.HasPrefix(buffer, []byte("GET /stats ")) {
			lock.Lock(); sort.Float64s(took)
			body = fmt.Sprintf("%f %d", took[int(float64(len(took)-1)*0.999)], len(took))
			lock.Unlock()
		} else if bytes.HasPrefix(buffer, []byte("GET /reset ")) {
			lock.Lock(); took = nil; lock.Unlock()
		} else {
			time.Sleep(wait)
			counts = came > 0
		}
		fmt.Fprintf(connection, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		if counts {
			ms := float64(time.Now().UnixNano()-came) / 1e6
			lock.Lock(); took = append(took, ms); lock.Unlock()
		}
	}
}
func main() {
	wait, _ := strconv.Atoi(os.Args[2])
	listener, err := net.Listen("tcp", "127.0.0.1:"+os.Args[1])
	if err != nil { panic(err) }
	for {
		connection, err := listener.Accept()
		if err != nil { panic(err) }
		go serve(connection.(*net.TCPConn), time.Duration(wait)*time.Millisecond)
	}
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


@functools.cache
def built(source):
    kept = pathlib.Path(tempfile.mkdtemp(prefix="truth-go-"))
    atexit.register(shutil.rmtree, kept, ignore_errors=True)
    subprocess.run(["go", "build", "-o", str(kept / "server"), write(kept, "main.go", source)], check=True, cwd=kept,
                   env={**os.environ, "GO111MODULE": "off", "GOFLAGS": ""})
    return str(kept / "server")


def go(port, folder):
    return [built(GO), str(port)]


@functools.cache
def bare_client():
    source = pathlib.Path(__file__).parent / "harness" / "bare_client.c"
    kept = pathlib.Path(tempfile.mkdtemp(prefix="truth-c-"))
    atexit.register(shutil.rmtree, kept, ignore_errors=True)
    subprocess.run(["cc", "-O2", "-o", str(kept / "client"), str(source)], check=True)
    return str(kept / "client")


def constant(wait):
    return lambda port, folder: [built(CONSTANT), str(port), str(wait)]


def java(port, folder):
    write(folder, "Main.java", JAVA % port)
    return ["java", "-Dsun.net.httpserver.nodelay=true", str(folder / "Main.java")]


def gunicorn(port, folder):
    write(folder, "wsgi_app.py", WSGI)
    return ["gunicorn", "-w", "2", "-k", "gthread", "--threads", "8", "-b", f"127.0.0.1:{port}", "wsgi_app:app"]


ALL = {
    "nginx": ("nginx", nginx),
    "haproxy": ("haproxy", haproxy),
    "go": ("go", go),
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


def tidegate_corrected(server):
    found = bench(server.port, *SCHEDULE, "-d", "10s", "--no-probe")
    counters = found["counters"]
    p999 = dict((at, us) for at, us in found["corrected"]["percentiles"])[99.9] / 1000
    return p999, counters["cpu_steal"] / max(1, counters["cpu_total"])


def bare_corrected(server):
    out = subprocess.run([bare_client(), str(server.port), "400", "64", "10"], capture_output=True, text=True, check=True).stdout
    return float(out), 0


def corrected(rounds):
    print("server   client          corrected p99.9 ms   its own ms   difference (of each run)   allowed   steal")
    clients = {"tidegate bench": tidegate_corrected, "bare client": bare_corrected}
    for wait in (1, 10, 100):
        rows = {name: [] for name in clients}
        for turn in range(rounds):
            for name in sorted(clients, reverse=turn % 2 == 0):
                server = Server("constant", constant(wait))
                bench(server.port, *SCHEDULE, "-d", "1s", "--no-probe")
                # Both records are of the same requests, but for the 64 of the warm-up.
                ask(server.port, "/reset")
                p999, steal = clients[name](server)
                rows[name].append((p999, float(ask(server.port, "/stats").split()[0]), steal))
                server.stop()
        for name, runs in rows.items():
            p999, own, steal = (statistics.median(run[at] for run in runs) for at in (0, 1, 2))
            each = " ".join(f"{run[0] - run[1]:+.2f}" for run in runs)
            print(f"{wait:>3} ms   {name:<15} {p999:18.2f} {own:12.2f}   {statistics.median(run[0] - run[1] for run in runs):+.2f} ({each})"
                  f"   {max(0.5, 0.05 * own):.2f}   {100 * steal:.1f} %", flush=True)


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


if __name__ == "__main__":
    main()
