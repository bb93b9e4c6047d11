//! docs/config.md and docs/config.zh-CN.md say what the table of keys says, and the table has every key of APISIX.

use std::{collections::HashMap, env, fmt::Write, fs, path::Path};

use tidegate_config::{
    Source,
    keys::{self, Fate, Key, Otherwise, Preset, Takes},
};

const CHINESE: &str = include_str!("zh-CN.tsv");
/// Every key of config.yaml that APISIX 3.18 documents or reads, one a line.
const OF_APISIX: &str = include_str!("apisix-keys.txt");

struct Language {
    file: &'static str,
    head: &'static str,
    columns: &'static str,
    served: &'static str,
    no_effect: &'static str,
    refused: &'static str,
    only: &'static str,
    not: &'static str,
    unset: &'static str,
    /// English to the page's language; `None`: it is English.
    words: Option<HashMap<&'static str, &'static str>>,
}

impl Language {
    fn translate<'a>(&'a self, text: &'a str) -> &'a str {
        match &self.words {
            None => text,
            Some(words) => words.get(text).unwrap_or_else(|| panic!("zh-CN.tsv has no line for: {text}")),
        }
    }
}

fn english() -> Language {
    Language {
        file: "docs/config.md",
        head: "# Keys of config.yaml\n\nMade from the table in `crates/config/src/keys`; do not edit. \
               [中文](config.zh-CN.md)\n\nEach key is served, has no effect, or is refused. What has no effect is named \
               once at the start, with file and line; what is refused keeps the gateway from starting. An unknown key is \
               warned of, with the name that was probably meant. `tidegate test` says all of it without starting.\n",
        columns: "| key | default | what it is for | fate |",
        served: "served",
        no_effect: "no effect",
        refused: "refused",
        only: "only {value}; any other: {fate}",
        not: "served, but {value}: {fate}",
        unset: "unset",
        words: None,
    }
}

fn chinese() -> Language {
    Language {
        file: "docs/config.zh-CN.md",
        head: "# config.yaml 的键\n\n由 `crates/config/src/keys` 中的表生成，请勿手工修改。[English](config.md)\n\n\
               每个键要么生效，要么无效果，要么被拒绝。无效果的键在启动时指出一次，附文件与行号；被拒绝的键使网关无法启动。\
               未知的键会告警，并给出可能想写的名称。`tidegate test` 不启动网关即可给出全部信息。\n",
        columns: "| 键 | 默认值 | 用途 | 结果 |",
        served: "生效",
        no_effect: "无效果",
        refused: "拒绝",
        only: "仅 {value}；其他值：{fate}",
        not: "生效，但 {value}：{fate}",
        unset: "未设置",
        words: Some(CHINESE.lines().filter_map(|line| line.split_once('\t')).collect()),
    }
}

fn page(language: &Language) -> String {
    let mut text = language.head.to_owned();
    let mut group = "";
    for key in keys::all() {
        let top = group_of(key.path);
        if top != group {
            group = top;
            let _ = write!(text, "\n## {top}\n\n{}\n|---|---|---|---|\n", language.columns);
        }
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} |",
            key.path,
            default(key, language),
            cell(language.translate(key.about)),
            cell(&fate(key, language))
        );
    }
    text
}

/// `apisix` and such; `plugin_attr` and the rest are single sections.
fn group_of(path: &'static str) -> &'static str {
    path.split(['.', '[']).next().unwrap_or(path)
}

fn default(key: &Key, language: &Language) -> String {
    match key.value {
        _ if matches!(key.takes, Takes::Table) => String::new(),
        Preset::Example(_) => language.unset.to_owned(),
        Preset::Default(_) if key.path == "plugins" => "conf/config.yaml".to_owned(),
        Preset::Default(json) if json.len() > 100 => format!("`{}…`", cell(json.get(..90).unwrap_or(json))),
        Preset::Default(json) => format!("`{}`", cell(json)),
    }
}

fn fate(key: &Key, language: &Language) -> String {
    let with = |word: &str, why: &str| format!("{word}: {}", language.translate(why));
    let otherwise = |otherwise: Otherwise| match otherwise {
        Otherwise::Ignored(why) => with(language.no_effect, why),
        Otherwise::Refused(why) => with(language.refused, why),
        Otherwise::RefusedIf(value, why, ignored) => {
            let value = value.trim_matches('"');
            format!("{}; `{value}`: {}", with(language.no_effect, ignored), with(language.refused, why))
        }
    };
    let filled = |template: &str, value: &str, fate: &str| {
        template.replace("{value}", &format!("`{}`", value.trim_matches('"'))).replace("{fate}", fate)
    };
    match key.fate {
        Fate::Served if matches!(key.takes, Takes::Table) => String::new(),
        Fate::Served => language.served.to_owned(),
        Fate::NoEffect(why) => with(language.no_effect, why),
        Fate::Refused(why) => with(language.refused, why),
        Fate::Only(value, other) => filled(language.only, value, &otherwise(other)),
        Fate::Not(value, other) => filled(language.not, value, &otherwise(other)),
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[test]
fn the_pages_are_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for language in [english(), chinese()] {
        let path = root.join(language.file);
        let wanted = page(&language);
        if env::var_os("UPDATE_DOCS").is_some() {
            fs::write(&path, &wanted).expect("the page is written");
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        assert!(found == wanted, "{} differs from the keys; run the tests with UPDATE_DOCS=1", language.file);
    }
}

/// Paths, and the values they have when nothing is set.
fn of_apisix() -> impl Iterator<Item = (&'static str, Option<&'static str>)> {
    let lines = OF_APISIX.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines.map(|line| match line.split_once('\t') {
        Some((path, value)) => (path, Some(value)),
        None => (line, None),
    })
}

#[test]
fn no_key_of_apisix_is_without_a_fate() {
    let missing: Vec<&str> =
        of_apisix().map(|(path, _)| path).filter(|path| keys::find(path).is_none()).collect();
    assert!(missing.is_empty(), "without a fate: {missing:#?}");
}

/// A user of APISIX's whole file learns what has no effect, in few lines.
#[test]
fn the_defaults_of_apisix_load_with_few_words() {
    let mut document = serde_json::Value::Null;
    for (path, value) in of_apisix() {
        if let Some(value) = value {
            keys::set(&mut document, path, serde_json::from_str(value).expect("JSON"));
        }
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("config.yaml");
    fs::write(&file, serde_json::to_string_pretty(&document).expect("JSON")).expect("config.yaml");
    let source = Source { file: Some(file), ..Source::default() };
    let loaded = tidegate_config::load_with(&source, &|_| None).unwrap_or_else(|error| panic!("{error}"));
    // Keys at their defaults, sizes of dictionaries, the dashboard, the published keyring.
    assert!(loaded.warnings.len() <= 4, "{:#?}", loaded.warnings);
}
