#!/usr/bin/env bash
# A chat over WebSockets behind the gateway: a key to get in, and an upgrade of the gateway that no connection notices.
source "$(dirname "$0")/../lib.sh"
needs python3 python3

background chat python3 "$example/chat.py" serve 1980
await 1980
start_gateway

# The client, of the same file as the server.
chat() { python3 "$example/chat.py" "$@"; }
room='ws://127.0.0.1:9080/chat?apikey=key-of-anna'

say 'A route for WebSockets that wants a key.'
show "put consumers/anna '{\"username\": \"anna\", \"plugins\": {\"key-auth\": {\"key\": \"key-of-anna\"}}}'"
show "put routes/chat '{\"uri\": \"/chat\", \"enable_websocket\": true, \"plugins\": {\"key-auth\": {}}, \"upstream\": {\"nodes\": {\"127.0.0.1:1980\": 1}}}'"
show 'chat say ws://127.0.0.1:9080/chat ben hello || echo "exit code $?"'

say 'Anna listens for two messages. Ben writes one before and one after a reload of the gateway.'
show 'chat listen "$room" 2 > heard & listener=$!'
started+=("$listener")
for _ in {1..100}; do grep -q joined heard && break; sleep 0.1; done
show 'chat say "$room" ben "are you there?"'
show 'tidegate reload >/dev/null'
show 'chat say "$room" ben "and after the reload?"'
show 'wait $listener'
show 'cat heard'
