//! The metrics page: per-worker shards summed up, and what only the process knows. Rendered on a thread for blocking work of the control runtime.

mod pages;
mod workers;

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

use anyhow::Context;
use bytes::Bytes;
use tidegate_admin::{AdminHead, AdminResponse};
use tidegate_config::Settings;
use tidegate_model::Kind as ObjectKind;
use tidegate_protocol::content_coding;
use tidegate_proxy::Workers;
use tidegate_telemetry::{
    background::give_way,
    log_writer::{LogSink, lines_lost},
    metrics::{Form, Format, Kind, Registry, TextWriter},
};
use tokio::runtime::Runtime;

use self::pages::Pages;
use super::{control::Control, logs::Logs, provider::Provider, sockets::Sockets};

pub(super) struct Metrics {
    pub registry: Arc<Registry>,
    prefix: String,
    /// `deployment.etcd.prefix`
    key_prefix: String,
    process: OnceLock<Process>,
    log_sinks: OnceLock<Vec<(&'static str, LogSink)>>,
    uri: String,
    pages: Pages,
}

/// What there is once the process serves.
struct Process {
    workers: Arc<Workers>,
    control: Arc<Control>,
    provider: Arc<Provider>,
}

/// The label values of `etcd_modify_indexes`.
const INDEXED: [(&str, ObjectKind); 8] = [
    ("consumers", ObjectKind::Consumer),
    ("global_rules", ObjectKind::GlobalRule),
    ("protos", ObjectKind::Proto),
    ("routes", ObjectKind::Route),
    ("services", ObjectKind::Service),
    ("ssls", ObjectKind::Ssl),
    ("stream_routes", ObjectKind::StreamRoute),
    ("upstreams", ObjectKind::Upstream),
];

/// Objects of the store: some 20 us where none of them is in a cache.
const LOOKED_AT_AT_ONCE: usize = 128;

/// Where scrapers look if nothing is configured; answered beside `plugin_attr.prometheus.export_uri`.
const USUAL_PATH: &str = "/metrics";

/// `plugin_attr.prometheus.export_addr.port`
const DEFAULT_PORT: u16 = 9091;

pub(super) fn hostname() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}

impl Metrics {
    pub(super) fn new(settings: &Settings) -> Metrics {
        let attribute = settings.plugin_attribute("prometheus");
        let text = |name: &str, default: &str| {
            attribute.get(name).and_then(serde_json::Value::as_str).unwrap_or(default).to_owned()
        };
        let prefix = text("metric_prefix", "apisix_");
        Metrics {
            registry: Arc::new(Registry::new(&prefix)),
            prefix,
            key_prefix: settings.etcd.prefix.clone(),
            process: OnceLock::new(),
            log_sinks: OnceLock::new(),
            uri: text("export_uri", "/apisix/prometheus/metrics"),
            pages: Pages::default(),
        }
    }

    pub(super) fn set_process(
        &self,
        workers: &Arc<Workers>,
        control: &Arc<Control>,
        provider: &Arc<Provider>,
    ) {
        let (workers, control, provider) = (workers.clone(), control.clone(), provider.clone());
        let _ = self.process.set(Process { workers, control, provider });
    }

    pub(super) fn set_logs(&self, logs: &Logs) {
        let _ = self.log_sinks.set(logs.sinks());
    }

    pub(super) fn page(&self, form: Form) -> Bytes {
        self.pages.get(form, |page| self.registry.render(form.format, page, |writer| self.collect(writer)).0)
    }

    pub(super) fn connections(&self) -> tidegate_plugin_api::ConnectionCounts {
        let Some(Process { workers, .. }) = self.process.get() else {
            return tidegate_plugin_api::ConnectionCounts::default();
        };
        let mut counts = tidegate_plugin_api::ConnectionCounts::default();
        for seat in workers.stats() {
            let accepted = seat.count(|stats| &stats.accepted);
            counts.accepted += accepted;
            counts.handled += accepted.saturating_sub(seat.count(|stats| &stats.refused));
            counts.active += seat.gauge(|stats| &stats.active);
            counts.idle += seat.gauge(|stats| &stats.idle);
            counts.requests += seat.count(|stats| &stats.requests);
        }
        counts
    }

    fn collect(&self, writer: &mut TextWriter) {
        let Some(process) = self.process.get() else { return };
        workers::collect(writer, &|name| self.name(name), &process.workers);
        self.collect_node(writer, process);
        self.collect_revisions(writer, process);
        let status = self.name("upstream_status");
        writer.family(&status, "Upstream status from health checks, 1 is healthy", Kind::Gauge);
        let keys = process.provider.key_prefix(&self.key_prefix);
        process.control.health.each(|upstream, host, port, healthy| {
            let key = format!("{keys}/{upstream}");
            let labels = [("name", key.as_str()), ("ip", host), ("port", &port.to_string())];
            writer.sample(&status, &labels, f64::from(u8::from(healthy)));
        });
        self.collect_rejected(writer, &process.control);
        self.collect_certificates(writer, &process.control);
        self.collect_shared_memory(writer);
        self.collect_log_entries(writer);
        self.collect_log_lines(writer);
        self.collect_body_memory(writer);
        self.collect_slow_answers(writer);
        self.collect_compressors(writer);
        self.collect_limiter_keys(writer);
        self.collect_streams(writer);
        self.collect_redis_commands(writer);
        tidegate_wasm::collect_metrics(writer, &|name| self.name(name));
        let loops = self.name("loops_ended_total");
        let help = "Requests answered 508 because they came back to this gateway more often than \
        apisix.max_own_hops allows, or as requests of its plugins";
        writer.family(&loops, help, Kind::Counter);
        writer.sample(&loops, &[], tidegate_plugin_api::hops::refused() as f64);
        let (unfinished, ended) =
            (self.name("tls_handshakes_unfinished"), self.name("tls_handshakes_ended_total"));
        let usage = tidegate_proxy::handshake_room::usage();
        writer.family(&unfinished, "Unfinished TLS handshakes with clients", Kind::Gauge);
        writer.sample(&unfinished, &[], usage.unfinished as f64);
        let help = "TLS handshakes ended because too many were unfinished: the oldest (oldest), or a new one (refused)";
        writer.family(&ended, help, Kind::Counter);
        writer.sample(&ended, &[("reason", "oldest")], usage.ended as f64);
        writer.sample(&ended, &[("reason", "refused")], usage.refused as f64);
        let (held, refused) =
            (self.name("plugin_answer_memory_bytes"), self.name("plugin_answers_refused_total"));
        let usage = tidegate_plugin_api::answers::usage();
        writer.family(
            &held,
            "Memory used by responses of services (apisix.plugin_answer_memory)",
            Kind::Gauge,
        );
        writer.sample(&held, &[], usage.held as f64);
        let help = "Responses of services that were dropped: too long (length), or no memory left (memory)";
        writer.family(&refused, help, Kind::Counter);
        writer.sample(&refused, &[("reason", "length")], usage.too_long as f64);
        writer.sample(&refused, &[("reason", "memory")], usage.no_memory as f64);
        let left_out = self.name("plugin_requests_left_out_total");
        let help = "Requests of plugins (mirrored copies, queries) that were not sent because they would \
        have looped";
        writer.family(&left_out, help, Kind::Counter);
        writer.sample(&left_out, &[], tidegate_plugin_api::hops::left_out() as f64);
        self.collect_lookups(writer);
    }

    fn collect_lookups(&self, writer: &mut TextWriter) {
        let refused = self.name("name_lookups_refused_total");
        let help = "Connections to services that were refused because too many names were being looked up";
        writer.family(&refused, help, Kind::Counter);
        writer.sample(&refused, &[], tidegate_clients::names::refused() as f64);
    }

    /// What plugin prometheus has counted of stream routes.
    fn collect_streams(&self, writer: &mut TextWriter) {
        let mut last = "";
        for (family, labels, value) in tidegate_plugins::stream_counts() {
            let name = self.name(family);
            if family != std::mem::replace(&mut last, family) {
                let (help, kind) = match family {
                    "stream_connection_total" => ("Sessions of each stream route", Kind::Counter),
                    "stream_active_connections" => {
                        ("Open sessions of stream routes, by address", Kind::Gauge)
                    }
                    "stream_status" => ("Sessions of stream routes by how they ended", Kind::Counter),
                    _ => ("Bytes of sessions that have ended", Kind::Counter),
                };
                writer.family(&name, help, kind);
            }
            let labels: Vec<(&str, &str)> =
                labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
            writer.sample(&name, &labels, value);
        }
    }

    /// What protocol redis of stream routes has counted.
    fn collect_redis_commands(&self, writer: &mut TextWriter) {
        let commands = tidegate_plugins::redis_commands();
        if commands.is_empty() {
            return;
        }
        let (total, latency) =
            (self.name("redis_commands_total"), self.name("redis_commands_latency_seconds"));
        writer.family(&total, "Total number of requests for a specific Redis command", Kind::Counter);
        for one in &commands {
            writer.sample(&total, &[("route", &one.route), ("command", &one.command)], one.count as f64);
        }
        writer.family(&latency, "Latency of requests for a specific Redis command", Kind::Histogram);
        for one in &commands {
            let (route, command) = (("route", &*one.route), ("command", &*one.command));
            let bucket = format!("{latency}_bucket");
            for (bound, count) in one.within {
                let bound = writer.bound(bound);
                writer.sample(&bucket, &[route, command, ("le", &bound)], count as f64);
            }
            writer.sample(&bucket, &[route, command, ("le", "+Inf")], one.count as f64);
            writer.sample(&format!("{latency}_sum"), &[route, command], one.seconds);
            writer.sample(&format!("{latency}_count"), &[route, command], one.count as f64);
        }
    }

    fn collect_limiter_keys(&self, writer: &mut TextWriter) {
        let usage = tidegate_plugins::limiter_keys();
        let (keys, forgotten) = (self.name("limiter_keys"), self.name("limiter_keys_forgotten_total"));
        writer.family(&keys, "Keys that a plugin counts in memory", Kind::Gauge);
        for one in &usage {
            writer.sample(&keys, &[("plugin", one.plugin)], one.keys as f64);
        }
        let help = "Keys evicted while still in use because there were too many";
        writer.family(&forgotten, help, Kind::Counter);
        for one in &usage {
            writer.sample(&forgotten, &[("plugin", one.plugin)], one.forgotten as f64);
        }
    }

    fn collect_compressors(&self, writer: &mut TextWriter) {
        let usage = tidegate_plugins::compression_memory();
        let (bytes, left_out) =
            (self.name("compression_memory_bytes"), self.name("answers_not_compressed_total"));
        let help = "Memory of running compressors: used, and the limit";
        writer.family(&bytes, help, Kind::Gauge);
        writer.sample(&bytes, &[("state", "held")], usage.held as f64);
        writer.sample(&bytes, &[("state", "limit")], usage.limit as f64);
        let help = "Responses that were not compressed because that memory was used up";
        writer.family(&left_out, help, Kind::Counter);
        writer.sample(&left_out, &[], usage.left_out as f64);
    }

    fn collect_slow_answers(&self, writer: &mut TextWriter) {
        let usage = tidegate_proxy::read_ahead::usage();
        let (bytes, ended) = (self.name("slow_answer_memory_bytes"), self.name("slow_answers_ended_total"));
        let help = "Memory for response data that waits for clients: used, and the limit";
        writer.family(&bytes, help, Kind::Gauge);
        writer.sample(&bytes, &[("state", "held")], usage.held as f64);
        writer.sample(&bytes, &[("state", "limit")], usage.limit as f64);
        let help = "Responses ended because their clients read too little while that memory was used up";
        writer.family(&ended, help, Kind::Counter);
        writer.sample(&ended, &[], usage.ended as f64);
    }

    fn collect_body_memory(&self, writer: &mut TextWriter) {
        let usage = tidegate_plugin_api::memory::usage();
        let bytes = self.name("body_memory_bytes");
        writer.family(&bytes, "Memory for request bodies: used, and the limit", Kind::Gauge);
        writer.sample(&bytes, &[("state", "held")], usage.held as f64);
        writer.sample(&bytes, &[("state", "limit")], usage.limit as f64);
        let refused = self.name("body_memory_refused_total");
        let help = "Requests refused: no memory for their body (total), none for their client (client), or too slow (slow)";
        writer.family(&refused, help, Kind::Counter);
        let reasons =
            [("total", usage.refused_total), ("client", usage.refused_client), ("slow", usage.slow)];
        for (reason, count) in reasons {
            writer.sample(&refused, &[("reason", reason)], count as f64);
        }
    }

    fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn collect_node(&self, writer: &mut TextWriter, process: &Process) {
        let info = self.name("node_info");
        writer.family(&info, "Info of the gateway node", Kind::Gauge);
        writer.sample(&info, &[("hostname", &hostname()), ("version", "3.18.0")], 1.0);
        let reachable = self.name("etcd_reachable");
        // Other stores are part of the process, or a file: what was read from them is there.
        let is_reachable = process.provider.etcd().is_none_or(|etcd| etcd.is_reachable());
        writer.family(&reachable, "Whether the store of the configuration is reachable", Kind::Gauge);
        writer.sample(&reachable, &[], f64::from(u8::from(is_reachable)));
        let last_good = self.name("serves_last_good");
        let help = "Whether the store is damaged and the last good configuration is served, read-only";
        writer.family(&last_good, help, Kind::Gauge);
        let serves = matches!(*process.provider, Provider::LastGood(_));
        writer.sample(&last_good, &[], f64::from(u8::from(serves)));
    }

    /// The newest revision of each kind of object in the store, and of all.
    fn collect_revisions(&self, writer: &mut TextWriter, process: &Process) {
        let mut newest = [0; INDEXED.len()];
        let mut revision = 0;
        process.provider.store().read(&mut |state| {
            revision = state.revision;
            for (newest, (_, kind)) in newest.iter_mut().zip(INDEXED) {
                for (position, object) in state.list(kind).enumerate() {
                    *newest = object.modified.max(*newest);
                    if position % LOOKED_AT_AT_ONCE == 0 {
                        give_way();
                    }
                }
            }
        });
        let name = self.name("etcd_modify_indexes");
        writer.family(&name, "Revision of the newest object by kind, and of the store", Kind::Gauge);
        let mut sample = |key: &str, value: u64| writer.sample(&name, &[("key", key)], value as f64);
        for (newest, (key, kind)) in newest.into_iter().zip(INDEXED) {
            sample(key, newest);
            if kind == ObjectKind::GlobalRule {
                sample("prev_index", newest);
            }
        }
        sample("max_modify_index", newest.into_iter().max().unwrap_or(0));
        sample("x_etcd_index", process.provider.etcd().map_or(revision, |etcd| etcd.cluster_revision()));
    }

    /// What is stored and cannot be used: above 0, something answers 503 or identifies no consumer.
    fn collect_rejected(&self, writer: &mut TextWriter, control: &Control) {
        let name = self.name("rejected_objects");
        writer.family(&name, "Objects of the configuration that cannot be used", Kind::Gauge);
        let rejected = control.rejected.borrow().clone();
        let mut counts: BTreeMap<&str, usize> =
            ObjectKind::ALL.into_iter().map(|kind| (kind.directory(), 0)).collect();
        for object in rejected.iter() {
            *counts.entry(object.kind.directory()).or_default() += 1;
        }
        for (kind, count) in counts {
            writer.sample(&name, &[("kind", kind)], count as f64);
        }
    }

    /// APISIX shows nginx's shared memory here; ours are the zones of proxy-cache.
    fn collect_shared_memory(&self, writer: &mut TextWriter) {
        let zones = tidegate_plugins::shared_memory();
        let capacity = self.name("shared_dict_capacity_bytes");
        writer.family(&capacity, "The capacity of memory that all workers share", Kind::Gauge);
        for (zone, bytes, _) in &zones {
            writer.sample(&capacity, &[("name", zone)], *bytes as f64);
        }
        let free = self.name("shared_dict_free_space_bytes");
        writer.family(&free, "The free space of memory that all workers share", Kind::Gauge);
        for (zone, _, bytes) in &zones {
            writer.sample(&free, &[("name", zone)], *bytes as f64);
        }
    }

    fn collect_certificates(&self, writer: &mut TextWriter, control: &Control) {
        let snapshot = control.publisher.current();
        let expiries = &snapshot.certificates.expiries;
        if expiries.is_empty() {
            return;
        }
        let name = self.name("ssl_certificate_expiry_timestamp_seconds");
        writer.family(
            &name,
            "When a certificate of an ssl resource expires, in seconds since 1970",
            Kind::Gauge,
        );
        for expiry in expiries {
            let pair = expiry.pair.to_string();
            let labels = [("ssl", &*expiry.id), ("sni", &*expiry.name), ("pair", &pair)];
            writer.sample(&name, &labels, expiry.expires as f64);
        }
    }

    /// What the batching loggers hold and what they had to drop.
    fn collect_log_entries(&self, writer: &mut TextWriter) {
        let entries = tidegate_clients::batch::entries();
        if !entries.is_empty() {
            let name = self.name("batch_process_entries");
            writer.family(&name, "Log entries of a configuration that are not sent yet", Kind::Gauge);
            for ((logger, route, server), count) in &entries {
                let labels = [("name", logger.as_str()), ("route_id", route), ("server_addr", server)];
                writer.sample(&name, &labels, *count as f64);
            }
        }
        let counts = tidegate_clients::batch::counts();
        if counts.is_empty() {
            return;
        }
        let waiting = self.name("log_entries_waiting");
        writer.family(&waiting, "Log entries not sent yet", Kind::Gauge);
        for counts in &counts {
            writer.sample(&waiting, &[("plugin", counts.plugin)], counts.waiting as f64);
        }
        let bytes = self.name("log_entries_waiting_bytes");
        let help = "Memory used by log entries not sent yet, including their encoded form";
        writer.family(&bytes, help, Kind::Gauge);
        for counts in &counts {
            writer.sample(&bytes, &[("plugin", counts.plugin)], counts.waiting_bytes as f64);
        }
        let dropped = self.name("log_entries_dropped_total");
        writer.family(
            &dropped,
            "Log entries dropped: the backlog was full (backlog), or apisix.log_memory (memory), or sending failed (failed), or they were about a delivery of log entries (loop)",
            Kind::Counter,
        );
        for counts in &counts {
            for (reason, count) in counts.dropped {
                writer.sample(&dropped, &[("plugin", counts.plugin), ("reason", reason)], count as f64);
            }
        }
    }

    /// Lines that did not reach their file.
    fn collect_log_lines(&self, writer: &mut TextWriter) {
        let name = self.name("log_lines_lost_total");
        let help = "Lines of log files that were lost: too many waited for the disk (backlog), or it refused them (failed)";
        writer.family(&name, help, Kind::Counter);
        let sinks = self.log_sinks.get().into_iter().flatten();
        let own = sinks.map(|(log, sink)| (*log, sink.losses().counts()));
        for (log, counts) in own.chain([("file-logger", lines_lost())]) {
            for (reason, lines) in counts {
                writer.sample(&name, &[("log", log), ("reason", reason)], lines as f64);
            }
        }
    }

    /// Series expire also while the page is not requested.
    fn watch_expiry(&self, runtime: &Runtime) {
        let Some(expiry) = self.registry.shortest_expiry() else { return };
        let registry = self.registry.clone();
        let interval = (expiry / 4).clamp(Duration::from_millis(250), Duration::from_secs(60));
        runtime.spawn(async move {
            let mut ticks = tokio::time::interval(interval);
            loop {
                ticks.tick().await;
                let registry = registry.clone();
                // Many series take some milliseconds.
                let _ = tokio::task::spawn_blocking(move || registry.expire_series()).await;
            }
        });
    }

    /// The page on its own port.
    pub(super) fn listen(
        self: &Arc<Metrics>,
        settings: &Settings,
        runtime: &Runtime,
        sockets: &Sockets,
    ) -> anyhow::Result<()> {
        self.watch_expiry(runtime);
        let Some(listener) = settings.metrics_listener() else { return Ok(()) };
        let address = super::addresses::address(&listener)?;
        let listener = match sockets.bind(address) {
            Ok(Some(listener)) => listener,
            Ok(None) => return Ok(()),
            // Two gateways on one machine, neither with a configured address: traffic matters more than the
            // second's page.
            Err(error) if address.port() == DEFAULT_PORT => {
                super::notices::warn(&format!(
                    "no metrics page: {error}; set plugin_attr.prometheus.export_addr"
                ));
                return Ok(());
            }
            Err(error) => {
                return Err(error).context("metrics (plugin_attr.prometheus.export_addr)");
            }
        };
        let bounds = super::bounds::bounds(settings);
        sockets
            .spawn(runtime, tidegate_admin::listener::serve(listener, self.clone(), bounds, sockets.phase()));
        Ok(())
    }
}

impl tidegate_admin::listener::Page for Metrics {
    async fn answer(&self, request: AdminHead) -> AdminResponse {
        if request.path != self.uri && request.path != USUAL_PATH {
            return AdminResponse::page(404);
        }
        let Some(host) = tidegate_plugin_api::host() else { return AdminResponse::page(500) };
        let lines = |wanted: &'static str| {
            let lines = request.headers.iter().filter(move |(name, _)| name.eq_ignore_ascii_case(wanted));
            lines.map(|(_, line)| line.as_bytes())
        };
        let gzip = lines("accept-encoding").any(|line| content_coding::accepts(line, "gzip", false));
        let form = Form { format: Format::accepted(lines("accept")), gzip };
        let Ok(body) = tokio::task::spawn_blocking(move || (host.metrics_page)(form)).await else {
            return AdminResponse::page(500);
        };
        let response = AdminResponse { body, ..AdminResponse::empty(200) }
            .with_header("Content-Type", form.format.content_type())
            .with_header("Vary", "Accept, Accept-Encoding");
        if gzip { response.with_header("Content-Encoding", "gzip") } else { response }
    }
}
