"""A package in the format of RPM 4: https://rpm-software-management.github.io/rpm/manual/format_v4.html"""

import gzip
import hashlib
import struct

# Types of a tag's value.
INT16, INT32, STRING, BIN, STRINGS, TRANSLATED = 3, 4, 6, 7, 8, 9
SIZES = {INT16: 2, INT32: 4}
# Flags of files and of versions.
CONFIG_NOREPLACE, DOC, LICENCE = 0x11, 0x2, 0x80
EQUAL, LESS, RPMLIB, SCRIPT_POST = 0x8, 0x2, 0x1000000, 0x400


def _value(kind, value):
    """Bytes of a value, and how many there are."""
    if kind in (STRING, TRANSLATED):
        return value.encode() + b"\0", 1
    if kind == STRINGS:
        return b"".join(one.encode() + b"\0" for one in value), len(value)
    if kind == BIN:
        return value, len(value)
    values = value if isinstance(value, list) else [value]
    return struct.pack(f">{len(values)}{'H' if kind == INT16 else 'I'}", *values), len(values)


def _header(region, tags):
    """A header with the region that says that all of it is from this build."""
    index, store = [], b""
    for tag, kind, value in sorted(tags):
        data, count = _value(kind, value)
        store += b"\0" * (-len(store) % SIZES.get(kind, 1))
        index.append(struct.pack(">IIII", tag, kind, len(store), count))
        store += data
    entries = len(index) + 1
    first = struct.pack(">IIII", region, BIN, len(store), 16)
    store += struct.pack(">IIiI", region, BIN, -16 * entries, 16)
    return b"\x8e\xad\xe8\x01\0\0\0\0" + struct.pack(">II", entries, len(store)) + first + b"".join(index) + store


def _cpio(entries, mtime):
    """The payload: an archive in the new ASCII format."""
    out = []
    for inode, (path, entry) in enumerate(sorted(entries.items()), start=1):
        out.append(_member(f"./{path}", entry.data, 0o100000 | entry.mode, inode, mtime))
    out.append(_member("TRAILER!!!", b"", 0, 0, 0))
    return b"".join(out)


def _member(name, data, mode, inode, mtime):
    name = name.encode() + b"\0"
    fields = [inode, mode, 0, 0, 1, mtime, len(data), 0, 0, 0, 0, len(name), 0]
    head = b"070701" + b"".join(b"%08x" % field for field in fields) + name
    head += b"\0" * (-len(head) % 4)
    return head + data + b"\0" * (-len(data) % 4)


def _flags(path):
    if path.startswith("etc/"):
        return CONFIG_NOREPLACE
    if path.startswith("usr/share/licenses/"):
        return LICENCE
    return DOC if path.startswith(("usr/share/doc/", "usr/share/man/")) else 0


def write(entries, about, scripts, mtime, level):
    """`entries`: path from / -> file. `about`: name, version, arch, summary, description, licence, url. `scripts`: post, preun, postun."""
    paths = sorted(entries)
    files = [entries[path] for path in paths]
    folders = sorted({"/" + path.rpartition("/")[0] + "/" for path in paths})
    cpio = _cpio(entries, mtime)
    payload = gzip.compress(cpio, compresslevel=level, mtime=0)
    full = f"{about['version']}-1"
    requires = [
        ("/bin/sh", "", 0),
        ("ca-certificates", "", 0),
        ("rpmlib(CompressedFileNames)", "3.0.4-1", RPMLIB | LESS | EQUAL),
        ("rpmlib(FileDigests)", "4.6.0-1", RPMLIB | LESS | EQUAL),
        ("rpmlib(PayloadFilesHavePrefix)", "4.0-1", RPMLIB | LESS | EQUAL),
        ("shadow-utils", "", SCRIPT_POST),
    ]
    tags = [
        (100, STRINGS, ["C"]), (1000, STRING, about["name"]), (1001, STRING, about["version"]), (1002, STRING, "1"),
        (1004, TRANSLATED, about["summary"]), (1005, TRANSLATED, about["description"]), (1006, INT32, mtime),
        (1007, STRING, "tidegate"), (1009, INT32, sum(len(file.data) for file in files)), (1014, STRING, about["licence"]),
        (1016, TRANSLATED, "Unspecified"), (1020, STRING, about["url"]), (1021, STRING, "linux"), (1022, STRING, about["arch"]),
        (1024, STRING, scripts["post"]), (1025, STRING, scripts["preun"]), (1026, STRING, scripts["postun"]),
        (1086, STRING, "/bin/sh"), (1087, STRING, "/bin/sh"), (1088, STRING, "/bin/sh"),
        (1028, INT32, [len(file.data) for file in files]), (1030, INT16, [0o100000 | file.mode for file in files]),
        (1033, INT16, [0] * len(files)), (1034, INT32, [mtime] * len(files)),
        (1035, STRINGS, [hashlib.sha256(file.data).hexdigest() for file in files]), (1036, STRINGS, [""] * len(files)),
        (1037, INT32, [_flags(path) for path in paths]), (1039, STRINGS, ["root"] * len(files)),
        (1040, STRINGS, ["root"] * len(files)), (1044, STRING, f"{about['name']}-{full}.src.rpm"),
        (1045, INT32, [0xFFFFFFFF] * len(files)), (1095, INT32, [1] * len(files)),
        (1096, INT32, list(range(1, len(files) + 1))), (1097, STRINGS, [""] * len(files)),
        (1047, STRINGS, [about["name"]]), (1112, INT32, [EQUAL]), (1113, STRINGS, [full]),
        (1048, INT32, [flags for _, _, flags in requires]), (1049, STRINGS, [name for name, _, _ in requires]),
        (1050, STRINGS, [version for _, version, _ in requires]),
        (1116, INT32, [folders.index("/" + path.rpartition("/")[0] + "/") for path in paths]),
        (1117, STRINGS, [path.rpartition("/")[2] for path in paths]), (1118, STRINGS, folders),
        (1124, STRING, "cpio"), (1125, STRING, "gzip"), (1126, STRING, "9"), (5011, INT32, 8),
        (5092, STRINGS, [hashlib.sha256(payload).hexdigest()]), (5093, INT32, 8),
    ]
    header = _header(63, tags)
    signature = _header(62, [
        (269, STRING, hashlib.sha1(header).hexdigest()), (273, STRING, hashlib.sha256(header).hexdigest()),
        (1000, INT32, len(header) + len(payload)), (1004, BIN, hashlib.md5(header + payload).digest()),
        (1007, INT32, len(cpio)),
    ])
    signature += b"\0" * (-len(signature) % 8)
    name = f"{about['name']}-{full}".encode()[:65]
    number = {"x86_64": 1, "aarch64": 19}[about["arch"]]
    lead = struct.pack(">IBBHH66sHH16x", 0xEDABEEDB, 3, 0, 0, number, name, 1, 5)
    return lead + signature + header + payload
