#!/usr/bin/env bash
# Logic of one's own, without a build: a Lua function that wants a tenant and signs requests for the server.
source "$(dirname "$0")/../lib.sh"
needs python3 python3

background echo "$TIDEGATE" echo
await 1980
start_gateway

say 'The function.'
show "cat $example/tenant.lua" | sed "s,$example/,,"

# As a JSON text.
code() { python3 -c 'import json, sys; print(json.dumps(open(sys.argv[1]).read()))' "$example/tenant.lua"; }

say 'As a plugin config it is written once and used by several routes.'
show 'put plugin_configs/tenant "{\"plugins\": {\"serverless-pre-function\": {\"phase\": \"rewrite\", \"functions\": [$(code)]}}}"'
show "put routes/orders '{\"uri\": \"/orders/*\", \"plugin_config_id\": \"tenant\", \"upstream\": {\"nodes\": {\"127.0.0.1:1980\": 1}}}'"
show "put routes/stock '{\"uri\": \"/stock/*\", \"plugin_config_id\": \"tenant\", \"upstream\": {\"nodes\": {\"127.0.0.1:1980\": 1}}}'"

say 'A request with a tenant goes on with a signature, one without is refused.'
show 'curl -sS http://127.0.0.1:9080/orders/7 -H "X-Tenant: acme" | grep -E "^(GET|X-Signature)"'
show 'curl -sS -w "%{http_code}\n" http://127.0.0.1:9080/stock/7'

say 'What is no function is refused when it is written.'
show "curl -sS http://127.0.0.1:9180/apisix/admin/routes/bad -H \"X-API-KEY: \$ADMIN_KEY\" -X PUT -d '{\"uri\": \"/bad\", \"plugins\": {\"serverless-pre-function\": {\"functions\": [\"return 5\"]}}}'"
