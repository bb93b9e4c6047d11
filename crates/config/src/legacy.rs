//! config.yaml of APISIX 2.x: keys that have moved since are put where they are now, with a note.

use crate::yaml::{Content, Entry, Fault, Node};

/// Old path, new path. The old value is taken as it is.
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
    ("apisix.ssl.listen_port", "apisix.ssl.listen"),
    ("etcd", "deployment.etcd"),
    ("nginx_config.http.lua_shared_dicts", "nginx_config.http.custom_lua_shared_dict"),
];

/// Moves all old keys. Where the new key is set too, the new one counts.
pub fn modernise(root: &mut Node, notes: &mut Vec<Fault>) {
    for (old, new) in MOVED {
        let Some(entry) = take(root, old) else { continue };
        let (line, column) = (entry.line, entry.column);
        let value = if *old == "apisix.ssl.listen_port" { as_listen_list(entry.value) } else { entry.value };
        let message = if insert(root, new, value) {
            format!("{old} is where APISIX 2.x had it; it is read as {new}")
        } else {
            format!("{old} is ignored because {new} is set too")
        };
        notes.push(Fault { line, column, message });
    }
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
    use serde_json::{Value, json};

    use super::*;

    fn check(text: &str, expected: Value, notes_expected: &[&str]) {
        let mut root = crate::yaml::parse(text).unwrap().root;
        let mut notes = Vec::new();
        modernise(&mut root, &mut notes);
        assert_eq!(root.into_value(), expected, "{text}");
        assert_eq!(notes.iter().map(Fault::to_string).collect::<Vec<_>>(), notes_expected, "{text}");
    }

    #[test]
    fn moves() {
        check(
            "apisix:\n  port_admin: 9999\n  config_center: yaml\n",
            json!({"apisix": {}, "deployment": {"admin": {"admin_listen": {"port": 9999}}, "role_traditional": {"config_provider": "yaml"}}}),
            &[
                "2:3: apisix.port_admin is where APISIX 2.x had it; it is read as deployment.admin.admin_listen.port",
                "3:3: apisix.config_center is where APISIX 2.x had it; it is read as deployment.role_traditional.config_provider",
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
            &["1:16: apisix.ssl.listen_port is where APISIX 2.x had it; it is read as apisix.ssl.listen"],
        );
        check("apisix:\n", json!({"apisix": null}), &[]);
    }
}
