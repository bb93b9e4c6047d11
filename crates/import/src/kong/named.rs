//! Which entity refers to which, found without going through all of them.

use std::{collections::HashMap, ops::Deref};

use tidegate_config::yaml::Node;

use super::node::key_text;
use crate::fields;

/// Entities of a kind, which others refer to.
#[derive(Default)]
pub(super) struct Named<'a> {
    all: Vec<&'a Node>,
    by_name: HashMap<String, &'a Node>,
}

impl<'a> Named<'a> {
    pub(super) fn of(nodes: impl Iterator<Item = &'a Node>) -> Self {
        let mut named = Named::default();
        for node in nodes {
            named.all.push(node);
            for name in ["id", "name", "username", "custom_id"].iter().filter_map(|key| key_text(node, key)) {
                named.by_name.entry(name).or_insert(node);
            }
        }
        named
    }

    /// The entity a reference means: by name or id, as text or as `{name: ...}`, `{id: ...}`.
    pub(super) fn find(&self, reference: Option<&Node>) -> Option<&'a Node> {
        let reference = reference?;
        let wanted = fields::text(reference)
            .or_else(|| ["id", "name", "username"].iter().find_map(|key| key_text(reference, key)))?;
        self.by_name.get(&wanted).copied()
    }

    /// A consumer by its id, else by its username.
    pub(super) fn consumer(&self, wanted: &str) -> Option<&'a Node> {
        let is_it = |node: &&Node| {
            ["id", "username"].iter().any(|key| key_text(node, key).as_deref() == Some(wanted))
        };
        // It may be the `custom_id` of another one.
        let known = self.by_name.get(wanted).copied()?;
        if is_it(&known) { Some(known) } else { self.all.iter().copied().find(is_it) }
    }

    /// By its name alone.
    pub(super) fn named(&self, name: &str) -> Option<&'a Node> {
        let is_it = |node: &&Node| key_text(node, "name").as_deref() == Some(name);
        let known = self.by_name.get(name).copied()?;
        if is_it(&known) { Some(known) } else { self.all.iter().copied().find(is_it) }
    }
}

impl<'a> Deref for Named<'a> {
    type Target = [&'a Node];

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

/// What stands elsewhere than in its owner, by owner.
pub(super) struct Owned<T>(HashMap<*const Node, Vec<T>>);

impl<T> Default for Owned<T> {
    fn default() -> Self {
        Owned(HashMap::new())
    }
}

impl<T> Owned<T> {
    pub(super) fn by(items: impl Iterator<Item = (Option<*const Node>, T)>) -> Self {
        let mut all: HashMap<*const Node, Vec<T>> = HashMap::new();
        for (owner, item) in items {
            if let Some(owner) = owner {
                all.entry(owner).or_default().push(item);
            }
        }
        Owned(all)
    }

    pub(super) fn of(&self, owner: &Node) -> &[T] {
        self.0.get(&std::ptr::from_ref(owner)).map(Vec::as_slice).unwrap_or_default()
    }
}
