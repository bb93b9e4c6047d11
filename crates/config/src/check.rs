//! Compares what the user wrote with the table of keys. Unknown keys are warnings, wrong values are errors, and what a
//! key does not serve is what [`fate`] makes of it.

mod fate;
mod nearest;

use std::net::IpAddr;

use serde_json::Value;

use self::fate::ValueFate;
use crate::{
    keys::{
        self,
        key::{Key, Takes},
    },
    units,
    yaml::node::{Content, Fault, Node},
};

/// What was found, each with its place.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub errors: Vec<Fault>,
    pub warnings: Vec<Fault>,
    pub(crate) idle: Vec<fate::Unserved>,
    pub(crate) refused: Vec<fate::Unserved>,
    /// The list of plugins, where some of them may be files, which have attributes of their own.
    files: Vec<String>,
}

impl Findings {
    fn error(&mut self, node: &Node, message: String) {
        self.errors.push(Fault { line: node.line, column: node.column, message });
    }
}

/// Checks a whole config.yaml, and gives each value the form its key takes (`off` is text where text is meant).
pub(crate) fn document(root: &mut Node, found: &mut Findings) {
    found.files = plugins_in_files(root);
    match &root.content {
        Content::Map(_) => table(root, "", found),
        _ if root.is_null() => {}
        _ => found.error(root, "config.yaml should have keys like apisix and deployment".to_owned()),
    }
    let refused = std::mem::take(&mut found.refused);
    found.warnings.extend(fate::warnings(&found.idle));
    found.errors.extend(refused.iter().map(fate::Unserved::refusal));
}

/// The names of `plugins`, where `apisix.extra_lua_path` says that there are files.
fn plugins_in_files(root: &Node) -> Vec<String> {
    let below = |node: &Node, name: &str| match &node.content {
        Content::Map(entries) => {
            entries.iter().find(|entry| entry.key == name).map(|entry| entry.value.clone())
        }
        _ => None,
    };
    let text = |node: &Node| match &node.content {
        Content::Scalar { text, .. } => Some(text.clone()),
        _ => None,
    };
    let path = below(root, "apisix").and_then(|apisix| below(&apisix, "extra_lua_path"));
    if path.as_ref().and_then(text).is_none_or(|path| path.is_empty()) {
        return Vec::new();
    }
    match below(root, "plugins").map(|plugins| plugins.content) {
        Some(Content::List(names)) => names.iter().filter_map(text).collect(),
        _ => Vec::new(),
    }
}

/// Checks the value of one key.
pub(crate) fn value(node: &mut Node, path: &str, takes: Takes, found: &mut Findings) {
    // Null removes a key, whatever it takes otherwise.
    if node.is_null() {
        return;
    }
    match (takes, &mut node.content) {
        (Takes::Free, _) => {}
        (Takes::FreeTable, Content::Map(_)) => free_table(node, path, found),
        (Takes::Table, Content::Map(_)) => table(node, path, found),
        (Takes::List(takes), Content::List(items)) => {
            let path = format!("{path}[]");
            for item in items {
                match item.is_null() {
                    // There is nothing that it could remove.
                    true => mismatch(item, &path, *takes, found),
                    false => value(item, &path, *takes, found),
                }
            }
        }
        (Takes::AnyOf(choices), _) => match choices.iter().find(|choice| fits(node, **choice)) {
            Some(choice) => value(node, path, *choice, found),
            None => mismatch(node, path, takes, found),
        },
        _ => {
            if fits(node, takes) {
                normalize(node, takes);
            } else {
                mismatch(node, path, takes, found);
            }
        }
    }
}

fn table(node: &mut Node, path: &str, found: &mut Findings) {
    let Content::Map(entries) = &mut node.content else { return };
    for entry in entries {
        let below = if path.is_empty() { entry.key.clone() } else { format!("{path}.{}", entry.key) };
        match keys::find(&below) {
            Some(key) => known(&mut entry.value, &below, key, found),
            None if path == "plugin_attr" && found.files.contains(&entry.key) => {}
            None => {
                // A value that slipped to where a key belongs.
                let shown = if keys::is_secret(path) { format!("below {path}") } else { below.clone() };
                let message = format!("unknown key {shown} is ignored{}", nearest::hint(path, entry));
                // `roles: viewer` would make an administrator.
                if path == "deployment.admin.admin_key[]" {
                    let message = match nearest::near(path, &entry.key) {
                        Some(known) => format!("unknown key {below}; did you mean {known}?"),
                        None => format!("unknown key below {path}; an entry has name, key, role and scope"),
                    };
                    found.errors.push(Fault { line: entry.line, column: entry.column, message });
                    continue;
                }
                found.warnings.push(Fault { line: entry.line, column: entry.column, message });
            }
        }
    }
}

/// A table that may hold anything; some of its keys are known.
fn free_table(node: &mut Node, path: &str, found: &mut Findings) {
    let Content::Map(entries) = &mut node.content else { return };
    for entry in entries {
        let below = format!("{path}.{}", entry.key);
        if let Some(key) = keys::find(&below) {
            known(&mut entry.value, &below, key, found);
        }
    }
}

/// The value of a key of the table, and what becomes of it.
fn known(node: &mut Node, path: &str, key: &Key, found: &mut Findings) {
    let mut inner = Findings { files: found.files.clone(), ..Findings::default() };
    value(node, path, key.takes, &mut inner);
    let verdict = if inner.errors.is_empty() { fate::value_fate(key, path, node) } else { ValueFate::Served };
    match verdict {
        ValueFate::Served => {
            found.errors.append(&mut inner.errors);
            found.warnings.append(&mut inner.warnings);
            found.idle.append(&mut inner.idle);
            found.refused.append(&mut inner.refused);
        }
        // What stands below it is not listed separately.
        ValueFate::Idle(idle) => found.idle.push(idle),
        ValueFate::Refused(refused) => found.refused.push(refused),
    }
}

/// Turns a value that fits into the one form readers of settings expect.
fn normalize(node: &mut Node, takes: Takes) {
    let Content::Scalar { value, text } = &mut node.content else { return };
    let settled = match takes {
        Takes::Bool | Takes::Free | Takes::FreeTable | Takes::Table | Takes::List(_) | Takes::AnyOf(_) => {
            return;
        }
        Takes::Switch if value.as_bool() == Some(true) => Value::from("on"),
        Takes::Switch if value.as_bool() == Some(false) => Value::from("off"),
        Takes::Integer(..) => match value.as_i64().or_else(|| text.parse().ok()) {
            Some(number) => Value::from(number),
            None => return,
        },
        Takes::Number => match value.as_number().cloned().or_else(|| text.parse().ok()) {
            Some(number) => Value::Number(number),
            None => return,
        },
        _ => Value::from(text.as_str()),
    };
    *value = settled;
}

/// Whether a value is of this form, not looking into tables and lists.
fn fits(node: &Node, takes: Takes) -> bool {
    let (value, text) = match &node.content {
        Content::Scalar { value, text } => (value, text.as_str()),
        Content::List(_) => return matches!(takes, Takes::List(_) | Takes::Free),
        Content::Map(_) => return matches!(takes, Takes::Table | Takes::FreeTable | Takes::Free),
    };
    match takes {
        Takes::Bool => value.is_boolean(),
        Takes::Switch => value.is_boolean() || matches!(text, "on" | "off"),
        // nginx takes its numbers as text as well, and so do environment variables.
        Takes::Integer(least, most) => value
            .as_i64()
            .or_else(|| text.parse().ok())
            .is_some_and(|number| (least..=most).contains(&number)),
        Takes::Text | Takes::Snippet | Takes::Free => true,
        Takes::Form(form) => (form.fits)(text),
        Takes::Number => text.parse::<f64>().is_ok_and(|number| number.is_finite() && number > 0.0),
        Takes::Word(words) => words.contains(&text),
        Takes::Duration => units::duration(text).is_some(),
        Takes::Size => units::size(text).is_some(),
        Takes::Network => value.is_string() && is_network(text),
        Takes::AnyOf(choices) => choices.iter().any(|choice| fits(node, *choice)),
        Takes::Table | Takes::FreeTable | Takes::List(_) => false,
    }
}

fn is_network(text: &str) -> bool {
    if text == "unix:" {
        return true;
    }
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (text, None),
    };
    let Ok(address) = address.parse::<IpAddr>() else { return false };
    let most: u8 = if address.is_ipv4() { 32 } else { 128 };
    bits.is_none_or(|bits| bits.parse::<u8>().is_ok_and(|bits| bits <= most))
}

fn mismatch(node: &Node, path: &str, takes: Takes, found: &mut Findings) {
    let shown = match (keys::is_secret(path), &node.content) {
        (true, Content::Scalar { .. }) => "something else".to_owned(),
        _ => shown(node),
    };
    found.error(node, format!("{path} should be {}, but is {shown}", describe(takes)));
}

fn describe(takes: Takes) -> String {
    match takes {
        Takes::Bool => "true or false".to_owned(),
        Takes::Switch => "on or off".to_owned(),
        Takes::Integer(least, i64::MAX) => format!("a whole number from {least}"),
        Takes::Integer(least, most) => format!("a whole number from {least} to {most}"),
        Takes::Text | Takes::Snippet => "a text".to_owned(),
        Takes::Form(form) => form.is.to_owned(),
        Takes::Number => "a number above 0".to_owned(),
        Takes::Word([word]) => (*word).to_owned(),
        Takes::Word(words) => format!("one of {}", words.join(", ")),
        Takes::Duration => "a time like 60s, 1m or 500ms".to_owned(),
        Takes::Size => "a size like 16k or 1m".to_owned(),
        Takes::Network => "an IP address or network like 10.0.0.0/8".to_owned(),
        Takes::Table | Takes::FreeTable => "a table of keys".to_owned(),
        Takes::Free => "anything".to_owned(),
        Takes::List(_) => "a list".to_owned(),
        Takes::AnyOf(choices) => {
            choices.iter().map(|choice| describe(*choice)).collect::<Vec<_>>().join(" or ")
        }
    }
}

fn shown(node: &Node) -> String {
    match &node.content {
        Content::Scalar { value: Value::String(text), .. } => format!("the text {text:?}"),
        Content::Scalar { text, .. } if text.is_empty() => "null".to_owned(),
        Content::Scalar { text, .. } => text.clone(),
        Content::List(_) => "a list".to_owned(),
        Content::Map(_) => "a table".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, errors: &[&str], warnings: &[&str]) {
        let mut found = Findings::default();
        document(&mut crate::yaml::parse(text).unwrap(), &mut found);
        let shown = |faults: &[Fault]| faults.iter().map(Fault::to_string).collect::<Vec<_>>();
        assert_eq!(shown(&found.errors), errors, "{text}");
        assert_eq!(shown(&found.warnings), warnings, "{text}");
    }

    #[test]
    fn good() {
        check("", &[], &[]);
        check("apisix:\n  node_listen: 9080\n", &[], &[]);
        check("apisix:\n  node_listen: [9080, {ip: 127.0.0.1, port: 9081, enable_http2: true}]\n", &[], &[]);
        check(
            "nginx_config:\n  worker_processes: '4'\n  http:\n    real_ip_recursive: on\n    keepalive_timeout: 75\n",
            &[],
            &[],
        );
        check("deployment:\n  admin:\n    allow_admin:\n    admin_key: ~\n", &[], &[]);
        check("plugin_attr: {redirect: {https_port: 1}}\ndiscovery: {nacos: {host: []}}\n", &[], &[]);
        check("nginx_config:\n  main_configuration_snippet: |\n    # only a comment\n", &[], &[]);
        check("nginx_config:\n  http:\n    access_log: off\n", &[], &[]);
    }

    #[test]
    fn wrong_values() {
        check("5", &["1:1: config.yaml should have keys like apisix and deployment"], &[]);
        check(
            "apisix:\n  enable_ipv6: maybe\n",
            &["2:16: apisix.enable_ipv6 should be true or false, but is the text \"maybe\""],
            &[],
        );
        check(
            "apisix:\n  node_listen: [9080, 70000]\n",
            &[
                "2:23: apisix.node_listen[] should be a whole number from 1 to 65535 or a table of keys, but is 70000",
            ],
            &[],
        );
        check("apisix: []\n", &["1:9: apisix should be a table of keys, but is a list"], &[]);
        check(
            "nginx_config:\n  error_log_level: loud\n  http: {send_timeout: soon}\n",
            &[
                "2:20: nginx_config.error_log_level should be one of debug, info, notice, warn, error, crit, alert, emerg, but is the text \"loud\"",
                "3:24: nginx_config.http.send_timeout should be a time like 60s, 1m or 500ms, but is the text \"soon\"",
            ],
            &[],
        );
        check(
            "deployment: {admin: {allow_admin: [10.0.0.0/33]}}",
            &[
                "1:36: deployment.admin.allow_admin[] should be an IP address or network like 10.0.0.0/8, but is the text \"10.0.0.0/33\"",
            ],
            &[],
        );
    }

    #[test]
    fn unknown_keys() {
        check(
            "apisix:\n  node_listn: 1\n",
            &[],
            &["2:3: unknown key apisix.node_listn is ignored; did you mean node_listen?"],
        );
        check(
            "apisix:\n  etcd: {}\n",
            &[],
            &["2:3: unknown key apisix.etcd is ignored; it belongs at deployment.etcd"],
        );
        check(
            "nginx_config:\n  real_ip_from: []\n",
            &[],
            &[
                "2:3: unknown key nginx_config.real_ip_from is ignored; it belongs at nginx_config.http.real_ip_from",
            ],
        );
        check(
            "http: {client_max_body_size: 1m}",
            &[],
            &["1:1: unknown key http is ignored; it belongs at nginx_config.http"],
        );
        check(
            "apisix: {stream_proxy: {tcp: [{addr: 9100, ssl: true}]}, ssl: {cert: a}, node_listen: [{port: 1, ssl: true}]}",
            &[],
            &[
                "1:44: unknown key apisix.stream_proxy.tcp[].ssl is ignored; did you mean tls?",
                "1:64: unknown key apisix.ssl.cert is ignored; certificates are ssl objects: PUT /apisix/admin/ssls, or ssls of apisix.yaml",
                "1:98: unknown key apisix.node_listen[].ssl is ignored; ports for HTTPS stand in apisix.ssl.listen",
            ],
        );
        check("zzzzzz: 1\n", &[], &["1:1: unknown key zzzzzz is ignored"]);
        check(
            "apisix: {node_listen: [{prt: 1}]}",
            &[],
            &["1:25: unknown key apisix.node_listen[].prt is ignored; did you mean port?"],
        );
        check(
            "nginx_config:\n  http_configuration_snippet: |\n    gzip on;\n",
            &[],
            &[
                "3:5: nginx_config.http_configuration_snippet has no effect: there is no nginx to read it; look for a key or a plugin that does the same",
            ],
        );
    }
    #[test]
    fn what_is_not_served() {
        check(
            "apisix:\n  enable_reuseport: false\n  proxy_protocol: {enable_tcp_pp: true}\nstream_plugins: [syslog]\n",
            &[],
            &[
                "2:21: apisix.enable_reuseport: false has no effect: each worker always has a listening socket of its own",
            ],
        );
        check(
            "nginx_config:\n  max_pending_timers: 16384\n  max_running_timers: 4096\n  user: nobody\n",
            &[],
            &[
                "2:23: no effect, at their defaults: nginx_config.max_pending_timers, nginx_config.max_running_timers (line 3); docs/config.md says why",
                "4:9: nginx_config.user has no effect: start the process as the user it should run as",
            ],
        );
        check("apisix: {proxy_mode: stream}", &[], &[]);
        check(
            "apisix: {proxy_mode: http&stream, stream_proxy: {tcp: [{addr: 9100, tls: true}], udp: [x]}}",
            &[
                "1:88: apisix.stream_proxy.udp[] should be a whole number from 1 to 65535 or a port, an address with a port or a range of ports, like 9100, 127.0.0.1:9100 or 2000-2100, but is the text \"x\"",
            ],
            &[],
        );
        check(
            "apisix: {stream_proxy: {only: true}}",
            &["1:31: apisix.stream_proxy.only: true is refused: write apisix.proxy_mode: stream"],
            &[],
        );
        check("apisix: {stream_proxy: {tcp: [], only: false}, extra_lua_path: ''}\next-plugin:\n", &[], &[]);
    }
}
