//! Health of upstream nodes: what the Control API and the metrics show of it.

use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashSet;
use tidegate_admin::{HealthView, NodeHealth};
use tidegate_balancing::health::{State, Transition};
use tidegate_config::Settings;
use tidegate_model::Kind;
use tidegate_plugin_api::UpstreamHandle;
use tidegate_probes::{Monitor, Monitored, ProbeTls};
use tidegate_telemetry::error_log;

pub(super) struct Health {
    handles: Mutex<Vec<Arc<UpstreamHandle>>>,
    monitor: Option<Monitor>,
}

impl Health {
    pub(super) fn new(runtime: &tokio::runtime::Handle, settings: &Settings) -> anyhow::Result<Health> {
        let monitor = if settings.apisix.disable_upstream_healthcheck {
            None
        } else {
            let setting = settings.apisix.tls.trusted_certificate.as_deref().unwrap_or("system");
            let anchors = tidegate_tls::Anchors::from_setting(setting, &settings.files.prefix);
            let tls = anchors.and_then(ProbeTls::new);
            let tls =
                tls.map_err(|reason| anyhow::anyhow!("apisix.ssl.ssl_trusted_certificate: {reason}"))?;
            Some(Monitor::spawn(runtime, tls, Arc::new(log_transition)))
        };
        Ok(Health { handles: Mutex::default(), monitor })
    }

    /// The upstreams with checks of the newest configuration.
    pub(super) fn follow(&self, checked: Vec<Arc<UpstreamHandle>>) {
        if let Some(monitor) = &self.monitor {
            let monitored = checked
                .iter()
                .map(|handle| Monitored { name: handle.name.clone(), upstream: handle.clone() });
            monitor.set(monitored.collect());
        }
        *self.handles.lock().unwrap_or_else(PoisonError::into_inner) = checked;
    }

    /// Every checked node: upstream, address, port, usable.
    pub(super) fn each(&self, mut visit: impl FnMut(&str, &str, u16, bool)) {
        for handle in self.handles.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let Some(health) = &handle.balancer.health else { continue };
            for status in health.statuses() {
                if let Some(node) = handle.nodes.get(usize::from(status.node)) {
                    visit(&handle.name, &node.ip, node.port, status.state.is_usable());
                }
            }
        }
    }
}

impl HealthView for Health {
    fn nodes(&self, kind: Kind, id: &str) -> Vec<NodeHealth> {
        let name = format!("{}/{id}", kind.directory());
        let handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(handle) = handles.iter().find(|handle| *handle.name == *name) else { return Vec::new() };
        let Some(health) = handle.balancer.health.as_ref().filter(|health| health.is_used()) else {
            return Vec::new();
        };
        let statuses = health.statuses().into_iter();
        let probed = health.checks.active.port;
        // Nodes that are probed at one and the same port are one target to APISIX, and here they agree.
        let mut seen = FxHashSet::default();
        statuses
            .filter_map(|status| {
                let node = handle.nodes.get(usize::from(status.node))?;
                let port = probed.unwrap_or(node.port);
                if !seen.insert((&node.ip, port)) {
                    return None;
                }
                Some(NodeHealth {
                    ip: node.ip.to_string(),
                    port,
                    hostname: node.host.to_string(),
                    status: state_name(status.state),
                    successes: u64::from(status.counters.success),
                    tcp_failures: u64::from(status.counters.tcp_failure),
                    http_failures: u64::from(status.counters.http_failure),
                    timeout_failures: u64::from(status.counters.timeout_failure),
                })
            })
            .collect()
    }
}

fn log_transition(monitored: &Monitored, node: u16, transition: Transition) {
    let node = monitored.upstream().nodes.get(usize::from(node));
    error_log::log(
        error_log::Level::Warn,
        format_args!(
            "upstream {} node {} was {}, is {}",
            monitored.name,
            node.map_or_else(|| "?".to_owned(), |node| node.spec.to_string()),
            state_name(transition.from),
            state_name(transition.to),
        ),
    );
}

fn state_name(state: State) -> &'static str {
    match state {
        State::Healthy => "healthy",
        State::MostlyHealthy => "mostly_healthy",
        State::MostlyUnhealthy => "mostly_unhealthy",
        State::Unhealthy => "unhealthy",
    }
}
