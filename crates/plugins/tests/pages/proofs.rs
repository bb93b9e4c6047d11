//! tests/schema-fields.txt: each field of each plugin's schemas, and the test that shows what it does. `scripts/schema-fields` finds
//! these tests: they fail once the field is taken out or has another value.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use serde_json::Value;
use tidegate_plugin_api::PluginDef;
use tidegate_plugins::registry::{PLUGINS, STREAM_PLUGINS};

use super::{is_outdated, root};

/// Fields that no test shows yet. This number only falls.
const UNPROVEN: usize = 0;

const HEAD: &str = "# Each field of each plugin's schemas, and the test that shows what it does: one that fails once the field is taken out (drop)
# or has another value (alter, extreme). `-`: none yet. `by hand`: a test that cannot be asked so. `unused`: it has no effect, as its page says.
# `scripts/schema-fields` looks for tests.
";

#[test]
fn every_field_has_a_test_that_shows_what_it_does() {
    let path = root().join("tests/schema-fields.txt");
    let text = fs::read_to_string(&path).unwrap_or_default();
    let known: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.split_once(" = ")).collect();
    let fields = fields();
    let lines =
        fields.iter().map(|field| format!("{field} = {}\n", known.get(field.as_str()).unwrap_or(&"-")));
    let fresh = HEAD.to_owned() + &lines.collect::<String>();
    assert!(
        !is_outdated(&path, &text, &fresh),
        "{} is out of date: run this test with UPDATE_DOCS=1",
        path.display()
    );
    let mut wrong = Vec::new();
    for (field, proof) in known.iter().filter(|(_, proof)| **proof != "-") {
        match proof.strip_prefix("unused ") {
            Some(page) if !is_said_to_be_unused(field, page) => {
                wrong.push(format!("{field}: {page} does not say that it has no effect"));
            }
            None if !is_there(proof) => wrong.push(format!("{field}: test {proof} does not exist")),
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let unproven = fresh.lines().filter(|line| line.ends_with(" = -")).count();
    assert!(
        unproven == UNPROVEN,
        "{unproven} fields have no test that shows what they do; {UNPROVEN} is the most: see {}",
        path.display()
    );
}

/// In the table of fields.
fn is_said_to_be_unused(field: &str, page: &str) -> bool {
    let path = field.splitn(3, ' ').nth(2).unwrap_or_default();
    let text = fs::read_to_string(root().join(page)).unwrap_or_default();
    let start = format!("| `{path}` |");
    let mut rows = text.lines().filter(|line| line.starts_with(&start)).map(str::to_lowercase);
    rows.any(|row| {
        ["no effect", "without effect", "accepted and not used"].iter().any(|word| row.contains(word))
    })
}

/// `drop FILE::FUNCTION`, or a page, whose example is a test.
fn is_there(proof: &str) -> bool {
    let place = proof.rsplit(' ').next().unwrap_or_default();
    let (file, function) = place.split_once("::").unwrap_or((place, ""));
    let text = fs::read_to_string(root().join(file)).unwrap_or_default();
    match function {
        "" => file.ends_with(".md") && !text.is_empty(),
        name => text.contains(&format!("fn {name}(")),
    }
}

/// `PLUGIN KIND PATH`, in order.
fn fields() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for def in PLUGINS.iter().chain(STREAM_PLUGINS) {
        for (kind, schema) in schemas(def) {
            let mut paths = BTreeSet::new();
            walk(&schema, "", &mut paths);
            let has_fields = |path: &String| {
                paths.iter().any(|other| {
                    other.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with(['.', '[']))
                })
            };
            let leaves = paths.iter().filter(|path| !has_fields(path));
            found.extend(leaves.map(|path| format!("{} {kind} {path}", def.name)));
        }
    }
    found
}

fn schemas(def: &PluginDef) -> Vec<(&'static str, Value)> {
    let all =
        [("plugin", Some(def.schema)), ("consumer", def.consumer_schema), ("metadata", def.metadata_schema)];
    let read = |(kind, text): (&'static str, Option<&str>)| {
        Some((kind, serde_json::from_str(text?).expect("a schema is JSON")))
    };
    all.into_iter().filter_map(read).collect()
}

fn walk(schema: &Value, prefix: &str, found: &mut BTreeSet<String>) {
    if !schema.is_object() {
        return;
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        walk(field, &path, found);
        found.insert(path);
    }
    let items = match &schema["items"] {
        Value::Array(items) => items.iter().collect(),
        item => vec![item],
    };
    items.into_iter().for_each(|item| walk(item, &format!("{prefix}[]"), found));
    for word in ["oneOf", "anyOf", "allOf"] {
        schema[word].as_array().into_iter().flatten().for_each(|part| walk(part, prefix, found));
    }
    for word in ["if", "then", "else"] {
        walk(&schema[word], prefix, found);
    }
    schema["dependencies"].as_object().into_iter().flatten().for_each(|(_, part)| walk(part, prefix, found));
}
