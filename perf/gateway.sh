# shellcheck shell=bash
# For scripts that put a gateway in front of a server and a conformance suite in front of both: sourced, not run.
# Sets `folder` (temporary, removed at the end), `plain` and `secure` (the gateway's ports). What `background` starts
# ends with the script.

export PATH=$PATH:/usr/sbin

folder=$(mktemp -d)
# nginx's workers run as another user when its master is root.
chmod 755 "$folder"
children=()
finish() {
    for child in "${children[@]}"; do
        kill "$child" 2>/dev/null || true
        wait "$child" 2>/dev/null || true
    done
    rm -rf "$folder"
}
trap finish EXIT

background() {
    "$@" &
    children+=($!)
}

port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# wait_for PORT...
wait_for() {
    python3 -c '
import socket, sys, time
def wait(port):
    for _ in range(200):
        try: return socket.create_connection(("127.0.0.1", int(port))).close()
        except OSError: time.sleep(0.05)
    sys.exit("nothing listens on port " + port)
for port in sys.argv[1:]: wait(port)' "$@"
}

quoted() { printf '"'; awk '{printf "%s\\n", $0}' "$1"; printf '"'; }

plain=$(port) secure=$(port)

# start_gateway BINARY ROUTE: one worker, in the clear and over TLS; ROUTE is the only route, as YAML without its id.
start_gateway() {
    mkdir "$folder/conf" "$folder/logs"
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
        -addext subjectAltName=DNS:localhost -keyout "$folder/key.pem" -out "$folder/cert.pem" 2>/dev/null
    cat >"$folder/conf/config.yaml" <<END
apisix:
  node_listen: [{ip: 127.0.0.1, port: $plain}]
  ssl: {fallback_sni: localhost, listen: [{ip: 127.0.0.1, port: $secure}]}
  enable_admin: false
  control: {ip: 127.0.0.1, port: $(port)}
nginx_config: {worker_processes: 1, http: {enable_access_log: false}}
deployment:
  role: data_plane
  role_data_plane: {config_provider: yaml}
plugin_attr:
  prometheus: {export_addr: {ip: 127.0.0.1, port: $(port)}}
END
    cat >"$folder/conf/apisix.yaml" <<END
routes:
- {id: 1, $2}
ssls:
- {id: 1, sni: localhost, cert: $(quoted "$folder/cert.pem"), key: $(quoted "$folder/key.pem")}
#END
END
    background "$1" run --prefix "$folder" -c "$folder/conf/config.yaml"
    wait_for "$plain" "$secure"
}
