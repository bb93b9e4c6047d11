//! What the limiting plugins count by: the key of a request, within the scope of a configuration.
//!
//! A scope is the resource that carries the plugin plus a checksum of the plugin's configuration. So counters outlive
//! changes elsewhere in the resource, start over when the limit itself changes, and are the same on every gateway
//! that shares a store.

use serde_json::{Map, Value};
use smallvec::SmallVec;
use tidegate_plugin_api::{Owner, Request, Template, Variable, variables::Named};

use crate::common::without_effect;

pub(crate) enum LimitKey {
    /// The usual one; counted by its bytes where the key stays in memory.
    RemoteAddr,
    Variable(Variable),
    Combination(Template),
    Constant(Box<[u8]>),
    /// What a consumer identified itself with.
    Credential,
    /// All requests for this path count together.
    Path(Box<[u8]>),
    /// Of a rule: no variable with a value means that the rule does not apply.
    Rule(Template),
}

/// How a key is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Short, for maps in memory.
    Compact,
    /// As APISIX writes it, for stores that others read.
    Text,
}

/// A key with its scope. Most need no memory of their own.
pub(crate) type KeyText = SmallVec<[u8; 64]>;

impl LimitKey {
    pub(crate) fn new(key: &str, key_type: &str) -> LimitKey {
        match key_type {
            "constant" => LimitKey::Constant(key.as_bytes().into()),
            "credential" => LimitKey::Credential,
            "path" => LimitKey::Path(key.as_bytes().into()),
            "var_combination" => LimitKey::Combination(Template::compile(key)),
            _ => match Variable::resolve(key) {
                Variable::Named(Named::RemoteAddr) => LimitKey::RemoteAddr,
                variable => LimitKey::Variable(variable),
            },
        }
    }

    pub(crate) fn rule(key: &str) -> LimitKey {
        LimitKey::Rule(Template::compile(key))
    }

    /// Appends the key; `false` when the rule does not apply. Without a value the client's address counts.
    pub(crate) fn write(&self, request: &Request, form: Form, out: &mut KeyText) -> bool {
        match self {
            LimitKey::RemoteAddr => write_remote_addr(request, form, out),
            LimitKey::Variable(variable) => match request.variable(variable) {
                // An empty header says no more than none, and would be a counter that the client chooses.
                Some(value) if !value.is_empty() => out.extend_from_slice(&value),
                _ => write_remote_addr(request, form, out),
            },
            LimitKey::Combination(template) => {
                let start = out.len();
                if render(template, request, out) == 0 || out.len() == start {
                    out.truncate(start);
                    write_remote_addr(request, form, out);
                }
            }
            LimitKey::Credential => match (&request.consumer, &request.credential_id) {
                // Two consumers may have credentials of one name.
                (Some(consumer), Some(id)) => {
                    out.extend_from_slice(consumer.username.as_bytes());
                    out.push(b'/');
                    out.extend_from_slice(id.as_bytes());
                }
                _ => write_remote_addr(request, form, out),
            },
            LimitKey::Path(path) if request.path == **path => out.extend_from_slice(path),
            LimitKey::Path(_) => write_remote_addr(request, form, out),
            LimitKey::Constant(key) => out.extend_from_slice(key),
            LimitKey::Rule(template) => return render(template, request, out) > 0,
        }
        true
    }
}

/// See [`Template::render_into`].
fn render(template: &Template, request: &Request, out: &mut KeyText) -> usize {
    template.visit(request, |_, text| out.extend_from_slice(text))
}

fn write_remote_addr(request: &Request, form: Form, out: &mut KeyText) {
    if form == Form::Text {
        out.extend_from_slice(request.remote_addr.to_string().as_bytes());
        return;
    }
    // Four or sixteen bytes behind a NUL, which no text key starts with.
    out.push(0);
    match request.remote_addr {
        std::net::IpAddr::V4(address) => out.extend_from_slice(&address.octets()),
        std::net::IpAddr::V6(address) => out.extend_from_slice(&address.octets()),
    }
}

/// A worker's requests share a connection to Redis.
const IDLE: [without_effect::Idle; 1] =
    [("redis_keepalive_pool", "each worker has one connection, which all its requests share")];

/// Remarks about the key, and about fields without effect: those that all limits have, and `more`.
pub(crate) fn remarks(conf: &Value, schema: &str, more: &[without_effect::Idle]) -> Vec<String> {
    let mut found = of_key(conf);
    found.extend(without_effect::remarks(conf, schema, &IDLE));
    found.extend(without_effect::remarks(conf, schema, more));
    found
}

/// A limit whose key never has a value counts by the client's address.
fn of_key(conf: &Value) -> Vec<String> {
    let text = |name: &str| conf.get(name).and_then(Value::as_str);
    if let Some(rules) = conf.get("rules").and_then(Value::as_array) {
        return of_rules(rules);
    }
    let Some(key) = text("key") else { return Vec::new() };
    let is_combination = match text("key_type").unwrap_or("var") {
        "var" => false,
        "var_combination" => true,
        _ => return Vec::new(),
    };
    let meant = match (key.trim(), is_combination) {
        (trimmed, _) if trimmed != key => format!("write {trimmed}"),
        (_, false) if key.contains('$') => {
            let name = key.trim_start_matches('$').trim_start_matches('{').trim_end_matches('}');
            format!("write {name}, or key_type var_combination")
        }
        (_, true) if !key.contains('$') => format!("write ${key}, or key_type var"),
        (_, false) => {
            let unknown =
                Variable::remark(key).map(|remark| format!("key: {remark}; the client's address is counted"));
            let fleeting = || of_the_moment(key).map(|remark| format!("key: {remark}"));
            return unknown.or_else(fleeting).into_iter().collect();
        }
        (_, true) => {
            let template = Template::compile(key);
            return template.variables().filter_map(doubt).map(|doubt| format!("key: {doubt}")).collect();
        }
    };
    vec![format!("the key {key} is not a variable, so the client's address is counted: {meant}")]
}

/// A key that is new with each request, or with each connection, counts to one.
fn of_the_moment(name: &str) -> Option<String> {
    let of_what = match name {
        "request_id" | "apisix_request_id" | "msec" | "request_time" => "request",
        "connection" | "remote_port" | "realip_remote_port" => "connection",
        _ => return None,
    };
    Some(format!(
        "each {of_what} has a {name} of its own and is counted by itself; count by remote_addr or consumer_name"
    ))
}

/// What makes a variable of a key unfit to count by.
fn doubt(variable: &Variable) -> Option<String> {
    match variable {
        Variable::Custom(name) => Variable::remark(name),
        Variable::Named(named) => of_the_moment(named.name()),
        _ => None,
    }
}

/// Keys that have no value before a consumer is known.
const OF_CONSUMERS: [&str; 2] = ["consumer_name", "consumer_group_id"];

/// What happens to a key of consumers where none is known.
pub(crate) fn of_consumer(conf: &Value) -> Option<String> {
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    if let Some(rules) = conf.get("rules").and_then(Value::as_array) {
        let keys = rules.iter().map(|rule| text(rule, "key").unwrap_or_default()).enumerate();
        let mut vain = keys.filter(|(_, key)| is_of_consumers(key));
        return vain
            .next()
            .map(|(at, key)| format!("rules[{at}].key: {key} is empty, so the rule applies to no request"));
    }
    let key = text(conf, "key").unwrap_or_default();
    let what = match text(conf, "key_type").as_deref().unwrap_or("var") {
        "credential" => "key_type credential has no value".to_owned(),
        "var" if OF_CONSUMERS.contains(&key.as_str()) => format!("key {key} is empty"),
        "var_combination" if is_of_consumers(&key) => format!("key {key} is empty"),
        _ => return None,
    };
    Some(format!("{what}, so the client's address is counted"))
}

/// Whether all variables of a text are of consumers.
fn is_of_consumers(text: &str) -> bool {
    let template = Template::compile(text);
    let mut variables = template.variables().peekable();
    let is_one = |variable: &Variable| {
        matches!(variable, Variable::Named(Named::ConsumerName | Named::ConsumerGroupId))
    };
    variables.peek().is_some() && variables.all(is_one)
}

/// A rule whose key has no value is passed over, and a request that no rule is for is refused.
fn of_rules(rules: &[Value]) -> Vec<String> {
    if rules.is_empty() {
        return vec!["rules: the list is empty, so every request is answered 500".to_owned()];
    }
    let keys = rules.iter().map(|rule| rule.get("key").and_then(Value::as_str).unwrap_or_default());
    let of_key = |(at, key): (usize, &str)| {
        let template = Template::compile(key);
        let mut variables = template.variables().peekable();
        if variables.peek().is_none() {
            return Some(format!(
                "rules[{at}].key: {key} has no variable, so it applies to no request; write ${key}"
            ));
        }
        variables.find_map(doubt).map(|doubt| format!("rules[{at}].key: {doubt}"))
    };
    keys.enumerate().filter_map(of_key).collect()
}

/// The end of a message about a request that could not be counted.
pub(crate) fn on_route(request: &Request) -> String {
    request.route.as_ref().map_or_else(String::new, |route| format!(" (route {})", route.id))
}

/// The part of a key that names the configuration.
pub(crate) struct Scope {
    /// `/apisix/routes/1:CHECKSUM:`
    text: Box<[u8]>,
    /// A hash of the text and of the plugin's name, for maps that plugins share.
    number: [u8; 8],
    /// `:N` of an action of plugin `workflow`, behind the key.
    suffix: Box<[u8]>,
}

impl Scope {
    pub(crate) fn new(owner: &Owner, conf: &Value) -> Scope {
        let prefix = tidegate_plugin_api::host().map_or("", |host| &host.resource_prefix);
        let text = format!("{prefix}/{}/{}:{}:", owner.kind.directory(), owner.id, conf_version(conf));
        let suffix = conf.get("_vid").and_then(Value::as_u64).map_or_else(String::new, |id| format!(":{id}"));
        Scope::named(text, suffix)
    }

    /// Of a group: all plugins that name it count together.
    pub(crate) fn group(group: &str) -> Scope {
        Scope::named(format!("{group}:"), String::new())
    }

    fn named(text: String, suffix: String) -> Scope {
        // Fixed keys: the number must be the same for each instance of the same scope.
        let hasher = ahash::RandomState::with_seeds(1, 2, 3, 4);
        let number = hasher.hash_one((&text, &suffix)).to_ne_bytes();
        Scope { text: text.into_bytes().into(), number, suffix: suffix.into_bytes().into() }
    }

    /// The whole key. `None` when the rule does not apply.
    pub(crate) fn key(&self, key: &LimitKey, request: &Request, form: Form, prefix: &str) -> Option<KeyText> {
        let mut out = KeyText::new();
        match form {
            Form::Compact => out.extend_from_slice(&self.number),
            Form::Text => {
                out.extend_from_slice(prefix.as_bytes());
                out.extend_from_slice(&self.text);
            }
        }
        let applies = key.write(request, form, &mut out);
        if form == Form::Text {
            out.extend_from_slice(&self.suffix);
        }
        applies.then_some(out)
    }
}

/// A number that changes exactly when the configuration does, whatever the order of its fields. It is APISIX's number:
/// CRC-32 of what its encoder makes of the configuration with all defaults and `_meta`, keys sorted, empty tables as lists.
pub(crate) fn conf_version(conf: &Value) -> u32 {
    let mut text = String::new();
    let mut conf = conf.clone();
    if let Some(conf) = conf.as_object_mut() {
        conf.entry("_meta").or_insert_with(|| Value::Object(Map::new()));
    }
    write_sorted(&conf, &mut text);
    tidegate_balancing::crc32::checksum(text.as_bytes())
}

fn write_sorted(value: &Value, out: &mut String) {
    match value {
        Value::Object(fields) if fields.is_empty() => out.push_str("[]"),
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| name.as_str());
            out.push('{');
            for (index, (name, value)) in fields.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(&Value::String(name.clone()).to_string());
                out.push(':');
                write_sorted(value, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_sorted(item, out);
            }
            out.push(']');
        }
        Value::Number(number) => match number.as_f64() {
            Some(value) => out.push_str(&super::number::lua(value)),
            None => out.push_str(&number.to_string()),
        },
        other => out.push_str(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_version_ignores_order_and_sees_changes() {
        let a = json!({ "count": 2, "key": "remote_addr", "nested": { "x": [1, 2], "a": true } });
        let b = json!({ "nested": { "a": true, "x": [1, 2] }, "key": "remote_addr", "count": 2.0 });
        let c = json!({ "count": 3, "key": "remote_addr", "nested": { "x": [1, 2], "a": true } });
        assert_eq!(conf_version(&a), conf_version(&b));
        assert_ne!(conf_version(&a), conf_version(&c));
    }

    #[test]
    fn scopes_differ_by_owner_configuration_and_action() {
        let scope = |id: &str, conf: &Value| {
            Scope::new(&Owner { kind: tidegate_model::Kind::Route, id: id.into(), version: 1 }, conf)
        };
        let plain = json!({ "count": 1 });
        let first = scope("1", &plain);
        assert!(first.text.starts_with(b"/routes/1:"));
        assert_eq!(first.number, scope("1", &plain).number);
        assert_ne!(first.number, scope("2", &plain).number);
        assert_ne!(first.number, scope("1", &json!({ "count": 1, "_vid": 1 })).number);
        assert_eq!(&*scope("1", &json!({ "count": 1, "_vid": 7 })).suffix, b":7");
    }
}
