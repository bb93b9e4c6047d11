#!/usr/bin/env python3
"""Imports the nginx configurations of public repositories and counts what became of their locations.

    python3 tests/real/nginx.py FOLDER [--binary target/release/tidegate] [--causes 20]

FOLDER holds checkouts of the repositories that README.md names, each under its own name; those that are missing are named
and left out. Nothing is served: the report of `tidegate import` tells how many locations are closed, and why.
"""

import argparse
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile

# Checkout, and where its relative includes start.
REPOSITORIES = {
    "awesome-compose": None, "server-configs-nginx": "", "docker": None, "taiga-docker": None, "self-hosted": None,
    "frappe_docker": None, "mailcow-dockerized": None, "nginx-admins-handbook": None, "plane": None, "penpot": None,
    "docker-wallarm-node": None,
}
# These belong together: the image's folder, and what is put into it.
SWAG = ("docker-baseimage-alpine-nginx", "docker-swag", "reverse-proxy-confs")
SERVER = re.compile(r"^\s*server\s*\{", re.M)
TEXTS = (".conf", ".sample", ".template", ".inc", ".tmpl", ".conf.jinja")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--binary", default="target/release/tidegate")
    parser.add_argument("--causes", type=int, default=20, help="how many causes are shown (default 20)")
    options = parser.parse_args()
    counts, causes, missing = collections.Counter(), collections.Counter(), []
    with tempfile.TemporaryDirectory() as staged:
        sets = [(name, os.path.join(options.folder, name), prefix) for name, prefix in REPOSITORIES.items()]
        if all(os.path.isdir(os.path.join(options.folder, name)) for name in SWAG):
            sets.append(("swag", stage(options.folder, staged), ""))
        else:
            missing.append(" + ".join(SWAG))
        for name, folder, prefix in sets:
            if not os.path.isdir(folder):
                missing.append(name)
                continue
            own = collections.Counter()
            for path in configurations(folder):
                arguments = [] if prefix is None else ["--nginx-prefix", os.path.join(folder, prefix)]
                count(options.binary, path, arguments, own, causes)
            show(name, own)
            counts.update(own)
    show("all", counts)
    for cause, number in causes.most_common(options.causes):
        print(f"{number:6} {cause}")
    if missing:
        print(f"left out, not in {options.folder}: {', '.join(missing)}", file=sys.stderr)
    return 0 if counts["locations"] else 1


def stage(folder, staged):
    """The files of the image under the names and in the folder that they have in it."""
    image, swag, confs = (os.path.join(folder, name) for name in SWAG)
    target = os.path.join(staged, "nginx")
    for source in (image, swag):
        shutil.copytree(os.path.join(source, "root/defaults/nginx"), target, dirs_exist_ok=True)
    for kind in ("subdomain", "subfolder"):
        os.makedirs(os.path.join(target, kind))
        for name in sorted(os.listdir(confs)):
            if name.endswith(f".{kind}.conf.sample"):
                shutil.copy(os.path.join(confs, name), os.path.join(target, kind))
    for path in list(files(target)):
        with open(path, errors="replace") as file:
            text = file.read().replace("/config/nginx", "/etc/nginx")
        os.remove(path)
        with open(path.removesuffix(".sample"), "w") as file:
            file.write(text)
    # Written when the container starts.
    for name, text in (("resolver.conf", "resolver 127.0.0.11;\n"), ("worker_processes.conf", "worker_processes 1;\n")):
        with open(os.path.join(target, name), "w") as file:
            file.write(text)
    for name in os.listdir(os.path.join(target, "subfolder")):
        with open(os.path.join(target, f"alone-{name}"), "w") as file:
            file.write(f'map $http_upgrade $connection_upgrade {{ default upgrade; "" close; }}\n'
                       f"server {{\n  listen 80;\n  include /etc/nginx/subfolder/{name};\n}}\n")
    return target


def files(folder):
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in (".git", "node_modules")]
        yield from (os.path.join(place, name) for name in sorted(names))


def configurations(folder):
    for path in files(folder):
        if path.endswith(TEXTS) or "nginx" in os.path.basename(path):
            try:
                with open(path) as file:
                    if SERVER.search(file.read(1 << 20)):
                        yield path
            except (OSError, UnicodeDecodeError):
                continue


def count(binary, path, arguments, counts, causes):
    done = subprocess.run([binary, "import", "nginx", path, *arguments], capture_output=True, text=True, check=False)
    verdict = re.search(r": (\d+) of (\d+) locations behave", done.stderr)
    if not verdict:
        counts["unread"] += 1
        return
    number = {what: re.search(rf"; (\d+) (?:is |are )?{what}", done.stderr) for what in ("closed", "answer differently")}
    counts["files"] += 1
    counts["locations"] += int(verdict.group(2))
    counts["exact"] += int(verdict.group(1))
    for what, found in number.items():
        counts[what] += int(found.group(1)) if found else 0
    for why in re.findall(r": closed: [^:]*: (?:in part; )?(.*)", done.stderr):
        why = re.sub(r" ?of line \d+|, line \d+|\(\S+\)$", "", why)
        causes[re.sub(r"`(\S+)[^`]*`", r"`\1`", why)[:100]] += 1


def show(name, counts):
    locations, closed = counts["locations"], counts["closed"]
    part = f"{100 * (locations - closed) / locations:.0f} %" if locations else "-"
    print(f"{name}: {counts['files']} files, {counts['unread']} unread, {locations} locations, {counts['exact']} exact, "
          f"{counts['answer differently']} differ, {closed} closed; {part} converted")


if __name__ == "__main__":
    sys.exit(main())
