//! What an unknown key was probably meant to be.

use tidegate_model::nearest::nearest;

use crate::{
    keys::{
        self,
        key::{Fate, Takes},
    },
    yaml::node::{Content, Entry},
};

/// Names of nginx and APISIX, where they do not belong: table, name, what to do. Lists of names are separated by spaces.
const MEANT: [(&str, &str, &str); 4] = [
    ("apisix.stream_proxy.tcp[]", "ssl", "did you mean tls?"),
    ("apisix.node_listen[]", "ssl tls", "ports for HTTPS stand in apisix.ssl.listen"),
    (
        "apisix.ssl",
        "cert key certs keys ssl_cert ssl_cert_key ssl_certificate ssl_certificate_key",
        "certificates are ssl objects: PUT /apisix/admin/ssls, or ssls of apisix.yaml",
    ),
    ("apisix.ssl.listen[]", "ssl tls", "each port there is one for HTTPS; remove it"),
];

/// A similar name in the same table.
pub(super) fn near(table: &str, name: &str) -> Option<&'static str> {
    nearest(name, keys::children(table))
}

/// The end of the message: a similar name in the same table, or the same name elsewhere; else nothing.
pub(super) fn hint(table: &str, entry: &Entry) -> String {
    let name = entry.key.as_str();
    let meant =
        MEANT.iter().find(|(at, names, _)| *at == table && names.split(' ').any(|other| other == name));
    if let Some((_, _, remedy)) = meant {
        return format!("; {remedy}");
    }
    if let Some(known) = near(table, name) {
        return format!("; did you mean {known}?");
    }
    let named = |key: &&crate::keys::key::Key| key.path.rsplit('.').next() == Some(name);
    // Rather where such a value fits and does something, rather below the same table, and rather of HTTP.
    let is_table = matches!(entry.value.content, Content::Map(_));
    let rank = |key: &&crate::keys::key::Key| {
        let fits = matches!(key.takes, Takes::Table) == is_table;
        let is_elsewhere = !key.path.starts_with(&format!("{table}."));
        (!fits, key.fate != Fate::Served, is_elsewhere, key.path.contains(".stream."))
    };
    let elsewhere = keys::all().filter(named).min_by_key(rank);
    elsewhere.map(|key| format!("; it belongs at {}", key.path)).unwrap_or_default()
}
