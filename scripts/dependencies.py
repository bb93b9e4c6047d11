#!/usr/bin/env python3
"""Writes docs/dependencies.md and its Chinese page: version, licence and dates of the libraries that the workspace names itself.

Licences are those the packages state (`cargo metadata`); dates are those of cargo's own copy of the index, which a build
fills. Nothing is asked of a network. A package whose index entry has no date gets a "?".
"""

import collections
import glob
import json
import os
import subprocess

# Two years before this page was last looked at.
QUIET_SINCE = "2024-11-22"

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "docs")

ENGLISH = {
    "file": "dependencies.md",
    "head": """# Dependencies

[中文](dependencies.zh-CN.md)

Made by `scripts/dependencies.py` from Cargo.lock, the packages' own statements and cargo's copy of
the index: the libraries that a crate of this workspace names itself, without those that only tests use. "Last" is the
newest release that was known when the lock file was last brought up to date, pre-releases aside.

| library | version | of | last | of | licence |
|---|---|---|---|---|---|""",
    "quiet": "Without a release since {}: {}.",
    "newer": "A newer series than ours exists: {}.",
    "licences": "Licences of all {} packages, those of tests and of other systems included:",
    "table": "| licence | packages |",
    "none": "none",
    "comma": ", ",
    "console": """## The console

What `web/package.json` names, from the npm registry (`web/scripts/dependencies.mjs`): libraries and fonts of the page first, then what builds and tests it.

| library | version | of | last | of | licence |
|---|---|---|---|---|---|""",
}

CHINESE = {
    "file": "dependencies.zh-CN.md",
    "head": """# 依赖

[English](dependencies.md)

由 `scripts/dependencies.py` 根据 Cargo.lock、各软件包自己的声明和 cargo 的索引副本生成：本工作区的 crate 直接引用的库，
不含只有测试才用的库。“最新”指上次更新锁文件时已知的最新发布，不含预发布。

| 库 | 版本 | 日期 | 最新 | 日期 | 许可证 |
|---|---|---|---|---|---|""",
    "quiet": "自 {} 以来没有发布的：{}。",
    "newer": "有更新系列的：{}。",
    "licences": "全部 {} 个软件包的许可证，包括测试和其他系统的：",
    "table": "| 许可证 | 软件包数 |",
    "none": "无",
    "comma": "、",
    "console": """## 控制台

`web/package.json` 引用的库，数据来自 npm（`web/scripts/dependencies.mjs`）：先列出页面使用的库和字体，再列出用于构建和测试的库。

| 库 | 版本 | 日期 | 最新 | 日期 | 许可证 |
|---|---|---|---|---|---|""",
}


def metadata():
    done = subprocess.run(["cargo", "metadata", "--format-version", "1", "--locked", "--offline"], check=True,
                          capture_output=True, text=True)
    return json.loads(done.stdout)


def index_entry(name):
    """{version: date} of the releases that were not taken back, in their order."""
    name = name.lower()
    short = {1: "1", 2: "2", 3: f"3/{name[0]}"}
    folder = short.get(len(name), f"{name[:2]}/{name[2:4]}")
    home = os.environ.get("CARGO_HOME") or os.path.expanduser("~/.cargo")
    found = {}
    for path in glob.glob(f"{home}/registry/index/*/.cache/{folder}/{name}"):
        with open(path, "rb") as file:
            parts = file.read().split(b"\0")
        for part in parts:
            if part.startswith(b"{"):
                release = json.loads(part)
                if not release.get("yanked"):
                    found[release["vers"]] = release.get("pubtime", "?")[:10]
    return found


def order(version):
    return [int(number) for number in version.split("+")[0].split(".")]


def direct(all_packages):
    """The packages that members name, those of tests left out."""
    packages = {package["id"]: package for package in all_packages["packages"]}
    members = set(all_packages["workspace_members"])
    used = set()
    for node in all_packages["resolve"]["nodes"]:
        if node["id"] in members and packages[node["id"]]["name"] not in ("e2e", "testkit"):
            used |= {one["pkg"] for one in node["deps"] if any(kind["kind"] != "dev" for kind in one["dep_kinds"])}
    return sorted((packages[one] for one in used - members), key=lambda package: package["name"])


def spelled(licence):
    """Choices in the order of the alphabet, so that the same ones count together."""
    licence = (licence or "?").replace("/", " OR ")
    return licence if " AND " in licence else " OR ".join(sorted(one.strip() for one in licence.split(" OR ")))


def console():
    """Rows of the console's libraries, those of the page before those that build and test it."""
    web = os.path.join(FOLDER, "..", "web")
    with open(os.path.join(web, "package.json"), encoding="utf-8") as file:
        shipped = json.load(file)["dependencies"]
    with open(os.path.join(web, "dependencies.tsv"), encoding="utf-8") as file:
        found = [line.rstrip("\n").split("\t") for line in file]
    return ["| " + " | ".join(one) + " |" for one in sorted(found, key=lambda one: one[0] not in shipped)]


def main():
    all_packages = metadata()
    rows, old, newer = [], [], []
    for package in direct(all_packages):
        name, version = package["name"], package["version"]
        known = index_entry(name)
        last = max((one for one in known if "-" not in one), key=order, default="?")
        rows.append(f"| {name} | {version} | {known.get(version, '?')} | {last} | {known.get(last, '?')} | "
                    f"{spelled(package['license'])} |")
        if known.get(last, "?") < QUIET_SINCE:
            old.append(f"{name} ({known.get(last, '?')[:4]})")
        if last != "?" and order(last)[:2] != order(version)[:2]:
            newer.append(f"{name} {last}")
    members = set(all_packages["workspace_members"])
    others = [package for package in all_packages["packages"] if package["id"] not in members]
    licences = collections.Counter(spelled(package["license"]) for package in others).most_common()
    for words in (ENGLISH, CHINESE):
        def listed(names):
            return words["comma"].join(names) or words["none"]
        lines = [words["head"], *rows, "", words["quiet"].format(QUIET_SINCE, listed(old)), "",
                 words["newer"].format(listed(newer)), "", words["licences"].format(len(others)), "",
                 words["table"], "|---|---|", *(f"| {licence} | {count} |" for licence, count in licences),
                 "", words["console"], *console()]
        with open(os.path.join(FOLDER, words["file"]), "w", encoding="utf-8") as page:
            page.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
