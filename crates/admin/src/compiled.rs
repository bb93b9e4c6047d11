//! What the compiler makes of objects: before they are written, and of those that are there.

use std::sync::Arc;

use serde_json::Value;
use tidegate_model::{Document, Kind, Object, Objects, Rejected};

/// The compiler, as the Admin API asks it.
pub trait Compiled: Send + Sync {
    /// Those of `changed`, and of what is built from them, that could not be used. `before` and `after` have all objects,
    /// without and with the change. A missing secret does not count.
    fn try_out(&self, changed: &[Object], before: &dyn Objects, after: &dyn Objects) -> Vec<Rejected>;
    /// The objects that cannot be used now.
    fn rejected(&self) -> Arc<[Rejected]>;
    /// Requests of a route that another one answers before, and of others that this one does.
    fn place(&self, _route: &str) -> Vec<Remark> {
        Vec::new()
    }
    /// As [`Compiled::place`], once `changed` were written and the `gone` routes deleted: each with its route.
    fn places(&self, _changed: &[Object], _gone: &[&str], _after: &dyn Objects) -> Vec<(Arc<str>, Remark)> {
        Vec::new()
    }
    /// What the author of an object should know although it can be used.
    fn warnings(&self) -> Arc<[Rejected]> {
        Arc::new([])
    }
}

/// What to know of a route's place.
#[derive(Clone, Debug)]
pub struct Remark {
    /// The other routes that it tells of.
    pub others: Vec<Arc<str>>,
    /// In words, with a remedy.
    pub text: String,
    /// The same with nothing of the others but their ids.
    pub discreet: String,
}

/// Finds nothing wrong.
pub struct NoCompiler;

impl Compiled for NoCompiler {
    fn try_out(&self, _: &[Object], _: &dyn Objects, _: &dyn Objects) -> Vec<Rejected> {
        Vec::new()
    }

    fn rejected(&self) -> Arc<[Rejected]> {
        Arc::new([])
    }
}

/// A value that is not written yet.
pub(crate) fn proposed(kind: Kind, id: &str, value: &Value) -> Object {
    Object {
        kind,
        id: id.into(),
        document: Document::new(value),
        created: 0,
        modified: 0,
        fault: None,
        unread: None,
    }
}

/// One object over all others.
pub(crate) struct With<'a> {
    pub changed: &'a Object,
    pub rest: &'a dyn Objects,
}

impl Objects for With<'_> {
    fn get(&self, kind: Kind, id: &str) -> Option<Object> {
        let is_changed = (self.changed.kind, &*self.changed.id) == (kind, id);
        if is_changed { Some(self.changed.clone()) } else { self.rest.get(kind, id) }
    }

    fn with_field(&self, name: &str) -> Vec<Object> {
        let mut found = self.rest.with_field(name);
        found.retain(|object| (object.kind, &object.id) != (self.changed.kind, &self.changed.id));
        found.push(self.changed.clone());
        found
    }

    fn of_kind(&self, kind: Kind) -> Vec<Object> {
        let mut found = self.rest.of_kind(kind);
        found.retain(|object| (object.kind, &object.id) != (self.changed.kind, &self.changed.id));
        found.extend((self.changed.kind == kind).then(|| self.changed.clone()));
        found
    }
}

/// As it appears in a message about another object.
pub(crate) fn named(rejected: &Rejected) -> String {
    format!("{}/{}: {}", rejected.kind.directory(), rejected.id, rejected.reason)
}
