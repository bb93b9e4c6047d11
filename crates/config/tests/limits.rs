//! docs/guide/limits.md and its translation say what the code says of every bound.

#[path = "limits/table.rs"]
mod table;

use std::{env, fmt::Write, fs, path::Path};

use serde_json::Value;
use table::TABLE;
use tidegate_config::keys::{self, Preset, Takes};

/// One bound, in English and Chinese.
struct Row {
    what: [&'static str; 2],
    bound: Bound,
    /// What a client sees beyond it.
    seen: [&'static str; 2],
}

/// Where the number is.
enum Bound {
    /// A key of config.yaml.
    Key(&'static str),
    /// A schema of a plugin, `NAME` or `NAME.metadata`, and where in it the field is that has the default.
    Schema(&'static str, &'static str),
    /// A file below crates/, and a constant in it.
    Const(&'static str, &'static str, Unit),
    /// The same for the field of a default value.
    Field(&'static str, &'static str, Unit),
}

enum Unit {
    Bytes,
    Count,
    Milliseconds,
}

/// Every key below these bounds something.
const SECTIONS: [&str; 4] =
    ["apisix.http2.", "apisix.client_limits.", "apisix.body_memory.", "deployment.admin.limits."];

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// It is beside the plugin's code, in the folder of its group.
fn schema(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/src");
    let file = format!("{}.json", name.replace('-', "_"));
    let groups = fs::read_dir(&root).unwrap_or_else(|error| panic!("{}: {error}", root.display()));
    let mut texts = groups.flatten().filter_map(|group| fs::read_to_string(group.path().join(&file)).ok());
    texts.next().unwrap_or_else(|| panic!("no group of crates/plugins/src has {file}"))
}

/// The number behind `const NAME: TYPE =` or, for a field, behind `name:`.
fn number(file: &str, name: &str, is_field: bool) -> u64 {
    let text = read(&format!("crates/{file}"));
    let found = if is_field {
        // The declaration of the field is followed by a type, its default by a number.
        text.match_indices(&format!("{name}: "))
            .filter_map(|(at, begin)| text.get(at + begin.len()..))
            .find(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
            .and_then(|rest| rest.split([',', '}']).next())
    } else {
        let declared = text.find(&format!("const {name}:")).and_then(|at| text.get(at..));
        declared.and_then(|rest| rest.split_once(" = ")).and_then(|(_, rest)| rest.split(';').next())
    };
    let expression = found.unwrap_or_else(|| panic!("crates/{file} has no {name}"));
    value(expression)
        .unwrap_or_else(|| panic!("crates/{file}: {name} is {expression}, which cannot be computed"))
}

/// Products, shifts and durations (in milliseconds) of whole numbers.
fn value(expression: &str) -> Option<u64> {
    let expression = expression.trim();
    for (name, milliseconds) in [("Duration::from_secs(", 1000), ("Duration::from_millis(", 1)] {
        if let Some(inner) = expression.strip_prefix(name) {
            return Some(value(inner.strip_suffix(')')?)? * milliseconds);
        }
    }
    if let Some((base, shift)) = expression.split_once("<<") {
        return value(base)?.checked_shl(u32::try_from(value(shift)?).ok()?);
    }
    expression
        .split('*')
        .try_fold(1_u64, |product, factor| product.checked_mul(factor.trim().replace('_', "").parse().ok()?))
}

fn shown(number: u64, unit: &Unit) -> String {
    match unit {
        Unit::Bytes => match number {
            0 => "0".to_owned(),
            whole if whole % (1 << 30) == 0 => format!("{} GiB", whole >> 30),
            whole if whole % (1 << 20) == 0 => format!("{} MiB", whole >> 20),
            whole if whole % (1 << 10) == 0 => format!("{} KiB", whole >> 10),
            other => format!("{other} B"),
        },
        Unit::Count => number.to_string(),
        Unit::Milliseconds if number.is_multiple_of(1000) => format!("{} s", number / 1000),
        Unit::Milliseconds => format!("{number} ms"),
    }
}

/// Where it is set, and what it is when it is not set.
fn setting(bound: &Bound, language: usize) -> (String, String) {
    let (fixed, unset) = [("fixed", "unset"), ("固定", "未设置")][language];
    match bound {
        Bound::Key(path) => {
            let key = keys::all().find(|key| key.path == *path);
            let key = key.unwrap_or_else(|| panic!("there is no key {path}"));
            let default = match key.value {
                Preset::Default(json) => json.trim_matches('"').to_owned(),
                Preset::Example(_) => unset.to_owned(),
            };
            (format!("`{path}`"), default)
        }
        Bound::Schema(name, pointer) => {
            let text = schema(name);
            let schema: Value = serde_json::from_str(&text).expect("JSON");
            let default = schema.pointer(&format!("{pointer}/default"));
            let default = default.unwrap_or_else(|| panic!("{name} has no default at {pointer}"));
            let field = pointer.rsplit('/').next().unwrap_or_default();
            let (plugin, of) = match name.strip_suffix(".metadata") {
                Some(plugin) => (plugin, ["its metadata's", "其元数据的"][language]),
                None => (*name, ["its", "其"][language]),
            };
            let number = default.as_u64().expect("a whole number");
            let is_bytes = field.ends_with("_size") || field.ends_with("_bytes");
            let default = shown(number, if is_bytes { &Unit::Bytes } else { &Unit::Count });
            (format!("{plugin}: {of} `{field}`"), default)
        }
        Bound::Const(file, name, unit) => (fixed.to_owned(), shown(number(file, name, false), unit)),
        Bound::Field(file, name, unit) => (fixed.to_owned(), shown(number(file, name, true), unit)),
    }
}

const HEADS: [&str; 2] = [
    "# Limits\n\nMade from the table in `crates/config/tests/limits/table.rs`; do not edit. [简体中文](limits.zh-CN.md)\n\n\
     Nothing that a peer sends is unbounded. What is beyond a bound is refused, dropped or forgotten as the last column says, and \
     never grows. Sizes in config.yaml are bytes, or have `k`, `m` or `g`; durations are seconds, or have `ms`, `s`, `m` or `h`.\n",
    "# 限制\n\n由 `crates/config/tests/limits/table.rs` 中的表生成，请勿手工修改。[English](limits.md)\n\n\
     对端发送的任何内容都有上限。超出的部分按最后一列被拒绝、丢弃或遗忘，不会增长。\
     config.yaml 中的大小以字节为单位，或带 `k`、`m`、`g`；时间以秒为单位，或带 `ms`、`s`、`m`、`h`。\n",
];

const COLUMNS: [&str; 2] = [
    "| bound | set by | default | what a client sees beyond it |",
    "| 限制 | 设置 | 默认值 | 超出时客户端所见 |",
];

fn page(language: usize) -> String {
    let mut text = HEADS[language].to_owned();
    for (title, rows) in TABLE {
        let _ = write!(text, "\n## {}\n\n{}\n|---|---|---|---|\n", title[language], COLUMNS[language]);
        for row in *rows {
            let (set_by, default) = setting(&row.bound, language);
            let (what, seen) = (row.what[language], row.seen[language]);
            let _ = writeln!(text, "| {what} | {set_by} | {default} | {seen} |");
        }
    }
    text
}

#[test]
fn the_pages_are_up_to_date() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide");
    for (language, file) in ["limits.md", "limits.zh-CN.md"].into_iter().enumerate() {
        let (path, wanted) = (guide.join(file), page(language));
        if env::var_os("UPDATE_DOCS").is_some() {
            fs::write(&path, &wanted).expect("the page is written");
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        assert!(found == wanted, "docs/guide/{file} differs from the code; run the tests with UPDATE_DOCS=1");
    }
}

#[test]
fn no_key_that_bounds_something_is_missing() {
    let rows = || TABLE.iter().flat_map(|(_, rows)| rows.iter());
    for key in keys::all().filter(|key| !matches!(key.takes, Takes::Table)) {
        let bounds = SECTIONS.iter().any(|section| key.path.starts_with(section));
        let named = rows().any(|row| matches!(row.bound, Bound::Key(path) if path == key.path));
        assert!(named || !bounds, "{} has no row in crates/config/tests/limits/table.rs", key.path);
    }
}

#[test]
fn numbers_are_read_as_the_compiler_does() {
    for (expression, expected) in [
        ("64 * 1024", Some(65_536)),
        ("1_572_864", Some(1_572_864)),
        ("4 << 20", Some(4 << 20)),
        ("Duration::from_millis(50)", Some(50)),
        ("Duration::from_secs(10)", Some(10_000)),
        ("size_of::<u8>()", None),
        ("OTHER", None),
    ] {
        assert_eq!(value(expression), expected, "{expression}");
    }
    assert_eq!(number("admin/src/listener/connection.rs", "LINGER_BYTES", false), 256 * 1024);
    assert_eq!(number("protocol/src/request.rs", "head_bytes", true), 32 * 1024);
}
