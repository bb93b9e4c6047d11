#!/bin/sh
# Keeps the gateway busy with what operators do: changes of other routes and scrapes of the metrics, until it is killed.
# changes.sh ADMIN_API KEY METRICS
set -eu
number=0
while :; do
    number=$(((number + 1) % 100))
    curl -sS -o /dev/null "$1/apisix/admin/routes/other-$number" -H "X-API-KEY: $2" -X PUT \
        -d "{\"uri\": \"/other/$number\", \"upstream_id\": \"web\"}" || true
    [ $((number % 10)) -ne 0 ] || curl -sS -o /dev/null "$3" || true
    sleep 0.02
done
