"""Archives whose bytes depend on nothing but their contents: sorted names, one time, no names of users of this machine."""

import gzip
import io
import tarfile
from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """A file; a folder without `data` and `link`; or a symbolic link."""
    data: bytes | None = None
    mode: int = 0o644
    owner: int = 0
    link: str | None = None


def tar(entries, mtime, root=""):
    """`entries`: path without a leading slash -> Entry. Folders above files are made, for everyone to read."""
    whole = dict(entries)
    for path in entries:
        parts = path.split("/")[:-1]
        for depth in range(1, len(parts) + 1):
            whole.setdefault("/".join(parts[:depth]), Entry(mode=0o755))
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as out:
        for path in sorted(whole):
            entry = whole[path]
            info = tarfile.TarInfo(root + path)
            info.mtime, info.mode, info.uid, info.gid = mtime, entry.mode, entry.owner, entry.owner
            if entry.link is not None:
                info.type, info.linkname, info.mode = tarfile.SYMTYPE, entry.link, 0o777
                out.addfile(info)
            elif entry.data is None:
                info.type = tarfile.DIRTYPE
                out.addfile(info)
            else:
                info.size = len(entry.data)
                out.addfile(info, io.BytesIO(entry.data))
    return file.getvalue()


def compress(data, level=9):
    return gzip.compress(data, compresslevel=level, mtime=0)


def ar(members, mtime):
    """The archive of ar(1), which a .deb is: (name, data) in this order."""
    out = [b"!<arch>\n"]
    for name, data in members:
        out.append(b"%-16s%-12d%-6d%-6d%-8o%-10d`\n" % (name.encode(), mtime, 0, 0, 0o100644, len(data)))
        out.append(data + b"\n" * (len(data) % 2))
    return b"".join(out)
