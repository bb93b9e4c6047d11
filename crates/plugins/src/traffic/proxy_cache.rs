//! Keeps answers of upstreams, in memory or on disk, and gives them to later requests with the same key.
//!
//! As in APISIX the two strategies differ: memory keeps what the client would have got, disk what the upstream sent. Unlike
//! there both answer when every plugin that may refuse has had its say, and only on the route that stored the answer. Disk
//! work runs on the few threads for it; what waits for them is bounded.

mod conf;
mod disk;
mod disk_strategy;
mod entry;
mod memory;
mod memory_strategy;
mod rules;
mod zones;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use conf::Settings;
use disk::Disk;
use entry::{CachedResponse, Stored, Variants, base_key, variant_key};
use rules::Asked;
use serde_json::Value;
use tidegate_plugin_api::memory::Growing;
use tidegate_plugin_api::{
    BodyChunk, BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, SchemaKind, Source, Step,
    Variable, Why,
};
use tidegate_protocol::Method;
use tidegate_telemetry::error_log;
use zones::{Store, Zone};

use crate::common::clock::unix_seconds;

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "proxy-cache",
    version: 0.2,
    priority: 1085,
    guards: false,
    schema: include_str!("proxy_cache.json"),
    phases: Phases::ACCESS.and(Phases::STORED).and(Phases::HEADER_FILTER).and(Phases::BODY_FILTER),
    check,
    remarks,
    build,
    ..PluginDef::DEFAULT
};

/// See [`zones::Zones::memory`].
pub(crate) fn memory_zones() -> Vec<(String, usize, usize)> {
    zones::zones().map(zones::Zones::memory).unwrap_or_default()
}

const STATUS_HEADER: &str = "Apisix-Cache-Status";

/// What the plugin keeps during one request.
struct Exchange {
    /// graphql-proxy-cache may be there as well: only the cache that looked sees the answer.
    cache: usize,
    key: Vec<u8>,
    /// `MISS`, `HIT`, …; `None` while nothing has been looked up.
    status: Option<&'static str>,
    asked: Asked,
    /// The stored answer has no type: none must be made up.
    typeless: bool,
    capture: Option<Capture>,
}

/// An answer on its way into the cache.
struct Capture {
    status: u16,
    headers: Vec<(Vec<u8>, Vec<u8>)>,
    /// Counts as held for the client until it is whole; then the zone counts it.
    body: Growing,
    /// Seconds that it spent in other caches.
    age: f64,
    fresh_for: f64,
    vary: Vec<String>,
}

/// The request may have changed what is stored under these keys (RFC 9111 section 4.4).
struct Invalidates([Vec<u8>; 2]);

impl Exchange {
    fn new(cache: &ProxyCache, key: Vec<u8>, asked: Asked) -> Exchange {
        Exchange { cache: cache.number(), key, status: None, asked, typeless: false, capture: None }
    }
}

pub(super) fn check(conf: &Value, _: SchemaKind) -> Result<(), String> {
    let text = |name: &str| conf.get(name).and_then(Value::as_str).unwrap_or_default();
    let parts = conf.get("cache_key").and_then(Value::as_array);
    if parts.into_iter().flatten().any(|part| part.as_str() == Some("$request_method")) {
        return Err("cache_key variable $request_method unsupported".to_owned());
    }
    let Some(zones) = zones::zones() else { return Ok(()) };
    let (name, strategy) = (text("cache_zone"), text("cache_strategy"));
    match zones.get(name) {
        None => Err(format!("cache_zone {name} not found")),
        Some(zone) if zone.is_memory() != (strategy == "memory") => {
            Err(format!("invalid or empty cache_zone for cache_strategy: {strategy}"))
        }
        Some(_) => Ok(()),
    }
}

/// Misspelled variables: in `cache_key` nothing is kept, in the others nothing is said.
fn remarks(conf: &Value) -> Vec<String> {
    let names = |field: &'static str| {
        let parts = conf.get(field).and_then(Value::as_array).into_iter().flatten();
        parts
            .filter_map(Value::as_str)
            .filter_map(|part| part.strip_prefix('$'))
            .map(move |name| (field, name))
    };
    let plain = |field: &'static str| {
        let parts = conf.get(field).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        let names =
            parts.filter(|part| !part.is_empty() && !matches!(Variable::resolve(part), Variable::Custom(_)));
        names.map(move |name| {
            format!("{field}: {name} is a constant, the same for all requests; the variable is ${name}")
        })
    };
    let texts = ["cache_key", "cache_bypass", "no_cache"].into_iter().flat_map(plain);
    let all = ["cache_key", "cache_bypass", "no_cache"].into_iter().flat_map(names);
    all.filter_map(|(field, name)| {
        let effect = if field == "cache_key" { "; without it nothing is kept" } else { "" };
        Some(format!("{field}: {}{effect}", Variable::remark(name)?))
    })
    .chain(texts)
    .chain(bodies_left_out(conf))
    .collect()
}

/// Where answers to `POST` are kept, and the key has nothing of its body.
fn bodies_left_out(conf: &Value) -> Option<String> {
    let texts = |field: &str| {
        let parts = conf.get(field).and_then(Value::as_array).into_iter().flatten();
        parts.filter_map(Value::as_str).collect::<Vec<&str>>()
    };
    let of_body = |part: &&str| ["$post_arg", "$graphql_"].iter().any(|start| part.starts_with(start));
    let left_out = texts("cache_method").contains(&"POST") && !texts("cache_key").iter().any(of_body);
    left_out.then(|| {
        "cache_method: POST requests with different bodies share a response; add what distinguishes them to \
         cache_key, \
         such as $post_arg_NAME"
            .to_owned()
    })
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(ProxyCache::new(conf, false)?))
}

pub(super) struct ProxyCache {
    settings: Settings,
    zone: Zone,
}

impl Plugin for ProxyCache {
    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        let purges = is_purge(request);
        if !purges && !is_safe(&request.head.method) && !self.settings.caches_method(request) {
            request.extensions.insert(Invalidates(self.settings.keys(request)));
        }
        if !purges && matches!(self.zone, Zone::Memory(_)) {
            // For a plugin behind this one that answers itself; a later look into the cache sets what it found.
            request.early_headers.set(STATUS_HEADER, "MISS");
        }
        Step::Next
    }

    fn stored<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        // What belongs to no route has no upstream to stand for.
        if request.route.is_none() {
            return Step::Next;
        }
        let purges = is_purge(request);
        match &self.zone {
            Zone::Memory(memory) if purges => purged(purge(memory.as_ref(), &self.settings.keys(request))),
            Zone::Memory(memory) => self.serve_from_memory(memory, request),
            Zone::Disk(disk) if purges => {
                let keys = self.settings.keys(request);
                Step::wait(async move {
                    let announced = keys.each_ref().map(|key| disk.invalidate(&base_key(key)));
                    // Never left out, however much waits for the disk.
                    let files =
                        Zone::surely_with_disk(disk, move |disk| keys.map(|key| purge_one(disk, &key))).await;
                    let files = files.unwrap_or_default();
                    let found = announced.into_iter().zip(files).any(|(known, file)| known.unwrap_or(file));
                    match purged(found) {
                        Step::Reply(reply) => Err(reply),
                        _ => Ok(()),
                    }
                })
            }
            Zone::Disk(disk) => self.serve_from_disk(disk, request),
        }
    }

    fn header_filter(&self, request: &mut Request) {
        if let Some(Invalidates(keys)) = request.extensions.take() {
            self.invalidate(request, keys);
        }
        if !self.is_exchange_here(request) {
            return;
        }
        let Some(mut exchange) = request.extensions.take::<Exchange>() else { return };
        let capture = match self.zone {
            Zone::Memory(_) => self.memory_header_filter(request, &exchange),
            Zone::Disk(_) => self.disk_header_filter(request, &exchange),
        };
        // The answer to HEAD has no body to keep.
        exchange.capture = capture.filter(|_| request.head.method != Method::Head);
        if exchange.typeless {
            request.response.headers.remove("Content-Type");
        }
        request.extensions.insert(exchange);
    }

    fn body_filter(&self, request: &mut Request, chunk: &mut BodyChunk) {
        if !self.is_exchange_here(request) {
            return;
        }
        let Some(exchange) = request.extensions.get_mut::<Exchange>() else { return };
        let Some(capture) = &mut exchange.capture else { return };
        let fits = capture.body.len() + chunk.data.len() < self.settings.max_body_bytes;
        if !fits || capture.body.push(&chunk.data).is_err() {
            exchange.capture = None;
            return;
        }
        if !chunk.last {
            return;
        }
        let (Some(capture), key) = (exchange.capture.take(), std::mem::take(&mut exchange.key)) else {
            return;
        };
        self.store(request, key, capture);
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        if phase != Phases::STORED || request.route.is_none() {
            return Foresight::by_running(self, phase, request);
        }
        match is_purge(request) || self.settings.caches_method(request) {
            true => Foresight::maybe(None, Why::Stored),
            false => Foresight::Continues,
        }
    }
}

fn is_purge(request: &Request) -> bool {
    request.head.method.as_bytes() == b"PURGE"
}

/// Methods that change nothing (RFC 9110 section 9.2.1).
fn is_safe(method: &Method) -> bool {
    matches!(method.as_bytes(), b"GET" | b"HEAD" | b"OPTIONS" | b"TRACE")
}

impl ProxyCache {
    /// With keys that clients are shown, if they are hashed.
    pub(super) fn new(conf: &Value, hashed: bool) -> Result<ProxyCache, String> {
        let settings = Settings::new(conf, hashed)?;
        let name = conf.get("cache_zone").and_then(Value::as_str).unwrap_or_default();
        let zone = zones::zones().and_then(|zones| zones.get(name)).cloned();
        let zone = zone.ok_or_else(|| format!("cache_zone {name} not found"))?;
        Ok(ProxyCache { settings, zone })
    }

    fn number(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    fn is_exchange_here(&self, request: &Request) -> bool {
        request.extensions.get::<Exchange>().is_some_and(|exchange| exchange.cache == self.number())
    }

    /// Under which key the answer of this request is looked for. `None`: it is not.
    pub(super) fn looked_for<'a>(&self, request: &'a Request) -> Option<&'a [u8]> {
        let exchange = request.extensions.get::<Exchange>().filter(|_| self.is_exchange_here(request))?;
        (exchange.status != Some("BYPASS")).then_some(exchange.key.as_slice())
    }

    pub(super) fn is_in_memory(&self) -> bool {
        matches!(self.zone, Zone::Memory(_))
    }

    /// Removes what is stored under a hashed key; whether there was something.
    pub(super) async fn remove(&self, key: Vec<u8>) -> bool {
        match &self.zone {
            Zone::Memory(memory) => purge(memory.as_ref(), &[key]),
            Zone::Disk(disk) => {
                let announced = disk.invalidate(&base_key(&key));
                let file = Zone::surely_with_disk(disk, move |disk| purge_one(disk, &key)).await;
                announced.unwrap_or_else(|| file.unwrap_or_default())
            }
        }
    }

    /// For the body of the answer to this request.
    fn room(&self, request: &Request) -> Growing {
        let length = request.response.headers.get_str("Content-Length").and_then(|text| text.parse().ok());
        Growing::new(self.settings.max_body_bytes, request.remote_addr).with_expected(length)
    }

    /// What a request has changed with success must not be answered from before.
    fn invalidate(&self, request: &Request, keys: [Vec<u8>; 2]) {
        if request.response.source != Source::Upstream || !(200..400).contains(&request.response.status) {
            return;
        }
        match &self.zone {
            Zone::Memory(memory) => _ = purge(memory.as_ref(), &keys),
            Zone::Disk(disk) => {
                let Some(host) = tidegate_plugin_api::host() else { return };
                let disk = disk.clone();
                for key in &keys {
                    disk.invalidate(&base_key(key));
                }
                // As a purge, never left out.
                host.background.spawn_blocking(move || purge(disk.as_ref(), &keys));
            }
        }
    }

    fn store(&self, request: &Request, key: Vec<u8>, capture: Capture) {
        let Ok(signature) = Variants::signature(&capture.vary, request) else { return };
        let answer = Arc::new(CachedResponse {
            status: capture.status,
            headers: capture.headers,
            body: capture.body.into_vec().into(),
            stored: unix_seconds() - capture.age,
            ttl: capture.fresh_for + capture.age,
        });
        let vary = capture.vary;
        match &self.zone {
            Zone::Memory(memory) => save(memory.as_ref(), &key, vary, &signature, answer),
            Zone::Disk(disk) => {
                // A disk that is slower than answers come: what waits for it is bounded, the rest is not stored.
                let Some(waits) = Waits::take(answer.body.len() + WAITING_ENTRY_BYTES) else { return };
                let (disk, base) = (disk.clone(), base_key(&key));
                // Visible at once, whenever the file is there.
                disk.begin_write(&base, vary.is_empty().then(|| Stored::CachedResponse(answer.clone())));
                let writing = Writing { disk, base };
                // Taken or not, dropping the job ends the write.
                let _ = tidegate_plugin_api::disk::enqueue(Box::new(move || {
                    let (disk, _waits) = (writing.disk.as_ref(), waits);
                    save(disk, &key, vary, &signature, answer);
                    if disk.is_invalidated(&writing.base) {
                        purge_one(disk, &key);
                    }
                }));
            }
        }
    }
}

/// Bytes of answers that wait for the disk, all zones together.
const MOST_WAITING: usize = 32 << 20;
/// Head, key and job of one.
const WAITING_ENTRY_BYTES: usize = 4096;

static WAITING: AtomicUsize = AtomicUsize::new(0);

/// A part of what may wait for the disk, until dropped.
struct Waits(usize);

impl Waits {
    fn take(bytes: usize) -> Option<Waits> {
        let fits = |waiting: usize, sum: usize| waiting == 0 || sum <= MOST_WAITING;
        let more = |waiting: usize| waiting.checked_add(bytes).filter(|sum| fits(waiting, *sum));
        WAITING.fetch_update(Relaxed, Relaxed, more).ok().map(|_| Waits(bytes))
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        WAITING.fetch_sub(self.0, Relaxed);
    }
}

/// A write that was announced, until dropped.
struct Writing {
    disk: Arc<Disk>,
    base: Vec<u8>,
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.disk.end_write(&self.base);
    }
}

/// Stores an answer; with `Vary` as one variant of its key.
fn save(store: &impl Store, key: &[u8], vary: Vec<String>, signature: &str, answer: Arc<CachedResponse>) {
    let base = base_key(key);
    let known = match store.load(&base) {
        Some(Stored::Variants(known)) => Some(known),
        _ => None,
    };
    let ttl = answer.ttl;
    let saved = if vary.is_empty() {
        for signature in known.iter().flat_map(|known| &known.signatures) {
            store.delete(&variant_key(key, signature));
        }
        store.save(&base, Stored::CachedResponse(answer))
    } else {
        let (variants, gone) = Variants::with(known.as_deref(), vary, signature, ttl);
        for signature in gone {
            store.delete(&variant_key(key, &signature));
        }
        store
            .save(&base, Stored::Variants(Arc::new(variants)))
            .and_then(|()| store.save(&variant_key(key, signature), Stored::CachedResponse(answer)))
    };
    if let Err(reason) = saved {
        error_log::log(error_log::Level::Error, format_args!("failed to set cache, err: {reason}"));
    }
}

/// Removes keys with all their variants; whether there was something, fresh or not.
fn purge(store: &impl Store, keys: &[Vec<u8>]) -> bool {
    keys.iter().filter(|key| purge_one(store, key)).count() > 0
}

fn purge_one(store: &impl Store, key: &[u8]) -> bool {
    let base = base_key(key);
    let Some(stored) = store.load(&base) else { return false };
    if let Stored::Variants(variants) = stored {
        for signature in &variants.signatures {
            store.delete(&variant_key(key, signature));
        }
    }
    store.delete(&base)
}

fn purged<'a>(found: bool) -> Step<'a> {
    Step::reply(Reply::page(if found { 200 } else { 404 }))
}
