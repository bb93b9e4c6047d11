//! Conditions and patterns of a route that its own paths, hosts or methods exclude.

use std::time::Duration;

use serde_json::Value;
use tidegate_backtrack::Expression;

use super::matching::{Matching, compared};
use crate::{Kind, Object};

/// A search that takes longer proves nothing.
const MOST_SEARCH: Duration = Duration::from_millis(5);

/// Messages about the comparisons that all have to hold. What a pattern might match is left alone.
pub(super) fn of(value: &Value, matching: Matching) -> Vec<String> {
    value.get("vars").map(|vars| among(value, vars, matching)).unwrap_or_default()
}

/// Plugins after which a request may have another path, host or method.
const REWRITERS: [&str; 4] = ["rewrite", "function", "ext-plugin", "graphql"];

/// The same of a route's rules of workflow, where nothing before them changes the request.
pub(super) fn of_workflow(value: &Value, matching: Matching) -> Vec<String> {
    if may_change_requests(value) {
        return Vec::new();
    }
    let rules = value.pointer("/plugins/workflow/rules").and_then(Value::as_array).into_iter().flatten();
    let cases = rules.enumerate().filter_map(|(at, rule)| Some((at, rule.get("case")?)));
    let found = cases.flat_map(|(at, case)| {
        let found = among(value, case, matching).into_iter();
        found.map(move |text| format!("plugin workflow: rules[{at}]: {text}"))
    });
    found.collect()
}

fn among(value: &Value, list: &Value, matching: Matching) -> Vec<String> {
    let all = list.as_array().into_iter().flatten();
    // `["OR", …]`: one of several is enough.
    if list.get(0).is_some_and(Value::is_string) {
        return Vec::new();
    }
    let conditions = all.filter_map(|condition| match condition.as_array()?.as_slice() {
        [Value::String(name), Value::String(operator), right] => {
            Some((name.as_str(), operator.as_str(), right))
        }
        _ => None,
    });
    conditions.filter_map(|(name, operator, right)| test(value, name, operator, right, matching)).collect()
}

/// Patterns of `regex_uri` that no path of the route matches, where it has no others than those that are written.
pub(super) fn patterns(object: &Object, matching: Matching) -> Vec<String> {
    if object.kind != Kind::Route || !object.document.may_have("regex_uri") {
        return Vec::new();
    }
    let value = object.value();
    let Some(paths) = written_paths(&value, matching) else { return Vec::new() };
    let mut found = Vec::new();
    for name in ["proxy-rewrite", "redirect"] {
        let Some(conf) = value.pointer(&format!("/plugins/{name}")) else { continue };
        let is_of_the_target = conf.get("use_real_request_uri_unsafe") == Some(&Value::Bool(true));
        let list = conf.get("regex_uri").and_then(Value::as_array).filter(|_| !is_of_the_target);
        for pattern in list.into_iter().flatten().step_by(2).filter_map(Value::as_str) {
            let Ok(expression) = Expression::new(pattern, false) else { continue };
            if paths.iter().all(|path| misses(&expression, path)) {
                found.push(format!("plugin {name}: regex_uri: {pattern} matches no uri of the route"));
            }
        }
    }
    found
}

/// Rules of uri-blocker that begin otherwise than all paths of the route, where it has no others than those that are written. The
/// query belongs to what is compared, so only the beginning is certain.
pub(super) fn block_rules(object: &Object, matching: Matching) -> Vec<String> {
    if object.kind != Kind::Route || !object.document.may_have("block_rules") {
        return Vec::new();
    }
    let value = object.value();
    if may_change_requests(&value) {
        return Vec::new();
    }
    let (Some(conf), Some(paths)) = (value.pointer("/plugins/uri-blocker"), written_paths(&value, matching))
    else {
        return Vec::new();
    };
    let ignores_case = conf.get("case_insensitive") == Some(&Value::Bool(true));
    let cased = |text: &str| if ignores_case { text.to_lowercase() } else { text.to_owned() };
    let rules = conf.get("block_rules").and_then(Value::as_array).into_iter().flatten();
    let vain = rules.filter_map(Value::as_str).filter(|rule| {
        let start = cased(beginning(rule));
        // Another beginning than `/` is reported by the plugin, for all routes.
        start.starts_with('/') && !paths.iter().any(|path| cased(path).starts_with(&start))
    });
    vain.map(|rule| format!("plugin uri-blocker: block_rules: {rule} matches no uri of the route")).collect()
}

/// The plain text that whatever a pattern matches begins with.
fn beginning(pattern: &str) -> &str {
    let Some(rest) = pattern.strip_prefix('^').filter(|rest| !rest.contains('|')) else { return "" };
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || "/-_".contains(sign);
    let (plain, behind) = rest.split_at(rest.find(|sign| !is_plain(sign)).unwrap_or(rest.len()));
    // What is repeated may be missing.
    match behind.starts_with(['?', '*', '{']) {
        true => plain.get(..plain.len().saturating_sub(1)).unwrap_or_default(),
        false => plain,
    }
}

/// Whether something of the route, or elsewhere, may give a request another path, host or method before its plugins run.
fn may_change_requests(value: &Value) -> bool {
    let plugins = value.get("plugins").and_then(Value::as_object);
    let mut names = plugins.into_iter().flatten().map(|(name, _)| name);
    ["service_id", "plugin_config_id", "script"].iter().any(|name| value.get(name).is_some())
        || names.any(|name| name != "response-rewrite" && REWRITERS.iter().any(|part| name.contains(part)))
}

/// All paths that the route takes; `None`: it takes others than those that are written.
fn written_paths(value: &Value, matching: Matching) -> Option<Vec<String>> {
    let uris = texts(value, "uri", "uris");
    let is_open = |uri: &&str| uri.contains('*') || (matching.parameters && uri.contains(':'));
    if uris.is_empty() || uris.iter().any(is_open) {
        return None;
    }
    let paths = uris.iter().map(|uri| compared(uri, matching));
    // `apisix.delete_uri_tail_slash`
    Some(paths.flat_map(|path| [format!("{}/", path.trim_end_matches('/')), path]).collect())
}

fn misses(expression: &Expression, path: &str) -> bool {
    matches!(expression.captures_patiently(path.as_bytes(), MOST_SEARCH), Ok(None))
}

fn texts<'a>(value: &'a Value, one: &str, several: &str) -> Vec<&'a str> {
    let several = value.get(several).and_then(Value::as_array).into_iter().flatten();
    value.get(one).into_iter().chain(several).filter_map(Value::as_str).collect()
}

fn test(value: &Value, name: &str, operator: &str, right: &Value, matching: Matching) -> Option<String> {
    let (field, list, fits): (_, _, fn(&str, &str, Matching) -> bool) = match name {
        "uri" => ("uri", "uris", path_fits),
        "host" => ("host", "hosts", host_fits),
        "request_method" | "method" => ("method", "methods", |own, text, _| own == text),
        _ => return None,
    };
    if let ("uri", "~~" | "~*", Value::String(pattern)) = (name, operator, right) {
        let paths = written_paths(value, matching)?;
        let expression = Expression::new(pattern, operator == "~*").ok()?;
        return paths.iter().all(|path| misses(&expression, path)).then(|| {
            format!("the condition uri {operator} {pattern} never holds: no uri of the route matches it")
        });
    }
    let wanted: Vec<&str> = match (operator.to_ascii_lowercase().as_str(), right) {
        ("==", Value::String(text)) => vec![text],
        ("in", Value::Array(items)) => items.iter().map(Value::as_str).collect::<Option<_>>()?,
        _ => return None,
    };
    let own = texts(value, field, list);
    let is_possible = wanted.iter().any(|text| own.iter().any(|own| fits(own, text, matching)));
    if own.is_empty() || wanted.is_empty() || is_possible {
        return None;
    }
    let written = if operator == "==" { wanted.concat() } else { right.to_string() };
    Some(format!("the condition {name} {operator} {written} never holds: no {field} of the route matches it"))
}

/// A star at the end stands for any rest; elsewhere, and for parameters, nothing is certain.
fn path_fits(own: &str, path: &str, matching: Matching) -> bool {
    if matching.parameters && own.contains("/:") {
        return true;
    }
    match own.split_once('*') {
        Some((start, "")) => path.starts_with(start),
        Some(_) => true,
        // `apisix.delete_uri_tail_slash`
        None => own.trim_end_matches('/') == path.trim_end_matches('/'),
    }
}

fn host_fits(own: &str, name: &str, _: Matching) -> bool {
    let own = own.to_ascii_lowercase();
    let own = own
        .rsplit_once(':')
        .filter(|(_, port)| port.parse::<u16>().is_ok())
        .map_or(own.as_str(), |(name, _)| name);
    match own.strip_prefix('*') {
        Some(end) => name.ends_with(end.trim_start_matches('.')),
        None => own == name,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn conditions_beside_a_place() {
        let excluded = [
            json!({"uri": "/a", "vars": [["uri", "==", "/b"]]}),
            json!({"uris": ["/a/*", "/c"], "vars": [["arg_x", "==", "1"], ["uri", "in", ["/b", "/d"]]]}),
            json!({"uri": "/a", "vars": [["uri", "~~", "/b"]]}),
            json!({"uris": ["/a", "/c/"], "vars": [["uri", "~*", "^/[bd]"]]}),
            json!({"uri": "/*", "host": "a.test", "vars": [["host", "==", "b.test"]]}),
            json!({"uri": "/*", "hosts": ["*.a.test"], "vars": [["host", "==", "a.other"]]}),
            json!({"uri": "/*", "methods": ["GET"], "vars": [["request_method", "==", "POST"]]}),
        ];
        for value in excluded {
            assert_eq!(of(&value, Matching::default()).len(), 1, "{value}");
        }
        let possible = [
            json!({"uri": "/a/*", "vars": [["uri", "==", "/a/b"]]}),
            json!({"uri": "/a/", "vars": [["uri", "==", "/a"]]}),
            json!({"uri": "/a*b", "vars": [["uri", "==", "/x"]]}),
            json!({"uri": "/a", "vars": ["OR", ["uri", "==", "/b"], ["arg_x", "==", "1"]]}),
            json!({"uri": "/a", "vars": [["uri", "!", "==", "/b"]]}),
            json!({"uri": "/a*", "vars": [["uri", "~~", "/b"]]}),
            json!({"uri": "/a", "vars": [["uri", "~~", "^/a/$"]]}),
            json!({"uri": "/a", "vars": [["uri", "~*", "^/A$"]]}),
            json!({"uri": "/*", "vars": [["host", "==", "b.test"]]}),
            json!({"uri": "/*", "host": "A.test:8080", "vars": [["host", "==", "a.test"]]}),
            json!({"uri": "/*", "hosts": ["*.a.test"], "vars": [["host", "==", "x.a.test"]]}),
        ];
        for value in possible {
            assert_eq!(of(&value, Matching::default()), Vec::<String>::new(), "{value}");
        }
        for (pattern, expected) in [
            ("^/admin", "/admin"),
            ("^/admin.*", "/admin"),
            ("^/a?/b", "/"),
            ("^/a+", "/a"),
            ("^/a|/b", ""),
            ("admin", ""),
        ] {
            assert_eq!(beginning(pattern), expected, "{pattern}");
        }
        let parameters = Matching { parameters: true, ..Matching::default() };
        assert!(of(&json!({"uri": "/:id", "vars": [["uri", "==", "/b"]]}), parameters).is_empty());
    }
}
