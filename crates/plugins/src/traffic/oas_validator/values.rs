//! Texts as values of the types that a schema asks for.

use serde_json::{Map, Number, Value};

use super::json_schema::Schemas;

/// Schemas that are looked through for types.
const MOST_SCHEMAS: usize = 64;

pub(super) fn is_json(media_type: &str) -> bool {
    let kind = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || kind.ends_with("+json") || kind == "text/json"
}

/// The types that a schema allows, as far as it says so.
pub(super) fn types<'s>(schemas: &'s Schemas, schema: &'s Value) -> Vec<&'s str> {
    let (mut types, mut open, mut looked) = (Vec::new(), vec![schema], 0);
    while let Some(schema) = open.pop() {
        looked += 1;
        if looked > MOST_SCHEMAS {
            break;
        }
        let schema = schemas.followed(schema);
        match schema.get("type") {
            Some(Value::String(name)) => types.push(name.as_str()),
            Some(Value::Array(names)) => types.extend(names.iter().filter_map(Value::as_str)),
            _ => {}
        }
        for name in ["allOf", "anyOf", "oneOf"] {
            open.extend(schema.get(name).and_then(Value::as_array).into_iter().flatten());
        }
    }
    types
}

pub(super) fn properties<'s>(schemas: &'s Schemas, schema: &'s Value) -> Option<&'s Map<String, Value>> {
    schemas.followed(schema).get("properties").and_then(Value::as_object)
}

/// A text as the first of these types that it can be.
pub(super) fn of_text(types: &[&str], text: &str) -> Value {
    let asks = |name: &str| types.contains(&name);
    if asks("integer") || asks("number") {
        // What is written otherwise than JSON writes it, as ` 1` or `+1`, is a text.
        if let Ok(number) = serde_json::from_str::<Number>(text).map(Value::Number)
            && text.trim().len() == text.len()
        {
            return number;
        }
    }
    match text {
        "true" if asks("boolean") => Value::Bool(true),
        "false" if asks("boolean") => Value::Bool(false),
        "" | "null" if asks("null") => Value::Null,
        text => Value::from(text),
    }
}

pub(super) fn list<'t>(schemas: &Schemas, schema: &Value, parts: impl Iterator<Item = &'t str>) -> Value {
    let any = Value::Bool(true);
    let items = schemas.followed(schema).get("items").unwrap_or(&any);
    let types = types(schemas, items);
    parts.map(|part| of_text(&types, part)).collect()
}

/// Of members that come again a list is made.
pub(super) fn object<'t>(
    schemas: &Schemas,
    schema: &Value,
    pairs: impl Iterator<Item = (&'t str, &'t str)>,
) -> Value {
    let known = properties(schemas, schema);
    let mut members: Map<String, Value> = Map::new();
    for (name, text) in pairs {
        let property = known.and_then(|known| known.get(name));
        let is_list = property.is_some_and(|property| types(schemas, property).contains(&"array"));
        let value = match property {
            Some(property) if is_list => list(schemas, property, std::iter::once(text)),
            Some(property) => of_text(&types(schemas, property), text),
            None => Value::from(text),
        };
        match (members.get_mut(name), value) {
            (Some(Value::Array(items)), Value::Array(more)) => items.extend(more),
            (Some(Value::Array(items)), value) => items.push(value),
            (Some(first), value) => *first = Value::Array(vec![first.take(), value]),
            (None, value) => _ = members.insert(name.to_owned(), value),
        }
    }
    Value::Object(members)
}
