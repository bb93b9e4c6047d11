#!/usr/bin/env bash
# A canary: testers get the new version, then one in ten requests, then all.
source "$(dirname "$0")/../lib.sh"

background stable "$TIDEGATE" echo -p 1980
background canary "$TIDEGATE" echo -p 1981 --size 6
await 1980
await 1981
mkdir conf
cat >conf/config.yaml <<CONFIG
apisix:
  $(keyring)
nginx_config: {worker_processes: 1}
deployment: {admin: {admin_listen: {ip: 127.0.0.1, port: 9180}}}
CONFIG
start_gateway

# route RULES: the rules of plugin traffic-split.
route() {
    put routes/1 "{
      \"uri\": \"/*\",
      \"plugins\": {\"traffic-split\": {\"rules\": [$1]}},
      \"upstream\": {\"nodes\": {\"127.0.0.1:1980\": 1}}
    }"
}
canary='{"upstream": {"nodes": {"127.0.0.1:1981": 1}}, "weight": 1}'
testers="{\"match\": [{\"vars\": [[\"http_x_tester\", \"==\", \"yes\"]]}], \"weighted_upstreams\": [$canary]}"

# How many of 100 requests the new version answered; its answers have six bytes.
count() { curl -sS "http://127.0.0.1:9080/[1-100]" -o /dev/null -w '%{size_download}\n' "$@" | grep -cx 6 || true; }

say 'Only who says X-Tester: yes gets the new version.'
show 'route "$testers"'
show 'count'
show 'count -H "X-Tester: yes"'

say 'One in ten of all others, too.'
show "route \"\$testers, {\\\"weighted_upstreams\\\": [\$canary, {\\\"weight\\\": 9}]}\""
show 'count'
show 'count -H "X-Tester: yes"'

say 'All of them. The old version is still there to go back to.'
show 'route "{\"weighted_upstreams\": [$canary]}"'
show 'count'

say 'Back: one transaction, on record.'
show 'tidegate config rollback 2'
show 'count'
