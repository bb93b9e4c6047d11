//! Objects in, [`tidegate_plugin_api::Snapshot`] out.
//!
//! The compiler keeps what it built: a changed object rebuilds itself and what refers to it, the rest is shared with the
//! snapshot before. An object that does not compile is named, and what it guards is refused: a route answers 503, a plugin
//! config or service makes its routes answer 503, a global rule all of them, a consumer is not recognised, a certificate
//! ends its handshakes. It never takes others with it.
//!
//! Runs on the control thread. Nothing here is called while a request waits.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod certificates;
mod consumers;
#[cfg(debug_assertions)]
mod mutant;
mod object;
mod plugins;
mod pools;
mod problems;
mod references;
mod routes;
mod secrets;
mod streams;
mod texts;
mod tls;
mod trial;
mod unreached;
mod upstreams;

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use references::References;
use routes::table::{Replaced, Routes};
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::Value;
use streams::table::Streams;
use tidegate_model::{
    Kind, Object,
    idle::Matching,
    resources::{DiscoveredService, Node},
};
use tidegate_plugin_api::{
    Catalog, Instance, LuaCompiler, Owner, PluginChain, Snapshot, UpstreamHandle, graphql::weights::Weights,
    protocol::ProtocolDef, route::RouterOptions,
};
use tidegate_routing::router::Mode;
use tidegate_telemetry::background::give_way;

pub use certificates::ciphers::{check as check_ciphers, remarks as cipher_remarks};
pub use object::Key;
pub use secrets::{SecretSource, resolve_environment, secret_references};
pub use tls::UpstreamTrust;
pub use trial::Trial;

/// Addresses of names, as far as they are known.
pub trait Addresses: Send + Sync {
    /// `None`: not known (yet). Asking makes the resolver look and keep looking.
    fn of(&self, host: &str) -> Option<Vec<IpAddr>>;
}

/// Nodes of services that registries know.
pub trait ServiceNodes: Send + Sync {
    /// `None`: not known (yet).
    fn of(&self, service: &DiscoveredService) -> Option<Arc<[Node]>>;

    /// Whether there is a registry of this type.
    fn has(&self, _registry: &str) -> bool {
        true
    }
}

/// What the compiler needs of config.yaml.
#[derive(Clone)]
pub struct Options {
    /// `apisix.router.http`.
    pub router: Mode,
    /// Normalisation of paths before they are matched.
    pub options: RouterOptions,
    /// Number of worker threads: each has a place of its own in the balancers.
    pub workers: usize,
    /// The authorities of upstreams that are verified.
    pub upstream_trust: UpstreamTrust,
    /// `TLSv1.2`, `TLSv1.3`: what clients may speak where an `ssl` resource does not say.
    pub tls_protocols: Vec<String>,
    /// OpenSSL names of the suites of TLS 1.2 that clients may use (`apisix.ssl.ssl_ciphers`); empty: all.
    pub tls_ciphers: Vec<String>,
    /// Whether handshakes offer HTTP/2.
    pub http2: bool,
    /// `apisix.ssl.ssl_session_tickets`
    pub session_tickets: bool,
    /// For upstreams without `keepalive_pool`.
    pub keepalive: tidegate_plugin_api::upstream::KeepalivePool,
    /// For upstreams without `timeout`.
    pub timeouts: tidegate_plugin_api::upstream::Timeouts,
    /// The plugins of stream routes; `None`: `apisix.proxy_mode` has no stream.
    pub stream: Option<Arc<Catalog>>,
    /// The protocols on top of TCP that stream routes may name.
    pub protocols: Vec<&'static ProtocolDef>,
}

impl Options {
    /// How routes are matched, of objects whose secrets a store may decrypt.
    pub fn matching(&self) -> Matching {
        Matching {
            host_ports: self.router != Mode::HostUri,
            parameters: self.router == Mode::UriWithParameter,
            encoded_slash: self.options.match_uri_encoded_slash,
            is_document: false,
            stream: self.stream.is_some(),
            ..Matching::default()
        }
    }
}

/// Returns where an object, or the part of it that a message names, stands in a file: the prefix of that message.
pub type Places = Arc<dyn Fn(Kind, &str, &str) -> String + Send + Sync>;

/// The status of answers in place of what cannot be built.
const UNAVAILABLE: u16 = 503;

/// Keeps what the last snapshot was made of, so that a change costs what it changes and not the configuration.
pub struct Compiler {
    options: Options,
    catalog: Arc<Catalog>,
    addresses: Arc<dyn Addresses>,
    nodes: Arc<dyn ServiceNodes>,
    secrets: Arc<dyn SecretSource>,
    lua: Option<Arc<dyn LuaCompiler>>,
    objects: BTreeMap<Kind, BTreeMap<Arc<str>, Object>>,
    references: References,
    /// Built plugins by owner.
    instances: FxHashMap<Key, Vec<Arc<Instance>>>,
    /// `upstreams` resources, and inline ones under their owner's key.
    upstreams: FxHashMap<Key, Arc<UpstreamHandle>>,
    /// The `upstreams` resources among them, as snapshots have them; `None` after a change.
    named: Option<Arc<FxHashMap<Arc<str>, Arc<UpstreamHandle>>>>,
    /// Cost decorations by service; `None` after a change.
    graphql_weights: Option<Arc<FxHashMap<Arc<str>, Arc<Weights>>>>,
    /// Owners of upstreams with health checks.
    checked: FxHashSet<Key>,
    /// Upstreams in the configurations of an object's plugins.
    inline_upstreams: FxHashMap<Key, Vec<Arc<UpstreamHandle>>>,
    routes: Routes,
    streams: Streams,
    consumers: consumers::claims::Consumers,
    problems: BTreeMap<Key, Vec<problems::masked::Problem>>,
    /// What to know of objects in use: references that are there as texts, because they lead nowhere; patterns that are large.
    remarks: BTreeMap<Key, Vec<String>>,
    resolved: problems::masked::Resolved,
    places: Option<Places>,
    /// The store gives each revision once.
    revisions_last: bool,
    /// The problems that are in the log, so that each is logged once.
    told: FxHashMap<Key, Vec<String>>,
    /// Objects of which a plugin could not be built.
    incomplete: FxHashSet<Key>,
    /// Plugins that are not enabled and were passed over, each logged once.
    passed_over: FxHashSet<String>,
    /// Nothing is served from what is built here: secrets that are not there may still come.
    trial: bool,
    /// Names whose addresses some upstream waits for.
    names: FxHashMap<Arc<str>, FxHashSet<Key>>,
    /// And back.
    names_of: FxHashMap<Key, FxHashSet<Arc<str>>>,
    /// Services whose nodes some upstream waits for.
    services: FxHashMap<DiscoveredService, FxHashSet<Key>>,
    /// And back.
    services_of: FxHashMap<Key, FxHashSet<DiscoveredService>>,
    pools: pools::PoolNumbers,
    tls: tls::TlsClients,
    servers: certificates::servers::Servers,
    serial: u64,
}

impl Compiler {
    /// Without objects: its snapshot has no route until some are applied.
    pub fn new(
        options: Options,
        catalog: Arc<Catalog>,
        addresses: Arc<dyn Addresses>,
        nodes: Arc<dyn ServiceNodes>,
        secrets: Arc<dyn SecretSource>,
        lua: Option<Arc<dyn LuaCompiler>>,
    ) -> Compiler {
        let tls = tls::TlsClients::new(options.upstream_trust.clone());
        let servers = certificates::servers::Servers::new(options.session_tickets);
        Compiler {
            options,
            catalog,
            addresses,
            nodes,
            secrets,
            lua,
            objects: BTreeMap::new(),
            references: References::default(),
            instances: FxHashMap::default(),
            upstreams: FxHashMap::default(),
            named: None,
            graphql_weights: None,
            checked: FxHashSet::default(),
            inline_upstreams: FxHashMap::default(),
            routes: Routes::default(),
            streams: Streams::default(),
            consumers: consumers::claims::Consumers::default(),
            problems: BTreeMap::new(),
            remarks: BTreeMap::new(),
            resolved: problems::masked::Resolved::default(),
            places: None,
            revisions_last: false,
            told: FxHashMap::default(),
            incomplete: FxHashSet::default(),
            passed_over: FxHashSet::default(),
            trial: false,
            names: FxHashMap::default(),
            names_of: FxHashMap::default(),
            services: FxHashMap::default(),
            services_of: FxHashMap::default(),
            pools: pools::PoolNumbers::default(),
            tls,
            servers,
            serial: 0,
        }
    }

    /// Has problems logged with their places.
    pub fn log_with_places(&mut self, places: Places) {
        self.places = Some(places);
    }

    /// The store never gives a revision twice, over restarts too: it distinguishes an object from an earlier one.
    pub fn rely_on_revisions(&mut self) {
        self.revisions_last = true;
    }

    /// Replaces everything by `objects`; what did not change keeps its state.
    pub fn reset(&mut self, objects: impl Iterator<Item = Object>) {
        let mut changed = Vec::new();
        let mut seen: FxHashSet<Key> = FxHashSet::default();
        for object in objects {
            let key = (object.kind, object.id.clone());
            seen.insert(key.clone());
            let same = self.object(object.kind, &object.id).is_some_and(|old| {
                old.modified == object.modified
                    && old.document == object.document
                    && old.fault == object.fault
                    && old.unread == object.unread
            });
            if !same {
                changed.push((key, Some(object)));
            }
        }
        let gone: Vec<Key> = self.keys().filter(|key| !seen.contains(key)).collect();
        changed.extend(gone.into_iter().map(|key| (key, None)));
        self.apply(changed);
    }

    /// Takes over changed objects (`None`: deleted) and rebuilds what depends on them.
    pub fn apply(&mut self, changes: impl IntoIterator<Item = (Key, Option<Object>)>) {
        self.resolved.forget();
        let mut dirty: FxHashSet<Key> = FxHashSet::default();
        let first = self.objects.is_empty();
        for (key, object) in changes {
            dirty.insert(key.clone());
            match object {
                Some(object) => {
                    give_way();
                    self.references.set(&key, references::of(&object));
                    self.objects.entry(key.0).or_default().insert(key.1.clone(), object);
                }
                None => {
                    self.references.set(&key, Vec::new());
                    if let Some(objects) = self.objects.get_mut(&key.0) {
                        objects.remove(&key.1);
                    }
                }
            }
        }
        if first {
            // They came in the order of their ids, which leaves each node of a map half empty.
            for objects in self.objects.values_mut() {
                *objects = std::mem::take(objects).into_iter().collect();
            }
        }
        let dirty = self.references.closure(dirty);
        self.rebuild(dirty);
    }

    /// The set of enabled plugins has changed: the next [`Compiler::reset`] builds every object again.
    pub fn forget_plugins(&mut self) {
        for objects in self.objects.values_mut() {
            for object in objects.values_mut() {
                object.modified = u64::MAX;
            }
        }
    }

    /// Rebuilds the upstreams that name one of these hosts.
    pub fn addresses_changed<'a>(&mut self, hosts: impl Iterator<Item = &'a str>) {
        let mut dirty = FxHashSet::default();
        for host in hosts {
            dirty.extend(self.names.get(host).into_iter().flatten().cloned());
        }
        self.rebuild_upstreams_of(dirty);
    }

    /// Rebuilds the upstreams whose nodes come from one of these services.
    pub fn nodes_changed(&mut self, services: &[DiscoveredService]) {
        let mut dirty = FxHashSet::default();
        for service in services {
            dirty.extend(self.services.get(service).into_iter().flatten().cloned());
        }
        self.rebuild_upstreams_of(dirty);
    }

    /// Routes that only have to point to another upstream are not compiled again.
    fn rebuild_upstreams_of(&mut self, dirty: FxHashSet<Key>) {
        let mut replaced = Replaced::default();
        let mut compiled_again = FxHashSet::default();
        for key in &dirty {
            let before = self.upstreams.get(key).cloned();
            self.build_upstream_of(key);
            // Upstreams inside of plugins are in the chains of routes, and of consumers.
            let within_plugins = self.inline_upstreams.contains_key(key);
            self.rebuild_inline_upstreams(key);
            self.note_checks(key);
            match (before, self.upstreams.get(key)) {
                (Some(before), Some(after)) if !within_plugins => replaced.add(before, after.clone()),
                _ => drop(compiled_again.insert(key.clone())),
            }
        }
        let compiled_again = self.references.closure(compiled_again);
        // After the groups that they have plugins of.
        for key in compiled_again.iter().filter(|key| key.0 == Kind::Consumer) {
            self.build_consumer(key);
            self.note_checks(key);
        }
        let users = self.references.closure(dirty);
        for key in users.iter().filter(|key| key.0 == Kind::StreamRoute) {
            self.build_stream_route(key);
            self.note_checks(key);
        }
        for key in users.iter().filter(|key| key.0 == Kind::Route) {
            if compiled_again.contains(key) {
                self.build_route(key);
            } else {
                let serial = self.next_serial();
                self.routes.set_upstream(&key.1, &replaced, serial);
            }
        }
        self.forget_pools();
    }

    /// Addresses come and go; the names of their pools must not pile up.
    fn forget_pools(&mut self) {
        if self.pools.is_crowded() {
            let handles = self.upstreams.values().chain(self.inline_upstreams.values().flatten());
            let used = handles.flat_map(|handle| &handle.nodes).map(|node| node.pool).collect();
            self.pools.keep(&used);
        }
    }

    /// Rebuilds what has one of these secrets (`vault/1/path/key`) in it.
    pub fn secrets_changed(&mut self, references: &[Arc<str>]) {
        let mut dirty = FxHashSet::default();
        for reference in references {
            let uses = |key: &&Key| {
                self.object(key.0, &key.1)
                    .is_some_and(|object| secret_references(&object.value()).contains(&&**reference))
            };
            dirty.extend(self.references.users_of_secret(reference).filter(uses).cloned());
        }
        let dirty = self.references.closure(dirty);
        self.rebuild(dirty);
    }

    /// Names that upstreams use.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.names.keys()
    }

    /// The objects that use a name, as text for messages: the first three.
    pub fn users_of(&self, name: &str) -> String {
        let mut users: Vec<String> = self
            .names
            .get(name)
            .into_iter()
            .flatten()
            .map(|(kind, id)| format!("{}/{id}", kind.directory()))
            .collect();
        users.sort_unstable();
        let more = users.len().saturating_sub(3);
        users.truncate(3);
        let text = users.join(", ");
        if more == 0 { text } else { format!("{text} and {more} more") }
    }

    /// Services that upstreams use.
    pub fn services(&self) -> impl Iterator<Item = &DiscoveredService> {
        self.services.keys()
    }

    /// The upstreams with health checks.
    pub fn checked_upstreams(&self) -> impl Iterator<Item = &Arc<UpstreamHandle>> {
        let all = self.checked.iter().flat_map(|key| self.handles_of(key));
        all.filter(|handle| handle.balancer.health.is_some())
    }

    fn handles_of(&self, key: &Key) -> impl Iterator<Item = &Arc<UpstreamHandle>> {
        self.upstreams.get(key).into_iter().chain(self.inline_upstreams.get(key).into_iter().flatten())
    }

    /// After each change of what an object holds.
    fn note_checks(&mut self, key: &Key) {
        if self.handles_of(key).any(|handle| handle.balancer.health.is_some()) {
            self.checked.insert(key.clone());
        } else {
            self.checked.remove(key);
        }
    }

    /// Kinds in the order of dependency: what is referred to is built before what refers to it.
    fn rebuild(&mut self, dirty: FxHashSet<Key>) {
        let mut dirty: Vec<Key> = dirty.into_iter().collect();
        dirty.sort();
        for key in &dirty {
            self.problems.remove(key);
            self.remarks.remove(key);
            if let Some(object) = self.object(key.0, &key.1) {
                let (fault, unread) = (object.fault.clone(), object.unread.clone());
                if let Some(fault) = fault {
                    self.problem(key, fault.reason.to_string());
                }
                if let Some(reason) = unread {
                    self.problem(key, format!("{reason}; the last valid version stays in use"));
                }
            }
            let ((), remarks) = tidegate_backtrack::remarks_on_patterns(|| match key.0 {
                Kind::Ssl => self.build_certificate(key),
                Kind::Upstream => self.build_upstream_of(key),
                Kind::Service | Kind::PluginConfig | Kind::ConsumerGroup | Kind::GlobalRule => {
                    // First, because it forgets the names that the object waits for.
                    self.build_upstream_of(key);
                    self.build_instances_of(key);
                    self.check_service(key);
                    self.check_references(key);
                }
                Kind::Route => {
                    self.build_upstream_of(key);
                    give_way();
                    self.build_instances_of(key);
                    self.check_references(key);
                    give_way();
                    self.build_route(key);
                    self.check_upstream_of(key);
                }
                Kind::StreamRoute => {
                    self.build_upstream_of(key);
                    self.build_stream_route(key);
                }
                Kind::Consumer | Kind::Credential => {
                    self.build_consumer(key);
                    self.check_references(key);
                }
                Kind::Secret => self.check_environment(key),
                Kind::GraphqlCostDecoration => self.graphql_weights = None,
                _ => {}
            });
            self.remark_on_patterns(key, remarks);
            self.note_checks(key);
            give_way();
        }
        for key in dirty.iter().filter(|key| !self.problems.contains_key(*key)) {
            self.told.remove(key);
        }
        if dirty.iter().any(|key| key.0 == Kind::Ssl) {
            self.warn_of_contested();
        }
        self.forget_pools();
    }

    /// The snapshot of what has been applied so far, labelled with that revision of the store.
    pub fn snapshot(&mut self, revision: u64) -> Arc<Snapshot> {
        let globals = self.globals();
        let upstreams = self.named_upstreams();
        give_way();
        let stream = self.stream_table();
        let graphql_weights = self.graphql_weights();
        let metadata = self.objects.get(&Kind::PluginMetadata).into_iter().flatten();
        let metadata = metadata.filter_map(|(id, _)| Some((id.clone(), self.metadata(id)?))).collect();
        Arc::new(Snapshot {
            revision,
            router: self.routes.router(self.options.router),
            routes: self.routes.table(),
            stream,
            globals,
            consumers: self.consumers.index(),
            upstreams,
            metadata: Arc::new(metadata),
            matches_on_body: self.routes.matches_on_body(),
            certificates: self.servers.index(),
            graphql_weights,
            options: self.options.options,
        })
    }

    /// The plugins of all global rules. If a rule is incomplete, a chain in front of all others refuses every request:
    /// it is unknown which of them the rule would have let through.
    fn globals(&self) -> PluginChain {
        let rules = self.objects.get(&Kind::GlobalRule).into_iter().flatten();
        let mut chains = Vec::new();
        for (id, object) in rules {
            let key = (Kind::GlobalRule, id.clone());
            if self.incomplete.contains(&key) {
                let owner = Owner { kind: key.0, id: id.clone(), version: object.modified };
                chains.insert(0, PluginChain::refusing(UNAVAILABLE, owner));
            }
            chains.extend(self.instances.get(&key).map(|instances| PluginChain::new(instances.clone())));
        }
        PluginChain::concatenate(&chains)
    }

    /// The `upstreams` resources by id, made again after one of them has changed.
    fn named_upstreams(&mut self) -> Arc<FxHashMap<Arc<str>, Arc<UpstreamHandle>>> {
        let made = self.named.get_or_insert_with(|| {
            let ids = self.objects.get(&Kind::Upstream).into_iter().flat_map(BTreeMap::keys);
            let handle = |id: &Arc<str>| {
                Some((id.clone(), self.upstreams.get(&(Kind::Upstream, id.clone()))?.clone()))
            };
            Arc::new(ids.filter_map(handle).collect())
        });
        made.clone()
    }

    /// Cost decorations by service, made again after one of them has changed.
    fn graphql_weights(&mut self) -> Arc<FxHashMap<Arc<str>, Arc<Weights>>> {
        let made = self.graphql_weights.get_or_insert_with(|| {
            let mut services: BTreeMap<&str, Vec<Arc<Value>>> = BTreeMap::new();
            for (id, object) in self.objects.get(&Kind::GraphqlCostDecoration).into_iter().flatten() {
                let Some((service, _)) = id.split_once('/').filter(|_| object.fault.is_none()) else {
                    continue;
                };
                services.entry(service).or_default().push(object.value());
            }
            let of = |(service, values): (&str, Vec<Arc<Value>>)| {
                (Arc::from(service), Arc::new(Weights::new(values.iter().map(|value| &**value))))
            };
            Arc::new(services.into_iter().map(of).collect())
        });
        made.clone()
    }

    fn object(&self, kind: Kind, id: &str) -> Option<&Object> {
        self.objects.get(&kind)?.get(id)
    }

    fn keys(&self) -> impl Iterator<Item = Key> {
        self.objects.iter().flat_map(|(kind, objects)| objects.keys().map(|id| (*kind, id.clone())))
    }

    fn metadata(&self, plugin: &str) -> Option<Arc<Value>> {
        let object = self.object(Kind::PluginMetadata, plugin)?;
        let value = object.fault.as_ref().is_none_or(|fault| !fault.in_text).then(|| object.value())?;
        #[cfg(debug_assertions)]
        if let Some(mutant) = mutant::of(&*self.catalog, plugin, tidegate_model::SchemaKind::Metadata, &value)
        {
            return Some(Arc::new(mutant));
        }
        Some(value)
    }

    fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }
}
