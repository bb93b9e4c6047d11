//! Fields of a plugin that its schema has in branches only: `redis_host` counts only with `policy: redis`.

use serde_json::{Map, Value};

use crate::schema::rules::is_secret_reference;

/// Messages for fields of `conf` that belong to other branches than the chosen one. A value that equals a default
/// was not necessarily written by the user.
pub(super) fn of(schema: &Value, conf: &Value) -> Vec<String> {
    let Some((name, chosen)) = chosen(schema, conf) else { return Vec::new() };
    let of_all = names(Some(schema));
    let (mut counting, mut others) = (of_all.clone(), Vec::new());
    let mut branch = schema;
    loop {
        let counts = wanted(branch).is_some_and(|(_, values)| values.contains(&Value::from(chosen)));
        let list = if counts { &mut counting } else { &mut others };
        list.extend(names(branch.get("then")));
        match branch.get("else") {
            Some(next) => branch = next,
            None => break,
        }
    }
    let fields = conf.as_object().into_iter().flatten();
    let idle = fields.filter(|(field, value)| {
        let of_others = others.iter().filter(|(name, _)| name == field);
        let mut of_others = of_others.peekable();
        of_others.peek().is_some()
            && !counting.iter().any(|(name, _)| name == field)
            && !of_others.any(|(_, rules)| rules.get("default") == Some(value))
    });
    idle.map(|(field, _)| format!("{field} has no effect with {name} {chosen}")).collect()
}

type Names<'a> = Vec<(&'a String, &'a Value)>;

fn names(schema: Option<&Value>) -> Names<'_> {
    let properties = schema.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    properties.into_iter().flat_map(Map::iter).collect()
}

/// `if: {properties: {policy: {enum: [redis]}}}`
fn wanted(schema: &Value) -> Option<(&String, &Vec<Value>)> {
    let (name, rules) = schema.get("if")?.get("properties")?.as_object()?.iter().next()?;
    Some((name, rules.get("enum")?.as_array()?))
}

/// The field that decides, and its value.
fn chosen<'a>(schema: &'a Value, conf: &'a Value) -> Option<(&'a str, &'a str)> {
    let (name, _) = wanted(schema)?;
    let default = || schema.get("properties")?.get(name)?.get("default");
    let value = conf.get(name).or_else(default)?.as_str()?;
    (!is_secret_reference(value)).then_some((name, value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_of_other_branches() {
        let schema = json!({
            "properties": {"policy": {"default": "local"}, "count": {}},
            "if": {"properties": {"policy": {"enum": ["redis"]}}},
            "then": {"properties": {"host": {}, "timeout": {"default": 9}}},
            "else": {
                "if": {"properties": {"policy": {"enum": ["cluster"]}}},
                "then": {"properties": {"nodes": {}, "timeout": {"default": 9}}},
            },
        });
        for (conf, expected) in [
            (json!({"count": 1}), Vec::new()),
            (json!({"count": 1, "host": "h"}), vec!["host has no effect with policy local"]),
            (json!({"policy": "redis", "host": "h", "timeout": 1}), Vec::new()),
            (
                json!({"policy": "cluster", "host": "h", "nodes": []}),
                vec!["host has no effect with policy cluster"],
            ),
            (json!({"policy": "local", "timeout": 9}), Vec::new()),
            (json!({"policy": "local", "timeout": 8}), vec!["timeout has no effect with policy local"]),
            (json!({"policy": "$env://P", "host": "h"}), Vec::new()),
        ] {
            assert_eq!(of(&schema, &conf), expected, "{conf}");
        }
    }
}
