//! The types that refer to each other in a ring: a request has a snapshot and a route, a route has a chain, a chain has
//! plugins, and the phases of a plugin take the request.
//!
//! They are in one file, because none of them can be read without the others. What they do is in files of their own, which
//! build upon this one: `request.rs`, `chain.rs`, `consumer.rs`, `snapshot.rs`, `defaults.rs`.

use std::{
    any::Any,
    borrow::Cow,
    cell::{Cell, OnceCell, RefCell},
    future::ready,
    net::IpAddr,
    rc::Rc,
    sync::Arc,
    time::Instant,
};

use bytes::Bytes;
use rustc_hash::FxHashMap;
use serde_json::{Map, Value};
use smallvec::SmallVec;
use tidegate_model::{Document, SchemaKind, catalog::Nested, header_text::HeaderField};
use tidegate_protocol::{Head, RequestHead};
use tidegate_routing::{
    expr::{Expression, SearchTime},
    router::Router,
};

use crate::{
    BodyChunk, Extensions, Foresight, RequestBody, Response, Step, Variable,
    certificates::Certificates,
    connection::ConnectionInfo,
    definition::{BuildContext, ConsumerKey, Owner, Phases},
    edits::{Asserted, UpstreamEdits},
    graphql::weights::Weights,
    outcome::RequestLog,
    route::{Birth, Matched, RouteService, RouteUpstream, RouterOptions},
    session::StreamPlugin,
    sharded::Sharded,
    step::WholeBody,
    stream_route::StreamTable,
    table::Table,
    upstream::{Timeouts, UpstreamHandle},
    variables::BodyValues,
};

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
    /// Runs after matching, before any plugin's `access`.
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        Step::Next
    }
    /// Runs after each plugin's `rewrite`.
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
    /// What one of the phases above would do with a request that is only asked about. It has no effect but on the request, which
    /// it may change as the phase does: it counts, keeps and logs nothing, and calls no service. It decides with the functions of
    /// the phase itself; where these have no effect either, [`Foresight::by_running`] is the whole of it.
    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        Foresight::UNKNOWN
    }
    /// The phase before the upstream in which it answers each request, whatever that is like: what comes behind it never runs.
    /// [`Plugin::foresee`] need not say so again.
    fn answers_all_in(&self) -> Option<Phases> {
        None
    }
    /// Whether it may give an answer of the gateway another status.
    fn may_change_status(&self) -> bool {
        false
    }
    /// Sees and edits `request.response`, of the upstream or of the gateway itself.
    fn header_filter(&self, request: &mut Request) {}
    /// Whether `body_filter` has anything to do with this response, whose head has passed the filters. A body that no plugin looks at
    /// is sent as it comes.
    fn filters_body(&self, request: &Request) -> bool {
        true
    }
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
    /// The plugin itself, for its own APIs: they find the instances of routes.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
}

/// The declaration of a plugin; one `static` per file.
pub struct PluginDef {
    /// The key under `plugins`, with `-` between words.
    pub name: &'static str,
    /// As APISIX's plugin says; shown by `/apisix/admin/plugins`.
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
    /// Of authentication plugins: what a consumer or credential has.
    pub consumer_schema: Option<&'static str>,
    /// Of `plugin_metadata` objects.
    pub metadata_schema: Option<&'static str>,
    /// Paths of secret fields, encrypted at rest.
    pub encrypt_fields: &'static [&'static str],
    /// The methods of [`Plugin`] that do something; others are not called.
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
    /// Why only role admin may write its configurations: they run code, or name files of the machine, which have the gateway's keys
    /// in them.
    pub for_admins: Option<&'static str>,
    /// Rules that a schema cannot express. Runs after the schema, on the configuration with defaults.
    pub check: fn(&Value, SchemaKind) -> Result<(), String>,
    /// Where a configuration has names and values of header fields. They are checked after `check`.
    pub headers: &'static [HeaderField],
    /// The configurations of other plugins inside this one's: they are checked like those of an object.
    pub nested: fn(&Value) -> Vec<Nested<'_>>,
    /// Parts of an accepted configuration that have no effect, as messages. They are reported to the author
    /// of the write, and logged.
    pub remarks: fn(&Value) -> Vec<String>,
    /// The same of the plugin's metadata.
    pub metadata_remarks: fn(&Value) -> Vec<String>,
    /// The schemes of upstreams that it works with; empty: all.
    pub schemes: &'static [&'static str],
    /// Of stream routes: what it reads comes over TCP only.
    pub only_tcp: bool,
    /// The part of a configuration that is about a consumer, and what happens to it where none is known, as a message.
    pub of_consumer: fn(&Value) -> Option<String>,
    /// As `headers`, in the plugin's metadata.
    pub metadata_headers: &'static [HeaderField],
    /// Makes an instance of a configuration that passed schema and `check`. The error names what does not fit.
    pub build: fn(&Value, &BuildContext) -> Result<Arc<dyn Plugin>, String>,
    /// The same of a plugin of stream routes, which has a declaration of its own.
    pub build_stream: fn(&Value, &BuildContext) -> Result<Arc<dyn StreamPlugin>, String>,
    /// Authentication plugins: how consumers are found.
    pub consumer: Option<fn(&Value) -> Result<ConsumerKey, String>>,
    /// The upstreams that a configuration holds, or asks for. They are compiled, resolved and checked like any other.
    pub inline_upstreams: Option<fn(&Value) -> Vec<Cow<'_, Value>>>,
    /// URIs that the plugin answers itself.
    pub apis: &'static [Api],
    /// Paths of the Control API that the plugin answers.
    pub control: &'static [ControlPath],
    /// A plugin that works beside requests: called with its metadata, defaults filled in, after each change of the
    /// configuration. `None` where there is none, or the plugin is not enabled.
    pub follow_metadata: Option<fn(Option<&Value>)>,
    /// Called once at start with `plugin_attr.NAME`, before anything is built.
    pub start: Option<fn(&Value) -> Result<(), String>>,
    /// The user's file that declares it, in place of `check`, `build` and `consumer`.
    pub file: Option<&'static dyn PluginFile>,
}

/// A URI that a plugin answers itself, reachable through plugin `public-api`.
pub struct Api {
    /// Upper case.
    pub methods: &'static [&'static str],
    /// Exact path, or the beginning of paths with a `*` behind it; `plugin_attr.NAME.uri` moves it where the plugin has a
    /// single one.
    pub uri: &'static str,
    /// Answers requests for it.
    pub handler: Handler,
}

/// A plugin in a file. Its [`PluginDef`] has fields like any other, and asks here where others have functions.
pub trait PluginFile: Send + Sync {
    /// Rules that the schema cannot express, and why the file cannot be used.
    fn check(&self, conf: &Value, kind: SchemaKind) -> Result<(), String>;
    /// Makes an instance of a configuration that passed schema and `check`.
    fn build(
        &self,
        def: &'static PluginDef,
        conf: &Value,
        context: &BuildContext,
    ) -> Result<Arc<dyn Plugin>, String>;
    /// What of it does nothing, whatever its configuration: messages with file and line.
    fn remarks(&self) -> &[String];
    /// Whether it has a function `rewrite`, which plugin `multi-auth` asks for a verdict.
    fn has_rewrite(&self) -> bool;
    /// How a consumer with that configuration is found. `None`: it does not identify consumers.
    fn consumer(&self) -> Option<fn(&Value, &PluginDef) -> ConsumerKey>;
    /// It is on without a place in the list of plugins: another section of config.yaml names it.
    fn is_listed_elsewhere(&self) -> bool {
        false
    }
    /// Answers a request for the URI with that number in [`PluginDef::apis`].
    fn answer<'a>(&'a self, api: usize, request: &'a mut Request) -> Step<'a>;
}

/// What answers a URI.
pub enum Handler {
    /// Of a plugin of this program.
    Function(for<'a> fn(&'a mut Request) -> Step<'a>),
    /// Of a file: which of its URIs.
    File(&'static dyn PluginFile, usize),
}

/// A path of the Control API that a plugin answers to GET.
pub struct ControlPath {
    /// Exact.
    pub uri: &'static str,
    /// Gets the query; a string is answered as text, another value as JSON. It must not block.
    pub handler: fn(&str) -> Value,
}

/// A built plugin with its `_meta` settings.
pub struct Instance {
    /// The plugin's declaration.
    pub def: &'static PluginDef,
    /// Built of the configuration.
    pub plugin: Arc<dyn Plugin>,
    /// The object whose configuration this is.
    pub owner: Owner,
    /// `_meta.priority`, else the plugin's own.
    pub priority: i64,
    /// `_meta.filter`: the plugin runs only where this holds.
    pub filter: Option<Expression<Variable>>,
    /// `_meta.error_response`: replaces the body of its rejections.
    pub error_response: Option<Bytes>,
    /// `_meta.pre_function`, run before each phase.
    pub pre_function: Option<Arc<dyn Plugin>>,
}

/// Plugins in the order in which they run, with a list for each phase. Small: each of 50,000 routes has one.
#[derive(Clone, Default)]
pub struct PluginChain(
    /// `None`: no plugins. One word, because there may be 50,000 routes.
    pub(crate) Option<Arc<Links>>,
);

pub(crate) struct Links {
    pub(crate) instances: Box<[Arc<Instance>]>,
    /// The positions of those that take part in a phase, phase after phase.
    pub(crate) positions: Box<[u32]>,
    /// Where the positions of each phase end, in the order of its bit.
    pub(crate) ends: [u32; Phases::COUNT],
}

/// Who a request is from.
#[derive(Default)]
pub struct Consumer {
    /// Unique; `$consumer_name`.
    pub username: Arc<str>,
    /// `group_id`
    pub group_id: Option<Arc<str>>,
    /// As configured.
    pub labels: Map<String, Value>,
    /// `labels.custom_id`, sent upstream as `X-Consumer-Custom-ID`.
    pub custom_id: Option<Arc<str>>,
    /// Plugins of the consumer over those of its group, without authentication plugins; by falling priority.
    pub plugins: Vec<Arc<Instance>>,
    /// The group it names does not exist, or cannot be built: requests of this consumer get 503.
    pub group_missing: bool,
    /// The resource as configured, for policy plugins that pass it on.
    pub document: Document,
    /// The revision that wrote it.
    pub version: u64,
    /// Number of this consumer within the process, never reused: names it in per-worker caches and metrics.
    pub serial: u64,
}

/// A consumer's data for one authentication plugin, from the consumer itself or from one of its credentials.
pub struct AuthEntry {
    /// The owner of the key.
    pub consumer: Arc<Consumer>,
    /// `None`: the key is in the consumer itself.
    pub credential_id: Option<Arc<str>>,
    /// The result of the plugin's `consumer` function for the configuration.
    pub data: Box<dyn Any + Send + Sync>,
    /// The configuration itself, secrets resolved.
    pub value: Arc<Value>,
}

/// All consumers of a snapshot.
#[derive(Clone, Default)]
pub struct ConsumerIndex {
    /// One index per authentication plugin; a handful, so a list.
    pub(crate) by_plugin: Vec<(&'static str, Sharded<AuthEntry>)>,
    /// For plugins that name a consumer.
    pub by_name: Arc<FxHashMap<Arc<str>, Arc<Consumer>>>,
}

/// A route's Lua condition. Called on a worker while matching.
pub trait FilterFunction: Send + Sync {
    /// An error of the function counts as no match and marks the request (`Request::set_undecided`).
    fn matches(&self, request: &Request) -> bool;
}

/// What a route, merged with its plugin config and service, does with a request.
///
/// What each request reads comes first and together: there may be 50,000 routes, which are in no cache.
#[derive(Clone)]
#[repr(C)]
pub struct Route {
    /// Route, plugin config and service merged; global rules and consumers are not in it.
    pub chain: PluginChain,
    /// Where it sends requests.
    pub upstream: RouteUpstream,
    /// A reference of the route names a missing object, or a part of it cannot be built: answer with this status. Its
    /// chain is [`PluginChain::refusing`] then.
    pub broken: Option<u16>,
    /// Whether `Upgrade: websocket` goes upstream.
    pub enable_websocket: bool,
    /// The route's own `timeout`, over the upstream's.
    pub timeouts: Option<Box<Timeouts>>,
    /// Never reused within the process: names the route in per-worker caches and metrics.
    pub serial: u64,
    /// `$route_id`
    pub id: Arc<str>,
    /// `$route_name`
    pub name: Option<Arc<str>>,
    /// `filter_func`
    pub filter: Option<Arc<dyn FilterFunction>>,
    /// The merged resource, for plugins that pass it on (opa, forward-auth variables).
    pub document: Document,
    /// `None`: it names no service.
    pub service: Option<Arc<RouteService>>,
    /// Of the route itself.
    pub birth: Birth,
    /// The revision that wrote the newest of the objects merged into it.
    pub version: u64,
}

/// The configuration of one revision, compiled. Never changes.
pub struct Snapshot {
    /// Of the store.
    pub revision: u64,
    /// Finds a route's number by host, path, method, address and conditions.
    pub router: Router<Variable>,
    /// By the number that the router answers.
    pub routes: Table<Route>,
    /// All global rules' plugins, rule after rule.
    pub globals: PluginChain,
    /// Keys of all authentication plugins.
    pub consumers: ConsumerIndex,
    /// The `upstreams` resources by id (traffic-split names them).
    pub upstreams: Arc<FxHashMap<Arc<str>, Arc<UpstreamHandle>>>,
    /// `plugin_metadata` by plugin, defaults filled in.
    pub metadata: Arc<FxHashMap<Arc<str>, Arc<Value>>>,
    /// Some route's `vars` depend on request bodies: they must be read before matching.
    pub matches_on_body: bool,
    /// The stream routes.
    pub stream: Arc<StreamTable>,
    /// By server name.
    pub certificates: Arc<Certificates>,
    /// What fields of GraphQL cost, by service.
    pub graphql_weights: Arc<FxHashMap<Arc<str>, Arc<Weights>>>,
    /// Normalisation of paths before they are matched.
    pub options: RouterOptions,
}

/// One worker's reference to a snapshot, with the data that worker derives from it. Cloned per request without
/// an atomic.
pub struct WorkerSnapshot {
    pub(crate) snapshot: Arc<Snapshot>,
    /// Route chains merged with a consumer's plugins, by (route, consumer) serial.
    pub(crate) merged: RefCell<FxHashMap<(u64, u64), Rc<PluginChain>>>,
}

/// A request with all that the gateway knows of it, and the answer to it.
pub struct Request {
    /// As received, less what clients may not claim; plugins' changes to header fields go here.
    pub head: RequestHead,
    /// The client's.
    pub connection: Rc<ConnectionInfo>,
    /// The client's address: the peer's, until `real-ip` replaces it.
    pub remote_addr: IpAddr,
    /// The port that goes with [`Request::remote_addr`].
    pub remote_port: u16,
    /// Lower case, without port. Empty for an HTTP/1.0 request without Host.
    pub host: Vec<u8>,
    /// The normalised path (`$uri`).
    pub path: Vec<u8>,
    /// `$scheme` is `https`: the connection is TLS, or a trusted peer says so.
    pub https: bool,
    /// The same from matching to the log.
    pub snapshot: Rc<WorkerSnapshot>,
    /// `None` before matching, and without a match.
    pub route: Option<Arc<Route>>,
    /// What of the route's pattern matched.
    pub matched: Matched,
    /// Set by authentication plugins.
    pub consumer: Option<Arc<Consumer>>,
    /// The credential whose key was used, if it was one's.
    pub credential_id: Option<Arc<str>>,
    /// Changes to the request upstream, beside those to `head`.
    pub edits: UpstreamEdits,
    /// Of the client, unless a plugin has replaced it.
    pub body: RequestBody,
    /// Header fields that plugins vouch for: clients cannot send them in another spelling.
    pub asserted: Asserted,
    /// `client-control`: a larger body is refused while it streams.
    pub body_limit: Option<u64>,
    pub(crate) body_values: BodyValues,
    /// Empty until there is one.
    pub response: Response,
    /// Set by plugins before there is a response; they override its headers when it arrives.
    pub early_headers: Head,
    /// State of plugins between phases.
    pub extensions: Extensions,
    /// Variables set by plugins, over the built-in ones.
    pub variables: SmallVec<[(Box<str>, Vec<u8>); 0]>,
    /// When the first byte of its head came.
    pub started: Instant,
    /// What happened so far.
    pub outcome: RequestLog,
    /// 32 hex digits, made on first use.
    pub id: OnceCell<Rc<str>>,
    /// The worker's number, from 0.
    pub worker: usize,
    pub(crate) undecided: Cell<Option<u16>>,
    /// The time that the regular expressions of its conditions and plugins have taken so far.
    pub search_time: SearchTime,
}
