#!/usr/bin/env bash
# One limit over two gateways: the counts are in Redis, and what happens when Redis goes away.
source "$(dirname "$0")/../lib.sh"
needs redis-server redis-server

background echo "$TIDEGATE" echo
background redis redis-server --port 6379 --save '' --appendonly no
redis=${started[-1]}
await 1980
await 6379

# Two gateways with stores of their own on one machine.
for number in 1 2; do
    mkdir -p gateway$number/conf
    cat >gateway$number/conf/config.yaml <<CONFIG
apisix:
  $(keyring)
  node_listen: 908$number
  ssl: {enable: false}
  control: {port: 907$number}
deployment:
  admin: {admin_listen: {ip: 127.0.0.1, port: 918$number}}
plugin_attr: {prometheus: {export_addr: {ip: 127.0.0.1, port: 906$number}}}
CONFIG
    start_gateway gateway$number
    ADMIN_PORT=918$number put routes/1 '{
      "uri": "/*",
      "plugins": {"limit-count": {
        "count": 4, "time_window": 3600, "key": "http_x_client", "rejected_code": 429,
        "policy": "redis", "redis_host": "127.0.0.1", "redis_timeout": 500, "allow_degradation": true
      }},
      "upstream": {"nodes": {"127.0.0.1:1980": 1}}
    }'
done

say 'Four requests an hour of a client, over both gateways together.'
show 'for port in 9081 9082 9081 9082 9081 9082; do curl -sS -o /dev/null -w "$port %{http_code} %header{x-ratelimit-remaining}\n" -H "X-Client: anna" http://127.0.0.1:$port/; done'

say 'Another client has a count of its own.'
show 'curl -sS -o /dev/null -w "%{http_code}\n" -H "X-Client: ben" http://127.0.0.1:9082/'

say 'Redis goes away: with allow_degradation requests pass, and the log says so.'
kill "$redis"
wait "$redis" 2>/dev/null || true
show 'curl -sS -o /dev/null -w "%{http_code}\n" -H "X-Client: anna" http://127.0.0.1:9081/'
for _ in {1..50}; do grep -q Redis gateway1/logs/error.log && break; sleep 0.1; done
show 'grep -o "Redis.*" gateway1/logs/error.log | head -1'
