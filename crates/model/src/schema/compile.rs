//! From a schema document to nodes. References are followed inside the document only.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{
    pattern::Pattern,
    rules::{
        Additional, AnyOf, ArrayRules, Condition, Contains, DEPTH_LIMIT, Dependency, Format, Index, Items,
        Node, NumberRules, ObjectRules, Property, References, Schema, StringRules, Type, Types,
    },
};

pub(super) fn compile(document: &Value, takes: References) -> Result<Schema, String> {
    let mut compiler = Compiler { document, nodes: Vec::new(), references: HashMap::new(), takes };
    let root = compiler.node(document, 0)?;
    Ok(Schema { nodes: compiler.nodes, root, is_of_configuration: true })
}

/// A length or number of entries; `3.0` is the same as `3`.
pub(super) fn count(value: &Value) -> Option<u64> {
    let float = || value.as_f64().filter(|count| *count >= 0.0 && count.fract() == 0.0);
    // Saturates: nothing has more.
    value.as_u64().or_else(|| float().map(|count| count as u64))
}

/// The cost of copying a value, in steps of a check.
fn weight(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(weight).sum::<usize>(),
        Value::Object(entries) => {
            1 + entries.iter().map(|(name, entry)| 1 + name.len() / 64 + weight(entry)).sum::<usize>()
        }
        Value::String(text) => 1 + text.len() / 64,
        _ => 1,
    }
}

struct Compiler<'a> {
    document: &'a Value,
    nodes: Vec<Node>,
    /// Where each `$ref` leads: filled before its target is compiled, so that recursion ends.
    references: HashMap<&'a str, Index>,
    takes: References,
}

impl<'a> Compiler<'a> {
    fn node(&mut self, schema: &'a Value, depth: usize) -> Result<Index, String> {
        if depth > DEPTH_LIMIT {
            return Err(format!("schema is nested deeper than {DEPTH_LIMIT} levels"));
        }
        let index = self.reserve();
        self.fill(index, schema, depth)?;
        Ok(index)
    }

    fn reserve(&mut self) -> Index {
        self.nodes.push(Node::default());
        self.nodes.len() - 1
    }

    fn fill(&mut self, index: Index, schema: &'a Value, depth: usize) -> Result<(), String> {
        let node = match schema {
            Value::Bool(always) => Node { always: Some(*always), ..Node::default() },
            Value::Object(rules) => match rules.get("$ref") {
                Some(Value::String(target)) => {
                    let target = self.reference(target, depth)?;
                    Node { same_as: Some(target), ..Node::default() }
                }
                _ => self.rules(rules, depth)?,
            },
            // The library treats anything that is not a table as "no rules at all".
            _ => Node::default(),
        };
        if let Some(slot) = self.nodes.get_mut(index) {
            *slot = Node { takes_references: matches!(self.takes, References::Everywhere), ..node };
        }
        Ok(())
    }

    fn reference(&mut self, target: &'a str, depth: usize) -> Result<Index, String> {
        if let Some(index) = self.references.get(target) {
            return Ok(*index);
        }
        let pointer =
            target.strip_prefix('#').ok_or_else(|| format!("cannot resolve reference \"{target}\""))?;
        let document = self.document;
        let schema = if pointer.is_empty() { Some(document) } else { document.pointer(pointer) };
        let schema = schema.ok_or_else(|| format!("cannot resolve reference \"{target}\""))?;
        if depth > DEPTH_LIMIT {
            return Err(format!("schema is nested deeper than {DEPTH_LIMIT} levels"));
        }
        let index = self.reserve();
        self.references.insert(target, index);
        self.fill(index, schema, depth + 1)?;
        Ok(index)
    }

    fn rules(&mut self, rules: &'a Map<String, Value>, depth: usize) -> Result<Node, String> {
        let mut node = Node { types: types(rules.get("type"))?, ..Node::default() };
        const OBJECT_RULES: [&str; 7] = [
            "properties",
            "additionalProperties",
            "patternProperties",
            "minProperties",
            "maxProperties",
            "dependencies",
            "required",
        ];
        if OBJECT_RULES.iter().any(|rule| rules.contains_key(*rule)) {
            node.object = Some(Box::new(self.object(rules, depth + 1)?));
        }
        if ["items", "minItems", "maxItems", "uniqueItems"].iter().any(|rule| rules.contains_key(*rule)) {
            node.array = Some(Box::new(self.array(rules, depth + 1)?));
        }
        node.string = string(rules)?;
        node.number = number(rules);
        node.allowed = rules.get("enum").and_then(Value::as_array).cloned();
        node.all_of = self.list(rules.get("allOf"), depth + 1)?.unwrap_or_default();
        if let Some(schemas) = self.list(rules.get("anyOf"), depth + 1)? {
            node.any_of = Some(AnyOf { schemas, hint: hint(rules.get("anyOf")) });
        }
        node.one_of = self.list(rules.get("oneOf"), depth + 1)?;
        if let Some(condition) = rules.get("if") {
            node.condition = Some(Condition {
                condition: self.node(condition, depth + 1)?,
                matched: self.optional(rules.get("then"), depth + 1)?,
                unmatched: self.optional(rules.get("else"), depth + 1)?,
            });
        }
        node.not = self.optional(rules.get("not"), depth + 1)?;
        node.property_names = self.optional(rules.get("propertyNames"), depth + 1)?;
        node.format = format(rules.get("format"))?;
        node.constant = rules.get("const").cloned();
        node.contains = match rules.get("contains") {
            None => None,
            Some(Value::Bool(true)) => Some(Contains::Always),
            Some(Value::Bool(false)) => Some(Contains::Never),
            Some(schema) => Some(Contains::Schema(self.node(schema, depth + 1)?)),
        };
        Ok(node)
    }

    fn optional(&mut self, schema: Option<&'a Value>, depth: usize) -> Result<Option<Index>, String> {
        schema.map(|schema| self.node(schema, depth)).transpose()
    }

    fn list(&mut self, schemas: Option<&'a Value>, depth: usize) -> Result<Option<Vec<Index>>, String> {
        let Some(schemas) = schemas.and_then(Value::as_array) else { return Ok(None) };
        schemas.iter().map(|schema| self.node(schema, depth)).collect::<Result<_, _>>().map(Some)
    }

    fn object(&mut self, rules: &'a Map<String, Value>, depth: usize) -> Result<ObjectRules, String> {
        let mut required = names(rules.get("required"));
        let must_be_empty = match rules.get("required") {
            Some(Value::Array(list)) => list.is_empty(),
            Some(Value::Object(list)) => list.is_empty(),
            _ => false,
        };
        let mut dependencies = Vec::new();
        for (name, dependency) in entries(rules.get("dependencies")) {
            dependencies.push((name.clone(), self.dependency(dependency, depth)?));
        }
        let mut properties = Vec::new();
        for (name, schema) in entries(rules.get("properties")) {
            let dependency = dependencies.iter().position(|(of, _)| of == name);
            let wanted = required.iter().position(|of| of == name);
            let index = self.node(schema, depth)?;
            if let (References::In(names), Some(node)) = (self.takes, self.nodes.get_mut(index)) {
                node.takes_references = names.contains(&name.as_str());
            }
            let default = schema.get("default").filter(|value| !value.is_null()).cloned();
            properties.push(Property {
                name: name.clone(),
                schema: index,
                required: wanted.map(|position| required.remove(position)).is_some(),
                default_weight: default.as_ref().map_or(0, weight),
                default,
                dependency: dependency.map(|position| dependencies.remove(position).1),
            });
        }
        let mut patterns = Vec::new();
        for (pattern, schema) in entries(rules.get("patternProperties")) {
            patterns.push((Pattern::compile(pattern)?, self.node(schema, depth)?));
        }
        Ok(ObjectRules {
            properties,
            required,
            must_be_empty,
            dependencies,
            patterns,
            additional: self.additional(rules.get("additionalProperties"), depth)?,
            minimum: rules.get("minProperties").and_then(count),
            maximum: rules.get("maxProperties").and_then(count),
        })
    }

    fn dependency(&mut self, dependency: &'a Value, depth: usize) -> Result<Dependency, String> {
        Ok(match dependency {
            Value::Array(_) => Dependency::Names(names(Some(dependency))),
            schema => Dependency::Schema(self.node(schema, depth)?),
        })
    }

    fn additional(&mut self, rule: Option<&'a Value>, depth: usize) -> Result<Additional, String> {
        Ok(match rule {
            None | Some(Value::Bool(true)) => Additional::Allowed,
            Some(schema @ Value::Object(_)) => Additional::Checked(self.node(schema, depth)?),
            Some(_) => Additional::Forbidden,
        })
    }

    fn array(&mut self, rules: &'a Map<String, Value>, depth: usize) -> Result<ArrayRules, String> {
        let items = match rules.get("items") {
            None | Some(Value::Bool(true)) => Items::Any,
            Some(Value::Bool(false)) => Items::Never,
            Some(Value::Array(schemas)) if !schemas.is_empty() => {
                let additional = match rules.get("additionalItems") {
                    Some(Value::Bool(false)) => Additional::Forbidden,
                    Some(schema @ Value::Object(_)) => Additional::Checked(self.node(schema, depth)?),
                    _ => Additional::Allowed,
                };
                let schemas = schemas.iter().map(|schema| self.node(schema, depth));
                Items::Tuple(schemas.collect::<Result<_, _>>()?, additional)
            }
            Some(schema) => Items::Each(self.node(schema, depth)?),
        };
        Ok(ArrayRules {
            minimum: rules.get("minItems").and_then(count),
            maximum: rules.get("maxItems").and_then(count),
            items,
            unique: rules.get("uniqueItems") == Some(&Value::Bool(true)),
        })
    }
}

fn entries(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_object).into_iter().flatten()
}

fn names(value: Option<&Value>) -> Vec<String> {
    let list = value.and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn types(value: Option<&Value>) -> Result<Option<Types>, String> {
    match value {
        None => Ok(None),
        Some(Value::String(name)) => Ok(Some(Types::One(type_of(name)?))),
        Some(Value::Array(list)) => {
            let list = list.iter().filter_map(Value::as_str).map(type_of);
            Ok(Some(Types::Several(list.collect::<Result<_, _>>()?)))
        }
        Some(other) => Err(format!("invalid \"type\" type: got {}", super::lua::type_name(other))),
    }
}

fn type_of(name: &str) -> Result<Type, String> {
    Type::ALL
        .into_iter()
        .find(|candidate| candidate.name() == name)
        .ok_or_else(|| format!("invalid JSON type: {name}"))
}

fn string(rules: &Map<String, Value>) -> Result<Option<Box<StringRules>>, String> {
    let string = StringRules {
        minimum: rules.get("minLength").and_then(count),
        maximum: rules.get("maxLength").and_then(count),
        pattern: rules.get("pattern").and_then(Value::as_str).map(Pattern::compile).transpose()?,
    };
    let any = string.minimum.is_some() || string.maximum.is_some() || string.pattern.is_some();
    Ok(any.then(|| Box::new(string)))
}

fn number(rules: &Map<String, Value>) -> Option<Box<NumberRules>> {
    let rule = |name: &str| rules.get(name).and_then(Value::as_f64);
    // In draft 4, a boolean excludes the limit itself.
    let exclusive = |name: &str, limit: &str| match rules.get(name) {
        Some(Value::Bool(true)) => rule(limit),
        _ => rule(name),
    };
    let number = NumberRules {
        minimum: rule("minimum"),
        exclusive_minimum: exclusive("exclusiveMinimum", "minimum"),
        maximum: rule("maximum"),
        exclusive_maximum: exclusive("exclusiveMaximum", "maximum"),
        multiple_of: rule("multipleOf").filter(|value| *value != 0.0),
    };
    let NumberRules { minimum, exclusive_minimum, maximum, exclusive_maximum, multiple_of } = &number;
    let any = [minimum, exclusive_minimum, maximum, exclusive_maximum, multiple_of];
    any.iter().any(|rule| rule.is_some()).then(|| Box::new(number))
}

fn hint(schemas: Option<&Value>) -> String {
    let schemas = schemas.and_then(Value::as_array).into_iter().flatten();
    let lists: Vec<String> =
        schemas.filter_map(|schema| schema.get("required")).map(Value::to_string).collect();
    if lists.is_empty() { String::new() } else { format!(": {}", lists.join(" or ")) }
}

/// The formats that are checked.
pub(super) const FORMATS: [&str; 8] =
    ["ipv4", "ipv6", "email", "hostname", "uuid", "date", "date-time", "uri"];

fn format(name: Option<&Value>) -> Result<Option<Format>, String> {
    let Some(name) = name.and_then(Value::as_str) else { return Ok(None) };
    let pattern = match name {
        "ipv4" => return Ok(Some(Format::Ipv4)),
        "ipv6" => return Ok(Some(Format::Ipv6)),
        "email" => ("email", r"^([A-Za-z0-9_\-.])+@([A-Za-z0-9_\-.])+\.([A-Za-z]{2,4})$"),
        "hostname" => ("hostname", r"^[a-zA-Z0-9\-.]+$"),
        "uuid" => ("uuid", r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"),
        "date" => ("date", r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$"),
        "date-time" => (
            "date-time",
            r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])[Tt]([01]\d|2[0-3])(:[0-5]\d){2}(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)$",
        ),
        "uri" => ("uri", r"^[a-zA-Z][a-zA-Z0-9+\-.]*:\S*$"),
        _ => return Ok(None),
    };
    Ok(Some(Format::Pattern(pattern.0, Pattern::compile(pattern.1)?)))
}
