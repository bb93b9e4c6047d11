#!/usr/bin/env bash
# Installs the Debian packages that testing and measuring need, and only those that are missing. Building needs none of
# them. No service is left running or enabled: the tests start what they need, on ports of their own.
# Usage: scripts/install-deps.sh [--dry-run]
set -euo pipefail

required=(
    build-essential   # linker and C compiler for dependencies with C parts
    ca-certificates   # cargo downloads over TLS
    curl              # black-box tests speak to the gateway as users do
    python3           # perf/ harness, standard library only
    util-linux        # taskset pins processes while measuring; unshare gives a test ports of its own
    bsdutils          # script shows tests what a terminal shows
    haproxy           # a balancer in tests, a peer to compare what is forwarded, and one in `tidegate bench suite`
    openssl           # TLS seen by another implementation; examples of the documentation sign with it
    iproute2          # ss: tests count the segments of an answer
    brotli            # tests decode what the plugin compressed
    prometheus        # promtool tests deploy/prometheus/rules.yaml
    nginx             # a real upstream in tests, the peer in perf/
    redis-server      # limit plugins with policy redis
    etcd-server       # configuration from etcd
    etcd-client       # etcdctl: tests write and compact as operators do
    mosquitto         # a broker of MQTT behind stream routes
    python3-paho-mqtt # and its clients
    libnginx-mod-stream # the peer of stream routes in perf/
    slapd             # a directory for ldap-auth-advanced
    dnsmasq-base      # a name server for service discovery
    mosquitto         # an MQTT broker for the page of mqtt-proxy
    mosquitto-clients # its clients
    slowhttptest      # slow clients in perf/
    wrk               # load
    apache2-utils     # ab: load without keep-alive
    nghttp2-client    # h2load: HTTP/2 load
)
optional=(
    shellcheck        # make lint uses it when it is there
    linux-perf        # profiles
    minisign          # signs the sums of make dist
    rpm               # reads the .rpm that make dist writes
    umoci             # unpacks the image that make dist writes
    chromium          # opens the console in make test
    debootstrap       # a Debian of its own to install the .deb in
)
# Packages that bring a service, and its name.
declare -A services=(
    [nginx]=nginx
    [redis-server]=redis-server
    [etcd-server]=etcd
    [haproxy]=haproxy
    [slapd]=slapd
    [mosquitto]=mosquitto
    [prometheus]=prometheus
    [mosquitto]=mosquitto
)

installed() {
    dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q '^install ok installed$'
}

# Why a package is wanted: the remark beside it in the lists above.
reason() {
    sed -n "s/^    $1  *# //p" "$0"
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
for package in "${missing[@]}"; do
    printf 'install-deps: %-16s %s\n' "$package" "$(reason "$package")"
done
for package in "${missing_optional[@]}"; do
    printf 'install-deps: %-16s %s (optional)\n' "$package" "$(reason "$package")"
done
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

# Debian starts a service when its package is installed, unless this program says no.
policy=/usr/sbin/policy-rc.d
policy_is_ours=
forbid_starting() {
    if [[ -e $policy ]]; then
        echo "install-deps: $policy is there already; what it allows is started" >&2
        return
    fi
    printf '#!/bin/sh\n# Made by install-deps.sh; removed when it ends.\nexit 101\n' |
        "${as_root[@]}" tee "$policy" >/dev/null
    policy_is_ours=yes
    "${as_root[@]}" chmod 755 "$policy"
}
allow_starting() {
    if [[ $policy_is_ours ]]; then "${as_root[@]}" rm -f "$policy"; fi
}

# Packages enable their service for the next boot whatever the policy says. One that was here before is left alone.
disable() {
    if command -v systemctl >/dev/null; then
        "${as_root[@]}" systemctl --quiet disable "$1.service"
        return
    fi
    # In a container. These are not in the PATH of every user.
    if [[ -x /usr/bin/deb-systemd-helper ]]; then
        "${as_root[@]}" /usr/bin/deb-systemd-helper --quiet disable "$1.service"
    fi
    if [[ -x /usr/sbin/update-rc.d ]]; then
        "${as_root[@]}" /usr/sbin/update-rc.d "$1" disable
    fi
}
disable_services() {
    for package in "${missing[@]}"; do
        local service=${services[$package]:-}
        if [[ $service ]] && installed "$package" && ! disable "$service"; then
            echo "install-deps: cannot disable $service; it starts with the machine" >&2
        fi
    done
}

# Also after an installation that failed half way.
clean_up() {
    disable_services
    allow_starting
}
trap clean_up EXIT

apt update
forbid_starting
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
