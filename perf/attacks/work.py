"""Time: small requests that ask for much work, from clients without a key."""

import gzip
import http.server
import json
import threading

from harness import tidegate

from .scene import KEY

MOST_CPU_MS, MOST_WAIT_MS, REQUESTS = 50, 5, 5
TAKEN = (200, 400, 404, 413, 503)
# A pattern that is given up decides nothing: what depends on it is refused, with 500 where the plugin has no code for it.
GIVEN_UP = (200, 403, 404, 414, 500)
NUMBERS = json.dumps({"list": list(range(60_000))})
OBJECTS = json.dumps({"list": [{"name": f"n{number}", "value": number} for number in range(20_000)]})
UNIQUE = {"type": "object", "properties": {"list": {"type": "array", "uniqueItems": True}}}
FORM_TYPE = "application/x-www-form-urlencoded"
# Look-around and back-references: engines that try all ways need exponential or cubic time for them.
PATTERNS = ("(?=(a+))a*b\\1c$", "^(a|aa)+(?<!b)$(?!c)x", "(a*)*\\1b", "(?:(?=a)a|a)+b")
LAUGHS = "<?xml version='1.0'?><!DOCTYPE a [<!ENTITY l0 'ha'>" + "".join(
    f"<!ENTITY l{level} '{f'&l{level - 1};' * 10}'>" for level in range(1, 12)) + "]><a>&l11;</a>"


def run(scene):
    gateway = scene.gateway()
    gateway.put("consumers", "one", {"username": "one", "plugins": {"key-auth": {"key": KEY}}})
    gateway.route("quiet", "/quiet")
    for name, *case in list(bodies(gateway)):
        one(scene, gateway, name, *case, TAKEN)
    for name, *case in list(patterns(gateway)):
        one(scene, gateway, name, *case, GIVEN_UP)
    answers(scene)


def one(scene, gateway, name, path, method, body, headers, allowed):
    def work():
        # The clock of /proc has ticks of 10 ms: some requests, one after the other.
        before = gateway.cpu_ms()
        answers = [gateway.ask(path, method, body, headers, 60)[0] for _ in range(REQUESTS)]
        used = (gateway.cpu_ms() - before) / REQUESTS
        return f"{used:.0f} ms CPU, answers {answers[0]}", used <= MOST_CPU_MS and set(answers) <= set(allowed)

    scene.beside(gateway, name, work, f"<= {MOST_CPU_MS} ms CPU", MOST_WAIT_MS)


class Bomb(http.server.BaseHTTPRequestHandler):
    """Answers with 200 KB that are 200 MiB."""

    body = gzip.compress(b"a" * (200 << 20))

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_):
        pass


def answers(scene):
    """Answers that are much work for filters."""
    gateway = scene.gateway()
    gateway.route("quiet", "/quiet")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Bomb) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        filters = [{"regex": "(?<=x)a+(?!b)", "replace": "-", "scope": "global"}]
        gateway.route("bomb", "/bomb", {"response-rewrite": {"filters": filters}},
                      upstream=tidegate.node(server.server_address[1]))
        before = gateway.forget_peak()

        def work():
            statuses = {gateway.ask("/bomb", timeout=60)[0] for _ in range(REQUESTS)}
            grown = gateway.peak_mb() - before
            return f"+{grown:.0f} MB, answers {sorted(statuses)}", grown <= 200 and statuses == {502}

        scene.beside(gateway, "an answer that unpacks to 200 MiB", work, "+ <= 200 MB, 502", MOST_WAIT_MS)
        server.shutdown()


def bodies(gateway):
    gateway.route("unique", "/unique", {"request-validation": {"body_schema": UNIQUE}})
    gateway.route("form", "/form", {"key-auth": {}}, vars=[["post_arg.a", "==", "1"]])
    gateway.route("xml", "/xml", {"body-transformer": {"request": {"input_format": "xml", "template": "{{a}}"}}})
    as_json, as_xml = {"Content-Type": "application/json"}, {"Content-Type": "text/xml"}
    yield "uniqueItems, 60,000 numbers", "/unique", "POST", NUMBERS, as_json
    yield "uniqueItems, 20,000 objects", "/unique", "POST", OBJECTS, as_json
    parts = {"Content-Type": "multipart/form-data; boundary=b"}
    yield "multipart, 400,000 parts", "/form", "POST", "--b\r\n\r\n" * 400_000 + "--b--\r\n", parts
    yield "form, 500,000 fields", "/form", "POST", "b=1&" * 500_000, {"Content-Type": FORM_TYPE}
    yield "XML, 500,000 elements", "/xml", "POST", "<a>" + "<b/>" * 500_000 + "</a>", as_xml
    yield "XML, nested 200,000 deep", "/xml", "POST", "<b>" * 200_000 + "</b>" * 200_000, as_xml
    yield "XML, billion laughs", "/xml", "POST", LAUGHS, as_xml
    yield "XML, 100,000 attributes", "/xml", "POST", "<a " + " ".join(f"x{n}='1'" for n in range(100_000)) + "/>", as_xml
    gateway.route("turned", "/turned", {"body-transformer": {"request": {"input_format": "json", "template": "{{a}}"}}})
    keys = json.dumps({f"x{number}": 1 for number in range(100_000)})
    yield "JSON, 100,000 keys at body-transformer", "/turned", "POST", keys, as_json
    yield "JSON, nested 500,000 deep", "/unique", "POST", "[" * 500_000, as_json


def patterns(gateway):
    """7 KB that almost match, in the place that each plugin looks at."""
    long, headers = "a" * 7_000, {}
    for number, pattern in enumerate(PATTERNS):
        gateway.route(f"vars{number}", f"/vars{number}", vars=[["http_x_long", "~~", pattern]])
        gateway.route(f"agent{number}", f"/agent{number}", {"ua-restriction": {"denylist": [pattern]}})
        gateway.route(f"uri{number}", f"/uri{number}/*", {"uri-blocker": {"block_rules": [pattern]}})
        gateway.route(f"turn{number}", f"/turn{number}/*", {"redirect": {"regex_uri": [pattern, "/x"]}})
        yield f"vars ~~ {pattern}", f"/vars{number}", "GET", None, {"X-Long": long}
        yield f"ua-restriction {pattern}", f"/agent{number}", "GET", None, {"User-Agent": long}
        yield f"uri-blocker {pattern}", f"/uri{number}/{long}", "GET", None, headers
        yield f"redirect {pattern}", f"/turn{number}/{long}", "GET", None, headers
