#!/usr/bin/env bash
# Runs Autobahn's WebSocket cases against its echo server directly, and through a gateway in the clear and over TLS;
# tells which cases end otherwise than without the gateway.
# Usage: perf/autobahn.sh "WSTEST" [GATEWAY]
# CASES='"1.*", "9.*"' narrows the cases (all). SERVER=testeeserver takes its server that can compress (12.*, 13.*).
# WSTEST: how to start the suite, which needs Python 2.7: `python2.7 -m pip install --user autobahntestsuite`, then
# "python2.7 $HOME/.local/bin/wstest".
set -euo pipefail

read -ra wstest <<<"${1:?how to start wstest}"
root=$(cd "$(dirname "$0")/.." && pwd)
gateway=${2:-${TIDEGATE_BIN:-$root/target/release/tidegate}}
cases=${CASES:-'"*"'}

folder=$(mktemp -d)
children=()
finish() {
    for child in "${children[@]}"; do
        kill "$child" 2>/dev/null || true
        wait "$child" 2>/dev/null || true
    done
    rm -rf "$folder"
}
trap finish EXIT

port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
wait_for() {
    python3 -c '
import socket, sys, time
for _ in range(200):
    try: socket.create_connection(("127.0.0.1", int(sys.argv[1]))); sys.exit(0)
    except OSError: time.sleep(0.05)
sys.exit("nothing listens on port " + sys.argv[1])' "$1"
}
echo_port=$(port) plain=$(port) secure=$(port) control=$(port) metrics=$(port)

mkdir "$folder/conf" "$folder/logs"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost -keyout "$folder/key.pem" -out "$folder/cert.pem" 2>/dev/null
cat >"$folder/conf/config.yaml" <<END
apisix:
  node_listen: [{ip: 127.0.0.1, port: $plain}]
  ssl: {fallback_sni: localhost, listen: [{ip: 127.0.0.1, port: $secure}]}
  enable_admin: false
  control: {ip: 127.0.0.1, port: $control}
nginx_config: {worker_processes: 1, http: {enable_access_log: false}}
deployment:
  role: data_plane
  role_data_plane: {config_provider: yaml}
plugin_attr:
  prometheus: {export_addr: {ip: 127.0.0.1, port: $metrics}}
END
# The echo server wants its own port in the Host field.
quoted() { printf '"'; awk '{printf "%s\\n", $0}' "$1"; printf '"'; }
cat >"$folder/conf/apisix.yaml" <<END
routes:
- id: 1
  uri: "/*"
  enable_websocket: true
  upstream: {type: roundrobin, pass_host: node, nodes: {"127.0.0.1:$echo_port": 1}}
ssls:
- {id: 1, sni: localhost, cert: $(quoted "$folder/cert.pem"), key: $(quoted "$folder/key.pem")}
#END
END

"${wstest[@]}" -m "${SERVER:-echoserver}" -w "ws://127.0.0.1:$echo_port" >"$folder/echo.log" 2>&1 &
children+=($!)
"$gateway" run --prefix "$folder" -c "$folder/conf/config.yaml" &
children+=($!)
wait_for "$echo_port"
wait_for "$plain"
wait_for "$secure"

cat >"$folder/spec.json" <<END
{"outdir": "$folder/report", "cases": [$cases], "exclude-cases": [], "exclude-agent-cases": {}, "servers": [
  {"agent": "direct", "url": "ws://127.0.0.1:$echo_port"},
  {"agent": "gateway", "url": "ws://127.0.0.1:$plain"},
  {"agent": "gateway-tls", "url": "wss://127.0.0.1:$secure"}]}
END
"${wstest[@]}" -m fuzzingclient -s "$folder/spec.json" >"$folder/client.log" 2>&1 || { tail "$folder/client.log"; exit 1; }

python3 - "$folder/report/index.json" <<'END'
import collections, json, sys

report = json.load(open(sys.argv[1]))
# Where a case sends a good message and then a bad one, OK or NON-STRICT is whether the echo left in between: luck.
fine = {"NON-STRICT": "OK"}
result = {agent: {case: (fine.get(one["behavior"], one["behavior"]), one["behaviorClose"])
                  for case, one in cases.items()} for agent, cases in report.items()}
direct = result["direct"]
for agent, cases in sorted(result.items()):
    counts = collections.Counter(one["behavior"] for one in report[agent].values())
    print(f"{agent}: {len(cases)} cases, " + ", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
differing = [(agent, case) for agent in ("gateway", "gateway-tls")
             for case in sorted(direct.keys() | result.get(agent, {}).keys())
             if result.get(agent, {}).get(case) != direct.get(case)]
for agent, case in differing:
    print(f"{agent} {case}: {result.get(agent, {}).get(case)}, directly {direct.get(case)}")
print(f"{len(differing)} cases differ from the echo server alone")
sys.exit(bool(differing))
END
