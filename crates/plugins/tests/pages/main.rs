//! The tables of fields in docs/plugins are made from the plugins' schemas: names, types, limits and defaults. The last
//! column, what a field means, is written by hand and kept. So is a page's translation, `NAME.zh-CN.md`. The example comes first.
//!
//! `UPDATE_DOCS=1 cargo test --workspace --test pages` writes the pages; without it the test fails where one is out of
//! date, misses a field, or leaves a meaning empty.

mod lists;
mod proofs;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use tidegate_plugin_api::PluginDef;

const END: &str = "<!-- end of fields -->";

struct Language {
    /// Of the page's file, behind the plugin's name.
    ending: &'static str,
    head: &'static str,
    required: &'static str,
    /// `{}` stands for the object that the field is in.
    required_in: &'static str,
    /// The heading of the part that a page begins with.
    example: &'static str,
}

const ENGLISH: Language = Language {
    ending: ".md",
    head: "| Field | Type | Default | Meaning |\n|---|---|---|---|\n",
    required: "required",
    required_in: "required in `{}`",
    example: "Example",
};
const CHINESE: Language = Language {
    ending: ".zh-CN.md",
    head: "| 字段 | 类型 | 默认值 | 含义 |\n|---|---|---|---|\n",
    required: "必填",
    required_in: "在 `{}` 中必填",
    example: "示例",
};

/// What `scripts/new-plugin` leaves to the author. In two pieces, so that a search does not find it here.
const UNWRITTEN: &str = concat!("TO ", "WRITE");

/// Objects that are explained elsewhere, or not supported: their fields get no rows.
const WHOLE: [&str; 3] = ["disabled_labels", "upstream", "checks"];

/// Deeper fields are explained with the object that holds them.
const DEPTH: usize = 4;

struct Field {
    name: String,
    kind: String,
    preset: Preset,
}

enum Preset {
    Default(String),
    Required,
    /// If the object of this name is there.
    RequiredIn(String),
    Nothing,
}

impl Preset {
    fn shown(&self, language: &Language) -> String {
        match self {
            Self::Default(json) => format!("`{json}`"),
            Self::Required => language.required.to_owned(),
            Self::RequiredIn(object) => language.required_in.replace("{}", object),
            Self::Nothing => String::new(),
        }
    }
}

/// The plugins that have pages. One of streams is on the page of its namesake for HTTP, if there is one.
fn documented() -> impl Iterator<Item = &'static PluginDef> {
    let http = tidegate_plugins::registry::PLUGINS;
    let of_streams = tidegate_plugins::registry::STREAM_PLUGINS.iter();
    let own = of_streams.filter(|def| http.iter().all(|other| other.name != def.name));
    http.iter().chain(own).copied()
}

#[test]
fn tables_of_fields_are_what_the_schemas_say() {
    let mut wrong = Vec::new();
    for def in documented() {
        for language in [ENGLISH, CHINESE] {
            let path = page(def.name, &language);
            let Ok(text) = fs::read_to_string(&path) else {
                wrong.push(format!("{} has no page {}", def.name, path.display()));
                continue;
            };
            let fresh = example_first(&with_tables(&text, def, &language, &mut wrong), &language);
            let name = path.file_name().unwrap_or_default().display();
            if fresh.contains(UNWRITTEN) {
                wrong.push(format!("{name}: something is still to be written"));
            }
            if is_outdated(&path, &text, &fresh) {
                wrong.push(format!("{name} is out of date: run this test with UPDATE_DOCS=1"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A page shows how the plugin is used before it lists its fields.
fn example_first(text: &str, language: &Language) -> String {
    let mut parts: Vec<&str> = text.trim_end().split("\n## ").map(str::trim_end).collect();
    let Some(place) = parts.iter().position(|part| part.lines().next() == Some(language.example)) else {
        return text.to_owned();
    };
    let example = parts.remove(place);
    parts.insert(1, example);
    parts.join("\n\n## ") + "\n"
}

/// Whether a file has to change. With `UPDATE_DOCS` it is changed instead.
fn is_outdated(path: &Path, found: &str, fresh: &str) -> bool {
    let update = std::env::var_os("UPDATE_DOCS").is_some();
    if found != fresh && update {
        fs::write(path, fresh).expect("the page can be written");
    }
    found != fresh && !update
}

fn with_tables(text: &str, def: &PluginDef, language: &Language, wrong: &mut Vec<String>) -> String {
    let mut fresh = text.to_owned();
    for (kind, schema) in schemas(def) {
        match with_table(&fresh, kind, &schema, language) {
            Ok((page, missing)) => {
                fresh = page;
                let name = format!("{}{}", def.name, language.ending);
                wrong.extend(missing.iter().map(|field| format!("{name}: {field} has no meaning")));
            }
            Err(reason) => wrong.push(format!("{}{}: {reason}", def.name, language.ending)),
        }
    }
    fresh
}

#[test]
fn every_page_is_about_a_plugin() {
    let folder = page("x", &ENGLISH);
    let folder = folder.parent().expect("a folder");
    for entry in fs::read_dir(folder).expect("docs/plugins").flatten() {
        let file = entry.file_name().to_string_lossy().into_owned();
        let name = [CHINESE.ending, ENGLISH.ending].iter().find_map(|ending| file.strip_suffix(ending));
        let name = name.unwrap_or(&file);
        let known = documented().any(|def| def.name == name);
        assert!(known || name == "README", "docs/plugins/{file} is about no registered plugin");
    }
}

/// `tests/e2e/plugins/pages.rs` runs those of the English page.
#[test]
fn translated_pages_have_the_same_examples() {
    for def in documented() {
        let read = |language| fs::read_to_string(page(def.name, language)).ok();
        let (Some(english), Some(chinese)) = (read(&ENGLISH), read(&CHINESE)) else { continue };
        let path = page(def.name, &CHINESE);
        let outdated = is_outdated(&path, &chinese, &with_fences(&chinese, &english));
        assert!(!outdated, "{}: its examples differ; run this test with UPDATE_DOCS=1", path.display());
    }
}

/// A page with what stands in the fences of another.
fn with_fences(page: &str, other: &str) -> String {
    let fences = other.split("\n```").skip(1).step_by(2);
    let mut prose = page.split("\n```").step_by(2);
    let first = prose.next().unwrap_or_default().to_owned();
    fences
        .zip(prose.chain(std::iter::repeat("")))
        .fold(first, |text, (fence, after)| text + "\n```" + fence + "\n```" + after)
}

fn page(plugin: &str, language: &Language) -> PathBuf {
    root().join("docs/plugins").join(format!("{plugin}{}", language.ending))
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The schemas whose fields a page must list, by the name in its marker.
fn schemas(def: &PluginDef) -> Vec<(&'static str, Value)> {
    let all =
        [("plugin", Some(def.schema)), ("consumer", def.consumer_schema), ("metadata", def.metadata_schema)];
    let parse = |(kind, text): (&'static str, Option<&str>)| {
        let schema: Value = serde_json::from_str(text?).expect("a schema is JSON");
        (!fields(&schema).is_empty()).then_some((kind, schema))
    };
    all.into_iter().filter_map(parse).collect()
}

/// Replaces the table behind the marker; also returns the fields without a meaning.
fn with_table(
    page: &str,
    kind: &str,
    schema: &Value,
    language: &Language,
) -> Result<(String, Vec<String>), String> {
    let marker = format!("<!-- fields: {kind} -->\n");
    let (before, rest) = page.split_once(&marker).ok_or(format!("no {} in its page", marker.trim()))?;
    let (old, after) = rest.split_once(END).ok_or(format!("no {END} behind {}", marker.trim()))?;
    let old: Vec<(String, String)> = old.lines().filter_map(row).collect();
    let mut meanings: BTreeMap<&str, &str> =
        old.iter().map(|(name, meaning)| (name.as_str(), meaning.as_str())).collect();
    let fields = fields(schema);
    // The order of the page is the author's; what is new comes last.
    let place = |field: &Field| old.iter().position(|(name, _)| *name == field.name).unwrap_or(usize::MAX);
    let mut ordered: Vec<&Field> = fields.iter().collect();
    ordered.sort_by_key(|field| place(field));
    let mut table = language.head.to_owned();
    let mut missing = Vec::new();
    for field in ordered {
        let meaning = meanings.remove(field.name.as_str()).unwrap_or_default();
        if meaning.is_empty() {
            missing.push(field.name.clone());
        }
        let preset = field.preset.shown(language);
        table += &format!("| `{}` | {} | {preset} | {meaning} |\n", field.name, field.kind);
    }
    Ok((format!("{before}{marker}{table}{END}{after}"), missing))
}

/// Name and meaning of a row.
fn row(line: &str) -> Option<(String, String)> {
    let cells: Vec<&str> = line.strip_prefix('|')?.trim_end().strip_suffix('|')?.split(" | ").collect();
    let name = cells.first()?.trim().strip_prefix('`')?.strip_suffix('`')?;
    Some((name.to_owned(), cells.get(3..)?.join(" | ").trim().to_owned()))
}

fn fields(schema: &Value) -> Vec<Field> {
    let mut found = Vec::new();
    collect(schema, "", true, 0, &mut found);
    found
}

fn collect(schema: &Value, prefix: &str, required_above: bool, depth: usize, found: &mut Vec<Field>) {
    let required = |name: &str| {
        schema["required"].as_array().is_some_and(|names| names.iter().any(|required| required == name))
    };
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        if name == "_meta" {
            continue;
        }
        let path = format!("{prefix}{name}");
        let inner = [(field, format!("{path}.")), (&field["items"], format!("{path}[]."))];
        let inner = inner.iter().find(|(schema, _)| has_fields(schema));
        if let Some((inner, prefix)) = inner.filter(|_| depth < DEPTH && !WHOLE.contains(&name.as_str())) {
            collect(inner, prefix, required_above && required(name), depth + 1, found);
            continue;
        }
        let preset = match (field.get("default"), required(name)) {
            // A default does not stand in for a field that has to be there.
            (_, true) if required_above => Preset::Required,
            (_, true) => Preset::RequiredIn(prefix.trim_end_matches(['.', '[', ']']).to_owned()),
            (Some(default), false) => Preset::Default(default.to_string()),
            (None, false) => Preset::Nothing,
        };
        found.push(Field { name: path, kind: kind(field), preset });
    }
}

fn has_fields(schema: &Value) -> bool {
    schema["properties"].as_object().is_some_and(|properties| !properties.is_empty())
}

/// `integer, 1 to 9`, `array of strings`, ``one of `a`, `b` ``.
fn kind(schema: &Value) -> String {
    if let Some(choices) = schema["enum"].as_array() {
        let choices: Vec<String> = choices.iter().map(|choice| format!("`{}`", plain(choice))).collect();
        return choices.join(", ");
    }
    for several in ["oneOf", "anyOf"] {
        if let Some(choices) = schema[several].as_array().filter(|_| schema["type"].is_null()) {
            let mut kinds: Vec<String> = choices.iter().map(kind).collect();
            kinds.dedup();
            return kinds.join(" or ");
        }
    }
    let name = match &schema["type"] {
        Value::String(name) => name.clone(),
        Value::Array(names) => names.iter().map(plain).collect::<Vec<_>>().join(" or "),
        _ => "any".to_owned(),
    };
    match name.as_str() {
        "array" => match kind(&schema["items"]).as_str() {
            "any" => "array".to_owned(),
            items if items.starts_with('`') => format!("array of {items}"),
            items => format!("array of {items}s"),
        },
        _ => name + &limits(schema.as_object()),
    }
}

/// `, 1 to 9`; lengths of texts are only worth a word when there is one.
fn limits(schema: Option<&Map<String, Value>>) -> String {
    let number = |name: &str| schema?.get(name).filter(|value| value.is_number());
    let above = number("exclusiveMinimum").map(|minimum| format!(", above {minimum}"));
    match (number("minimum"), number("maximum")) {
        (Some(minimum), Some(maximum)) => format!(", {minimum} to {maximum}"),
        (Some(minimum), None) => format!(", at least {minimum}"),
        (None, Some(maximum)) => format!("{}, at most {maximum}", above.unwrap_or_default()),
        (None, None) => above.unwrap_or_default(),
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
