//! The rules that a schema itself follows, for schemas that users write (JSON Schema drafts 4, 6 and 7).
//!
//! A keyword with a value of the wrong type checks nothing, and neither does a keyword that the checker does not have.
//! Both are refused, with the JSON pointer of the fault: a schema that checks less than its author wrote guards nothing.
//! Names that are not keywords of any draft are annotations, which every draft allows; they are reported to the author.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{annotations, pattern::Pattern, rules::Type};

/// The kind of value that a keyword must have.
#[derive(Clone, Copy)]
enum Kind {
    /// A schema, or `true` or `false`.
    Schema,
    /// Schemas by name.
    Schemas,
    /// Schemas by regular expression.
    Patterns,
    /// A list of schemas, at least one.
    SchemaList,
    /// A schema, or a list of schemas.
    Items,
    /// By name, a schema or a list of names.
    Dependencies,
    Types,
    Names,
    List,
    Count,
    Number,
    Step,
    /// A number, or with draft 4 a boolean beside the keyword named here.
    Exclusive(&'static str),
    Boolean,
    Text,
    Regex,
    Reference,
    /// Has no effect without one of these.
    SchemaBeside(&'static str),
    /// A keyword of a later draft; what to write instead.
    Unsupported(&'static str),
}

const KEYWORDS: &[(&str, Kind)] = &[
    ("$ref", Kind::Reference),
    ("$schema", Kind::Text),
    ("type", Kind::Types),
    ("properties", Kind::Schemas),
    ("patternProperties", Kind::Patterns),
    ("additionalProperties", Kind::Schema),
    ("propertyNames", Kind::Schema),
    ("required", Kind::Names),
    ("minProperties", Kind::Count),
    ("maxProperties", Kind::Count),
    ("dependencies", Kind::Dependencies),
    ("items", Kind::Items),
    ("additionalItems", Kind::Schema),
    ("contains", Kind::Schema),
    ("minItems", Kind::Count),
    ("maxItems", Kind::Count),
    ("uniqueItems", Kind::Boolean),
    ("minLength", Kind::Count),
    ("maxLength", Kind::Count),
    ("pattern", Kind::Regex),
    ("format", Kind::Text),
    ("minimum", Kind::Number),
    ("maximum", Kind::Number),
    ("exclusiveMinimum", Kind::Exclusive("minimum")),
    ("exclusiveMaximum", Kind::Exclusive("maximum")),
    ("multipleOf", Kind::Step),
    ("enum", Kind::List),
    ("allOf", Kind::SchemaList),
    ("anyOf", Kind::SchemaList),
    ("oneOf", Kind::SchemaList),
    ("not", Kind::Schema),
    ("if", Kind::Schema),
    ("then", Kind::SchemaBeside("if")),
    ("else", Kind::SchemaBeside("if")),
    ("definitions", Kind::Schemas),
    ("$defs", Kind::Schemas),
    ("prefixItems", Kind::Unsupported("\"items\" with a list")),
    ("minContains", Kind::Unsupported("\"contains\"")),
    ("maxContains", Kind::Unsupported("\"contains\"")),
    ("dependentRequired", Kind::Unsupported("\"dependencies\"")),
    ("dependentSchemas", Kind::Unsupported("\"dependencies\"")),
    ("unevaluatedProperties", Kind::Unsupported("\"additionalProperties\"")),
    ("unevaluatedItems", Kind::Unsupported("\"additionalItems\"")),
    ("$dynamicRef", Kind::Unsupported("\"$ref\"")),
    ("$recursiveRef", Kind::Unsupported("\"$ref\"")),
    ("extends", Kind::Unsupported("\"allOf\"")),
    ("disallow", Kind::Unsupported("\"not\"")),
    ("divisibleBy", Kind::Unsupported("\"multipleOf\"")),
];

/// Keywords that may stand beside `$ref`, because they check nothing there.
const BESIDE_REFERENCE: [&str; 3] = ["$schema", "definitions", "$defs"];

/// `Err`: the pointer of the first fault, and what is wrong there.
pub(super) fn check(document: &Value) -> Result<(), String> {
    Walk::of(document).run()
}

/// Messages for parts of a valid schema that check nothing; each begins with the pointer.
pub(super) fn remarks(document: &Value) -> Vec<String> {
    let mut walk = Walk::of(document);
    let _ = walk.run();
    walk.unknown
}

struct Walk<'a> {
    document: &'a Value,
    /// Targets of references that have been visited.
    followed: HashSet<&'a str>,
    /// Schemas still to be visited, with their pointers.
    pending: Vec<(&'a Value, String)>,
    /// Messages for names that are not keywords.
    unknown: Vec<String>,
}

impl<'a> Walk<'a> {
    fn of(document: &'a Value) -> Walk<'a> {
        let pending = vec![(document, "#".to_owned())];
        Walk { document, followed: HashSet::new(), pending, unknown: Vec::new() }
    }

    fn run(&mut self) -> Result<(), String> {
        while let Some((schema, at)) = self.pending.pop() {
            self.schema(schema, &at)?;
        }
        Ok(())
    }

    fn schema(&mut self, schema: &'a Value, at: &str) -> Result<(), String> {
        let rules = match schema {
            Value::Bool(_) => return Ok(()),
            Value::Object(rules) => rules,
            other => return Err(expected(at, "a schema (an object, true or false)", other)),
        };
        annotations::find_unknown_keywords(
            rules,
            at,
            KEYWORDS.iter().map(|(name, _)| *name),
            &mut self.unknown,
        );
        annotations::find_keywords_of_other_types(rules, at, &mut self.unknown);
        annotations::find_unknown_formats(rules, at, &mut self.unknown);
        for (name, kind) in KEYWORDS {
            if let Some(value) = rules.get(*name) {
                self.keyword(rules, name, *kind, value, &step(at, name))?;
            }
        }
        Ok(())
    }

    fn keyword(
        &mut self,
        rules: &Map<String, Value>,
        name: &str,
        kind: Kind,
        value: &'a Value,
        at: &str,
    ) -> Result<(), String> {
        let is_checked = !BESIDE_REFERENCE.contains(&name) && !matches!(kind, Kind::Reference);
        if is_checked && rules.contains_key("$ref") {
            return Err(format!("{at}: has no effect beside \"$ref\"; put both into \"allOf\""));
        }
        match kind {
            Kind::Schema => self.pending.push((value, at.to_owned())),
            Kind::SchemaBeside(other) if !rules.contains_key(other) => {
                return Err(format!("{at}: has no effect without \"{other}\""));
            }
            Kind::SchemaBeside(_) => self.pending.push((value, at.to_owned())),
            Kind::Items if value.is_array() => self.list(value, at)?,
            Kind::Items => self.pending.push((value, at.to_owned())),
            Kind::SchemaList => self.list(value, at)?,
            Kind::Schemas | Kind::Patterns => {
                let entries = value.as_object().ok_or_else(|| expected(at, "an object of schemas", value))?;
                for (name, schema) in entries {
                    if matches!(kind, Kind::Patterns) {
                        regex(name, &step(at, name))?;
                    }
                    self.pending.push((schema, step(at, name)));
                }
            }
            Kind::Dependencies => self.dependencies(value, at)?,
            Kind::Reference => self.reference(value, at)?,
            Kind::Exclusive(limit) => exclusive(rules, limit, value, at)?,
            Kind::Unsupported(instead) => {
                return Err(format!("{at}: keyword \"{name}\" is not supported; use {instead}"));
            }
            _ => plain(kind, value, at)?,
        }
        Ok(())
    }

    fn list(&mut self, value: &'a Value, at: &str) -> Result<(), String> {
        let schemas = value.as_array().filter(|schemas| !schemas.is_empty());
        let schemas = schemas.ok_or_else(|| expected(at, "a list of at least one schema", value))?;
        let places = schemas.iter().enumerate();
        self.pending.extend(places.map(|(index, schema)| (schema, format!("{at}/{index}"))));
        Ok(())
    }

    fn dependencies(&mut self, value: &'a Value, at: &str) -> Result<(), String> {
        let what = "an object of schemas or lists of names";
        for (name, dependency) in value.as_object().ok_or_else(|| expected(at, what, value))? {
            match dependency {
                Value::Array(_) => names(dependency, &step(at, name))?,
                schema => self.pending.push((schema, step(at, name))),
            }
        }
        Ok(())
    }

    fn reference(&mut self, value: &'a Value, at: &str) -> Result<(), String> {
        let target = value.as_str().ok_or_else(|| expected(at, "a string", value))?;
        let schema = target.strip_prefix('#').and_then(|pointer| self.document.pointer(pointer));
        let schema = schema.ok_or_else(|| {
            format!("{at}: cannot resolve {value}; only pointers into the same schema are supported")
        })?;
        // The target may be below a name that is not a keyword.
        if self.followed.insert(target) {
            self.pending.push((schema, target.to_owned()));
        }
        Ok(())
    }
}

/// Keywords that hold no schemas.
fn plain(kind: Kind, value: &Value, at: &str) -> Result<(), String> {
    let (holds, what) = match kind {
        Kind::Types => return types(value, at),
        Kind::Names => return names(value, at),
        Kind::Regex => match value.as_str() {
            Some(pattern) => return regex(pattern, at),
            None => (false, "a string"),
        },
        Kind::List => (value.is_array(), "an array"),
        Kind::Count => (super::compile::count(value).is_some(), "an integer of at least 0"),
        Kind::Number => (value.is_number(), "a number"),
        Kind::Step => (value.as_f64().is_some_and(|step| step > 0.0), "a number above 0"),
        Kind::Boolean => (value.is_boolean(), "true or false"),
        _ => (value.is_string(), "a string"),
    };
    if holds { Ok(()) } else { Err(expected(at, what, value)) }
}

fn types(value: &Value, at: &str) -> Result<(), String> {
    let known = |name: &Value| {
        let name =
            name.as_str().ok_or_else(|| expected(at, "the name of a type, or a list of them", name))?;
        match Type::ALL.iter().any(|known| known.name() == name) {
            true => Ok(()),
            false => Err(format!("{at}: invalid JSON type: {name}")),
        }
    };
    match value {
        Value::Array(names) if !names.is_empty() => names.iter().try_for_each(known),
        name => known(name),
    }
}

fn names(value: &Value, at: &str) -> Result<(), String> {
    let names = value.as_array().filter(|names| names.iter().all(Value::is_string));
    names.map(|_| ()).ok_or_else(|| expected(at, "an array of strings", value))
}

fn regex(pattern: &str, at: &str) -> Result<(), String> {
    Pattern::compile(pattern).map(|_| ()).map_err(|reason| format!("{at}: {reason}"))
}

/// Draft 4 has a boolean that sharpens `minimum` or `maximum`, later drafts a separate limit.
fn exclusive(rules: &Map<String, Value>, limit: &str, value: &Value, at: &str) -> Result<(), String> {
    match value {
        Value::Bool(true) if !rules.contains_key(limit) => {
            Err(format!("{at}: has no effect without \"{limit}\""))
        }
        Value::Bool(_) | Value::Number(_) => Ok(()),
        other => Err(expected(at, "a number, true or false", other)),
    }
}

fn expected(at: &str, what: &str, value: &Value) -> String {
    const LONGEST_SHOWN: usize = 60;
    let text = value.to_string();
    let shown = match text.char_indices().nth(LONGEST_SHOWN) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text,
    };
    format!("{at}: expected {what}, got {shown}")
}

/// A step further in a JSON pointer (RFC 6901).
fn step(at: &str, name: &str) -> String {
    format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn faults_are_named_with_their_place() {
        let cases = [
            (json!([]), "#: expected a schema (an object, true or false), got []"),
            (
                json!("$env://SCHEMA"),
                "#: expected a schema (an object, true or false), got \"$env://SCHEMA\"",
            ),
            (json!({"required": "name"}), "#/required: expected an array of strings, got \"name\""),
            (json!({"required": ["a", 1]}), "#/required: expected an array of strings, got [\"a\",1]"),
            (json!({"properties": []}), "#/properties: expected an object of schemas, got []"),
            (
                json!({"properties": {"a/b": {"type": "strin"}}}),
                "#/properties/a~1b/type: invalid JSON type: strin",
            ),
            (json!({"type": []}), "#/type: expected the name of a type, or a list of them, got []"),
            (
                json!({"properties": {"a": null}}),
                "#/properties/a: expected a schema (an object, true or false), got null",
            ),
            (
                json!({"items": [{"minLength": -1}]}),
                "#/items/0/minLength: expected an integer of at least 0, got -1",
            ),
            (json!({"maxLength": "3"}), "#/maxLength: expected an integer of at least 0, got \"3\""),
            (json!({"multipleOf": 0}), "#/multipleOf: expected a number above 0, got 0"),
            (json!({"minimum": "1"}), "#/minimum: expected a number, got \"1\""),
            (json!({"exclusiveMinimum": true}), "#/exclusiveMinimum: has no effect without \"minimum\""),
            (
                json!({"exclusiveMaximum": "1"}),
                "#/exclusiveMaximum: expected a number, true or false, got \"1\"",
            ),
            (json!({"anyOf": []}), "#/anyOf: expected a list of at least one schema, got []"),
            (json!({"allOf": {}}), "#/allOf: expected a list of at least one schema, got {}"),
            (json!({"enum": "a"}), "#/enum: expected an array, got \"a\""),
            (json!({"uniqueItems": 1}), "#/uniqueItems: expected true or false, got 1"),
            (
                json!({"additionalProperties": "no"}),
                "#/additionalProperties: expected a schema (an object, true or false), got \"no\"",
            ),
            (json!({"then": {}}), "#/then: has no effect without \"if\""),
            (json!({"dependencies": {"a": [1]}}), "#/dependencies/a: expected an array of strings, got [1]"),
            (
                json!({"$ref": "#/definitions/no"}),
                "#/$ref: cannot resolve \"#/definitions/no\"; only pointers into the same schema are supported",
            ),
            (
                json!({"not": {"$ref": "http://example.org/s.json"}}),
                "#/not/$ref: cannot resolve \"http://example.org/s.json\"; only pointers into the same schema are supported",
            ),
            (
                json!({"$ref": "#/x/a", "x": {"a": {"required": true}}}),
                "#/x/a/required: expected an array of strings, got true",
            ),
            (
                json!({"$ref": "#/definitions/a", "required": ["b"], "definitions": {"a": {}}}),
                "#/required: has no effect beside \"$ref\"; put both into \"allOf\"",
            ),
            (
                json!({"dependentRequired": {"a": ["b"]}}),
                "#/dependentRequired: keyword \"dependentRequired\" is not supported; use \"dependencies\"",
            ),
        ];
        for (schema, fault) in cases {
            assert_eq!(check(&schema).err().as_deref(), Some(fault), "{schema}");
        }
        let broken = check(&json!({"patternProperties": {"(": {}}})).expect_err("a broken pattern");
        assert!(broken.starts_with("#/patternProperties/(: invalid pattern \"(\""), "{broken}");
    }

    #[test]
    fn sound_schemas_of_all_drafts_pass() {
        for schema in [
            json!(true),
            json!({}),
            json!({"type": ["string", "null"], "minLength": 1.0, "maxLength": 2e1, "pattern": "^(?!x)a$"}),
            json!({"minimum": 1, "exclusiveMinimum": true}),
            json!({"exclusiveMinimum": 1.5, "multipleOf": 0.01}),
            json!({"$ref": "#", "definitions": {"a": {"$ref": "#/definitions/a"}}, "description": "recursive"}),
            json!({"properties": {"type": {"enum": [1]}, "required": {"type": "object"}}}),
            json!({"x-note": 1, "example": {"type": 1}, "default": {"required": 1}, "nullable": true}),
            json!({"if": {"required": ["a"]}, "then": {"required": []}, "else": false}),
            json!({"dependencies": {"a": ["b"], "c": {"not": {}}}, "propertyNames": {"maxLength": 3}}),
        ] {
            assert_eq!(check(&schema), Ok(()), "{schema}");
        }
    }
}
