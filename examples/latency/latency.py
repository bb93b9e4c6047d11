"""Sends requests one after the other and shows how long they took: latency.py REQUESTS NAME=URL...

Each series has one connection that is kept. The figures are of this machine at this moment: compare the series with one another.
"""

import http.client
import sys
import time
from urllib.parse import urlsplit

BOUNDS_MS = [0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500]


def measure(url, requests):
    """Milliseconds of each request, and how many failed."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
    times, failed = [], 0
    for _ in range(requests):
        begin = time.perf_counter()
        try:
            connection.request("GET", parts.path or "/")
            response = connection.getresponse()
            response.read()
            failed += response.status != 200
        except (OSError, http.client.HTTPException):
            failed += 1
            connection.close()
        times.append((time.perf_counter() - begin) * 1000)
    return sorted(times), failed


def quantile(times, share):
    return times[min(len(times) - 1, int(len(times) * share))]


def main():
    requests, series = int(sys.argv[1]), [argument.split("=", 1) for argument in sys.argv[2:]]
    # Warm: connections, caches, the interpreter.
    for _, url in series:
        measure(url, 100)
    measured = [(name, *measure(url, requests)) for name, url in series]
    width = 10
    print("".join(f"{text:>{width}}" for text in ["", *(name for name, _, _ in measured)]))
    before = 0.0
    for bound in [*BOUNDS_MS, float("inf")]:
        label = f"< {bound:g} ms" if bound != float("inf") else "more"
        counts = [sum(before <= value < bound for value in times) for _, times, _ in measured]
        print(f"{label:>{width}}" + "".join(f"{count:>{width}}" for count in counts))
        before = bound
    for label, share in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)]:
        print(f"{label:>{width}}" + "".join(f"{quantile(times, share):>{width}.2f}" for _, times, _ in measured))
    print(f"{'max':>{width}}" + "".join(f"{times[-1]:>{width}.2f}" for _, times, _ in measured))
    print(f"{'failed':>{width}}" + "".join(f"{failed:>{width}}" for _, _, failed in measured))
    return 1 if any(failed for _, _, failed in measured) else 0


sys.exit(main())
