//! Messages with their places.

use tidegate_config::yaml::{Entry, Node};

pub(super) fn at(node: &Node, what: &str) -> String {
    format!("{}:{}: {what}; Kong refuses such a file", node.line, node.column)
}

pub(super) fn at_key(entry: &Entry, what: &str, why: &str) -> String {
    format!("{}:{}: `{}` of {what}: {why}, and refuses the file", entry.line, entry.column, entry.key)
}
