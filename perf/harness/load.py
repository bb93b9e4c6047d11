"""Load: wrk for throughput, one plain connection for latency, many idle ones for memory."""

import http.client
import json
import socket
import struct
import subprocess
import time

from . import processes

CONNECTIONS = 64

_DONE = """
done = function(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format('RESULT {"requests":%d,"duration_us":%d,"p50_us":%d,"p99_us":%d,"p999_us":%d,"max_us":%d,' ..
    '"socket_errors":%d,"bad_statuses":%d}\\n', summary.requests, summary.duration, latency:percentile(50),
    latency:percentile(99), latency:percentile(99.9), latency.max,
    errors.connect + errors.read + errors.write + errors.timeout, errors.status))
end
"""

BROWSER_HEADERS = {
    "User-Agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36",
    "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
    "Accept-Language": "en-GB,en;q=0.9,de;q=0.8",
    "Accept-Encoding": "gzip, deflate, br, zstd",
    "Cache-Control": "no-cache",
    "Pragma": "no-cache",
    "Referer": "https://shop.example/catalogue/shoes?page=3&sort=price",
    "Cookie": "session=0123456789abcdef0123456789abcdef; theme=dark; _ga=GA1.1.1234567890.1700000000; consent=yes",
    "Sec-Ch-Ua": '"Chromium";v="130", "Google Chrome";v="130", "Not?A_Brand";v="99"',
    "Sec-Ch-Ua-Mobile": "?0",
    "Sec-Ch-Ua-Platform": '"Linux"',
    "Sec-Fetch-Dest": "document",
    "Sec-Fetch-Mode": "navigate",
    "Sec-Fetch-Site": "same-origin",
    "Sec-Fetch-User": "?1",
    "Upgrade-Insecure-Requests": "1",
    "DNT": "1",
}


def browser_script():
    """With Host, 18 request headers."""
    fields = "".join(f"wrk.headers[{json.dumps(name)}] = {json.dumps(value)}\n" for name, value in BROWSER_HEADERS.items())
    return fields + _DONE


def keys_script(keys):
    """Cycles over routes and keys; all requests are formatted once, so the load generator stays cheap."""
    listed = ",".join(f'"{key}"' for key in keys)
    return f"""
local keys, formatted, at = {{{listed}}}, {{}}, 0
init = function(args)
  for number, key in ipairs(keys) do
    formatted[number] = wrk.format("GET", "/k/" .. (number - 1), {{["Host"] = "perf.example", ["apikey"] = key}})
  end
end
request = function()
  at = at % #formatted + 1
  return formatted[at]
end
""" + _DONE


def plain_script():
    return _DONE


def wrk(port, path, script_path, seconds, scheme="http", connections=CONNECTIONS):
    """Runs wrk on the load core; returns its figures. Any failed request is an error: it was not measured."""
    return wrk_result(start_wrk(port, path, script_path, seconds, scheme, connections), path)


def start_wrk(port, path, script_path, seconds, scheme="http", connections=CONNECTIONS):
    # By name under TLS: certificates are found by it.
    host = "localhost" if scheme == "https" else "127.0.0.1"
    return subprocess.Popen(
        ["taskset", "-c", str(processes.load_core()), "wrk", "-t1", f"-c{connections}", f"-d{seconds}s",
         "--latency", "-s", script_path, f"{scheme}://{host}:{port}{path}"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )


def wrk_result(client, path):
    """The figures of a wrk once it has ended."""
    output, _ = client.communicate()
    for line in output.splitlines():
        if line.startswith("RESULT "):
            result = json.loads(line[7:])
            if result["bad_statuses"] or result["socket_errors"] or not result["requests"]:
                raise SystemExit(f"wrk on {path}: failed requests: {result}")
            return result
    raise SystemExit(f"wrk on {path} failed:\n{output}")


class Connection:
    """One keep-alive connection that reads answers with a Content-Length, or chunked ones, exactly."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), 30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def get(self, request):
        """Sends a request; returns the status once the answer is whole."""
        self.socket.sendall(request)
        data = self.socket.recv(65536)
        while b"\r\n\r\n" not in data:
            data += self._more()
        head, _, body = data.partition(b"\r\n\r\n")
        lower = head.lower()
        at = lower.find(b"\r\ncontent-length:")
        if at >= 0:
            length = int(lower[at + 17:].split(b"\r\n", 1)[0])
            missing = length - len(body)
            while missing > 0:
                missing -= len(self._more())
        elif b"transfer-encoding: chunked" in lower:
            while not body.endswith(b"0\r\n\r\n"):
                body += self._more()
        return int(head.split(b" ", 2)[1])

    def _more(self):
        data = self.socket.recv(65536)
        if not data:
            raise SystemExit("the server closed a connection in the middle of an answer")
        return data

    def reset(self):
        """Closes with RST, so that 10,000 of these leave no TIME_WAIT behind."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


def wait_for_body(port, path, body, seconds=20):
    """Until a GET is answered with 200 and exactly this body."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        client.request("GET", path)
        answer = client.getresponse()
        got = answer.read()
        client.close()
        if answer.status == 200 and got == body:
            return
        time.sleep(0.01)
    raise SystemExit(f"port {port}: {path} is answered {answer.status} {got[:200]!r}")


def request_bytes(path, host="perf.example"):
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()


def sequential(port, path, count):
    """Latencies, in microseconds, of requests one after the other on one connection."""
    connection = Connection(port)
    request = request_bytes(path)
    for _ in range(200):
        connection.get(request)
    latencies = []
    for _ in range(count):
        start = time.perf_counter_ns()
        status = connection.get(request)
        latencies.append((time.perf_counter_ns() - start) / 1000)
        if status != 200:
            raise SystemExit(f"{path} answered {status}")
    connection.reset()
    return latencies
