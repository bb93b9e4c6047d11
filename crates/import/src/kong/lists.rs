//! Lists of entities that are not lists: Kong refuses such a file, and a guard in one must not be left out.

use serde_json::Value;
use tidegate_config::yaml::{Content, Node};

const LISTS: [&str; 18] = [
    "services",
    "routes",
    "plugins",
    "consumers",
    "consumer_groups",
    "upstreams",
    "targets",
    "certificates",
    "filter_chains",
    "partials",
    "acls",
    "groups",
    "keyauth_credentials",
    "basicauth_credentials",
    "jwt_secrets",
    "hmacauth_credentials",
    "consumer_group_consumers",
    "consumer_group_plugins",
];

/// Refuses the file at the first of them.
pub(super) fn check(node: &Node) -> Result<(), String> {
    match &node.content {
        Content::Map(entries) => entries.iter().try_for_each(|entry| {
            let is_null = matches!(&entry.value.content, Content::Scalar { value: Value::Null, .. });
            let is_list = matches!(&entry.value.content, Content::List(_));
            if LISTS.contains(&entry.key.as_str()) && !is_list && !is_null {
                return Err(format!("{}:{}: {} is not a list", entry.line, entry.column, entry.key));
            }
            // The settings of a plugin have keys of their own.
            if entry.key == "config" { Ok(()) } else { check(&entry.value) }
        }),
        Content::List(items) => items.iter().try_for_each(check),
        Content::Scalar { .. } => Ok(()),
    }
}
