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

# shellcheck source=perf/gateway.sh
. "$root/perf/gateway.sh"
echo_port=$(port)

background "${wstest[@]}" -m "${SERVER:-echoserver}" -w "ws://127.0.0.1:$echo_port" >"$folder/echo.log" 2>&1
wait_for "$echo_port"
# The echo server wants its own port in the Host field.
start_gateway "$gateway" "uri: '/*', enable_websocket: true,
  upstream: {type: roundrobin, pass_host: node, nodes: {'127.0.0.1:$echo_port': 1}}"

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
