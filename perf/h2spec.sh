#!/usr/bin/env bash
# Runs h2spec (strict) against a gateway, in the clear and over TLS, in front of nginx.
# Usage: perf/h2spec.sh H2SPEC [GATEWAY]
# H2SPEC: go install github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible
set -euo pipefail

h2spec=${1:?the path of h2spec}
root=$(cd "$(dirname "$0")/.." && pwd)
gateway=${2:-${TIDEGATE_BIN:-$root/target/release/tidegate}}
export PATH=$PATH:/usr/sbin

folder=$(mktemp -d)
chmod 755 "$folder"
children=()
finish() {
    for child in "${children[@]}"; do kill "$child" 2>/dev/null && wait "$child" 2>/dev/null || true; done
    rm -rf "$folder"
}
trap finish EXIT

port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
upstream=$(port) plain=$(port) secure=$(port) control=$(port) metrics=$(port)

mkdir "$folder/conf" "$folder/logs"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost -keyout "$folder/key.pem" -out "$folder/cert.pem" 2>/dev/null
cat >"$folder/nginx.conf" <<END
daemon off; worker_processes 1; pid $folder/nginx.pid; error_log stderr warn;
events {}
http {
  access_log off; client_body_temp_path $folder/body; proxy_temp_path $folder/proxy;
  fastcgi_temp_path $folder/fastcgi; uwsgi_temp_path $folder/uwsgi; scgi_temp_path $folder/scgi;
  server { listen 127.0.0.1:$upstream; default_type text/plain; location / { return 200 "hello world"; } }
}
END
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
quoted() { printf '"'; awk '{printf "%s\\n", $0}' "$1"; printf '"'; }
cat >"$folder/conf/apisix.yaml" <<END
routes:
- {id: 1, uri: "/*", upstream: {type: roundrobin, nodes: {"127.0.0.1:$upstream": 1}}}
ssls:
- {id: 1, sni: localhost, cert: $(quoted "$folder/cert.pem"), key: $(quoted "$folder/key.pem")}
#END
END

nginx -c "$folder/nginx.conf" -p "$folder" -e stderr &
children+=($!)
"$gateway" run --prefix "$folder" -c "$folder/conf/config.yaml" &
children+=($!)
for _ in $(seq 200); do
    if curl -s -m 1 -o /dev/null "http://127.0.0.1:$plain/"; then break; fi
    sleep 0.05
done

status=0
echo "--- in the clear"
"$h2spec" --strict -h 127.0.0.1 -p "$plain" | sed -n '/^Failures/,$p;/tests,/p' || status=1
echo "--- over TLS"
"$h2spec" --strict -t -k -h localhost -p "$secure" | sed -n '/^Failures/,$p;/tests,/p' || status=1
exit $status
