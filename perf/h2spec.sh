#!/usr/bin/env bash
# Runs h2spec (strict) against a gateway, in the clear and over TLS, in front of nginx.
# Usage: perf/h2spec.sh H2SPEC [GATEWAY]
# H2SPEC: go install github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible
set -euo pipefail

h2spec=${1:?the path of h2spec}
root=$(cd "$(dirname "$0")/.." && pwd)
gateway=${2:-${TIDEGATE_BIN:-$root/target/release/tidegate}}
# shellcheck source=perf/gateway.sh
. "$root/perf/gateway.sh"
upstream=$(port)

cat >"$folder/nginx.conf" <<END
daemon off; worker_processes 1; pid $folder/nginx.pid; error_log stderr warn;
events {}
http {
  access_log off; client_body_temp_path $folder/body; proxy_temp_path $folder/proxy;
  fastcgi_temp_path $folder/fastcgi; uwsgi_temp_path $folder/uwsgi; scgi_temp_path $folder/scgi;
  server { listen 127.0.0.1:$upstream; default_type text/plain; location / { return 200 "hello world"; } }
}
END
background nginx -c "$folder/nginx.conf" -p "$folder" -e stderr
wait_for "$upstream"
start_gateway "$gateway" "uri: '/*', upstream: {type: roundrobin, nodes: {'127.0.0.1:$upstream': 1}}"

status=0
echo "--- in the clear"
"$h2spec" --strict -h 127.0.0.1 -p "$plain" | sed -n '/^Failures/,$p;/tests,/p' || status=1
echo "--- over TLS"
"$h2spec" --strict -t -k -h localhost -p "$secure" | sed -n '/^Failures/,$p;/tests,/p' || status=1
exit $status
