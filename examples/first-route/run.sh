#!/usr/bin/env bash
# A gateway in front of a server: one route, one header, one change while it runs.
source "$(dirname "$0")/../lib.sh"

background echo "$TIDEGATE" echo
await 1980

say 'A folder for the gateway, and the gateway in the background.'
show 'tidegate init'
show 'tidegate start >/dev/null'
gateways+=(.)

say 'A route: what begins with /api/ goes to the server on port 1980.'
show 'ADMIN_KEY=$(cat data/admin.key)'
show "curl -sS http://127.0.0.1:9180/apisix/admin/routes/1 -H \"X-API-KEY: \$ADMIN_KEY\" -X PUT -o answer.json -d '{
  \"uri\": \"/api/*\",
  \"upstream\": {\"nodes\": {\"127.0.0.1:1980\": 1}}
}'"
show 'curl -sS http://127.0.0.1:9080/api/users | head -1'

say 'A change takes effect before the answer to it: the server sees another path, and the client a header.'
show "curl -sS http://127.0.0.1:9180/apisix/admin/routes/1 -H \"X-API-KEY: \$ADMIN_KEY\" -X PATCH -o answer.json -d '{
  \"plugins\": {
    \"proxy-rewrite\": {\"regex_uri\": [\"^/api/(.*)\", \"/\$1\"]},
    \"response-rewrite\": {\"headers\": {\"set\": {\"X-Served-By\": \"tidegate\"}}}
  }
}'"
show 'curl -sS -i http://127.0.0.1:9080/api/users | grep -E "^(HTTP|X-Served-By|GET)"'

say 'What is there, and why a request goes where it goes.'
show 'tidegate routes'
show 'curl -sS -o /dev/null -w "%{http_code}\n" http://127.0.0.1:9080/other'
show 'tidegate explain GET http://127.0.0.1/other | head -3'
