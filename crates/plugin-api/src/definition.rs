//! The declaration of a plugin and its life cycle: JSON, schema check, `build`, used.

use std::{
    any::Any,
    future::{Future, ready},
    pin::Pin,
    sync::Arc,
};

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tidegate_model::{
    Kind, SchemaKind,
    catalog::{Nested, no_nested, no_remarks},
    header_text::{self, Place},
};

use crate::{BodyChunk, Request, Step, UpstreamHandle};

/// The phases a plugin takes part in, as APISIX names them. A bit set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phases(pub u16);

impl Phases {
    pub const NONE: Phases = Phases(0);
    pub const ALL: Phases = Phases(511);
    pub const REWRITE: Phases = Phases(1);
    pub const ACCESS: Phases = Phases(2);
    pub const BEFORE_PROXY: Phases = Phases(4);
    pub const HEADER_FILTER: Phases = Phases(8);
    pub const BODY_FILTER: Phases = Phases(16);
    pub const LOG: Phases = Phases(32);
    /// Counts only beside `ACCESS`. APISIX has no such phase: see [`Plugin::stored`].
    pub const STORED: Phases = Phases(64);
    /// APISIX has no such phase: see [`Plugin::received`].
    pub const RECEIVED: Phases = Phases(128);
    /// APISIX has no such phase: see [`Plugin::departing`].
    pub const DEPARTING: Phases = Phases(256);

    pub const fn and(self, other: Phases) -> Phases {
        Phases(self.0 | other.0)
    }

    pub const fn contains(self, other: Phases) -> bool {
        self.0 & other.0 == other.0
    }
}

/// How a reason of `build` begins where the configuration passed its schema but does not fit: a number out of range.
pub const MISFIT: &str = "invalid configuration";

/// Reads a configuration that has passed its schema.
pub fn typed<T: DeserializeOwned>(conf: &Value) -> Result<T, String> {
    tidegate_model::typed(conf).map_err(|reason| format!("{MISFIT}: {reason}"))
}

/// Whose configuration an instance is built from.
#[derive(Clone, Debug)]
pub struct Owner {
    pub kind: Kind,
    pub id: Arc<str>,
    /// The revision that wrote the owner: limits start over when it changes, as in APISIX.
    pub version: u64,
}

/// The inputs of `build` besides the configuration itself.
pub struct BuildContext<'a> {
    pub owner: &'a Owner,
    /// The plugin's `plugin_metadata`, defaults filled in.
    pub metadata: Option<&'a Value>,
    /// The upstreams that [`PluginDef::inline_upstreams`] found, ready for use and in its order.
    pub upstreams: &'a [Arc<UpstreamHandle>],
    /// The text of the `protos` resource that `proto_id` names.
    pub proto: Option<&'a str>,
}

/// See [`Plugin::whole_body`].
pub type WholeBody<'a> = Pin<Box<dyn Future<Output = Result<Bytes, u16>> + 'a>>;

/// A built configuration of a plugin. Shared by all workers; state that changes per request belongs in atomics
/// or in the request's [`crate::Extensions`].
#[allow(unused_variables)]
pub trait Plugin: Send + Sync {
    /// The phases that this configuration takes part in, of those its declaration names. Fewer cost less.
    fn phases(&self) -> Phases {
        Phases::ALL
    }
    /// Removes parts of the request that do not belong to the resource, such as a key in the path. Runs before every
    /// phase, of global rules as well, so that all guards judge what the upstream will see. It decides nothing.
    fn received(&self, request: &mut Request) {}
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        Step::Next
    }
    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        Step::Next
    }
    /// Runs before each attempt to reach an upstream node.
    fn before_proxy<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        Step::Next
    }
    /// The request is about to go to its upstream: all plugins that may refuse or answer it have run. Runs once, before the
    /// first attempt.
    fn departing<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        Step::Next
    }
    /// Answers from a cache, in the upstream's place. Runs when no plugin that may refuse is left to run before the
    /// proxy, whatever the priorities, so that a stored answer is only for clients whom the upstream would answer.
    fn stored<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        Step::Next
    }
    /// Sees and edits `request.response`, of the upstream or of the gateway itself.
    fn header_filter(&self, request: &mut Request) {}
    /// Sees and edits each piece of the response body. A plugin that changes its length calls
    /// [`crate::Response::body_modified`] in `header_filter` first.
    fn body_filter(&self, request: &mut Request, chunk: &mut BodyChunk) {}
    /// Makes a new body of the one that `body_filter` took whole, after it set [`crate::Passage::Waits`] at the last
    /// piece. It may wait, for a thread that does long work. `Err`: see [`crate::Passage::Refused`].
    fn whole_body<'a>(&'a self, request: &'a mut Request) -> WholeBody<'a> {
        Box::pin(ready(Ok(Bytes::new())))
    }
    /// Runs when the answer is out. It must not block.
    fn log(&self, request: &mut Request) {}
}

/// A URI that a plugin answers itself, reachable through plugin `public-api`.
pub struct Api {
    pub methods: &'static [&'static str],
    pub uri: &'static str,
    pub handler: for<'a> fn(&'a mut Request) -> Step<'a>,
}

/// A consumer's (or credential's) authentication data: the key it is found by, and its typed form.
pub struct ConsumerKey {
    pub key: String,
    pub data: Box<dyn Any + Send + Sync>,
}

/// The declaration of a plugin; one `static` per file.
pub struct PluginDef {
    pub name: &'static str,
    pub version: f64,
    /// Plugins run from the highest priority to the lowest.
    pub priority: i64,
    /// `Some("auth")` for authentication plugins.
    pub kind: Option<&'static str>,
    /// `Some("global")` when it is not meant for single routes.
    pub scope: Option<&'static str>,
    /// Enabled when config.yaml has no list of plugins. Not set for plugins that APISIX leaves off and that cost without being
    /// used.
    pub on_by_default: bool,
    /// JSON schemas, in APISIX's shape and with its defaults.
    pub schema: &'static str,
    pub consumer_schema: Option<&'static str>,
    pub metadata_schema: Option<&'static str>,
    /// Paths of secret fields, encrypted at rest.
    pub encrypt_fields: &'static [&'static str],
    pub phases: Phases,
    /// A global rule's instance steps back when the route has the plugin itself (`run_policy = prefer_route`).
    pub prefer_route: bool,
    /// Replaces the message for a configuration that the schema refuses: gets the configuration and the
    /// schema's message.
    pub explain: fn(&Value, String) -> String,
    /// It may refuse requests: a route that has it is refused when the plugin is not enabled, or when it refers to a
    /// missing secret. As in APISIX, other plugins are skipped, or keep the reference as a text.
    pub guards: bool,
    /// It answers requests in the upstream's place, chooses the upstream, or removes parts of answers: without it the
    /// upstream would expose what it should not. A route that has it is refused when the plugin is not enabled.
    pub answers: bool,
    /// Rules that a schema cannot express. Runs after the schema, on the configuration with defaults.
    pub check: fn(&Value, SchemaKind) -> Result<(), String>,
    /// Where a configuration has names and values of header fields. They are checked after `check`.
    pub headers: &'static [Place],
    /// The configurations of other plugins inside this one's: they are checked like those of an object.
    pub nested: fn(&Value) -> Vec<Nested<'_>>,
    /// Parts of an accepted configuration that have no effect, as messages. They are reported to the author
    /// of the write, and logged.
    pub remarks: fn(&Value) -> Vec<String>,
    /// The same of the plugin's metadata.
    pub metadata_headers: &'static [Place],
    pub build: fn(&Value, &BuildContext) -> Result<Arc<dyn Plugin>, String>,
    /// Authentication plugins: how consumers are found.
    pub consumer: Option<fn(&Value) -> Result<ConsumerKey, String>>,
    /// The upstreams written inside a configuration. They are compiled, resolved and checked like any other.
    pub inline_upstreams: Option<fn(&Value) -> Vec<&Value>>,
    pub apis: &'static [Api],
    /// A plugin that works beside requests: called with its metadata, defaults filled in, after each change of the
    /// configuration. `None` where there is none, or the plugin is not enabled.
    pub follow_metadata: Option<fn(Option<&Value>)>,
    /// Called once at start with `plugin_attr.NAME`, before anything is built.
    pub start: Option<fn(&Value) -> Result<(), String>>,
}

fn as_it_is(_: &Value, reason: String) -> String {
    reason
}

fn no_check(_: &Value, _: SchemaKind) -> Result<(), String> {
    Ok(())
}

fn no_build(_: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    Err("plugin has no build function".to_owned())
}

impl PluginDef {
    /// The checks of a configuration after the schema has accepted it.
    pub fn check_accepted(&self, conf: &Value, kind: SchemaKind) -> Result<(), String> {
        (self.check)(conf, kind)?;
        match kind {
            SchemaKind::Plugin => header_text::check(conf, self.headers),
            SchemaKind::Metadata => header_text::check(conf, self.metadata_headers),
            SchemaKind::Consumer => Ok(()),
        }
    }

    pub const DEFAULT: PluginDef = PluginDef {
        name: "",
        version: 0.1,
        priority: 0,
        kind: None,
        scope: None,
        on_by_default: true,
        schema: r#"{"type":"object"}"#,
        consumer_schema: None,
        metadata_schema: None,
        encrypt_fields: &[],
        phases: Phases::NONE,
        prefer_route: false,
        guards: true,
        answers: false,
        explain: as_it_is,
        check: no_check,
        headers: &[],
        nested: no_nested,
        remarks: no_remarks,
        metadata_headers: &[],
        build: no_build,
        consumer: None,
        inline_upstreams: None,
        apis: &[],
        follow_metadata: None,
        start: None,
    };
}
