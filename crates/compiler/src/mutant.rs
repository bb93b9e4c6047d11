//! One field of one plugin as if it were not there, or said something else: a test that still passes does not show what
//! the field does. `scripts/schema-fields` asks for it in the environment. It exists only with `debug_assertions`.

use std::{env, fs::OpenOptions, io::Write, sync::OnceLock};

use serde_json::{Value, json};
use tidegate_model::{PluginCatalog, SchemaKind};

/// A file that gets a line of JSON for each configuration that is built: plugin, kind and the configuration as written.
const SEEN: &str = "TIDEGATE_TEST_FIELDS_SEEN";
/// A [`Wanted`] as JSON.
const WANTED: &str = "TIDEGATE_TEST_MUTANT";

/// What is changed.
struct Wanted {
    plugin: String,
    kind: String,
    /// Names of fields; `[]` stands for each element, `*` for each name.
    path: Vec<String>,
    change: Change,
}

#[derive(Clone, Copy, PartialEq)]
enum Change {
    /// The field is taken out, and has its default.
    Drop,
    /// It has a value close by.
    Alter,
    /// It has a value far away.
    Extreme,
}

impl Wanted {
    fn read(text: &str) -> Option<Wanted> {
        let fields: Value = serde_json::from_str(text).ok()?;
        let text = |name: &str| Some(fields.get(name)?.as_str()?.to_owned());
        let path = fields.get("path")?.as_array()?;
        let change = match text("change")?.as_str() {
            "drop" => Change::Drop,
            "alter" => Change::Alter,
            _ => Change::Extreme,
        };
        Some(Wanted {
            plugin: text("plugin")?,
            kind: text("kind")?,
            path: path.iter().filter_map(|name| Some(name.as_str()?.to_owned())).collect(),
            change,
        })
    }
}

/// The configuration with the change that was asked for: one that the plugin accepts, and that is not the same.
pub(crate) fn of(catalog: &dyn PluginCatalog, name: &str, kind: SchemaKind, conf: &Value) -> Option<Value> {
    write_down(name, kind, conf);
    static ASKED: OnceLock<Option<Wanted>> = OnceLock::new();
    let asked = ASKED.get_or_init(|| Wanted::read(&env::var(WANTED).ok()?));
    let wanted = asked.as_ref().filter(|wanted| wanted.plugin == name && wanted.kind == word(kind))?;
    let mut full = conf.clone();
    catalog.check(name, kind, &mut full).ok()?;
    let facts = catalog.facts(name)?;
    let schema = match kind {
        SchemaKind::Plugin => facts.schema,
        SchemaKind::Consumer => facts.consumer_schema?,
        SchemaKind::Metadata => facts.metadata_schema?,
    };
    let others = alternatives(schema, &wanted.path);
    for attempt in 0..8 + others.len() {
        let mut mutant = full.clone();
        change(&mut mutant, &wanted.path, wanted.change, attempt, &others);
        let is_changed = mutant != full;
        // The check fills in defaults, which may undo the change.
        if is_changed && catalog.check(name, kind, &mut mutant).is_ok() && mutant != full {
            return Some(mutant);
        }
    }
    None
}

fn word(kind: SchemaKind) -> &'static str {
    match kind {
        SchemaKind::Plugin => "plugin",
        SchemaKind::Consumer => "consumer",
        SchemaKind::Metadata => "metadata",
    }
}

fn write_down(name: &str, kind: SchemaKind, conf: &Value) {
    let Some(path) = env::var_os(SEEN) else { return };
    let line = format!("{}\n", json!({ "plugin": name, "kind": word(kind), "conf": conf }));
    let opened = OpenOptions::new().create(true).append(true).open(path);
    let _ = opened.and_then(|mut file| file.write_all(line.as_bytes()));
}

/// The values that an `enum` of the schema has for a path.
fn alternatives(schema: &Value, path: &[String]) -> Vec<Value> {
    let mut found: Vec<Value> = Vec::new();
    let parts = ["oneOf", "anyOf", "allOf"].iter().filter_map(|word| schema.get(*word)?.as_array()).flatten();
    let branches = ["then", "else"].iter().filter_map(|word| schema.get(*word));
    parts.chain(branches).for_each(|part| found.extend(alternatives(part, path)));
    let Some((first, rest)) = path.split_first() else {
        found.extend(schema.get("enum").and_then(Value::as_array).into_iter().flatten().cloned());
        return found;
    };
    let below = match first.as_str() {
        "[]" => schema.get("items"),
        "*" => schema.get("additionalProperties"),
        name => schema.get("properties").and_then(|properties| properties.get(name)),
    };
    found.extend(below.map(|below| alternatives(below, rest)).unwrap_or_default());
    found
}

/// At each place that the path leads to.
fn change(value: &mut Value, path: &[String], how: Change, attempt: usize, others: &[Value]) {
    let Some((first, rest)) = path.split_first() else {
        if let Some(other) = other(value, how, attempt, others) {
            *value = other;
        }
        return;
    };
    match (value, first.as_str()) {
        (Value::Array(elements), "[]") => {
            elements.iter_mut().for_each(|element| change(element, rest, how, attempt, others));
        }
        (Value::Object(fields), "*") => {
            fields.values_mut().for_each(|field| change(field, rest, how, attempt, others));
        }
        (Value::Object(fields), name) if rest.is_empty() && how == Change::Drop => {
            fields.remove(name);
        }
        (Value::Object(fields), name) => {
            if let Some(field) = fields.get_mut(name) {
                change(field, rest, how, attempt, others);
            }
        }
        _ => {}
    }
}

fn other(value: &Value, how: Change, attempt: usize, others: &[Value]) -> Option<Value> {
    if let Some(other) = others.get(attempt) {
        return Some(other.clone());
    }
    let attempt = attempt - others.len();
    match (value, how) {
        (Value::Bool(set), _) => Some(Value::Bool(!set)),
        (Value::Number(_), Change::Extreme) => {
            let values = [json!(100_000), json!(1000), json!(1), json!(0), json!(5), json!(0.001)];
            values.get(attempt).cloned()
        }
        (Value::Number(number), _) => {
            let number = number.as_f64()?;
            let close = [number + 1.0, number - 1.0, number / 2.0, number + 0.1].get(attempt).copied()?;
            Some(if close.fract() == 0.0 { json!(close as i64) } else { json!(close) })
        }
        (Value::String(text), _) => {
            let texts = [format!("{text}x"), format!("x{text}"), format!("{text}1"), String::new()];
            texts.get(attempt).map(|text| json!(text))
        }
        (Value::Array(elements), _) => match attempt {
            0 => Some(json!([])),
            1 => Some(Value::Array(elements.get(1..)?.to_vec())),
            _ => {
                let mut elements = elements.clone();
                let first = elements.first_mut()?;
                *first = other(first, how, attempt - 2, others)?;
                Some(Value::Array(elements))
            }
        },
        (Value::Object(_), _) if attempt == 0 => Some(json!({})),
        (Value::Object(fields), _) => {
            let mut fields = fields.clone();
            let name = fields.keys().next()?.clone();
            let value = fields.remove(&name)?;
            match attempt {
                1 => fields.insert(format!("{name}x"), value),
                _ => fields.insert(name, other(&value, how, attempt - 2, others)?),
            };
            Some(Value::Object(fields))
        }
        (Value::Null, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_dropped_or_altered_wherever_its_path_leads() {
        let path = |text: &str| text.split('.').map(str::to_owned).collect::<Vec<_>>();
        let conf = json!({ "rules": [{ "count": 2, "key": "a" }, { "count": 3 }], "code": 503, "log": true });
        let changed = |at: &str, how, attempt, others: &[Value]| {
            let mut value = conf.clone();
            change(&mut value, &path(at), how, attempt, others);
            value
        };
        let dropped = changed("rules.[].count", Change::Drop, 0, &[]);
        assert_eq!(dropped["rules"], json!([{ "key": "a" }, {}]));
        assert_eq!(changed("rules.[].count", Change::Alter, 0, &[])["rules"][1]["count"], 4);
        assert_eq!(changed("log", Change::Alter, 0, &[])["log"], false);
        assert_eq!(changed("code", Change::Alter, 1, &[json!(429)])["code"], 504);
        assert_eq!(changed("absent.deep", Change::Drop, 0, &[]), conf);
        let labels = json!({ "org": ["red"] });
        let others = [json!({}), json!({ "orgx": ["red"] }), json!({ "org": [] })];
        for (attempt, expected) in others.into_iter().enumerate() {
            assert_eq!(other(&labels, Change::Alter, attempt, &[]), Some(expected));
        }
        let schema = json!({ "properties": { "rules": { "items": { "oneOf": [{ "properties": { "key": { "enum": ["a", "b"] } } }] } } } });
        assert_eq!(alternatives(&schema, &path("rules.[].key")), [json!("a"), json!("b")]);
    }
}
