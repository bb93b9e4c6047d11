//! Fields that are in no schema. APISIX accepts them, so they are not refused; but a guard with a misspelled field guards
//! less.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::{Kind, Object, PluginCatalog, nearest::hint, schemas};

/// How deep objects are looked at.
const DEEPEST: usize = 16;
/// The most fields listed of one object; more are counted.
const MOST: usize = 8;
/// How many fields are compared with known names; further ones are only counted.
const MOST_COMPARED: usize = 1000;

/// Messages for fields of an object and of its plugins that are accepted without effect. Those that look misspelled come
/// first: they may be part of a guard.
pub(super) fn of(object: &Object, catalog: &dyn PluginCatalog) -> Vec<String> {
    let value = object.value();
    let mut found = Found::default();
    each(object.kind, &object.id, &value, catalog, false, &mut |place, name, known| {
        found.push(&in_words(place), name, known);
    });
    found.in_words()
}

/// The JSON pointers of these fields, and of values of another type than their schema has.
pub(crate) fn places(kind: Kind, id: &str, value: &Value, catalog: &dyn PluginCatalog) -> Vec<String> {
    let mut found = Vec::new();
    each(kind, id, value, catalog, true, &mut |place, name, _| {
        // In messages a plugin's name precedes the fields of its metadata.
        let above =
            usize::from(kind == Kind::PluginMetadata && place.first().is_some_and(|step| step.text() == id));
        let steps = place.iter().skip(above).map(Step::text);
        let steps = steps.chain([name.to_owned()]).map(|step| step.replace('~', "~0").replace('/', "~1"));
        found.push(steps.map(|step| format!("/{step}")).collect());
    });
    found
}

/// The schema of a plugin that is not known: no value fits it.
static NOTHING: Value = Value::Bool(false);

/// That of the metadata of a plugin that has none.
static NO_FIELDS: LazyLock<Value> = LazyLock::new(|| json!({"type": "object", "properties": {"id": {}}}));

/// Takes the place of an object, the name of a field of it that is not known, and those that are.
type Visit<'v> = &'v mut dyn FnMut(&[Step<'_>], &str, &[&str]);

/// A step from an object to something in it.
#[derive(Clone, Copy)]
enum Step<'a> {
    Name(&'a str),
    Item(usize),
}

impl Step<'_> {
    fn text(&self) -> String {
        match self {
            Step::Name(name) => (*name).to_owned(),
            Step::Item(index) => index.to_string(),
        }
    }
}

fn in_words(place: &[Step<'_>]) -> String {
    let mut words = String::new();
    for step in place {
        match step {
            Step::Name(name) if words.is_empty() => words.push_str(name),
            Step::Name(name) => words.extend([".", name]),
            Step::Item(index) => words.push_str(&format!("[{index}]")),
        }
    }
    words
}

fn each(kind: Kind, id: &str, value: &Value, catalog: &dyn PluginCatalog, misfits: bool, visit: Visit<'_>) {
    if let Some(schema) = schemas::name_of_kind(kind).and_then(schemas::document) {
        let mut walk = Walk { root: schema, place: Vec::new(), misfits, visit };
        // Unknown fields of the object itself are refused.
        for (name, field) in value.as_object().into_iter().flatten().filter(|(name, _)| *name != "plugins") {
            let schemas = properties(schema, schema, name);
            walk.step(Step::Name(name), field, &schemas, 0);
        }
    }
    for (name, conf) in value.get("plugins").and_then(Value::as_object).into_iter().flatten() {
        plugin(catalog, kind, name, conf, misfits, visit);
    }
    let own = match kind {
        Kind::PluginMetadata => catalog.facts(id).map(|facts| facts.metadata_schema.unwrap_or(&*NO_FIELDS)),
        Kind::Secret => schemas::secret_document(id.split('/').next().unwrap_or_default()),
        _ => None,
    };
    if let Some(schema) = own {
        let place = if kind == Kind::Secret { Vec::new() } else { vec![Step::Name(id)] };
        Walk { root: schema, place, misfits, visit }.value(value, &[schema], 0);
    }
}

fn plugin(
    catalog: &dyn PluginCatalog,
    kind: Kind,
    name: &str,
    conf: &Value,
    misfits: bool,
    visit: Visit<'_>,
) {
    let Some(facts) = catalog.facts(name) else { return };
    let is_consumer = matches!(kind, Kind::Consumer | Kind::Credential);
    let schema = facts.consumer_schema.filter(|_| is_consumer).unwrap_or(facts.schema);
    let place = vec![Step::Name("plugins"), Step::Name(name)];
    Walk { root: schema, place, misfits, visit }.value(conf, &[schema], 0);
    // Plugins within plugins hold none themselves.
    for nested in (facts.nested)(conf) {
        let steps = nested.path.split(['.', '[']).map(|step| match step.strip_suffix(']') {
            Some(index) => Step::Item(index.parse().unwrap_or_default()),
            None => Step::Name(step),
        });
        let place = [Step::Name("plugins"), Step::Name(name)].into_iter().chain(steps).collect();
        let facts = catalog.facts(nested.name);
        let schema = facts.as_ref().map_or(&NOTHING, |facts| facts.schema);
        Walk { root: schema, place, misfits, visit }.value(nested.conf, &[schema], 0);
    }
}

/// Fields that the gateway writes into objects, and those that all plugins have.
const OF_ALL: [&str; 4] = ["_meta", "id", "create_time", "update_time"];

#[derive(Default)]
struct Found {
    misspelled: Vec<String>,
    others: Vec<String>,
    count: usize,
}

impl Found {
    fn push(&mut self, path: &str, name: &str, known: &[&str]) {
        self.count += 1;
        if self.count > MOST_COMPARED {
            return;
        }
        let hint = hint(name, known.iter().copied());
        let path = if path.is_empty() { String::new() } else { format!("{path}.") };
        let list = if hint.is_empty() { &mut self.others } else { &mut self.misspelled };
        if list.len() < MOST {
            list.push(format!("unknown field {path}{name} has no effect{hint}"));
        }
    }

    fn in_words(self) -> Vec<String> {
        let mut words: Vec<String> = self.misspelled.into_iter().chain(self.others).take(MOST).collect();
        if let Some(more @ 1..) = self.count.checked_sub(words.len()) {
            words.push(format!("{more} more unknown fields have no effect"));
        }
        words
    }
}

struct Walk<'a, 'v> {
    root: &'a Value,
    place: Vec<Step<'a>>,
    /// Values of another type than their schema has are visited, too.
    misfits: bool,
    visit: Visit<'v>,
}

impl<'a> Walk<'a, '_> {
    fn step(&mut self, step: Step<'a>, value: &'a Value, schemas: &[&'a Value], depth: usize) {
        self.place.push(step);
        self.value(value, schemas, depth);
        self.place.pop();
    }

    fn value(&mut self, value: &'a Value, schemas: &[&'a Value], depth: usize) {
        if depth > DEEPEST {
            return;
        }
        let mut all = Vec::new();
        for schema in schemas {
            expand(schema, self.root, &mut all, 0);
        }
        if self.misfits && is_misfit(value, schemas, &all) {
            if let Some((last, before)) = self.place.split_last() {
                (self.visit)(before, &last.text(), &[]);
            }
            return;
        }
        match value {
            Value::Object(fields) => self.object(fields, &all, depth),
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
                    self.step(Step::Item(index), item, &schemas, depth + 1);
                }
            }
            _ => {}
        }
    }

    fn object(&mut self, fields: &'a Map<String, Value>, all: &[&'a Value], depth: usize) {
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
            let schemas = if schemas.is_empty() { of_any_name(all) } else { schemas };
            if !schemas.is_empty() {
                self.step(Step::Name(name), field, &schemas, depth + 1);
            } else if !is_open && !OF_ALL.contains(&name.as_str()) && !field.is_null() {
                let names = known.iter().flat_map(|properties| properties.keys()).map(String::as_str);
                (self.visit)(&self.place, name, &names.collect::<Vec<&str>>());
            }
        }
    }
}

/// The schemas of fields whose names are the user's. Which pattern a name matches is not asked: a field that any of them knows
/// is known.
fn of_any_name<'a>(all: &[&'a Value]) -> Vec<&'a Value> {
    let patterns = |schema: &&'a Value| schema.get("patternProperties")?.as_object();
    let more = all.iter().filter_map(|schema| schema.get("additionalProperties"));
    let patterns = all.iter().filter_map(patterns).flat_map(Map::values);
    more.chain(patterns).filter(|schema| schema.is_object()).collect()
}

/// Whether it is a text, a list or a table where none of the schemas has such a value.
fn is_misfit(value: &Value, schemas: &[&Value], all: &[&Value]) -> bool {
    let kind = match value {
        Value::String(_) => "string",
        Value::Array(items) if !items.is_empty() => "array",
        Value::Object(_) => "object",
        _ => return false,
    };
    let is_kind = |types: &&Value| match types {
        Value::Array(types) => types.iter().any(|name| name == kind),
        name => *name == kind,
    };
    let types: Vec<&Value> = all.iter().filter_map(|schema| schema.get("type")).collect();
    schemas.contains(&&NOTHING) || !types.is_empty() && !types.iter().any(is_kind)
}

fn properties<'a>(schema: &'a Value, root: &'a Value, name: &str) -> Vec<&'a Value> {
    let mut all = Vec::new();
    expand(schema, root, &mut all, 0);
    all.iter().filter_map(|schema| schema.get("properties")?.get(name)).collect()
}

/// A schema with all others that may apply to the same value.
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
