//! A route with one of its paths, and its place in the order.

use std::cmp::Reverse;

use serde_json::Value;
use tidegate_config::yaml::Node;

use super::{order::Path, priority::Priorities};

pub(super) struct Entry<'a> {
    pub node: &'a Node,
    pub service: Option<&'a Node>,
    pub path: Path,
    pub hosts: Vec<String>,
    pub rank: Rank,
    /// In the versions and settings of Kong; `None`: they agree with the rank.
    pub priorities: Option<Priorities>,
    /// What its `expression` asks besides the path.
    pub conditions: Vec<Value>,
    /// Its expressions are those of Rust.
    pub(crate) is_rust: bool,
    /// Why it is closed, where its own fields say so.
    pub fault: Option<String>,
    /// Some of its fields do not mean here what they mean in Kong.
    pub(super) differs: bool,
}

/// Smaller is asked first.
pub(super) type Rank = (
    Reverse<usize>,
    bool,
    Reverse<usize>,
    bool,
    Reverse<i64>,
    Reverse<usize>,
    // Of the id, where it decides.
    Reverse<Option<u128>>,
    usize,
);
