//! The checks, in the order in which the Lua library makes them.

use serde_json::{Map, Number, Value};
use tidegate_backtrack::SearchTime;

use super::{
    budget::{Budget, Depth, Failure},
    equality::{check_unique, equal, is_empty_table},
    lua,
    rules::{
        Additional, ArrayRules, Contains, DEPTH_LIMIT, Dependency, Format, Index, Items, Node, NumberRules,
        ObjectRules, Schema, StringRules, Type, Types, is_secret_reference,
    },
};
use crate::nearest::{hint, nearest};

pub(super) fn check_root(
    schema: &Schema,
    value: &mut Value,
    steps: u32,
    searches: &SearchTime,
) -> Result<(), Failure> {
    let budget = Budget::new(steps, searches);
    match check(schema, schema.root, value, budget.depth()) {
        // Below `not` and the like, a check that gave up must not count as a failed one.
        _ if budget.is_spent() => Err(Failure::Spent(budget.message())),
        Ok(()) if budget.is_unfinished() => Err(Failure::Spent("value takes too long to check".into())),
        Err(reason) if budget.is_unfinished() => Err(Failure::Spent(reason)),
        result => result.map_err(Failure::Invalid),
    }
}

fn check(schema: &Schema, index: Index, value: &mut Value, depth: Depth<'_>) -> Result<(), String> {
    depth.spend(1)?;
    if depth.level > DEPTH_LIMIT {
        return depth.give_up(format!("value is nested deeper than {DEPTH_LIMIT} levels"));
    }
    let Some(node) = schema.nodes.get(index) else { return Ok(()) };
    match node.always {
        Some(true) => return Ok(()),
        Some(false) => return Err("expect false always".into()),
        None => {}
    }
    if let Some(target) = node.same_as {
        return check(schema, target, value, depth + 1);
    }
    if node.takes_references && skipped(node, value) {
        return Ok(());
    }
    if let Some(types) = &node.types {
        check_type(types, value)?;
    }
    if let Some(rules) = &node.object {
        check_object(schema, rules, value, depth + 1)?;
    }
    if let Some(rules) = &node.array {
        check_array(schema, rules, value, depth + 1)?;
    }
    if let (Some(rules), Value::String(text)) = (&node.string, &*value) {
        check_string(rules, text, depth)?;
    }
    if let (Some(rules), Value::Number(number)) = (&node.number, &*value) {
        check_number(rules, number.as_f64().unwrap_or(f64::NAN))?;
    }
    if let Some(allowed) = &node.allowed {
        depth.spend(allowed.len() / 8)?;
    }
    if let Some(allowed) = &node.allowed
        && !allowed.iter().any(|candidate| equal(candidate, value))
    {
        let hint = value.as_str().map(|word| hint(word, allowed.iter().filter_map(Value::as_str)));
        return Err(format!("matches none of the enum values{}", hint.unwrap_or_default()));
    }
    check_combined(schema, node, value, depth + 1)?;
    check_rest(schema, node, value, depth + 1)
}

/// Secrets are resolved later; references are checked only where a schema requires another type than string.
fn skipped(node: &Node, value: &Value) -> bool {
    let text_allowed = matches!(node.types, None | Some(Types::One(Type::String)));
    text_allowed && value.as_str().is_some_and(is_secret_reference)
}

fn check_type(types: &Types, value: &Value) -> Result<(), String> {
    match types {
        Types::One(Type::Integer) if matches!(value, Value::Number(number) if is_whole(number) && !fits(number)) => {
            Err(format!("{value} does not fit in a 64-bit integer"))
        }
        Types::One(wanted) if !is(*wanted, value) => {
            Err(format!("wrong type: expected {}, got {}", wanted.name(), lua::type_name(value)))
        }
        Types::Several(wanted) if !wanted.iter().any(|wanted| is(*wanted, value)) => {
            let names: Vec<&str> = wanted.iter().map(|wanted| wanted.name()).collect();
            let got = lua::type_name(value);
            Err(format!("wrong type: expected one of {}, got {got}", names.join(", ")))
        }
        _ => Ok(()),
    }
}

fn is(wanted: Type, value: &Value) -> bool {
    match (wanted, value) {
        (Type::Object, Value::Array(items)) => items.is_empty(),
        (Type::Array, Value::Object(entries)) => entries.is_empty(),
        (Type::Object | Type::Table, Value::Object(_))
        | (Type::Array | Type::Table, Value::Array(_))
        | (Type::Number, Value::Number(_))
        | (Type::String, Value::String(_))
        | (Type::Boolean, Value::Bool(_))
        | (Type::Null, Value::Null) => true,
        (Type::Integer, Value::Number(number)) => is_whole(number) && fits(number),
        _ => false,
    }
}

fn is_whole(number: &Number) -> bool {
    number.as_f64().is_some_and(|number| number.fract() == 0.0)
}

/// Lua has no integers, and accepts `1e300` as one. No code here could use it.
fn fits(number: &Number) -> bool {
    const BEYOND: f64 = 18_446_744_073_709_551_616.0;
    number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|number| number.abs() < BEYOND / 2.0)
}

fn check_object(
    schema: &Schema,
    rules: &ObjectRules,
    value: &mut Value,
    depth: Depth<'_>,
) -> Result<(), String> {
    if rules.must_be_empty && !is_empty_table(value) {
        return Err("the input data should be an empty table".into());
    }
    if matches!(value, Value::Array(items) if items.is_empty()) {
        // Put back below when no default was filled in, so that a plain check leaves values alone.
        let mut entries = Value::Object(Map::new());
        check_entries(schema, rules, &mut entries, depth)?;
        if !is_empty_table(&entries) {
            *value = entries;
        }
        return Ok(());
    }
    if value.is_object() { check_entries(schema, rules, value, depth) } else { Ok(()) }
}

fn check_entries(
    schema: &Schema,
    rules: &ObjectRules,
    value: &mut Value,
    depth: Depth<'_>,
) -> Result<(), String> {
    depth.spend((rules.properties.len() + rules.required.len()) / 8)?;
    for property in &rules.properties {
        let name = &property.name;
        match value.get_mut(name) {
            Some(found) => {
                check(schema, property.schema, found, depth)
                    .map_err(|error| format!("property \"{name}\" validation failed: {error}"))?;
                if let Some(dependency) = &property.dependency {
                    check_dependency(schema, name, dependency, value, depth)?;
                }
            }
            None if property.required => return Err(missing(schema, rules, name, value)),
            None => {
                if let (Some(default), Value::Object(entries)) = (&property.default, &mut *value) {
                    depth.spend(property.default_weight)?;
                    entries.insert(name.clone(), default.clone());
                }
            }
        }
    }
    for name in &rules.required {
        if value.get(name).is_none() {
            return Err(missing(schema, rules, name, value));
        }
    }
    for (name, dependency) in &rules.dependencies {
        if value.get(name).is_some() {
            check_dependency(schema, name, dependency, value, depth)?;
        }
    }
    check_other_entries(schema, rules, value, depth)?;
    let count = value.as_object().map_or(0, Map::len) as u64;
    if let Some(minimum) = rules.minimum.filter(|minimum| count < *minimum) {
        return Err(format!("expect object to have at least {minimum} properties"));
    }
    if let Some(maximum) = rules.maximum.filter(|maximum| count > *maximum) {
        return Err(format!("expect object to have at most {maximum} properties"));
    }
    Ok(())
}

/// How many names are compared with the missing one, for a misspelling.
const MOST_COMPARED: usize = 64;

fn missing(schema: &Schema, rules: &ObjectRules, name: &str, value: &Value) -> String {
    // Hints are for configurations, not for data of clients.
    let fields = value.as_object().filter(|_| schema.is_of_configuration).into_iter().flatten();
    let is_known = |field: &str| rules.properties.iter().any(|property| property.name == field);
    let mut unknown = fields.map(|(field, _)| field).filter(|field| !is_known(field)).take(MOST_COMPARED);
    let meant = unknown.find(|field| nearest(field, [name]).is_some());
    let hint = meant.map(|field| format!("; unknown field {field:?}, did you mean {name}?"));
    format!("property \"{name}\" is required{}", hint.unwrap_or_default())
}

fn check_dependency(
    schema: &Schema,
    name: &str,
    dependency: &Dependency,
    value: &mut Value,
    depth: Depth<'_>,
) -> Result<(), String> {
    match dependency {
        Dependency::Names(names) => match names.iter().find(|wanted| value.get(wanted.as_str()).is_none()) {
            Some(missing) => Err(format!("property \"{missing}\" is required when \"{name}\" is set")),
            None => Ok(()),
        },
        Dependency::Schema(index) => check(schema, *index, value, depth)
            .map_err(|error| format!("failed to validate dependent schema for \"{name}\": {error}")),
    }
}

fn check_other_entries(
    schema: &Schema,
    rules: &ObjectRules,
    value: &mut Value,
    depth: Depth<'_>,
) -> Result<(), String> {
    if rules.patterns.is_empty() && matches!(rules.additional, Additional::Allowed) {
        return Ok(());
    }
    let Value::Object(entries) = value else { return Ok(()) };
    for (name, entry) in entries.iter_mut() {
        depth.spend(1 + rules.properties.len() / 8)?;
        let mut matched = false;
        for (pattern, index) in &rules.patterns {
            if depth.matches(pattern, name)? {
                matched = true;
                let source = &pattern.source;
                check(schema, *index, entry, depth)
                    .map_err(|error| format!("failed to validate {name} (matching \"{source}\"): {error}"))?;
            }
        }
        if matched || rules.properties.iter().any(|property| property.name == *name) {
            continue;
        }
        match rules.additional {
            Additional::Allowed => {}
            Additional::Forbidden => {
                let hint = hint(name, rules.properties.iter().map(|property| property.name.as_str()));
                return Err(format!("additional properties forbidden, found {name}{hint}"));
            }
            Additional::Checked(index) => check(schema, index, entry, depth)
                .map_err(|error| format!("failed to validate additional property {name}: {error}"))?,
        }
    }
    Ok(())
}

fn check_array(
    schema: &Schema,
    rules: &ArrayRules,
    value: &mut Value,
    depth: Depth<'_>,
) -> Result<(), String> {
    if matches!(rules.items, Items::Never) {
        return if is_empty_table(value) { Ok(()) } else { Err("expect false always".into()) };
    }
    let mut none = Vec::new();
    let items = match value {
        Value::Array(items) => items,
        Value::Object(entries) if entries.is_empty() => &mut none,
        _ => return Ok(()),
    };
    let count = items.len() as u64;
    if let Some(minimum) = rules.minimum.filter(|minimum| count < *minimum) {
        return Err(format!("expect array to have at least {minimum} items"));
    }
    if let Some(maximum) = rules.maximum.filter(|maximum| count > *maximum) {
        return Err(format!("expect array to have at most {maximum} items"));
    }
    for (position, item) in items.iter_mut().enumerate() {
        let number = position + 1;
        let (index, kind) = match &rules.items {
            Items::Each(index) => (*index, "item"),
            Items::Tuple(schemas, additional) => match (schemas.get(position), additional) {
                (Some(index), _) => (*index, "item"),
                (None, Additional::Allowed) => continue,
                (None, Additional::Forbidden) => return Err("found unexpected extra items in array".into()),
                (None, Additional::Checked(index)) => (*index, "additional item"),
            },
            Items::Any | Items::Never => break,
        };
        check(schema, index, item, depth)
            .map_err(|error| format!("failed to validate {kind} {number}: {error}"))?;
    }
    if rules.unique { check_unique(items, depth) } else { Ok(()) }
}

fn check_string(rules: &StringRules, text: &str, depth: Depth<'_>) -> Result<(), String> {
    depth.spend_on_text(text)?;
    let length = text.chars().count() as u64;
    if let Some(minimum) = rules.minimum.filter(|minimum| length < *minimum) {
        return Err(format!("string too short, expected at least {minimum}, got {length}"));
    }
    if let Some(maximum) = rules.maximum.filter(|maximum| length > *maximum) {
        return Err(format!("string too long, expected at most {maximum}, got {length}"));
    }
    match &rules.pattern {
        Some(pattern) if !depth.matches(pattern, text)? => Err(format!(
            "failed to match pattern {} with {}",
            lua::quoted(&pattern.source),
            lua::quoted(text)
        )),
        _ => Ok(()),
    }
}

fn check_number(rules: &NumberRules, number: f64) -> Result<(), String> {
    let ranges = [
        (rules.minimum.filter(|limit| number < *limit), "at least"),
        (rules.exclusive_minimum.filter(|limit| number <= *limit), "greater than"),
        (rules.maximum.filter(|limit| number > *limit), "at most"),
        (rules.exclusive_maximum.filter(|limit| number >= *limit), "smaller than"),
    ];
    for (limit, word) in ranges {
        if let Some(limit) = limit {
            return Err(format!("expected {} to be {word} {}", lua::number(number), lua::number(limit)));
        }
    }
    let Some(step) = rules.multiple_of else { return Ok(()) };
    let broken = if step.fract() == 0.0 {
        number % step != 0.0
    } else {
        // 1.13 / 0.01 is 112.99999999999999: allow for the rounding of binary fractions.
        let quotient = number / step;
        let rounded = (quotient + 0.5).floor();
        let magnitude = if rounded == 0.0 { 1.0 } else { rounded.abs() };
        (quotient - rounded).abs() > 1e-12 * magnitude
    };
    if broken {
        return Err(format!("expected {} to be a multiple of {}", lua::number(number), lua::number(step)));
    }
    Ok(())
}

fn check_combined(schema: &Schema, node: &Node, value: &mut Value, depth: Depth<'_>) -> Result<(), String> {
    for (position, index) in node.all_of.iter().enumerate() {
        check(schema, *index, value, depth)
            .map_err(|error| format!("allOf {} failed: {error}", position + 1))?;
    }
    if let Some(any_of) = &node.any_of
        && !any_of.schemas.iter().any(|index| check(schema, *index, value, depth).is_ok())
    {
        return Err(format!("object matches none of the required{}", any_of.hint));
    }
    if let Some(one_of) = &node.one_of {
        let mut matched = None;
        for (position, index) in one_of.iter().enumerate() {
            if check(schema, *index, value, depth).is_ok() {
                let number = position + 1;
                if let Some(first) = matched {
                    return Err(format!(
                        "value should match only one schema, but matches both schemas {first} and {number}"
                    ));
                }
                matched = Some(number);
            }
        }
        if matched.is_none() {
            return Err("value should match only one schema, but matches none".into());
        }
    }
    Ok(())
}

fn check_rest(schema: &Schema, node: &Node, value: &mut Value, depth: Depth<'_>) -> Result<(), String> {
    if let Some(condition) = &node.condition {
        let matched = check(schema, condition.condition, value, depth).is_ok();
        let (branch, word) =
            if matched { (condition.matched, "then") } else { (condition.unmatched, "else") };
        if branch.is_some_and(|branch| check(schema, branch, value, depth).is_err()) {
            return Err(format!("{word} clause did not match"));
        }
    }
    if node.not.is_some_and(|not| check(schema, not, value, depth).is_ok()) {
        return Err("value wasn't supposed to match schema".into());
    }
    if let (Some(names), Value::Object(entries)) = (node.property_names, &*value) {
        for name in entries.keys() {
            depth.spend_on_text(name)?;
            check(schema, names, &mut Value::from(name.as_str()), depth)
                .map_err(|error| format!("property name \"{name}\" is invalid: {error}"))?;
        }
    }
    if let (Some(format), Value::String(text)) = (&node.format, &*value) {
        check_format(format, text, depth)?;
    }
    if node.constant.as_ref().is_some_and(|constant| !equal(constant, value)) {
        return Err("failed to check const value".into());
    }
    node.contains.as_ref().map_or(Ok(()), |contains| check_contains(schema, contains, value, depth))
}

fn check_format(format: &Format, text: &str, depth: Depth<'_>) -> Result<(), String> {
    depth.spend_on_text(text)?;
    let (name, valid) = match format {
        Format::Ipv4 => ("ipv4", text.parse::<std::net::Ipv4Addr>().is_ok()),
        Format::Ipv6 => ("ipv6", text.parse::<std::net::Ipv6Addr>().is_ok()),
        Format::Pattern(name, pattern) => (*name, depth.matches(pattern, text)?),
    };
    if valid { Ok(()) } else { Err(format!("expect valid {name} format but got: {text}")) }
}

fn check_contains(
    schema: &Schema,
    contains: &Contains,
    value: &mut Value,
    depth: Depth<'_>,
) -> Result<(), String> {
    let filled = value.as_array().is_some_and(|items| !items.is_empty());
    match contains {
        Contains::Always if filled => Ok(()),
        Contains::Always => Err("check contains: expect array table".into()),
        Contains::Never if value.is_array() || value.is_object() => {
            Err("check contains: expect table".into())
        }
        Contains::Never => Ok(()),
        Contains::Schema(_) if is_empty_table(value) => Err("check contains: empty array is invalid".into()),
        Contains::Schema(index) => {
            let Value::Array(items) = value else { return Ok(()) };
            let mut found = false;
            for item in items {
                found = check(schema, *index, item, depth).is_ok();
                if found || depth.budget.is_spent() {
                    break;
                }
            }
            if found { Ok(()) } else { Err("failed to check contains".into()) }
        }
    }
}
