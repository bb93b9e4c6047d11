//! A stored resource: its kind, its id, its value and the revisions that made it.

use std::sync::Arc;

use serde_json::Value;

use crate::Document;

/// The kinds of resources, in the order in which references point (a later kind may name an earlier one).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A secret manager: `/secrets/MANAGER/ID`.
    Secret,
    /// A protobuf definition.
    Proto,
    /// A certificate, of servers or clients.
    Ssl,
    /// Nodes and how they are balanced.
    Upstream,
    /// What several routes have in common.
    Service,
    /// Plugins that several routes have in common.
    PluginConfig,
    /// Plugins that several consumers have in common.
    ConsumerGroup,
    /// A client that authenticates.
    Consumer,
    /// A credential of a consumer: `/consumers/NAME/credentials/ID`.
    Credential,
    /// Plugins that run for every request.
    GlobalRule,
    /// What a plugin has in common everywhere.
    PluginMetadata,
    /// Conditions on requests, and what becomes of those that meet them.
    Route,
    /// A route for TCP and UDP.
    StreamRoute,
    /// The cost of a GraphQL field.
    GraphqlCostDecoration,
}

impl Kind {
    /// All kinds, each after those that it may refer to.
    pub const ALL: [Kind; 14] = [
        Kind::Secret,
        Kind::Proto,
        Kind::Ssl,
        Kind::Upstream,
        Kind::Service,
        Kind::PluginConfig,
        Kind::ConsumerGroup,
        Kind::Consumer,
        Kind::Credential,
        Kind::GlobalRule,
        Kind::PluginMetadata,
        Kind::Route,
        Kind::StreamRoute,
        Kind::GraphqlCostDecoration,
    ];

    /// The directory below the key prefix, which is also the name in Admin API paths and in apisix.yaml.
    ///
    /// Credentials live below `consumers` (`consumers/NAME/credentials/ID`) and graphql cost decorations
    /// below `services`; their ids carry that path: `NAME/credentials/ID`.
    pub fn directory(self) -> &'static str {
        match self {
            Kind::Secret => "secrets",
            Kind::Proto => "protos",
            Kind::Ssl => "ssls",
            Kind::Upstream => "upstreams",
            Kind::Service | Kind::GraphqlCostDecoration => "services",
            Kind::PluginConfig => "plugin_configs",
            Kind::ConsumerGroup => "consumer_groups",
            Kind::Consumer | Kind::Credential => "consumers",
            Kind::GlobalRule => "global_rules",
            Kind::PluginMetadata => "plugin_metadata",
            Kind::Route => "routes",
            Kind::StreamRoute => "stream_routes",
        }
    }

    /// The word for one such resource in APISIX's messages ("missing route id").
    pub fn noun(self) -> &'static str {
        match self {
            Kind::Secret => "secret",
            Kind::Proto => "proto",
            Kind::Ssl => "ssl",
            Kind::Upstream => "upstream",
            Kind::Service => "service",
            Kind::PluginConfig => "plugin config",
            Kind::ConsumerGroup => "consumer group",
            Kind::Consumer => "consumer",
            Kind::Credential => "credential",
            Kind::GlobalRule => "global rule",
            Kind::PluginMetadata => "plugin_metadata",
            Kind::Route => "route",
            Kind::StreamRoute => "stream route",
            Kind::GraphqlCostDecoration => "graphql cost decoration",
        }
    }
}

/// An object that cannot be used, and why. What it guards stays shut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Of the object.
    pub kind: Kind,
    /// Of the object.
    pub id: Arc<str>,
    /// Why it cannot be used. Names no secrets.
    pub reason: String,
    /// True for a route of which no path is known, so that the requests it is for are not refused.
    pub is_placeless: bool,
}

/// Lookup of the objects of a configuration.
pub trait Objects {
    /// `None`: the object does not exist.
    fn get(&self, kind: Kind, id: &str) -> Option<Object>;
    /// Objects whose text has `name` as the name of a field somewhere; may include false positives.
    fn with_field(&self, name: &str) -> Vec<Object>;
    /// Objects of one kind.
    fn of_kind(&self, kind: Kind) -> Vec<Object>;
}

/// One stored resource: what the user sent plus `id`, `create_time` and `update_time`.
///
/// Schema defaults are not in it; compiling fills them into a copy. Secret fields
/// (`encrypt_fields`) are plain here: stores that encrypt at rest do so at their own edge.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// Which schema holds for it.
    pub kind: Kind,
    /// The id below its directory: `1`, `jack`, `jack/credentials/34`, `vault/test` (secrets).
    pub id: Arc<str>,
    /// The object as stored.
    pub document: Document,
    /// The store's revision that created the object (`createdIndex`).
    pub created: u64,
    /// The store's revision that last wrote it (`modifiedIndex`).
    pub modified: u64,
    /// Why it cannot be used, where its provider found that out. It stays in the state: what it guards has to stay shut.
    /// Boxed, because there may be 50,000 objects and hardly one has any.
    pub fault: Option<Box<Fault>>,
    /// Why a newer value of it could not be read. This one stays in effect.
    pub unread: Option<Arc<str>>,
}

/// Why an object cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Why it cannot be read.
    pub reason: Arc<str>,
    /// The stored text itself was faulty; the document does not show it.
    pub in_text: bool,
    /// The requests it is for, where its document does not show all of them: an object of its kind with that alone.
    pub place: Option<Document>,
}

impl From<&str> for Box<Fault> {
    fn from(reason: &str) -> Box<Fault> {
        Box::new(Fault { reason: reason.into(), in_text: false, place: None })
    }
}

impl Object {
    /// See [`Document::value`].
    pub fn value(&self) -> Arc<Value> {
        self.document.value()
    }

    /// The value whose fields show which requests it is for.
    pub fn place(&self) -> Arc<Value> {
        let place = self.fault.as_ref().and_then(|fault| fault.place.as_ref());
        place.unwrap_or(&self.document).value()
    }

    /// Whether nothing of it could be read, so that its place is not known.
    pub fn is_lost(&self) -> bool {
        let is_unreadable = |fault: &Fault| fault.in_text && fault.place.is_none();
        self.fault.as_deref().is_some_and(is_unreadable) && self.document.text() == "{}"
    }
}
