"""What the program is built of: for the software bill of materials, and for the list within the program."""

import json
import re
import subprocess
import tomllib
import uuid
import zlib
from datetime import datetime, timezone


def read(root, target):
    """(name, version) of each library -> licence, checksum and dependencies; the program is the first."""
    with open(root / "Cargo.lock", "rb") as file:
        locked = tomllib.load(file)["package"]
    sums = {(one["name"], one["version"]): one.get("checksum") for one in locked}
    command = ["cargo", "tree", "--locked", "-p", "tidegate", "--features", "wasm", "-e", "normal", "--target", target, "--prefix", "depth",
               "--no-dedupe", "--format", "|{p}|{l}"]
    text = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    found, above = {}, []
    for line in text.splitlines():
        depth, package, licence = line.split("|")
        name, version = package.split(" ")[:2]
        key = (name, version.lstrip("v"))
        one = found.setdefault(key, {"licence": licence.strip(), "sum": sums.get(key), "uses": set()})
        del above[int(depth):]
        if above:
            found[above[-1]]["uses"].add(key)
        above.append(key)
    return found


def _purl(key, library):
    return f"pkg:cargo/{key[0]}@{key[1]}" + ("" if library["sum"] else "?vcs_url=local")


def _component(key, library):
    one = {"type": "library", "bom-ref": _purl(key, library), "name": key[0], "version": key[1],
           "purl": f"pkg:cargo/{key[0]}@{key[1]}", "scope": "required"}
    if library["licence"]:
        # Old packages have a slash for OR.
        one["licenses"] = [{"expression": re.sub(r"\s*/\s*", " OR ", library["licence"])}]
    if library["sum"]:
        one["hashes"] = [{"alg": "SHA-256", "content": library["sum"]}]
    return one


def cyclonedx(libraries, commit, mtime):
    """CycloneDX 1.5, https://cyclonedx.org."""
    program, *others = libraries
    root = _component(program, libraries[program]) | {"type": "application"}
    body = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(mtime, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": root,
            "properties": [{"name": "tidegate:commit", "value": commit}],
        },
        "components": [_component(key, libraries[key]) for key in sorted(others)],
        "dependencies": [
            {"ref": _purl(key, libraries[key]),
             "dependsOn": sorted(_purl(used, libraries[used]) for used in libraries[key]["uses"])}
            for key in sorted(libraries)
        ],
    }
    text = json.dumps(body, sort_keys=True)
    body["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, text)}"
    return (json.dumps(body, indent=1, sort_keys=True) + "\n").encode()


def section(libraries):
    """The section `.dep-v0` that cargo-audit, Trivy and Grype read from a program."""
    program = next(iter(libraries))
    keys = sorted(libraries)
    places = {key: place for place, key in enumerate(keys)}
    packages = []
    for key in keys:
        one = {"name": key[0], "version": key[1], "source": "crates.io" if libraries[key]["sum"] else "local"}
        if libraries[key]["uses"]:
            one["dependencies"] = sorted(places[used] for used in libraries[key]["uses"])
        if key == program:
            one["root"] = True
        packages.append(one)
    return zlib.compress(json.dumps({"packages": packages}, separators=(",", ":")).encode(), 9)
