#!/usr/bin/env bash
# Installs the Debian packages that building, testing and measuring need, and only those that are missing.
# Usage: scripts/install-deps.sh [--dry-run]
set -euo pipefail

required=(
    build-essential   # linker and C compiler for dependencies with C parts
    ca-certificates   # cargo downloads over TLS
    curl              # black-box tests speak to the gateway as users do
    python3           # perf/ harness, standard library only
    util-linux        # taskset pins processes while measuring
    haproxy           # a balancer in tests, a peer to compare what is forwarded, and one in `tidegate bench suite`
    openssl           # TLS seen by another implementation; examples of the documentation sign with it
    iproute2          # ss: tests count the segments of an answer
    brotli            # tests decode what the plugin compressed
    nginx             # a real upstream in tests, the peer in perf/
    redis-server      # limit plugins with policy redis
    protobuf-compiler # etcd's interface is generated from its definition
    libprotobuf-dev   # definitions that it includes
    etcd-server       # configuration from etcd
    etcd-client       # etcdctl: tests write and compact as operators do
    dnsmasq-base      # a name server for service discovery
    slowhttptest      # slow clients in perf/
    wrk               # load
    apache2-utils     # ab: load without keep-alive
    nghttp2-client    # h2load: HTTP/2 load
)
optional=(
    shellcheck        # make lint uses it when it is there
    linux-perf        # profiles
)

installed() {
    dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q '^install ok installed$'
}

missing=()
for package in "${required[@]}"; do
    installed "$package" || missing+=("$package")
done
missing_optional=()
for package in "${optional[@]}"; do
    installed "$package" || missing_optional+=("$package")
done

if ((${#missing[@]} + ${#missing_optional[@]} == 0)); then
    echo 'install-deps: everything is installed'
    exit 0
fi
echo "install-deps: required, missing: ${missing[*]:-none}"
echo "install-deps: optional, missing: ${missing_optional[*]:-none}"
[[ ${1:-} == --dry-run ]] && exit 0

as_root=()
if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
        if ((${#missing[@]} == 0)); then exit 0; fi
        echo 'install-deps: not root and no sudo; run this as root' >&2
        exit 1
    fi
    as_root=(sudo)
fi
apt() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=120 "$@"
}

apt update
if ((${#missing[@]})); then
    apt install -y --no-install-recommends "${missing[@]}"
fi
for package in "${missing_optional[@]}"; do
    apt install -y --no-install-recommends "$package" ||
        echo "install-deps: optional package $package is not available; going on without it"
done

if ! command -v cargo >/dev/null; then
    echo 'install-deps: note: cargo is not in the PATH; install Rust from https://rustup.rs'
fi
