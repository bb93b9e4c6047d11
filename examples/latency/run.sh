#!/usr/bin/env bash
# The experiment that this project began with: requests one after the other, to nginx and through the gateway, while routes change
# and metrics are scraped. By plain processes; docker-compose.yaml has the same with containers. REQUESTS=10000 takes longer.
source "$(dirname "$0")/../lib.sh"
needs nginx nginx
needs etcd etcd-server
needs python3 python3

for port in 1980 1981; do
    cat >nginx-$port.conf <<CONFIG
daemon off;
master_process off;
pid $work/nginx-$port.pid;
error_log $work/nginx-$port.error.log;
events {}
http {
    access_log off;
    keepalive_requests 1000000;
    server {
        listen 127.0.0.1:$port;
        location / { return 200 "hello\n"; }
    }
}
CONFIG
    background nginx-$port nginx -p "$work" -e "$work/nginx-$port.error.log" -c "$work/nginx-$port.conf"
done
background etcd etcd --data-dir etcd-data --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
    --listen-peer-urls http://127.0.0.1:2380
await 1980
await 1981
await 2379
mkdir conf
cat >conf/config.yaml <<CONFIG
apisix:
  $(keyring)
nginx_config:
  http: {enable_access_log: false}
deployment:
  role_traditional: {config_provider: etcd}
  etcd: {host: ["http://127.0.0.1:2379"]}
  admin: {admin_listen: {ip: 127.0.0.1, port: 9180}}
CONFIG
start_gateway
show "sh $example/init.sh http://127.0.0.1:9180 \"\$ADMIN_KEY\" 127.0.0.1:1980 127.0.0.1:1981" | sed "s,$example/,,"

say 'At rest.'
show "python3 $example/latency.py ${REQUESTS:-1000} nginx=http://127.0.0.1:1980/ gateway=http://127.0.0.1:9080/" | sed "s,$example/,,"

say 'While routes change fifty times a second, and metrics are scraped.'
background changes sh "$example/changes.sh" http://127.0.0.1:9180 "$ADMIN_KEY" http://127.0.0.1:9091/metrics
show "python3 $example/latency.py ${REQUESTS:-1000} nginx=http://127.0.0.1:1980/ gateway=http://127.0.0.1:9080/" | sed "s,$example/,,"
