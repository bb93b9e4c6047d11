"""Percentiles of `tidegate bench` and wrk side by side, on a server whose own delays set the latency.

At a server that is full, latency is connections / throughput (Little's law), so two load generators of unequal speed
cannot agree there. Here the server is never full: 64 connections, delays of tens of milliseconds.

wrk adds requests that it did not send to its histogram: for each latency of twice the usual interval of a connection or
more, one for each interval that the connection stood still. In the shape "narrow" no delay is that long, so what is
compared is what was measured. In "wide" there are some; wrk's rule is applied to bench's histogram, too, and the
percentiles without it are shown beside.
"""

import json
import os
import subprocess

from . import figures, load, processes

SHAPES = ("narrow", "wide")
PERCENTILES = (50, 90, 99, 99.9)
# How far apart the two may be.
WITHIN = 0.03

_SCRIPT = """
done = function(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format('RESULT {"requests":%d,"errors":%d,"50":%d,"90":%d,"99":%d,"99.9":%d}\\n', summary.requests,
    errors.connect + errors.read + errors.write + errors.timeout + errors.status, latency:percentile(50),
    latency:percentile(90), latency:percentile(99), latency:percentile(99.9)))
end
"""


def server_binary(root):
    """Built here: it is an example of the test kit, not a part of the product."""
    subprocess.run(["cargo", "build", "--release", "-q", "-p", "tidegate-testkit", "--example", "delays"], cwd=root, check=True)
    target = os.environ.get("CARGO_TARGET_DIR") or os.path.join(root, "target")
    return os.path.join(target, "release", "examples", "delays")


def wrk(url, script, seconds):
    output = _client(["wrk", "-t1", f"-c{load.CONNECTIONS}", f"-d{seconds}s", "--latency", "-s", script, url])
    line = next((line for line in output.splitlines() if line.startswith("RESULT ")), None)
    result = json.loads(line[7:]) if line else {"errors": 1}
    if result["errors"]:
        raise SystemExit(f"wrk on {url}: failed requests:\n{output}")
    return {"rps": result["requests"] / seconds, **{percent: result[str(percent)] for percent in PERCENTILES}}


def bench(binary, url, seconds):
    output = _client([binary, "bench", url, "-t1", f"-c{load.CONNECTIONS}", f"-d{seconds}s", "--no-probe",
                      "--style", "json"])
    outcome = json.loads(output)
    steps = outcome["latency"]["steps"]
    interval = int(outcome["seconds"] * 1e6) // (outcome["requests"] // load.CONNECTIONS)
    corrected = as_wrk(steps, interval)
    return {"rps": outcome["requests"] / outcome["seconds"], "raw": {p: at(steps, p) for p in PERCENTILES},
            **{percent: at(corrected, percent) for percent in PERCENTILES}}


def as_wrk(steps, interval):
    """A histogram of (microseconds, count), with what wrk adds to its own."""
    counts = {}
    for value, count in steps:
        counts[value] = counts.get(value, 0) + count
        missing = value - interval
        while value >= 2 * interval and missing > interval:
            counts[missing] = counts.get(missing, 0) + count
            missing -= interval
    return sorted(counts.items())


def at(steps, percent):
    wanted, seen = percent / 100 * sum(count for _, count in steps), 0
    for value, count in steps:
        seen += count
        if seen >= wanted:
            return value
    return steps[-1][0]


def _client(command):
    done = subprocess.run(["taskset", "-c", str(processes.load_core()), *command], capture_output=True, text=True,
                          check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def run(binary, root, folder, rounds, seconds, say):
    script = os.path.join(folder, "accuracy.lua")
    with open(script, "w") as file:
        file.write(_SCRIPT)
    port = processes.free_port()
    server = processes.Server("delays", [server_binary(root), str(port)], processes.GATEWAY_CORE, folder)
    try:
        server.wait_for_port(port)
        return {shape: _shape(binary, f"http://127.0.0.1:{port}/{shape}", script, rounds, seconds, say)
                for shape in SHAPES}
    finally:
        server.stop()


def _shape(binary, url, script, rounds, seconds, say):
    tools = {"wrk": lambda: wrk(url, script, seconds), "bench": lambda: bench(binary, url, seconds)}
    measured = {name: [] for name in tools}
    for number in range(rounds):
        for name in tools if number % 2 == 0 else reversed(tools):
            measured[name].append(tools[name]())
        say(f"accuracy: {url} round {number + 1}/{rounds}: " + ", ".join(
            f"{name} {measured[name][-1]['rps']:,.0f}/s p50 {measured[name][-1][50]:,.0f} us" for name in tools))
    median = {name: figures.median_of([{key: one[key] for key in ("rps", *PERCENTILES)} for one in all_rounds])
              for name, all_rounds in measured.items()}
    median["raw"] = figures.median_of([one["raw"] for one in measured["bench"]])
    spread = {p: max(figures.spread_percent(measured[name], p) for name in tools) for p in PERCENTILES}
    return {"median": median, "spread_percent": spread, "rounds": measured}


def rows(results):
    listed = []
    for shape, result in results.items():
        median = result["median"]
        for percent in PERCENTILES:
            ratio = median["bench"][percent] / median["wrk"][percent]
            listed.append([
                shape, f"p{percent}", figures.shown(median["raw"][percent]), figures.shown(median["wrk"][percent]),
                figures.shown(median["bench"][percent]), f"{ratio:.3f}", f"{result['spread_percent'][percent]:.1f} %",
                f"{1 - WITHIN:.2f} to {1 + WITHIN:.2f}", "ok" if abs(ratio - 1) <= WITHIN else "MISSED"])
    return listed


HEADINGS = ["delays", "us", "bench, raw", "wrk", "bench", "ratio", "+-", "target", ""]
