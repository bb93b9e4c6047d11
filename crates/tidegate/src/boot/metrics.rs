//! The metrics page: per-worker shards summed up, and what only the process knows. Rendered on the control runtime.

use std::sync::{Arc, OnceLock, atomic::Ordering::Relaxed};

use admin::{AdminRequest, AdminResponse};
use anyhow::Context;
use config::Settings;
use proxy::Workers;
use telemetry::metrics::{Kind, Registry, TextWriter};
use tokio::{net::TcpListener, runtime::Runtime};

use super::{control::Control, data_plane};

pub struct Metrics {
    pub registry: Arc<Registry>,
    prefix: String,
    process: OnceLock<(Arc<Workers>, Arc<Control>)>,
    uri: String,
}

/// `plugin_attr.prometheus.export_addr.port`
const DEFAULT_PORT: u16 = 9091;

pub fn hostname() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}

impl Metrics {
    pub fn new(settings: &Settings) -> Metrics {
        let attribute = settings.plugin_attribute("prometheus");
        let text = |name: &str, default: &str| {
            attribute.get(name).and_then(serde_json::Value::as_str).unwrap_or(default).to_owned()
        };
        let prefix = text("metric_prefix", "apisix_");
        Metrics {
            registry: Arc::new(Registry::new(&prefix)),
            prefix,
            process: OnceLock::new(),
            uri: text("export_uri", "/apisix/prometheus/metrics"),
        }
    }

    pub fn set_workers(&self, workers: &Arc<Workers>, control: &Arc<Control>) {
        let _ = self.process.set((workers.clone(), control.clone()));
    }

    pub fn render(&self) -> Vec<u8> {
        self.registry.render(|writer| self.collect(writer)).0
    }

    pub fn connections(&self) -> plugin::ConnectionCounts {
        let Some((workers, _)) = self.process.get() else { return plugin::ConnectionCounts::default() };
        let mut counts = plugin::ConnectionCounts::default();
        for stats in &workers.stats {
            let accepted = stats.accepted.load(Relaxed);
            counts.accepted += accepted;
            counts.handled += accepted.saturating_sub(stats.refused.load(Relaxed));
            counts.active += stats.active.load(Relaxed);
            counts.idle += stats.idle.load(Relaxed);
            counts.requests += stats.requests.load(Relaxed);
        }
        counts
    }

    fn collect(&self, writer: &mut TextWriter) {
        let name = |name: &str| format!("{}{name}", self.prefix);
        let Some((workers, control)) = self.process.get() else { return };
        let sum = |read: fn(&proxy::stats::WorkerStats) -> &std::sync::atomic::AtomicU64| {
            workers.stats.iter().map(|stats| read(stats).load(Relaxed)).sum::<u64>() as f64
        };
        let (accepted, active, idle) = (sum(|s| &s.accepted), sum(|s| &s.active), sum(|s| &s.idle));
        let connections = name("nginx_http_current_connections");
        writer.family(&connections, "Number of HTTP connections", Kind::Gauge);
        let states = [
            ("accepted", accepted),
            ("active", active),
            ("handled", accepted - sum(|s| &s.refused)),
            ("reading", 0.0),
            ("waiting", idle),
            ("writing", (active - idle).max(0.0)),
        ];
        for (state, value) in states {
            writer.sample(&connections, &[("state", state)], value);
        }
        let requests = name("http_requests_total");
        writer.family(
            &requests,
            "The total number of client requests since the gateway started",
            Kind::Gauge,
        );
        writer.sample(&requests, &[], sum(|s| &s.requests));
        let panics = name("worker_panics_total");
        writer.family(&panics, "Requests that ended in a panic", Kind::Counter);
        writer.sample(&panics, &[], sum(|s| &s.panics));
        let stall = name("worker_stall_microseconds");
        writer.family(&stall, "The longest a worker's loop was late since the last scrape", Kind::Gauge);
        for (index, stats) in workers.stats.iter().enumerate() {
            writer.sample(&stall, &[("worker", &index.to_string())], stats.stall_us.swap(0, Relaxed) as f64);
        }
        let info = name("node_info");
        writer.family(&info, "Info of the gateway node", Kind::Gauge);
        writer.sample(&info, &[("hostname", &hostname()), ("version", "3.18.0")], 1.0);
        super::etcd::collect(writer, &self.prefix, control);
        let status = name("upstream_status");
        writer.family(&status, "Upstream status from health checks, 1 is healthy", Kind::Gauge);
        control.health.each(|upstream, host, port, healthy| {
            let labels = [("name", upstream), ("ip", host), ("port", &port.to_string())];
            writer.sample(&status, &labels, f64::from(u8::from(healthy)));
        });
        self.collect_log_entries(writer);
    }

    /// What the batching loggers hold and what they had to drop.
    fn collect_log_entries(&self, writer: &mut TextWriter) {
        let counts = plugins::log_entry_counts();
        if counts.is_empty() {
            return;
        }
        let waiting = format!("{}log_entries_waiting", self.prefix);
        writer.family(&waiting, "Log entries not sent yet", Kind::Gauge);
        for (plugin, count, ..) in &counts {
            writer.sample(&waiting, &[("plugin", plugin)], *count as f64);
        }
        let dropped = format!("{}log_entries_dropped_total", self.prefix);
        writer.family(
            &dropped,
            "Log entries dropped: the backlog was full, or sending failed",
            Kind::Counter,
        );
        for (plugin, _, backlog, failed) in &counts {
            for (reason, count) in [("backlog", backlog), ("failed", failed)] {
                writer.sample(&dropped, &[("plugin", plugin), ("reason", reason)], *count as f64);
            }
        }
    }

    /// The page on its own port.
    pub fn listen(self: &Arc<Metrics>, settings: &Settings, runtime: &Runtime) -> anyhow::Result<()> {
        let Some(listener) = settings.metrics_listener() else { return Ok(()) };
        let address = data_plane::address(&listener)?;
        let listener = match std::net::TcpListener::bind(address) {
            Ok(listener) => listener,
            // Two gateways on one machine, neither told where: traffic matters more than the second's page.
            Err(error) if address.port() == DEFAULT_PORT => {
                telemetry::error_log::log(
                    telemetry::error_log::Level::Error,
                    format_args!("no metrics page: {address} (plugin_attr.prometheus.export_addr): {error}"),
                );
                return Ok(());
            }
            Err(error) => {
                return Err(error).with_context(|| {
                    format!("cannot listen on {address} for metrics (plugin_attr.prometheus.export_addr)")
                });
            }
        };
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        runtime.spawn(admin::listener::serve(listener, self.clone()));
        Ok(())
    }
}

impl admin::listener::Service for Metrics {
    async fn answer(&self, request: AdminRequest) -> AdminResponse {
        if request.path != self.uri {
            return AdminResponse::page(404);
        }
        let Some(host) = plugin::host() else { return AdminResponse::page(500) };
        match tokio::task::spawn_blocking(|| (host.metrics_text)()).await {
            Ok(body) => AdminResponse { body, ..AdminResponse::empty(200) }
                .with_header("Content-Type", "text/plain; version=0.0.4"),
            Err(_) => AdminResponse::page(500),
        }
    }

    fn body_limit(&self, _: &str) -> u64 {
        0
    }
}
