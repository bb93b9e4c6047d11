"""The .deb and the .rpm, of the same files."""

import hashlib

import archive
import rpm as rpm_format
from archive import Entry

SUMMARY = "API gateway that speaks the Admin API of Apache APISIX"
ABOUT = [
    "Tidegate routes HTTP, gRPC and WebSocket to upstreams, with plugins for",
    "authentication, limits, rewriting, caching and logging. It reads the",
    "configuration of Apache APISIX, from an embedded store, files or etcd.",
]
MAINTAINER = "Tidegate maintainers <maintainers@tidegate.invalid>"


def files(program, pages, completions, root, level):
    """Path from / -> Entry, for both packages."""
    def read(path):
        return (root / path).read_bytes()

    whole = {
        "usr/bin/tidegate": Entry(program, 0o755),
        "usr/lib/systemd/system/tidegate.service": Entry(read("packaging/tidegate.service")),
        "etc/logrotate.d/tidegate": Entry(read("packaging/logrotate")),
        "usr/share/bash-completion/completions/tidegate": Entry(completions["tidegate.bash"]),
        "usr/share/fish/vendor_completions.d/tidegate.fish": Entry(completions["tidegate.fish"]),
        "usr/share/doc/tidegate/NOTICE": Entry(read("NOTICE")),
        "usr/share/doc/tidegate/config.yaml": Entry(read("conf/config.yaml")),
        "usr/share/doc/tidegate/changelog.gz": Entry(archive.compress(read("CHANGELOG.md"), level)),
    }
    for name, page in pages.items():
        whole[f"usr/share/man/man1/{name}.gz"] = Entry(archive.compress(page, level))
    return whole


def _script(root, path):
    setup = (root / "packaging/setup.sh").read_text()
    return (root / path).read_text().replace("#SETUP#\n", setup)


def deb(entries, completions, architecture, version, root, mtime, level):
    entries = entries | {
        "usr/share/zsh/vendor-completions/_tidegate": Entry(completions["_tidegate"]),
        "usr/share/doc/tidegate/copyright": Entry((root / "LICENSE").read_bytes()),
    }
    size = sum(len(entry.data or b"") for entry in entries.values())
    control = "\n".join([
        "Package: tidegate",
        f"Version: {version}",
        f"Architecture: {architecture}",
        f"Maintainer: {MAINTAINER}",
        f"Installed-Size: {-(-size // 1024)}",
        "Depends: ca-certificates, passwd",
        "Recommends: logrotate",
        "Section: net",
        "Priority: optional",
        f"Description: {SUMMARY}",
        *(f" {line}" for line in ABOUT),
        "",
    ])
    sums = [f"{hashlib.md5(entry.data).hexdigest()}  {path}\n" for path, entry in sorted(entries.items())]
    meta = {
        "control": Entry(control.encode()),
        "conffiles": Entry(b"/etc/logrotate.d/tidegate\n"),
        "md5sums": Entry("".join(sums).encode()),
    }
    for name in ("postinst", "prerm", "postrm"):
        meta[name] = Entry(_script(root, f"packaging/deb/{name}").encode(), 0o755)
    return archive.ar([
        ("debian-binary", b"2.0\n"),
        ("control.tar.gz", archive.compress(archive.tar(meta, mtime, "./"), level)),
        ("data.tar.gz", archive.compress(archive.tar(entries, mtime, "./"), level)),
    ], mtime)


def rpm(entries, completions, architecture, version, url, root, mtime, level):
    entries = entries | {
        "usr/share/zsh/site-functions/_tidegate": Entry(completions["_tidegate"]),
        "usr/share/licenses/tidegate/LICENSE": Entry((root / "LICENSE").read_bytes()),
    }
    about = {"name": "tidegate", "version": version, "arch": architecture, "summary": SUMMARY, "licence": "Apache-2.0",
             "description": "\n".join(ABOUT), "url": url}
    scripts = {name: _script(root, f"packaging/rpm/{name}") for name in ("post", "preun", "postun")}
    return rpm_format.write(entries, about, scripts, mtime, level)
