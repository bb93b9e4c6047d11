#!/usr/bin/env bash
# The whole configuration in git: no Admin API and no database; a commit is checked before it is served, and undone by git.
source "$(dirname "$0")/../lib.sh"
needs git git
export GIT_AUTHOR_NAME=ops GIT_AUTHOR_EMAIL=ops@example.org GIT_COMMITTER_NAME=ops GIT_COMMITTER_EMAIL=ops@example.org
commit() { git -c init.defaultBranch=main "$@" >/dev/null 2>&1; }

background echo "$TIDEGATE" echo
await 1980

say 'A gateway that reads its objects from conf/apisix.yaml, in a git repository.'
show 'tidegate init --standalone'
show 'printf "logs/\ndata/\n" > .gitignore'
commit init . && commit add conf .gitignore && commit commit -m 'the gateway'
show 'tidegate start >/dev/null'
gateways+=(.)
show 'curl -sS http://127.0.0.1:9080/hello'

# What was served before goes on until the new file is read: within a second.
until_served() { for _ in {1..50}; do [[ $(curl -sS "http://127.0.0.1:9080$1" | head -1) == "$2" ]] && break; sleep 0.1; done; }

say 'A change: write, check, commit. The running gateway reads the file within a second.'
cat >conf/apisix.yaml <<'YAML'
routes:
  - id: hello
    uri: /hello
    plugins:
      mocking: {content_type: text/plain, response_example: "hello from git\n"}
  - id: api
    uri: /api/*
    upstream: {nodes: {"127.0.0.1:1980": 1}}
#END
YAML
show 'tidegate test 2>&1 | tail -1'
show 'commit commit -am "a route for the API"'
until_served /hello 'hello from git'
show 'curl -sS http://127.0.0.1:9080/hello'
show 'curl -sS http://127.0.0.1:9080/api/1 | head -1'

say 'A mistake does not get through the check, and would not stop the gateway: it keeps what it has.'
show 'sed -i "s/uri: .hello/uri: 5/" conf/apisix.yaml'
show 'tidegate test 2>&1 | grep -o "routes/hello.*" | head -1 || true'
show 'curl -sS http://127.0.0.1:9080/api/1 | head -1'

say 'Undone by git.'
show 'commit checkout conf/apisix.yaml && tidegate test >/dev/null 2>&1 && git log --format=%s'
until_served /hello 'hello from git'
show 'curl -sS http://127.0.0.1:9080/hello'

say 'A changed config.yaml takes a reload, which loses no request.'
show 'cp conf/config.yaml before && printf "\nnginx_config:\n  http:\n    client_max_body_size: 1k\n" >> conf/config.yaml'
show 'tidegate reload >/dev/null'
show 'head -c 2000 /dev/zero | curl -sS -o /dev/null -w "%{http_code}\n" http://127.0.0.1:9080/api/1 --data-binary @-'
