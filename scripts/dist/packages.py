"""The .deb and the .rpm, of the same files."""

import hashlib
import subprocess

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


# What the pages link to is there, too. conf/config.yaml is not: `tidegate init` writes it, with a key of its own.
DOCUMENTS = ("README.md", "README.zh-CN.md", "ARCHITECTURE.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "SECURITY.md",
             "deploy", "docs", "examples")


def documents(root):
    """Path from the root of the repository -> Entry: pages, examples and deployments, as they are in git."""
    listed = subprocess.run(["git", "ls-files", "-z", "--", *DOCUMENTS], cwd=root, check=True, capture_output=True)
    paths = [path for path in listed.stdout.decode().split("\0") if path]
    return {path: Entry((root / path).read_bytes(), 0o755 if (root / path).stat().st_mode & 0o100 else 0o644) for path in paths}


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
        "usr/share/doc/tidegate/conf/config.yaml": Entry(read("conf/config.yaml")),
        "usr/share/doc/tidegate/changelog.gz": Entry(archive.compress(read("CHANGELOG.md"), level)),
    }
    whole |= {f"usr/share/doc/tidegate/{path}": entry for path, entry in documents(root).items() if path != "CHANGELOG.md"}
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
