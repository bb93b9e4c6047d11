#!/bin/sh
# Installs the program tidegate: fetches the archive of a release, compares it with SHA256SUMS, and puts the program in a
# folder. It needs curl or wget, tar and sha256sum, and root only for folders that need it.
#
# Usage: install.sh [--to DIR] [--version VERSION]
#   TIDEGATE_URL         where the files of the release are
#   TIDEGATE_PUBLIC_KEY  minisign's public key: SHA256SUMS has to be signed with it
set -eu

version='@VERSION@'
url=${TIDEGATE_URL:-}
folder=

fail() {
    echo "install.sh: $*" >&2
    exit 1
}

while [ $# -gt 0 ]; do
    case $1 in
        --to) [ $# -ge 2 ] || fail '--to needs a folder'; folder=$2; shift 2 ;;
        --version) [ $# -ge 2 ] || fail '--version needs a version'; version=$2; shift 2 ;;
        -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;;
        *) fail "unknown argument $1; see --help" ;;
    esac
done
[ -n "$url" ] || url="@URL@/releases/download/v$version"

case $url in
    *://tidegate.invalid/*) fail 'this script was made without the address of releases; TIDEGATE_URL names one' ;;
esac
[ "$(uname -s)" = Linux ] || fail 'Tidegate runs on Linux'
case $(uname -m) in
    x86_64 | amd64) arch=x86_64 ;;
    aarch64 | arm64) arch=aarch64 ;;
    *) fail "there is no archive for $(uname -m); build it: cargo build --release" ;;
esac

if command -v curl >/dev/null; then
    fetch() { curl --fail --silent --show-error --location --output "$2" "$1"; }
elif command -v wget >/dev/null; then
    fetch() { wget -q -O "$2" "$1"; }
else
    fail 'neither curl nor wget is installed'
fi
if command -v sha256sum >/dev/null; then
    sum() { sha256sum "$1" | cut -d' ' -f1; }
elif command -v shasum >/dev/null; then
    sum() { shasum -a 256 "$1" | cut -d' ' -f1; }
else
    fail 'neither sha256sum nor shasum is installed'
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
name="tidegate-$version-$arch-linux"
archive=$name.tar.gz
fetch "$url/SHA256SUMS" "$work/SHA256SUMS" || fail "cannot fetch $url/SHA256SUMS"
if [ -n "${TIDEGATE_PUBLIC_KEY:-}" ]; then
    command -v minisign >/dev/null || fail 'minisign is not installed, and TIDEGATE_PUBLIC_KEY asks for it'
    fetch "$url/SHA256SUMS.minisig" "$work/SHA256SUMS.minisig" || fail 'this release is not signed'
    minisign -Vqm "$work/SHA256SUMS" -P "$TIDEGATE_PUBLIC_KEY" >/dev/null ||
        fail 'SHA256SUMS is not signed with TIDEGATE_PUBLIC_KEY'
fi
fetch "$url/$archive" "$work/$archive" || fail "cannot fetch $url/$archive"
wanted=$(sed -n "s/^\([0-9a-f]\{64\}\)  $archive\$/\1/p" "$work/SHA256SUMS")
[ -n "$wanted" ] || fail "SHA256SUMS does not name $archive"
[ "$(sum "$work/$archive")" = "$wanted" ] || fail "$archive is not what SHA256SUMS says; nothing was installed"
tar -xzf "$work/$archive" -C "$work"

if [ -z "$folder" ]; then
    folder=/usr/local/bin
    [ -w "$folder" ] || folder=$HOME/.local/bin
fi
mkdir -p "$folder"
# By renaming: writing into the file of a running program fails.
cp "$work/$name/tidegate" "$folder/.tidegate.new"
chmod 755 "$folder/.tidegate.new"
mv -f "$folder/.tidegate.new" "$folder/tidegate"
echo "install.sh: $folder/tidegate is version $version"
case ":$PATH:" in
    *":$folder:"*) ;;
    *) echo "install.sh: $folder is not in the PATH" ;;
esac
