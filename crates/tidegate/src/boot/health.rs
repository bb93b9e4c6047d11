//! Health of upstream nodes: what the Control API and the metrics show of it.

use std::sync::{Arc, Mutex, PoisonError};

use admin::{HealthView, NodeHealth};
use config::Settings;
use model::Kind;
use plugin::UpstreamHandle;
use upstream::health::State;

pub struct Health {
    handles: Mutex<Vec<Arc<UpstreamHandle>>>,
}

impl Health {
    pub fn new(_: tokio::runtime::Handle, _: &Settings) -> Health {
        Health { handles: Mutex::default() }
    }

    /// The upstreams of the newest configuration.
    pub fn follow(&self, handles: &[Arc<UpstreamHandle>]) {
        let checked = handles.iter().filter(|handle| handle.balancer.health.is_some()).cloned();
        *self.handles.lock().unwrap_or_else(PoisonError::into_inner) = checked.collect();
    }

    /// Every checked node: upstream, address, port, usable.
    pub fn each(&self, mut visit: impl FnMut(&str, &str, u16, bool)) {
        for handle in self.handles.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let Some(health) = &handle.balancer.health else { continue };
            for status in health.statuses() {
                if let Some(node) = handle.nodes.get(usize::from(status.node)) {
                    visit(&handle.name, &node.host, node.port, status.state.is_usable());
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
        statuses
            .filter_map(|status| {
                let node = handle.nodes.get(usize::from(status.node))?;
                let address = node.addresses.first().map(|address| address.ip().to_string());
                Some(NodeHealth {
                    ip: address.unwrap_or_else(|| node.host.to_string()),
                    port: node.port,
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

fn state_name(state: State) -> &'static str {
    match state {
        State::Healthy => "healthy",
        State::MostlyHealthy => "mostly_healthy",
        State::MostlyUnhealthy => "mostly_unhealthy",
        State::Unhealthy => "unhealthy",
    }
}
