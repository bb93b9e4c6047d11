//! docs/reference: what is made from the program and its sources, and the list of variables.
//!
//! `UPDATE_DOCS=1 cargo test --workspace --test e2e -- tidy::reference` writes the pages.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use tidegate_testkit::gateway::{binary, workspace_root};

use super::sources;

/// Compares a page with what it should be, or writes it.
pub(crate) fn is_current(page: &str, fresh: &str) {
    let path = workspace_root().join("docs/reference").join(page);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, fresh).expect("the page can be written");
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == fresh, "docs/reference/{page} is out of date: run this test with UPDATE_DOCS=1");
}

const COMMANDS: &str = "# Commands\n\n[中文](commands.zh-CN.md)\n\nMade from `--help` by the tests; do not edit. Verbs and flags stay over minor \
versions; one that goes is named in the changelog a minor version before. What is printed is for people and may change, except where a guide \
shows a format for programs (`--json`, `config export`, exit codes).\n";
const COMMANDS_ZH: &str = "# 命令\n\n[English](commands.md)\n\n由测试根据 `--help` 生成，请勿手工修改。命令和选项在次版本之间保持不变；要取消的会在前一个次版本的更新日志中说明。\
输出供人阅读，可能改变；指南中说明供程序使用的格式（`--json`、`config export`、退出码）除外。\n";

fn help(words: &[String]) -> String {
    let mut command = Command::new(binary());
    let output = command.args(words).arg("--help").env_clear().output().expect("tidegate runs");
    assert!(output.status.success(), "tidegate {} --help", words.join(" "));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let lines: Vec<&str> = text.trim_end().lines().map(str::trim_end).collect();
    lines.join("\n")
}

/// The verbs below `words`, as their help lists them.
fn verbs(help: &str) -> Vec<String> {
    let Some((_, list)) = help.split_once("\nCommands:\n") else { return Vec::new() };
    let lines = list.lines().take_while(|line| !line.is_empty());
    let names =
        lines.filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next().map(str::to_owned));
    names.filter(|name| name != "help").collect()
}

#[test]
fn commands_are_what_the_program_says() {
    let mut body = String::new();
    let mut open = vec![Vec::new()];
    while let Some(words) = open.pop() {
        let text = help(&words);
        let _ = write!(body, "\n## tidegate {}\n\n```text\n{text}\n```\n", words.join(" "));
        let below = verbs(&text).into_iter().rev();
        open.extend(below.map(|verb| words.iter().cloned().chain([verb]).collect()));
    }
    let body = body.replace("## tidegate \n", "## tidegate\n");
    assert!(body.matches("\n## ").count() > 25);
    is_current("commands.md", &format!("{COMMANDS}{body}"));
    is_current("commands.zh-CN.md", &format!("{COMMANDS_ZH}{body}"));
}

const LINES: &str = "# Lines of the error log\n\n[中文](log-lines.zh-CN.md)\n\nMade from the sources by the tests; do not edit. Lines of level warn and \
above, by the crate that writes them; `{name}` stands for a value. Lines whose whole text comes from elsewhere (a Lua script, another server) \
are not here.\n\nThe level of a line stays over minor versions. Its words may change, which the changelog says: alert on \
[metrics](metrics.md), and use these lines to find out why.\n";
const LINES_ZH: &str = "# 错误日志的行\n\n[English](log-lines.md)\n\n由测试根据源代码生成，请勿手工修改。列出 warn 及以上级别的行，按写入它的 crate 排列；`{name}` \
表示一个值。整行文本来自别处（Lua 脚本、其他服务器）的不在其中。\n\n行的级别在次版本之间保持不变。文字可能改变，更新日志会说明：请对[指标](metrics.zh-CN.md)设置告警，用这些行来查明原因。\n";

/// What a call begins with, and the level of its lines.
const CALLS: [(&str, &str); 6] = [
    ("Level::Emerg", "emerg"),
    ("Level::Alert", "alert"),
    ("Level::Crit", "crit"),
    ("Level::Error", "error"),
    ("Level::Warn", "warn"),
    ("notices::warn(", "warn"),
];

/// The text of a string literal at the start of `source`.
fn literal(source: &str) -> Option<String> {
    let mut letters = source.trim_start().strip_prefix('"')?.chars();
    let mut text = String::new();
    loop {
        match letters.next()? {
            '"' => return Some(text.replace("{{", "{").replace("}}", "}")),
            '\\' => match letters.next()? {
                '\n' => {
                    let rest = letters.as_str().trim_start();
                    letters = rest.chars();
                }
                'n' => text.push_str("\\n"),
                other => text.push(other),
            },
            other => text.push(other),
        }
    }
}

/// The lines of a source, each with its level.
fn lines_of(text: &str) -> Vec<(&'static str, String)> {
    let text = text.split("#[cfg(test)]\nmod").next().unwrap_or_default();
    let mut found = Vec::new();
    for (call, level) in CALLS {
        for (at, _) in text.match_indices(call) {
            let rest = &text[at + call.len()..];
            // The text is an argument of the same call.
            let end = rest.find(';').unwrap_or(rest.len());
            let call = rest.get(..end).unwrap_or(rest);
            let macros =
                ["format_args!(", "format!("].iter().filter_map(|name| Some(call.find(name)? + name.len()));
            let line = macros.min().and_then(|start| literal(&rest[start..]));
            found.extend(line.filter(|line| line.len() > 8).map(|line| (level, line)));
        }
    }
    found
}

#[test]
fn lines_are_those_of_the_sources() {
    let mut rows = BTreeSet::new();
    for file in sources() {
        let path = file.strip_prefix(workspace_root().join("crates")).unwrap_or(&file).display().to_string();
        let (name, _) = path.split_once('/').unwrap_or_default();
        if !path.contains("/src/") || path.contains("test") || matches!(name, "bench" | "import" | "echo") {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap_or_default();
        rows.extend(lines_of(&text).into_iter().map(|(level, line)| (name.to_owned(), level, line)));
    }
    assert!(rows.len() > 100, "{}", rows.len());
    let (mut body, mut crate_before) = (String::new(), String::new());
    for (name, level, line) in rows {
        if name != crate_before {
            let _ = write!(body, "\n## {name}\n\n| level | line |\n|---|---|\n");
        }
        let line = line.replace('|', "\\|");
        let ticks = if line.contains('`') { "``" } else { "`" };
        let _ = writeln!(body, "| {level} | {ticks}{line}{ticks} |");
        crate_before = name;
    }
    is_current("log-lines.md", &format!("{LINES}{body}"));
    is_current("log-lines.zh-CN.md", &format!("{LINES_ZH}{body}"));
}

/// The names in the macro of `crates/plugin-api/src/variables/variable.rs`.
#[test]
fn every_variable_is_explained() {
    let source = workspace_root().join("crates/plugin-api/src/variables/variable.rs");
    let text = fs::read_to_string(source).expect("the variables");
    let names: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("    ") && line.contains(" = \""))
        .flat_map(|line| line.split(" = \"").skip(1).filter_map(|rest| rest.split('"').next()))
        .collect();
    assert!(names.len() > 80, "{names:?}");
    for page in ["log-fields.md", "log-fields.zh-CN.md"] {
        let text = fs::read_to_string(workspace_root().join("docs/reference").join(page)).unwrap_or_default();
        let missing: Vec<&&str> = names.iter().filter(|name| !text.contains(&format!("`${name}`"))).collect();
        assert!(missing.is_empty(), "docs/reference/{page} does not explain {missing:?}");
    }
}

#[test]
fn literals_are_read_as_the_compiler_reads_them() {
    let source = "log(\n Level::Warn,\n format_args!(\n \"a {name:?} with \\\n      \\\"quotes\\\" and {{1}}\"\n ),\n);\nother();";
    assert_eq!(lines_of(source), [("warn", "a {name:?} with \"quotes\" and {1}".to_owned())]);
    assert_eq!(lines_of("log(Level::Warn, format_args!(\"{text}\"));"), []);
}
