//! Conditions that can never hold as written: a guard behind one never acts.

use serde_json::Value;

use super::{
    Matching, own_place,
    values::{is_text, never_equal, never_matches, never_number},
};
use crate::{Kind, Object, PluginCatalog, schema::rules::is_secret_reference};

/// An object with conditions has at least one of these fields.
const WORDS: [&str; 8] = [
    "vars",
    "filter",
    "case",
    "workflow",
    "traffic-split",
    "match",
    "include_req_body_expr",
    "include_resp_body_expr",
];

const OPERATORS: [&str; 11] = ["==", "~=", ">", ">=", "<", "<=", "~~", "~*", "in", "has", "ipmatch"];

/// Variables that get their value after the route is chosen, besides the families below.
const LATE: [&str; 8] = [
    "consumer_name",
    "consumer_group_id",
    "credential_id",
    "balancer_ip",
    "balancer_port",
    "status",
    "body_bytes_sent",
    "bytes_sent",
];
/// Those that the match itself sets, for plugins.
const MATCHED: [&str; 6] =
    ["matched_uri", "matched_host", "route_id", "route_name", "service_id", "service_name"];
const PARAMETERS: &str = "uri_param_";
const LATE_FAMILIES: [&str; 3] = ["upstream_", "sent_http_", "resp_"];

pub(super) fn of(object: &Object, matching: Matching, catalog: &dyn PluginCatalog) -> Vec<String> {
    let mut found = Vec::new();
    if !WORDS.iter().any(|word| object.document.may_have(word)) {
        return found;
    }
    let value = object.value();
    each(&value, &mut |condition| found.extend(test(condition, matching, catalog)));
    if let Some(vars) = value.get("vars").filter(|_| object.kind == Kind::Route) {
        found.extend(own_place::of(&value, matching));
        late(vars, "vars", "when routes are matched, before authentication and the upstream", &mut found);
        each(vars, &mut |Condition { name, right, .. }| {
            if MATCHED.contains(&name) || matching.parameters && name.starts_with(PARAMETERS) {
                found.push(format!(
                    "vars: {name} is empty while routes are matched: the match sets it; write the condition in a plugin, such as \
                     fault-injection or workflow"
                ));
            }
            if right.as_str().is_some_and(is_secret_reference) {
                found.push(format!(
                    "vars: {name} is compared with the text of the reference, which is not resolved here; \
                     anyone can guess it"
                ));
            }
        });
    }
    if object.kind == Kind::Route {
        found.extend(own_place::of_workflow(&value, matching));
    }
    for (name, conf) in value.get("plugins").and_then(Value::as_object).into_iter().flatten() {
        if let Some(filter) = conf.pointer("/_meta/filter")
            && catalog.facts(name).is_some_and(|facts| facts.kind == Some("auth"))
        {
            late(filter, &format!("{name}: _meta.filter"), "before the plugin has run", &mut found);
        }
    }
    found
}

/// Variables that have no value yet where a condition is evaluated.
fn late(value: &Value, place: &str, when: &str, found: &mut Vec<String>) {
    each(value, &mut |Condition { name, .. }| {
        if LATE.contains(&name) || LATE_FAMILIES.iter().any(|family| name.starts_with(family)) {
            found.push(format!(
                "{place}: {name} is empty {when}; write the condition in a plugin that runs later, such as \
                 consumer-restriction"
            ));
        }
    });
}

/// A condition as written.
struct Condition<'a> {
    name: &'a str,
    negated: bool,
    operator: &'a str,
    right: &'a Value,
}

fn each<'a>(value: &'a Value, act: &mut dyn FnMut(Condition<'a>)) {
    match value {
        Value::Object(members) => members.values().for_each(|member| each(member, act)),
        Value::Array(items) => {
            match items.as_slice() {
                [Value::String(name), Value::String(operator), right] => {
                    act(Condition { name, negated: false, operator, right });
                }
                [Value::String(name), Value::String(not), Value::String(operator), right] if not == "!" => {
                    act(Condition { name, negated: true, operator, right });
                }
                _ => {}
            }
            items.iter().for_each(|item| each(item, act));
        }
        _ => {}
    }
}

fn test(condition: Condition<'_>, matching: Matching, catalog: &dyn PluginCatalog) -> Option<String> {
    let Condition { name, negated, operator, right } = condition;
    let operator = operator.to_ascii_lowercase();
    if !OPERATORS.contains(&operator.as_str()) {
        return None;
    }
    let written = match right {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let condition = format!("the condition {name} {operator} {written}");
    if let Some(meant) = other_name(name) {
        return Some(format!("{condition}: no request has a variable {name}; write {meant}"));
    }
    if let Some(sign) = odd_sign(name) {
        return Some(format!("{condition}: no header has {sign:?} in its name"));
    }
    if name.starts_with(PARAMETERS) && !matching.parameters {
        return Some(format!(
            "{condition}: {name} is always empty; set apisix.router.http to radixtree_uri_with_parameter"
        ));
    }
    if let Some(remark) = catalog.variable_remark(name) {
        return Some(format!("{condition}: {remark}"));
    }
    if negated || !is_text(name) {
        return None;
    }
    let why = match operator.as_str() {
        "==" => never_equal(name, right, true, matching),
        "in" => {
            let items = right.as_array().map(Vec::as_slice).unwrap_or_default();
            // A list never holds null.
            let items = items.iter().filter(|item| !item.is_null());
            let whys = items.map(|item| never_equal(name, item, false, matching));
            // One that can hold is enough.
            whys.collect::<Option<Vec<String>>>().and_then(|whys| whys.into_iter().next())
        }
        ">" | ">=" | "<" | "<=" => never_number(name),
        "has" => Some(format!("has works on lists, but {name} is a string; use == or ~~")),
        "~~" => right.as_str().and_then(|pattern| never_matches(name, pattern)),
        _ => None,
    };
    why.map(|why| format!("{condition} never holds: {why}"))
}

/// A sign in the name of a header that no request has: RFC 9110 section 5.6.2.
fn odd_sign(name: &str) -> Option<char> {
    let header =
        ["http_", "sent_http_", "upstream_http_"].iter().find_map(|family| name.strip_prefix(family))?;
    header.chars().find(|sign| !sign.is_ascii_alphanumeric() && !"!#$%&'*+-.^_`|~".contains(*sign))
}

/// The variable that a misspelled name probably means.
fn other_name(name: &str) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    if lower != name && is_text(&lower) && !is_text(name) {
        // The rest of an argument's or a cookie's name is kept unchanged.
        let family = ["arg_", "cookie_"].into_iter().find(|family| lower.starts_with(family));
        let rest = family.and_then(|family| name.get(family.len()..).map(|rest| format!("{family}{rest}")));
        return Some(rest.unwrap_or(lower));
    }
    let near = [("args_", "arg_"), ("header_", "http_"), ("headers_", "http_"), ("cookies_", "cookie_")];
    near.iter().find_map(|(wrong, right)| Some(format!("{right}{}", name.strip_prefix(wrong)?)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn warnings(kind: Kind, value: &Value) -> Vec<String> {
        let document = crate::Document::new(value);
        let object =
            Object { kind, id: "1".into(), document, created: 1, modified: 1, fault: None, unread: None };
        of(&object, Matching::default(), &crate::check::tests::Catalog)
    }

    #[test]
    fn variables_without_a_value_yet() {
        let filter = json!([["status", "==", "200"]]);
        let found = warnings(Kind::Route, &json!({"plugins": {"key-auth": {"_meta": {"filter": filter}}}}));
        assert!(
            found.len() == 1 && found[0].starts_with("key-auth: _meta.filter: status is empty"),
            "{found:?}"
        );
        let found = warnings(Kind::Route, &json!({"vars": [["consumer_name", "==", "a"]]}));
        assert!(found.len() == 1 && found[0].starts_with("vars: consumer_name is empty"), "{found:?}");
        assert!(
            warnings(Kind::Service, &json!({"plugins": {"limit": {"_meta": {"filter": filter}}}})).is_empty()
        );
    }

    #[test]
    fn variables_of_the_match() {
        for name in ["uri_param_id", "matched_uri"] {
            let object = json!({"vars": [[name, "==", "a"]]});
            let document = crate::Document::new(&object);
            let kind = Kind::Route;
            let object =
                Object { kind, id: "1".into(), document, created: 1, modified: 1, fault: None, unread: None };
            let matching = Matching { parameters: true, ..Matching::default() };
            let found = of(&object, matching, &crate::check::tests::Catalog);
            assert!(found.len() == 1 && found[0].contains("is empty while routes are matched"), "{found:?}");
        }
        let filter = json!([["uri_param_id", "==", "a"]]);
        let found = warnings(Kind::Service, &json!({"plugins": {"limit": {"_meta": {"filter": filter}}}}));
        assert!(
            found.len() == 1 && found[0].contains("is always empty; set apisix.router.http"),
            "{found:?}"
        );
    }

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
                Some("the condition arg_x has 1 never holds: has works on lists, "),
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
            (
                json!(["http_x_tok ", "==", "1"]),
                Some("the condition http_x_tok  == 1: no header has ' ' in its name"),
            ),
            (json!(["uri", "==", "x"]), Some("the condition uri == x never holds: paths begin with /")),
            (
                json!(["https", "==", "off"]),
                Some("the condition https == off never holds: it is on or empty"),
            ),
            (
                json!(["server_protocol", "==", "http/1.1"]),
                Some("the condition server_protocol == http/1.1 never"),
            ),
            (
                json!(["http_x_role", "==", "admin "]),
                Some("the condition http_x_role == admin  never holds: "),
            ),
            (
                json!(["consumer_name", "==", "ja ck"]),
                Some("the condition consumer_name == ja ck never holds: consumer names"),
            ),
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
            (
                json!(["remote_adr", "~=", "1"]),
                Some("the condition remote_adr ~= 1: $remote_adr is not a variable"),
            ),
            (
                json!(["uri", "==", "/a//b"]),
                Some("the condition uri == /a//b never holds: write /a/b: paths are"),
            ),
            (
                json!(["uri", "==", "/a/*"]),
                Some("the condition uri == /a/* never holds: == compares the whole path"),
            ),
            (json!(["uri", "~~", "^a"]), Some("the condition uri ~~ ^a never holds: paths begin with /")),
            (
                json!(["request_method", "~~", "^get$"]),
                Some("the condition request_method ~~ ^get$ never holds: "),
            ),
            (
                json!(["host", "==", "a:80"]),
                Some("the condition host == a:80 never holds: names are compared"),
            ),
            (
                json!(["host", "==", "http://a"]),
                Some("the condition host == http://a never holds: it is a name"),
            ),
            (
                json!(["host", "==", "*.a"]),
                Some("the condition host == *.a never holds: == compares the whole"),
            ),
            (json!(["uri", "~~", "^a?/"]), None),
            (json!(["uri", "~~", "^/a"]), None),
            (json!(["host", "==", "[::1]"]), None),
            (json!(["status", "==", "200"]), None),
            (
                json!(["status", "in", ["0200"]]),
                Some("the condition status in [\"0200\"] never holds: write 200"),
            ),
            (
                json!(["server_port", "==", "080"]),
                Some("the condition server_port == 080 never holds: write 80"),
            ),
            (
                json!(["server_port", "in", [80]]),
                Some("the condition server_port in [80] never holds: server_port is"),
            ),
            (json!(["server_port", "==", 80]), None),
            (
                json!(["remote_port", "==", "all"]),
                Some("the condition remote_port == all never holds: it is a n"),
            ),
            (json!(["host", "==", "a.b."]), Some("the condition host == a.b. never holds: write a.b")),
            (
                json!(["host", "~~", r"^A\.T$"]),
                Some(r"the condition host ~~ ^A\.T$ never holds: names are lowercase"),
            ),
            (json!(["host", "~~", r"(?i)^A\.T$"]), None),
            (json!(["host", "~*", r"^A\.T$"]), None),
            (json!(["host", "~~", r"^\D+$"]), None),
            (json!(["host", "~~", "^[A-Za-z]+$"]), None),
            (json!(["request_method", "~~", "get|post"]), None),
            (
                json!(["request_method", "~~", "get"]),
                Some("the condition request_method ~~ get never holds: "),
            ),
            (
                json!(["uri", "==", null]),
                Some("the condition uri == null never holds: uri has a value in every"),
            ),
            (json!(["arg_x", "==", null]), None),
            (json!(["consumer_name", "==", null]), None),
            (json!(["uri", ">", 5]), Some("the condition uri > 5 never holds: paths begin with /")),
            (json!(["arg_x", ">", 5]), None),
            (
                json!(["scheme", "==", "HTTPS "]),
                Some("the condition scheme == HTTPS  never holds: write https"),
            ),
            (
                json!(["scheme", "==", "ws"]),
                Some("the condition scheme == ws never holds: it is http or https"),
            ),
            (
                json!(["remote_addr", "==", "::0001"]),
                Some("the condition remote_addr == ::0001 never holds: write ::1"),
            ),
            (
                json!(["remote_addr", "==", "localhost"]),
                Some("the condition remote_addr == localhost never holds: it is"),
            ),
            (json!(["remote_addr", "==", "10.0.0.1"]), None),
            (json!(["request_uri", "==", "/a?b=1"]), None),
        ] {
            let value = json!({"plugins": {"limit": {"_meta": {"filter": ["OR", condition, condition]}}}});
            let mut found = warnings(Kind::Route, &value);
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
