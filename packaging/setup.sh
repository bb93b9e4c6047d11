# Part of the installation scripts of both packages: user, folders, and a first config.yaml with a key of this machine.
if ! getent passwd tidegate >/dev/null; then
    useradd --system --user-group --home-dir /var/lib/tidegate --no-create-home --shell /usr/sbin/nologin tidegate
fi
install -d -m 0750 -o root -g tidegate /etc/tidegate
install -d -m 0750 -o tidegate -g tidegate /var/lib/tidegate /var/lib/tidegate/data /var/log/tidegate
# The folder of a gateway has conf/, data/ and logs/; those of a system are elsewhere.
[ -e /var/lib/tidegate/conf ] || ln -s /etc/tidegate /var/lib/tidegate/conf
[ -e /var/lib/tidegate/logs ] || ln -s /var/log/tidegate /var/lib/tidegate/logs
if [ ! -e /etc/tidegate/config.yaml ]; then
    /usr/bin/tidegate init --prefix /var/lib/tidegate >/dev/null
    chgrp tidegate /etc/tidegate/config.yaml
    chmod 0640 /etc/tidegate/config.yaml
fi

# Whether a gateway runs here that systemd does not know: in a container, or a chroot.
runs_without_systemd() {
    [ ! -d /run/systemd/system ] && [ -s /var/log/tidegate/tidegate.pid ] &&
        kill -0 "$(cat /var/log/tidegate/tidegate.pid)" 2>/dev/null
}
