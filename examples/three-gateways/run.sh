#!/usr/bin/env bash
# Three gateways on one etcd: a change through one is served by all; one goes, then etcd goes, and requests are served on.
source "$(dirname "$0")/../lib.sh"
needs etcd etcd-server

background echo "$TIDEGATE" echo
background etcd etcd --data-dir etcd-data --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
    --listen-peer-urls http://127.0.0.1:2380
etcd=${started[-1]}
await 1980
await 2379
for number in 1 2 3; do
    mkdir -p gateway$number/conf
    cat >gateway$number/conf/config.yaml <<CONFIG
apisix:
  node_listen: 908$number
  ssl: {enable: false}
  control: {port: 907$number}
  status: {ip: 127.0.0.1, port: 905$number}
  data_encryption: {keyring: ["a-key-for-all-16"]}
deployment:
  role_traditional: {config_provider: etcd}
  etcd: {host: ["http://127.0.0.1:2379"]}
  admin:
    admin_listen: {ip: 127.0.0.1, port: 918$number}
    admin_key: [{name: ops, key: a-key-for-all-three-gateways, role: admin}]
plugin_attr: {prometheus: {export_addr: {ip: 127.0.0.1, port: 906$number}}}
CONFIG
    start_gateway gateway$number
done
ADMIN_KEY=a-key-for-all-three-gateways
# Until each of the named gateways answers /who with a text.
until_served() { local text=$1; shift; for port; do for _ in {1..100}; do [[ $(curl -sS "http://127.0.0.1:$port/who" | head -c 200) == "$text"* ]] && break; sleep 0.05; done; done; }
ask() { for port; do printf '%s ' "$port"; curl -sS "http://127.0.0.1:$port/who" | head -1; done; }

say 'A route, written through the first gateway.'
show "ADMIN_PORT=9181 put routes/1 '{\"uri\": \"/who\", \"plugins\": {\"mocking\": {\"content_type\": \"text/plain\", \"response_example\": \"written through the first\\n\"}}}'"
until_served 'written through the first' 9081 9082 9083
show 'ask 9081 9082 9083'

say 'Changed through the third.'
show "ADMIN_PORT=9183 put routes/1 '{\"uri\": \"/who\", \"plugins\": {\"mocking\": {\"content_type\": \"text/plain\", \"response_example\": \"changed through the third\\n\"}}}'"
until_served 'changed through the third' 9081 9082 9083
show 'ask 9081 9082 9083'

say 'The third is stopped: the others do not depend on it.'
show 'tidegate stop --prefix gateway3 >/dev/null'
show "ADMIN_PORT=9182 put routes/1 '{\"uri\": \"/who\", \"upstream\": {\"nodes\": {\"127.0.0.1:1980\": 1}}}'"
until_served 'GET /who' 9081 9082
show 'ask 9081 9082'

say 'etcd goes: requests are served with the last configuration; a change is refused.'
kill "$etcd"
wait "$etcd" 2>/dev/null || true
show 'ask 9081 9082'
show "curl -sS -o /dev/null -w '%{http_code}\n' http://127.0.0.1:9181/apisix/admin/routes/1 -H \"X-API-KEY: \$ADMIN_KEY\" -X PATCH -d '{\"name\": \"x\"}'"
