//! Conditions that can never hold as written: a guard behind one never acts.

use serde_json::Value;

use crate::{Kind, Object};

/// An object with conditions has at least one of these fields.
const WORDS: [&str; 6] = ["vars", "filter", "case", "workflow", "traffic-split", "match"];

const OPERATORS: [&str; 11] = ["==", "~=", ">", ">=", "<", "<=", "~~", "~*", "in", "has", "ipmatch"];

/// Variables whose values are strings, besides the families below. Body fields may have any type.
const TEXTS: [&str; 16] = [
    "host",
    "method",
    "remote_addr",
    "realip_remote_addr",
    "request_method",
    "request_uri",
    "uri",
    "scheme",
    "args",
    "query_string",
    "server_addr",
    "server_name",
    "consumer_name",
    "content_type",
    "https",
    "server_protocol",
];
/// Variables that get their value after the route is chosen, besides the families below.
const LATE: [&str; 12] = [
    "consumer_name",
    "consumer_group_id",
    "credential_id",
    "route_id",
    "route_name",
    "service_id",
    "service_name",
    "balancer_ip",
    "balancer_port",
    "status",
    "body_bytes_sent",
    "bytes_sent",
];
const LATE_FAMILIES: [&str; 3] = ["upstream_", "sent_http_", "resp_"];
const FAMILIES: [&str; 3] = ["http_", "arg_", "cookie_"];

pub(super) fn of(object: &Object) -> Vec<String> {
    let mut found = Vec::new();
    if WORDS.iter().any(|word| object.document.may_have(word)) {
        let value = object.value();
        walk(&value, &mut found);
        if object.kind == Kind::Route {
            value.get("vars").into_iter().for_each(|vars| late(vars, &mut found));
        }
    }
    found
}

/// Of a route's own conditions: variables that have no value yet.
fn late(value: &Value, found: &mut Vec<String>) {
    let Some(items) = value.as_array() else { return };
    if let [Value::String(name), Value::String(_), _, ..] = items.as_slice()
        && (LATE.contains(&name.as_str()) || LATE_FAMILIES.iter().any(|family| name.starts_with(family)))
    {
        found.push(format!(
            "vars: {name} is empty when routes are matched, before authentication and the upstream; \
             write the condition in a plugin, such as consumer-restriction or _meta.filter"
        ));
    }
    items.iter().for_each(|item| late(item, found));
}

fn walk(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => members.values().for_each(|member| walk(member, found)),
        Value::Array(items) => {
            match items.as_slice() {
                [Value::String(name), Value::String(operator), right] => {
                    test(name, operator, false, right, found)
                }
                [Value::String(name), Value::String(not), Value::String(operator), right] if not == "!" => {
                    test(name, operator, true, right, found);
                }
                _ => {}
            }
            items.iter().for_each(|item| walk(item, found));
        }
        _ => {}
    }
}

fn test(name: &str, operator: &str, negated: bool, right: &Value, found: &mut Vec<String>) {
    let operator = operator.to_ascii_lowercase();
    if !OPERATORS.contains(&operator.as_str()) {
        return;
    }
    let written = match right {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let condition = format!("the condition {name} {operator} {written}");
    if let Some(meant) = other_name(name) {
        found.push(format!("{condition}: no request has a variable {name}; write {meant}"));
        return;
    }
    if negated || !is_text(name) {
        return;
    }
    let why = match operator.as_str() {
        "==" => match right {
            Value::Bool(_) => Some(format!("{name} is a text; write \"{right}\"")),
            Value::String(text) => never_equal(name, text),
            _ => None,
        },
        "in" => {
            let items = right.as_array().map(Vec::as_slice).unwrap_or_default();
            let whys = items.iter().map(|item| match item {
                Value::String(text) => never_equal(name, text),
                other => Some(format!("{name} is a text; write \"{other}\"")),
            });
            // One that can hold is enough.
            whys.collect::<Option<Vec<String>>>().and_then(|whys| whys.into_iter().next())
        }
        "has" => Some(format!("has looks into lists, and {name} is a text; use == or ~~")),
        _ => None,
    };
    if let Some(why) = why {
        found.push(format!("{condition} never holds: {why}"));
    }
}

fn is_text(name: &str) -> bool {
    TEXTS.contains(&name) || FAMILIES.iter().any(|family| name.starts_with(family))
}

/// The variable that a misspelled name stands for.
fn other_name(name: &str) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    if lower != name && is_text(&lower) && !is_text(name) {
        // The rest of an argument's or a cookie's name is as it is.
        let family = ["arg_", "cookie_"].into_iter().find(|family| lower.starts_with(family));
        let rest = family.and_then(|family| name.get(family.len()..).map(|rest| format!("{family}{rest}")));
        return Some(rest.unwrap_or(lower));
    }
    let near = [("args_", "arg_"), ("header_", "http_"), ("headers_", "http_"), ("cookies_", "cookie_")];
    near.iter().find_map(|(wrong, right)| Some(format!("{right}{}", name.strip_prefix(wrong)?)))
}

/// Why a variable never has this value.
fn never_equal(name: &str, text: &str) -> Option<String> {
    let write = |form: String| Some(format!("write {form}"));
    match name {
        "host" | "scheme" if text.bytes().any(|byte| byte.is_ascii_uppercase()) => {
            write(text.to_ascii_lowercase())
        }
        // Methods are compared as they are sent, and no client sends `get`.
        "request_method" | "method" if text.bytes().any(|byte| byte.is_ascii_lowercase()) => {
            write(text.to_ascii_uppercase())
        }
        "remote_addr" | "realip_remote_addr" | "server_addr" if text.contains('/') => {
            Some(format!("{text} is a network; use ipmatch"))
        }
        "https" if !["on", ""].contains(&text) => Some("https is on or empty".to_owned()),
        "server_protocol" if !["HTTP/1.0", "HTTP/1.1", "HTTP/2.0"].contains(&text) => {
            Some("it is HTTP/1.0, HTTP/1.1 or HTTP/2.0".to_owned())
        }
        _ if text != text.trim() && (name.starts_with("http_") || TEXTS.contains(&name)) => {
            Some("values have no blanks around them".to_owned())
        }
        "uri" if !text.starts_with('/') && text != "*" => Some("paths begin with /".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn conditions_that_never_hold() {
        for (condition, wanted) in [
            (json!(["host", "==", "A.b"]), Some("the condition host == A.b never holds: write a.b")),
            (
                json!(["request_method", "in", ["get"]]),
                Some("the condition request_method in [\"get\"] never holds: write GET"),
            ),
            (
                json!(["arg_x", "in", [1, 2]]),
                Some("the condition arg_x in [1,2] never holds: arg_x is a text; write \"1\""),
            ),
            (
                json!(["arg_x", "==", true]),
                Some("the condition arg_x == true never holds: arg_x is a text; write \"true\""),
            ),
            (
                json!(["arg_x", "has", "1"]),
                Some("the condition arg_x has 1 never holds: has looks into lists, "),
            ),
            (
                json!(["remote_addr", "==", "10.0.0.0/8"]),
                Some("the condition remote_addr == 10.0.0.0/8 never holds: 10."),
            ),
            (
                json!(["args_x", "==", "1"]),
                Some("the condition args_x == 1: no request has a variable args_x; write arg_x"),
            ),
            (
                json!(["HTTP_X_FOO", "!", "==", "1"]),
                Some("the condition HTTP_X_FOO == 1: no request has a variable HTTP_X_FOO; write http_x_foo"),
            ),
            (json!(["uri", "==", "x"]), Some("the condition uri == x never holds: paths begin with /")),
            (json!(["https", "==", "off"]), Some("the condition https == off never holds: https is on or empty")),
            (json!(["server_protocol", "==", "http/1.1"]), Some("the condition server_protocol == http/1.1 never")),
            (json!(["http_x_role", "==", "admin "]), Some("the condition http_x_role == admin  never holds: ")),
            (json!(["server_protocol", "==", "HTTP/2.0"]), None),
            (json!(["arg_x", "==", " 1"]), None),
            (json!(["https", "==", ""]), None),
            (json!(["arg_x", "in", [1, "2"]]), None),
            (json!(["arg_x", "==", 1]), None),
            (json!(["arg_X", "==", "1"]), None),
            (json!(["host", "!", "==", "A.b"]), None),
            (json!(["post_arg.x", "has", "1"]), None),
            (json!(["request_method", "==", "GET"]), None),
            (json!(["my_variable", "==", true]), None),
            (json!(["uri", "==", "get"]), Some("the condition uri == get never holds: ")),
            (json!(["a", "b", "c"]), None),
        ] {
            let mut found = Vec::new();
            walk(
                &json!({"plugins": {"key-auth": {"_meta": {"filter": ["OR", condition, condition]}}}}),
                &mut found,
            );
            found.dedup();
            match wanted {
                Some(wanted) => {
                    assert!(found.len() == 1 && found[0].starts_with(wanted), "{condition}: {found:?}")
                }
                None => assert!(found.is_empty(), "{condition}: {found:?}"),
            }
        }
    }
}
