//! config.yaml of APISIX 2.x: keys that have moved since are put where they are now, and what was the default then is
//! the default for such a file, each with a note.

use serde_json::Value;

use crate::yaml::node::{Content, Entry, Fault, Node};

/// Old path, new path. The old value is taken unchanged.
const MOVED: &[(&str, &str)] = &[
    ("apisix.admin_key", "deployment.admin.admin_key"),
    ("apisix.allow_admin", "deployment.admin.allow_admin"),
    ("apisix.admin_listen", "deployment.admin.admin_listen"),
    ("apisix.port_admin", "deployment.admin.admin_listen.port"),
    ("apisix.https_admin", "deployment.admin.https_admin"),
    ("apisix.admin_api_mtls", "deployment.admin.admin_api_mtls"),
    ("apisix.admin_api_version", "deployment.admin.admin_api_version"),
    ("apisix.admin_key_required", "deployment.admin.admin_key_required"),
    ("apisix.enable_admin_cors", "deployment.admin.enable_admin_cors"),
    ("apisix.config_center", "deployment.role_traditional.config_provider"),
    ("apisix.ssl.key_encrypt_salt", "apisix.data_encryption.keyring"),
    ("apisix.data_encryption.enable", "apisix.data_encryption.enable_encrypt_fields"),
    ("apisix.ssl.listen_port", "apisix.ssl.listen"),
    ("etcd", "deployment.etcd"),
    ("nginx_config.http.lua_shared_dicts", "nginx_config.http.custom_lua_shared_dict"),
];

/// Keys that every config.yaml of 2.x has one of, and none of 3.x.
const MARKS: &[&str] =
    &["apisix.admin_key", "apisix.allow_admin", "apisix.config_center", "apisix.port_admin", "etcd"];

/// Defaults that 3.0 changed: key, value then, what it means.
const OLD_DEFAULTS: &[(&str, &str, &str)] = &[
    ("apisix.router.http", "radixtree_uri", "routes are looked up by path first"),
    ("deployment.admin.admin_api_version", "v2", "the Admin API answers in the shape of 2.x"),
];

/// Moves all old keys. Where the new key is set too, the new one counts.
pub(crate) fn modernise(root: &mut Node, notes: &mut Vec<Fault>) {
    let has_deployment = root.get("deployment").is_some();
    let mut mark = None;
    for (old, new) in MOVED {
        let Some(entry) = take(root, old) else { continue };
        if MARKS.contains(old) {
            mark.get_or_insert((entry.line, entry.column));
        }
        let (line, column) = (entry.line, entry.column);
        let value = if *old == "apisix.ssl.listen_port" { as_listen_list(entry.value) } else { entry.value };
        let message = if insert(root, new, value) {
            format!("{old} is the APISIX 2.x name; it is read as {new}")
        } else {
            format!("{old} is ignored because {new} is set too")
        };
        notes.push(Fault { line, column, message });
    }
    if let Some(place) = mark.filter(|_| !has_deployment) {
        fill_old_defaults(root, place, notes);
    }
}

/// What a file of 2.x does not say means what it meant then.
fn fill_old_defaults(root: &mut Node, (line, column): (usize, usize), notes: &mut Vec<Fault>) {
    let scalar = |value: Value, text: String| Node { line, column, content: Content::Scalar { value, text } };
    let mut note = |message: String| notes.push(Fault { line, column, message });
    for (key, value, meaning) in OLD_DEFAULTS {
        if insert(root, key, scalar(Value::from(*value), (*value).to_owned())) {
            note(format!("this is a configuration of APISIX 2.x, where {key} is {value}: {meaning}"));
        }
    }
    let off = root.get("apisix").and_then(|apisix| apisix.get("enable_admin"));
    let off = off.is_some_and(|node| node.clone().into_value() == Value::Bool(false));
    let listens = root.get("deployment").and_then(|deployment| deployment.get("admin")?.get("admin_listen"));
    if off || listens.is_some() {
        return;
    }
    let port =
        root.get("apisix").and_then(|apisix| apisix.get("node_listen")).and_then(first_port).unwrap_or(9080);
    if insert(root, "deployment.admin.admin_listen.port", scalar(Value::from(port), port.to_string())) {
        note(format!(
            "this is a configuration of APISIX 2.x without port_admin: the Admin API shares port {port} with the traffic"
        ));
    }
}

/// The first port of `node_listen`: a number, or a list of numbers and of `{port}`.
fn first_port(listen: &Node) -> Option<u16> {
    let first = match &listen.content {
        Content::List(items) => items.first()?,
        _ => listen,
    };
    let port = first.get("port").unwrap_or(first).clone().into_value();
    let number = port.as_u64().or_else(|| port.as_str()?.parse().ok())?;
    number.try_into().ok()
}

fn take(node: &mut Node, path: &str) -> Option<Entry> {
    let Content::Map(entries) = &mut node.content else { return None };
    match path.split_once('.') {
        Some((name, rest)) => {
            let entry = entries.iter_mut().find(|entry| entry.key == name)?;
            take(&mut entry.value, rest)
        }
        None => {
            let place = entries.iter().position(|entry| entry.key == path)?;
            Some(entries.remove(place))
        }
    }
}

/// Puts a value at a path; false when something else is there.
fn insert(node: &mut Node, path: &str, value: Node) -> bool {
    let (line, column) = (value.line, value.column);
    if node.is_null() {
        node.content = Content::Map(Vec::new());
    }
    let Content::Map(entries) = &mut node.content else { return false };
    let (name, rest) = match path.split_once('.') {
        Some((name, rest)) => (name, Some(rest)),
        None => (path, None),
    };
    let present = entries.iter_mut().find(|entry| entry.key == name);
    match (present, rest) {
        (Some(entry), Some(rest)) => insert(&mut entry.value, rest, value),
        (Some(_), None) => false,
        (None, None) => {
            entries.push(Entry { key: name.to_owned(), line, column, value });
            true
        }
        (None, Some(rest)) => {
            let mut below = Node { line, column, content: Content::Map(Vec::new()) };
            insert(&mut below, rest, value);
            entries.push(Entry { key: name.to_owned(), line, column, value: below });
            true
        }
    }
}

/// `9443` or `[9443, 9444]` as `[{port: 9443}, ...]`.
fn as_listen_list(value: Node) -> Node {
    let (line, column) = (value.line, value.column);
    let ports = match value.content {
        Content::List(ports) => ports,
        content => vec![Node { line, column, content }],
    };
    let with_key = |port: Node| {
        let (line, column) = (port.line, port.column);
        let entry = Entry { key: "port".to_owned(), line, column, value: port };
        Node { line, column, content: Content::Map(vec![entry]) }
    };
    Node { line, column, content: Content::List(ports.into_iter().map(with_key).collect()) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(text: &str, expected: Value, notes_expected: &[&str]) {
        let mut root = crate::yaml::parse(text).unwrap();
        let mut notes = Vec::new();
        modernise(&mut root, &mut notes);
        assert_eq!(root.into_value(), expected, "{text}");
        assert_eq!(notes.iter().map(Fault::to_string).collect::<Vec<_>>(), notes_expected, "{text}");
    }

    #[test]
    fn moves() {
        check(
            "apisix:\n  port_admin: 9999\n  config_center: yaml\ndeployment:\n",
            json!({"apisix": {}, "deployment": {"admin": {"admin_listen": {"port": 9999}}, "role_traditional": {"config_provider": "yaml"}}}),
            &[
                "2:3: apisix.port_admin is the APISIX 2.x name; it is read as deployment.admin.admin_listen.port",
                "3:3: apisix.config_center is the APISIX 2.x name; it is read as deployment.role_traditional.config_provider",
            ],
        );
        check(
            "etcd: {prefix: /old}\ndeployment: {etcd: {prefix: /new}}\n",
            json!({"deployment": {"etcd": {"prefix": "/new"}}}),
            &["1:1: etcd is ignored because deployment.etcd is set too"],
        );
        check(
            "apisix: {ssl: {listen_port: 9443}}",
            json!({"apisix": {"ssl": {"listen": [{"port": 9443}]}}}),
            &["1:16: apisix.ssl.listen_port is the APISIX 2.x name; it is read as apisix.ssl.listen"],
        );
        check("apisix:\n", json!({"apisix": null}), &[]);
    }

    #[test]
    fn defaults_of_the_second_version() {
        let filled = |text: &str| {
            let mut root = crate::yaml::parse(text).unwrap();
            modernise(&mut root, &mut Vec::new());
            root.into_value()
        };
        for (listen, port) in [
            ("9081", 9081),
            ("[9082, 9083]", 9082),
            ("[{ip: 127.0.0.2, port: 9084}]", 9084),
            ("'9085'", 9085),
        ] {
            let value = filled(&format!("apisix: {{node_listen: {listen}, allow_admin: [127.0.0.1]}}"));
            assert_eq!(value["deployment"]["admin"]["admin_listen"]["port"], port, "{listen}");
        }
        let value = filled("etcd: {host: ['http://e:1']}");
        assert_eq!(value["deployment"]["admin"]["admin_listen"]["port"], 9080);
        assert_eq!(value["apisix"]["router"]["http"], "radixtree_uri");
        assert_eq!(value["deployment"]["admin"]["admin_api_version"], "v2");
        let value =
            filled("apisix: {config_center: etcd, router: {http: radixtree_host_uri}, enable_admin: false}");
        assert_eq!(value["apisix"]["router"]["http"], "radixtree_host_uri");
        assert_eq!(value["deployment"]["admin"].get("admin_listen"), None);
        let value = filled("apisix: {port_admin: 9180}");
        assert_eq!(value["deployment"]["admin"]["admin_listen"]["port"], 9180);
    }
}
