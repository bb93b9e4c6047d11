//! What Kong refuses: entities that are not mappings, keys that it does not know, values of another kind, and routes without a
//! condition. Whatever such a file means to say, a guard or a condition in it must not be left out.

mod conditions;
mod keys;
mod place;

use serde_json::Value;
use tidegate_config::yaml::{Content, Node};

use self::{
    keys::{Kind, ROOT, known_list},
    place::{at, at_key},
};
use crate::fields;

/// The first of them, with its place.
pub(super) fn check(root: &Node) -> Result<(), String> {
    for entry in fields::entries(root) {
        if !entry.key.starts_with('_')
            && !ROOT.contains(&entry.key.as_str())
            && known_list(&entry.key).is_none()
        {
            return Err(at_key(entry, "the file", "Kong has no such entities"));
        }
    }
    flags(root, &["_transform"], "the file")?;
    lists(root)
}

/// The lists of entities in a mapping.
fn lists(node: &Node) -> Result<(), String> {
    for entry in fields::entries(node) {
        let Some(kind) = known_list(&entry.key) else { continue };
        for item in fields::list(&entry.value) {
            entity(item, kind)?;
        }
    }
    Ok(())
}

fn entity(node: &Node, kind: &Kind) -> Result<(), String> {
    if !matches!(node.content, Content::Map(_)) {
        return match kind.may_be_name && fields::text(node).is_some() {
            true => Ok(()),
            false => Err(at(node, &format!("a {} is a mapping", kind.what))),
        };
    }
    for entry in fields::entries(node) {
        // Comments.
        if !kind.keys.contains(&entry.key.as_str()) && !entry.key.starts_with('_') {
            return Err(at_key(entry, &format!("a {}", kind.what), "Kong has no such field"));
        }
    }
    flags(node, kind.flags, &format!("a {}", kind.what))?;
    for key in kind.needed {
        if super::node::key_text(node, key).is_none() {
            return Err(at(node, &format!("a {} needs `{key}`", kind.what)));
        }
    }
    if kind.what == "route" {
        conditions::check(node)?;
    }
    lists(node)
}

/// A text that looks like a flag is none to Kong.
fn flags(node: &Node, names: &[&str], what: &str) -> Result<(), String> {
    for name in names {
        let Some(value) = node.get(name) else { continue };
        match &value.content {
            Content::Scalar { value: Value::Bool(_), .. } => {}
            _ => return Err(at(value, &format!("`{name}` of {what} is neither true nor false"))),
        }
    }
    Ok(())
}
