#!/usr/bin/env bash
# gRPC three ways: called as gRPC, by JSON from any HTTP client, and from a browser.
source "$(dirname "$0")/../lib.sh"

background echo "$TIDEGATE" echo
await 1980
start_gateway

say 'The server on port 1980 answers each call with the message that it got.'
show "put protos/hello '{\"content\": \"syntax = \\\"proto3\\\"; package hello; service Greeter { rpc Say (Text) returns (Text) {} } message Text { string text = 1; int64 count = 2; }\"}'"
show "put upstreams/greeter '{\"scheme\": \"grpc\", \"nodes\": {\"127.0.0.1:1980\": 1}}'"
show "put routes/grpc '{\"uri\": \"/hello.Greeter/*\", \"upstream_id\": \"greeter\"}'"

say 'As gRPC: HTTP/2 without TLS, on the same port as everything else. The frame is {text: "hi"}.'
show "printf '\\0\\0\\0\\0\\4\\n\\2hi' > frame"
show 'curl -sS --http2-prior-knowledge http://127.0.0.1:9080/hello.Greeter/Say -H "Content-Type: application/grpc" -H "TE: trailers" --data-binary @frame -o reply -D - | grep -iE "^(HTTP|content-type|grpc-status)" | tr -d "\r"'
show 'cmp frame reply && echo the same message'

say 'By JSON, or by arguments.'
show "put routes/json '{\"uri\": \"/say\", \"upstream_id\": \"greeter\", \"plugins\": {\"grpc-transcode\": {\"proto_id\": \"hello\", \"service\": \"hello.Greeter\", \"method\": \"Say\"}}}'"
show "curl -sS http://127.0.0.1:9080/say -H 'Content-Type: application/json' -d '{\"text\": \"hi\", \"count\": 3}'; echo"
show "curl -sS 'http://127.0.0.1:9080/say?text=hi'; echo"
show "curl -sS -o /dev/null -w '%{http_code}\n' http://127.0.0.1:9080/say -H 'Content-Type: application/json' -d '{\"count\": \"many\"}'"

say 'From a browser: gRPC-Web in base64.'
show "put routes/web '{\"uri\": \"/web/*\", \"upstream_id\": \"greeter\", \"plugins\": {\"grpc-web\": {}}}'"
show 'curl -sS http://127.0.0.1:9080/web/hello.Greeter/Say -H "Content-Type: application/grpc-web-text" -d "$(base64 -w0 frame)" | base64 -d | strings -n 10'
