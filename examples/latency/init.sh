#!/bin/sh
# Writes the objects of the experiment: init.sh ADMIN_API KEY NODE NODE. Waits for the Admin API first.
set -eu
admin=$1 key=$2 first=$3 second=$4
tries=0
until curl -sS -o /dev/null "$admin/apisix/admin/routes" -H "X-API-KEY: $key" 2>/dev/null; do
    tries=$((tries + 1))
    [ "$tries" -lt 120 ] || { echo "no Admin API at $admin" >&2; exit 1; }
    sleep 0.5
done
curl -sS --fail -o /dev/null "$admin/apisix/admin/upstreams/web" -H "X-API-KEY: $key" -X PUT \
    -d "{\"type\": \"roundrobin\", \"nodes\": {\"$first\": 1, \"$second\": 1}}"
curl -sS --fail -o /dev/null "$admin/apisix/admin/routes/web" -H "X-API-KEY: $key" -X PUT \
    -d '{"uri": "/*", "upstream_id": "web"}'
echo 'route /* leads to two nodes'
