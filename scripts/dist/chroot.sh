# shellcheck shell=bash
# For the checks that need a fresh Debian: sourced by check-clone, check-deb and check-hour. Needs root, debootstrap and a mirror of Debian.
# Trees are kept below target/chroot: SUITE as debootstrap makes it, SUITE-build with a compiler.

chroots=$PWD/target/chroot
place=

say() { echo "${0##*/}: $*"; }
fail() { say "$*" >&2; exit 1; }
inside() { chroot "$place" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C "$@"; }

# The tree NAME, made once by the command that follows, which gets the folder as its last argument.
kept() {
    local tree=$chroots/$1
    shift
    if [[ ! -e $tree.complete ]]; then
        rm -rf "$tree"
        mkdir -p "$chroots"
        "$@" "$tree" >"$tree.log" 2>&1 || fail "no chroot: see $tree.log"
        touch "$tree.complete"
    fi
}
plain() { debootstrap --variant=minbase --include=ca-certificates "$1" "$2"; }
with_compiler() {
    cp -a "$chroots/$1" "$2"
    chroot "$2" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive sh -ec \
        'apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev make git curl'
}

# A copy of a kept tree at $place, with /proc, until leave.
enter() {
    place=$chroots/$2
    rm -rf "$place"
    cp -a "$chroots/$1" "$place"
    mount -t proc proc "$place/proc"
    [[ -c $place/dev/null ]] || mknod -m 666 "$place/dev/null" c 1 3
    say "$1, $(inside cat /etc/debian_version)"
}
# Nothing is removed while something of the machine may be mounted in it.
leave() {
    umount "$place/proc" 2>/dev/null || true
    mountpoint -q "$place/proc" || rm -rf "$place"
}
