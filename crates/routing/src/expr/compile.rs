//! From the JSON of a rule to the tree that is evaluated. Quirks that a valid APISIX configuration may depend on
//! are kept and marked.

use serde_json::Value;

use super::{
    comparison::Comparison,
    tree::{Logic, Node},
};

/// Nesting deeper than this is refused; a hand-written rule has two or three levels.
const MAX_DEPTH: usize = 64;

const TOO_SHORT: &str = "rule too short";
const INVALID: &str = "invalid expression";

pub(super) fn rule<N>(rule: &Value, resolve: &mut dyn FnMut(&str) -> N) -> Result<Option<Node<N>>, String> {
    let items = match rule {
        Value::Array(items) => items.as_slice(),
        // An object is an empty list to Lua.
        Value::Object(_) => &[],
        _ => return Err("missing argument rule".to_owned()),
    };
    match items.first() {
        None => Ok(None),
        Some(Value::Array(_) | Value::Object(_)) => node(items, resolve, 0).map(Some),
        Some(first) if logic(first).is_some() => node(items, resolve, 0).map(Some),
        Some(_) => Err("rule should be wrapped inside brackets".to_owned()),
    }
}

fn node<N>(items: &[Value], resolve: &mut dyn FnMut(&str) -> N, depth: usize) -> Result<Node<N>, String> {
    if depth > MAX_DEPTH {
        return Err("rule nested too deeply".to_owned());
    }
    let Some(first) = items.first() else { return Err(TOO_SHORT.to_owned()) };
    if first.is_array() || first.is_object() {
        return Ok(Node::Group { logic: Logic::And, children: children(items, resolve, depth)? });
    }
    if let Some(logic) = logic(first) {
        if items.len() <= 2 {
            return Err(TOO_SHORT.to_owned());
        }
        return Ok(Node::Group { logic, children: children(&items[1..], resolve, depth)? });
    }
    test(items, resolve)
}

fn children<N>(
    items: &[Value],
    resolve: &mut dyn FnMut(&str) -> N,
    depth: usize,
) -> Result<Vec<Node<N>>, String> {
    items
        .iter()
        .map(|item| match item {
            Value::Array(items) => node(items, resolve, depth + 1),
            Value::Object(_) => Err(TOO_SHORT.to_owned()),
            _ => Err(INVALID.to_owned()),
        })
        .collect()
}

/// `[name, operator, value]`, `[name, "!", operator, value]` or, kept for old configurations, `[name, value]`.
fn test<N>(items: &[Value], resolve: &mut dyn FnMut(&str) -> N) -> Result<Node<N>, String> {
    let negated = items.len() == 4;
    if negated && items.get(1).and_then(Value::as_str) != Some("!") {
        return Err("bad 'not' expression".to_owned());
    }
    let rest = if negated { &items[2..] } else { items.get(1..).unwrap_or_default() };
    let name = items.first().and_then(Value::as_str).ok_or(INVALID)?;
    let operator = rest.first().and_then(text).ok_or(INVALID)?.to_ascii_lowercase();
    let comparison = match rest.get(1) {
        Some(value) => Comparison::new(&operator, value)?,
        // With APISIX's own message.
        None if operator == "ipmatch" => Comparison::new(&operator, &Value::Null)?,
        None if Comparison::needs_value(&operator) => {
            return Err(format!("operator '{operator}' needs a value to compare with"));
        }
        // The value has been lower-cased as if it were an operator: so does APISIX.
        None => Comparison::new("==", &Value::String(operator))?,
    };
    if !is_name(name) {
        return Err(format!("unknown variable {name:?}; write its name without $ and brackets, as in uri"));
    }
    Ok(Node::Test { name: resolve(name), negated, comparison })
}

/// After these prefixes the client chooses the name: of an argument, a cookie, a header, or a path into a
/// body.
const FREE: [&str; 5] = ["arg_", "cookie_", "post_arg_", "post_arg.", "http_"];

/// Whether a request can have a variable of that name. Plugins may set others than those that are known.
fn is_name(name: &str) -> bool {
    FREE.iter().any(|prefix| name.len() > prefix.len() && name.starts_with(prefix))
        || (!name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte)))
}

fn logic(value: &Value) -> Option<Logic> {
    let name = value.as_str()?;
    [("AND", Logic::And), ("OR", Logic::Or), ("!AND", Logic::NotAnd), ("!OR", Logic::NotOr)]
        .into_iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(name))
        .map(|(_, logic)| logic)
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
