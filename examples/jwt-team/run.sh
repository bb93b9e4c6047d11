#!/usr/bin/env bash
# JSON web tokens for a team: each member has a key, the team has a rate limit, and what the token says reaches the server.
source "$(dirname "$0")/../lib.sh"
needs openssl openssl

background echo "$TIDEGATE" echo
await 1980
start_gateway

# token KEY SECRET LIFETIME: signed with HS256.
token() {
    local encode='openssl base64 -A'
    local head body
    head=$(printf '{"alg":"HS256","typ":"JWT"}' | $encode | tr '+/' '-_' | tr -d '=')
    body=$(printf '{"key":"%s","exp":%s}' "$1" "$(($(date +%s) + $3))" | $encode | tr '+/' '-_' | tr -d '=')
    printf '%s.%s.%s' "$head" "$body" \
        "$(printf '%s.%s' "$head" "$body" | openssl dgst -sha256 -hmac "$2" -binary | $encode | tr '+/' '-_' | tr -d '=')"
}

say 'The team shares five requests a minute; its members are consumers with a key and a secret.'
show "put consumer_groups/payments '{\"plugins\": {\"limit-count\": {\"count\": 5, \"time_window\": 60, \"rejected_code\": 429, \"group\": \"payments\"}}}'"
show "put consumers/anna '{\"username\": \"anna\", \"group_id\": \"payments\", \"plugins\": {\"jwt-auth\": {\"key\": \"anna\", \"secret\": \"the-secret-of-anna-0123456789abcdef\"}}}'"
show "put consumers/ben '{\"username\": \"ben\", \"group_id\": \"payments\", \"plugins\": {\"jwt-auth\": {\"key\": \"ben\", \"secret\": \"the-secret-of-ben-0123456789abcdefg\"}}}'"
show "put routes/1 '{\"uri\": \"/*\", \"plugins\": {\"jwt-auth\": {\"hide_credentials\": true}}, \"upstream\": {\"nodes\": {\"127.0.0.1:1980\": 1}}}'"

say 'Without a token, with a wrong signature, with one that has ended.'
show 'curl -sS http://127.0.0.1:9080/'
show 'curl -sS http://127.0.0.1:9080/ -H "Authorization: $(token anna wrong-secret-0123456789abcdef 60)"'
show 'curl -sS http://127.0.0.1:9080/ -H "Authorization: $(token anna the-secret-of-anna-0123456789abcdef -60)"'

say 'With a token: the server learns who it is, and does not see the token.'
show 'curl -sS http://127.0.0.1:9080/ -H "Authorization: Bearer $(token anna the-secret-of-anna-0123456789abcdef 60)" | grep -E "^(GET|X-Consumer|Authorization)"'

say 'The sixth request of the team is refused, whoever sends it.'
show 'for name in anna ben anna ben ben; do curl -sS -o /dev/null -w "$name %{http_code}\n" http://127.0.0.1:9080/ -H "Authorization: $(token $name the-secret-of-$(test $name = anna && echo anna-0123456789abcdef || echo ben-0123456789abcdefg) 60)"; done'
