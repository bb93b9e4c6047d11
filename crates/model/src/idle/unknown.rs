//! Fields that no schema has. APISIX accepts them, so they are not refused; but a guard with a misspelled field guards less.

use serde_json::{Map, Value};

use crate::{Kind, Object, PluginCatalog, SchemaKind, nearest::hint, schemas};

/// How deep objects are looked at.
const DEEPEST: usize = 16;
/// Of one object; more are counted.
const MOST: usize = 8;
/// Fields that are looked at for what they may mean; further ones are only counted.
const MOST_COMPARED: usize = 1000;

/// Fields of an object and of its plugins that are taken and have no effect, in words. Those that look misspelled come first:
/// they may be a guard, whatever else is there.
pub fn of(object: &Object, catalog: &dyn PluginCatalog) -> Vec<String> {
    let value = object.value();
    let mut found = Found::default();
    if let Some(schema) = schemas::name_of_kind(object.kind).and_then(schemas::document) {
        let mut walk = Walk { root: schema, found: &mut found };
        // Unknown fields of the object itself are refused.
        for (name, field) in value.as_object().into_iter().flatten().filter(|(name, _)| *name != "plugins") {
            let schemas = properties(schema, schema, name);
            walk.value(field, &schemas, name, 0);
        }
    }
    let kind = match object.kind {
        Kind::Consumer | Kind::Credential => SchemaKind::Consumer,
        _ => SchemaKind::Plugin,
    };
    for (name, conf) in value.get("plugins").and_then(Value::as_object).into_iter().flatten() {
        plugin(catalog, kind, name, conf, &format!("plugins.{name}"), &mut found);
    }
    if object.kind == Kind::PluginMetadata
        && let Some(schema) = catalog.facts(&object.id).and_then(|facts| facts.metadata_schema)
    {
        Walk { root: schema, found: &mut found }.value(&value, &[schema], &object.id, 0);
    }
    found.in_words()
}

fn plugin(
    catalog: &dyn PluginCatalog,
    kind: SchemaKind,
    name: &str,
    conf: &Value,
    path: &str,
    found: &mut Found,
) {
    let Some(facts) = catalog.facts(name) else { return };
    let of_consumer = facts.consumer_schema.filter(|_| kind == SchemaKind::Consumer);
    let schema = of_consumer.unwrap_or(facts.schema);
    Walk { root: schema, found }.value(conf, &[schema], path, 0);
    // Plugins within plugins hold none themselves.
    for nested in (facts.nested)(conf) {
        if let Some(facts) = catalog.facts(nested.name) {
            let path = format!("{path}.{}", nested.path);
            Walk { root: facts.schema, found }.value(nested.conf, &[facts.schema], &path, 0);
        }
    }
}

/// What the gateway writes into objects, and what belongs to all plugins.
const OF_ALL: [&str; 4] = ["_meta", "id", "create_time", "update_time"];

#[derive(Default)]
struct Found {
    misspelled: Vec<String>,
    others: Vec<String>,
    count: usize,
}

impl Found {
    fn push<'a>(&mut self, path: &str, name: &str, known: impl IntoIterator<Item = &'a str>) {
        self.count += 1;
        if self.count > MOST_COMPARED {
            return;
        }
        let hint = hint(name, known);
        let list = if hint.is_empty() { &mut self.others } else { &mut self.misspelled };
        if list.len() < MOST {
            list.push(format!("{path}.{name} is not known and has no effect{hint}"));
        }
    }

    fn in_words(self) -> Vec<String> {
        let mut words: Vec<String> = self.misspelled.into_iter().chain(self.others).take(MOST).collect();
        if let Some(more @ 1..) = self.count.checked_sub(words.len()) {
            words.push(format!("{more} more fields are not known and have no effect"));
        }
        words
    }
}

struct Walk<'a, 'f> {
    root: &'a Value,
    found: &'f mut Found,
}

impl<'a> Walk<'a, '_> {
    fn value(&mut self, value: &Value, schemas: &[&'a Value], path: &str, depth: usize) {
        if depth > DEEPEST {
            return;
        }
        let mut all = Vec::new();
        for schema in schemas {
            expand(schema, self.root, &mut all, 0);
        }
        match value {
            Value::Object(fields) => self.object(fields, &all, path, depth),
            Value::Array(items) => {
                let of_items: Vec<&Value> = all.iter().filter_map(|schema| schema.get("items")).collect();
                for (index, item) in items.iter().enumerate() {
                    let schemas: Vec<&Value> = of_items
                        .iter()
                        .filter_map(|items| match items {
                            Value::Array(list) => list.get(index),
                            one => Some(one),
                        })
                        .collect();
                    self.value(item, &schemas, &format!("{path}[{index}]"), depth + 1);
                }
            }
            _ => {}
        }
    }

    fn object(&mut self, fields: &Map<String, Value>, all: &[&'a Value], path: &str, depth: usize) {
        let known: Vec<&'a Map<String, Value>> =
            all.iter().filter_map(|schema| schema.get("properties")?.as_object()).collect();
        let is_open = known.iter().all(|properties| properties.is_empty())
            || all.iter().any(|schema| {
                let more = schema.get("additionalProperties");
                schema.get("patternProperties").is_some()
                    || more.is_some_and(|more| *more != Value::Bool(false))
            });
        for (name, field) in fields {
            let schemas: Vec<&Value> = known.iter().filter_map(|properties| properties.get(name)).collect();
            if !schemas.is_empty() {
                self.value(field, &schemas, &format!("{path}.{name}"), depth + 1);
            } else if !is_open && !OF_ALL.contains(&name.as_str()) && !field.is_null() {
                let names = known.iter().flat_map(|properties| properties.keys()).map(String::as_str);
                self.found.push(path, name, names);
            }
        }
    }
}

fn properties<'a>(schema: &'a Value, root: &'a Value, name: &str) -> Vec<&'a Value> {
    let mut all = Vec::new();
    expand(schema, root, &mut all, 0);
    all.iter().filter_map(|schema| schema.get("properties")?.get(name)).collect()
}

/// A schema with all that may say something of the same value.
fn expand<'a>(schema: &'a Value, root: &'a Value, all: &mut Vec<&'a Value>, depth: usize) {
    if depth > DEEPEST || !schema.is_object() || all.iter().any(|known| std::ptr::eq(*known, schema)) {
        return;
    }
    all.push(schema);
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        let found = target.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        found.into_iter().for_each(|found| expand(found, root, all, depth + 1));
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        for part in schema.get(name).and_then(Value::as_array).into_iter().flatten() {
            expand(part, root, all, depth + 1);
        }
    }
    for name in ["if", "then", "else", "not"] {
        schema.get(name).into_iter().for_each(|part| expand(part, root, all, depth + 1));
    }
    let dependencies = schema.get("dependencies").and_then(Value::as_object);
    dependencies.into_iter().flatten().for_each(|(_, part)| expand(part, root, all, depth + 1));
}
