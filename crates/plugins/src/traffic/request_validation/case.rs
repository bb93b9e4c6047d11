//! Members of JSON whose names differ from those of the schema in case only. Go's `encoding/json`, ASP.NET and others take
//! them for these, and the last one counts.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// A longer way through references is a circle, most likely.
const DEEPEST: usize = 64;
/// What applies to a value together with its own schema. `dependencies` is an object of schemas and of lists of names.
const BESIDE: [&str; 8] = ["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependencies"];

/// The steps do not suffice for an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Spent;

/// The schema's name, and how a member spells it. `steps`: values and schemas that may be looked at.
pub(crate) fn other_spelling(
    schema: &Value,
    body: &Value,
    steps: u32,
) -> Result<Option<(String, String)>, Spent> {
    Walk { root: schema, left: steps }.visit(&[schema], body, 0)
}

struct Walk<'a> {
    root: &'a Value,
    left: u32,
}

impl<'a> Walk<'a> {
    fn visit(
        &mut self,
        schemas: &[&'a Value],
        value: &Value,
        depth: usize,
    ) -> Result<Option<(String, String)>, Spent> {
        if schemas.is_empty() || depth > DEEPEST {
            return Ok(None);
        }
        let mut rules = Vec::new();
        for schema in schemas {
            self.expand(schema, 0, &mut rules)?;
        }
        match value {
            Value::Object(members) => self.visit_object(&rules, members, depth),
            Value::Array(items) => {
                let may_have_members = |(_, item): &(usize, &Value)| item.is_object() || item.is_array();
                for (at, item) in items.iter().enumerate().filter(may_have_members) {
                    let of_item = |rule: &&'a Map<String, Value>| match rule.get("items") {
                        Some(Value::Array(list)) => list.get(at).or_else(|| rule.get("additionalItems")),
                        one => one,
                    };
                    let any = |rule: &&'a Map<String, Value>| rule.get("contains");
                    let inner = rules.iter().filter_map(of_item).chain(rules.iter().filter_map(any));
                    let inner: Vec<&Value> = inner.collect();
                    self.spend(1)?;
                    if let Some(found) = self.visit(&inner, item, depth + 1)? {
                        return Ok(Some(found));
                    }
                }
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    fn visit_object(
        &mut self,
        rules: &[&'a Map<String, Value>],
        members: &Map<String, Value>,
        depth: usize,
    ) -> Result<Option<(String, String)>, Spent> {
        let properties = |rule: &&'a Map<String, Value>| rule.get("properties")?.as_object();
        let required = |rule: &&'a Map<String, Value>| rule.get("required")?.as_array();
        let mut names: BTreeSet<&str> =
            rules.iter().filter_map(properties).flat_map(Map::keys).map(String::as_str).collect();
        names.extend(rules.iter().filter_map(required).flatten().filter_map(Value::as_str));
        names.extend(rules.iter().flat_map(|rule| depending(rule)));
        for (name, value) in members {
            self.spend(1 + names.len())?;
            if !names.contains(name.as_str())
                && let Some(known) = names.iter().find(|known| is_same(known, name))
            {
                return Ok(Some(((*known).to_owned(), name.clone())));
            }
            let inner: Vec<&Value> = rules.iter().flat_map(|rule| of_member(rule, name)).collect();
            self.spend(inner.len())?;
            if let Some(found) = self.visit(&inner, value, depth + 1)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// A schema with what applies beside it, references within the document followed.
    fn expand(
        &mut self,
        schema: &'a Value,
        depth: usize,
        rules: &mut Vec<&'a Map<String, Value>>,
    ) -> Result<(), Spent> {
        self.spend(1)?;
        let Some(rule) = schema.as_object().filter(|_| depth <= DEEPEST) else { return Ok(()) };
        rules.push(rule);
        let reference = rule.get("$ref").and_then(Value::as_str).and_then(|text| text.strip_prefix('#'));
        if let Some(target) = reference.and_then(|pointer| self.root.pointer(pointer)) {
            self.expand(target, depth + 1, rules)?;
        }
        for keyword in BESIDE {
            match rule.get(keyword) {
                Some(Value::Object(schemas)) if keyword == "dependencies" => {
                    schemas.values().try_for_each(|schema| self.expand(schema, depth + 1, rules))?;
                }
                Some(Value::Array(list)) => {
                    list.iter().try_for_each(|schema| self.expand(schema, depth + 1, rules))?;
                }
                Some(one) => self.expand(one, depth + 1, rules)?,
                None => {}
            }
        }
        Ok(())
    }

    fn spend(&mut self, steps: usize) -> Result<(), Spent> {
        let steps = u32::try_from(steps).map_err(|_| Spent)?;
        self.left = self.left.checked_sub(steps).ok_or(Spent)?;
        Ok(())
    }
}

/// Names that `dependencies` speak of.
fn depending(rule: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let dependencies = rule.get("dependencies").and_then(Value::as_object).into_iter().flatten();
    dependencies.flat_map(|(name, needed)| {
        let needed = needed.as_array().into_iter().flatten().filter_map(Value::as_str);
        std::iter::once(name.as_str()).chain(needed)
    })
}

/// The schemas of a member. Which patterns match its name is not asked: one more schema can only find more.
fn of_member<'a>(rule: &'a Map<String, Value>, name: &str) -> impl Iterator<Item = &'a Value> {
    let own = rule.get("properties").and_then(|properties| properties.get(name));
    let patterns = rule.get("patternProperties").and_then(Value::as_object).into_iter().flat_map(Map::values);
    own.or_else(|| rule.get("additionalProperties")).into_iter().chain(patterns)
}

/// Whether two names differ in case at most, `ſ` and `s` included.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    fn folded(name: &str) -> impl Iterator<Item = char> {
        name.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase)
    }
    folded(one).eq(folded(other))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_that_are_spelled_otherwise() {
        let role = json!({"properties": {"role": {"enum": ["user"]}}, "required": ["task"]});
        let nested = json!({
            "properties": {"list": {"items": {"$ref": "#/definitions/role"}}},
            "definitions": {"role": role},
            "allOf": [{"properties": {"Id": {}}}]
        });
        for (schema, body, expected) in [
            (&role, json!({"role": "user", "other": {"Role": 1}}), None),
            (&role, json!({"role": "user", "Role": "admin"}), Some(("role", "Role"))),
            (&role, json!({"ta\u{17f}k": 1}), Some(("task", "ta\u{17f}k"))),
            (&nested, json!({"Id": 1, "list": [{"role": 1}, {"ROLE": 1}]}), Some(("role", "ROLE"))),
            (&nested, json!({"id": 1}), Some(("Id", "id"))),
            (&nested, json!([{"Role": 1}]), None),
        ] {
            let found = other_spelling(schema, &body, 1000).expect("steps enough");
            let expected = expected.map(|(known, name)| (known.to_owned(), name.to_owned()));
            assert_eq!(found, expected, "{body}");
        }
        let keywords = json!({
            "additionalProperties": {"properties": {"a": {}}}, "patternProperties": {"^x": {"properties": {"b": {}}}},
            "properties": {"list": {"contains": {"properties": {"c": {}}}}},
            "dependencies": {"list": ["d"], "e": {"properties": {"f": {}}}}
        });
        for (body, expected) in [
            (json!({"any": {"A": 1}}), Some(("a", "A"))),
            (json!({"x1": {"B": 1}}), Some(("b", "B"))),
            (json!({"list": [{"C": 1}]}), Some(("c", "C"))),
            (json!({"D": 1}), Some(("d", "D"))),
            (json!({"E": 1}), Some(("e", "E"))),
            (json!({"F": 1}), Some(("f", "F"))),
            (
                json!({"any": {"a": 1, "z": 1}, "x1": {"b": 1}, "list": [{"c": 1}], "d": 1, "e": 1, "f": 1}),
                None,
            ),
        ] {
            let expected = expected.map(|(known, name): (&str, &str)| (known.to_owned(), name.to_owned()));
            assert_eq!(other_spelling(&keywords, &body, 1000), Ok(expected), "{body}");
        }
        let circle = json!({"$ref": "#", "properties": {"a": {}}});
        assert_eq!(other_spelling(&circle, &json!({"A": 1}), 10_000), Ok(Some(("a".into(), "A".into()))));
        assert_eq!(other_spelling(&role, &json!([[[]]]), 0), Err(Spent));
    }
}
