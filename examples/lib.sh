# What the examples share; each run.sh reads it. An example works in a temporary folder, which goes with everything that it has
# started. KEEP=1 leaves the folder.
set -euo pipefail
export LC_ALL=C
example=$(cd "$(dirname "${BASH_SOURCE[1]}")" && pwd)
repository=$(cd "$example/../.." && pwd)

# The program: $TIDEGATE, or the one in the PATH, or one that was built here.
if [[ -z ${TIDEGATE:-} ]]; then
    for candidate in "$(command -v tidegate || true)" "$repository"/target/{release,quick,debug}/tidegate; do
        if [[ -x $candidate ]]; then TIDEGATE=$candidate; break; fi
    done
fi
if [[ -z ${TIDEGATE:-} ]]; then
    echo "there is no tidegate in the PATH, and none was built: make build, or set TIDEGATE" >&2
    exit 3
fi
tidegate() { "$TIDEGATE" "$@"; }

work=$(mktemp -d "${TMPDIR:-/tmp}/tidegate-example.XXXXXX")
cd "$work"
started=()
gateways=()
finish() {
    local status=$?
    trap - EXIT
    for folder in ${gateways[@]+"${gateways[@]}"}; do tidegate stop --prefix "$folder" >/dev/null 2>&1 || true; done
    for pid in ${started[@]+"${started[@]}"}; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    if [[ -n ${KEEP:-} ]]; then echo "# left in $work"; else rm -rf "$work"; fi
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

# needs PROGRAM PACKAGE: ends the example where a program is missing.
needs() {
    if ! command -v "$1" >/dev/null; then
        echo "this example needs $1 (Debian's package $2)" >&2
        exit 3
    fi
}

# background NAME COMMAND...: what it prints goes to NAME.log.
background() {
    local name=$1
    shift
    "$@" >"$name.log" 2>&1 &
    started+=($!)
}

# await PORT: until something listens there.
await() {
    for _ in {1..300}; do
        if (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; then return; fi
        sleep 0.1
    done
    echo "nothing listens on port $1; see the logs in $work" >&2
    exit 1
}

# say TEXT: a line of explanation.
say() { printf '\n# %s\n' "$1"; }

# show COMMAND: prints it as it would be typed, and runs it.
show() {
    printf '$ %s\n' "$1"
    eval "$1"
}

# keyring: lines for the section apisix of a config.yaml, with a key of one's own for secrets at rest.
keyring() { printf 'data_encryption: {keyring: ["%s"]}' "$(od -An -N8 -tx1 /dev/urandom | tr -d ' \n')"; }

# start_gateway [FOLDER]: makes a folder with a gateway unless it is there, and starts it; ADMIN_KEY is its key.
start_gateway() {
    local folder=${1:-.}
    [[ -e $folder/conf/config.yaml ]] || tidegate init --prefix "$folder" >/dev/null
    tidegate start --prefix "$folder" >/dev/null
    gateways+=("$folder")
    if [[ -e $folder/data/admin.key ]]; then ADMIN_KEY=$(cat "$folder/data/admin.key"); fi
}

# put PATH JSON: one object of the configuration, by the Admin API.
put() {
    curl -sS --fail-with-body -o answer.json "http://127.0.0.1:${ADMIN_PORT:-9180}/apisix/admin/$1" \
        -H "X-API-KEY: $ADMIN_KEY" -X PUT -d "$2" || { cat answer.json >&2; exit 1; }
}
