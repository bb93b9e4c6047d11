"""Texts of clients and operators in logs, on terminals and on the Prometheus page: they stay what they are."""

import re
import subprocess

from harness import churn

from .scene import KEY, raw, wait_until

TEXTS = ("a\nb", "a\r\nInjected: 1", 'a"b', "a\\", "a\x1b[31mred\x1b[0m", "a\u202egnp.exe", "a\u0085b", "a\u2028b", "a\x00b",
         "a} 1\nx{", "a\x7fb", "\x1b]0;title\x07", "a\u200fb", 'a",b="c', "\xed\xa0\x80", "%0a%0d", "a\tb")
# Raw control characters of C0 but the end of the line, DEL, C1, and what turns the direction of a text.
RAW = re.compile("[\x00-\x09\x0b-\x1f\x7f\u0080-\u009f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
SAMPLE = re.compile(
    r'[a-zA-Z_:][a-zA-Z0-9_:]*(\{([a-zA-Z_][a-zA-Z0-9_]*="([^"\\\n]|\\["\\n])*",?)*\})? (-?[0-9.e+-]+|NaN|[+-]?Inf)( \d+)?')
LOGGED = '''    enable_access_log: true
    access_log_buffer: 0
    access_log_format: "MARK $remote_addr $request_method $uri $http_host $http_user_agent $http_x_text $consumer_name END"
'''


LABELLED = "prometheus: {metrics: {http_status: {extra_labels: [{text: $http_x_text}, {agent: $http_user_agent}]}}, "


def run(scene):
    gateway = scene.gateway(lambda text: text.replace("    enable_access_log: false\n", LOGGED)
                            .replace("prometheus: {", LABELLED, 1))
    stored = store(gateway)
    sent = sum(send(gateway, text) for text in TEXTS)
    wait_until(lambda: gateway.log("access.log").count(b"MARK") >= sent, f"{sent} lines in the access log", 10)
    # A request may be split by no text: each line begins and ends as the format does.
    lines = gateway.log("access.log").decode("utf-8", "replace").split("\n")[:-1]
    broken = [line for line in lines if not (line.startswith("MARK") and line.endswith("END") and line.count("MARK") == 1)]
    scene.check("access log", f"{len(lines)} lines of {sent} requests, {len(broken)} broken {broken[:1] or ''}",
                "a line each", not broken and sent and len(lines) >= sent)
    shown(scene, "access log", "\n".join(lines))
    shown(scene, "error log", gateway.log().decode("utf-8", "replace"))
    page = churn.page(gateway.ports["metrics"]).decode("utf-8", "replace")
    scene.check("Prometheus page: labels with texts of clients", page.count('text="a'), "some", 'text="a' in page)
    wrong = [line for line in page.split("\n") if line and not line.startswith("#") and not SAMPLE.fullmatch(line)]
    scene.check("Prometheus page", f"{page.count(chr(10))} lines, {len(wrong)} that do not parse {wrong[:1] or ''}",
                "all parse", not wrong)
    for command in ("routes", "explain"):
        words = [scene.binary, command, "--prefix", gateway.prefix] + (["GET", "/t0"] if command == "explain" else [])
        done = subprocess.run(words, capture_output=True, timeout=30, check=False)
        shown(scene, f"tidegate {command}", (done.stdout + done.stderr).decode("utf-8", "replace"))
    scene.check("names of objects that were stored", stored, "some", stored > 0)


def shown(scene, where, text):
    found = [f"{ord(match.group()):#x} in {text[max(0, match.start() - 20):match.end() + 20]!r}"
             for match in RAW.finditer(text)]
    scene.check(f"{where}: raw control characters", f"{len(found)} {found[:1] or ''} of {len(text)} characters", "0",
                not found and text)


def store(gateway):
    """Routes, consumers and labels with these texts; how many were taken."""
    stored = 0
    for number, text in enumerate(TEXTS):
        route = {"uri": f"/t{number}", "name": text[:90], "desc": text, "labels": {"a": "b"},
                 "plugins": {"prometheus": {"prefer_name": True}, "key-auth": {}, "mocking": {"response_example": "x"}}}
        consumer = {"username": text, "plugins": {"key-auth": {"key": f"{KEY}{number}"}}}
        stored += gateway.admin("PUT", f"/routes/t{number}", route)[0] in (200, 201)
        stored += gateway.admin("PUT", "/consumers", consumer)[0] in (200, 201)
        # Something that the error log has to tell.
        gateway.admin("PUT", f"/routes/bad{number}", {"uri": text, "plugins": {text: {}}})
    gateway.put("consumers", "one", {"username": "one", "plugins": {"key-auth": {"key": KEY}}})
    wait_until(lambda: gateway.ask("/t0")[0] != 404 or not stored, "the routes", 10)
    return stored


def send(gateway, text):
    """Requests with the text in each place, as bytes; how many were answered by more than a refusal of the syntax."""
    data, answered = text.encode("utf-8", "replace"), 0
    quoted = "".join(f"%{byte:02x}" for byte in data).encode()
    for line, fields in ((b"/t0?a=" + quoted, b""), (b"/" + quoted, b""), (b"/t0", b"User-Agent: " + data + b"\r\n"),
                         (b"/t1", b"X-Text: " + data + b"\r\n"),
                         (b"/t2" + data.replace(b" ", b""), b"apikey: " + KEY.encode() + b"\r\n")):
        request = b"GET " + line + b" HTTP/1.1\r\nHost: h\r\n" + fields + b"Connection: close\r\n\r\n"
        with raw(gateway.ports["http"], request) as connection:
            try:
                answered += not http_status(connection) == 400
            except (OSError, ValueError):
                continue
    with raw(gateway.ports["http"], b"GET /t0 HTTP/1.1\r\nHost: " + data + b"\r\nConnection: close\r\n\r\n") as connection:
        http_status(connection)
    return answered


def http_status(connection):
    answer = connection.makefile("rb").readline()
    return int(answer.split(b" ")[1]) if answer.startswith(b"HTTP/") else 400
