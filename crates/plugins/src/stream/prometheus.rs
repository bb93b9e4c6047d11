//! Counts the sessions of stream routes, under APISIX's metric names.

use std::{
    net::SocketAddr,
    sync::{Arc, LazyLock},
};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde_json::Value;
use tidegate_plugin_api::{
    BuildContext, PluginDef, Session, SessionVerdict, StreamPlugin, session::StreamOwner, upstream::Peer,
};

use crate::common::conf::typed;

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "prometheus",
    version: 0.1,
    priority: 500,
    guards: false,
    schema: include_str!("prometheus.json"),
    prefer_route: true,
    build_stream: build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Prometheus {
    prefer_name: bool,
}

/// Nodes come and go: beyond so many their sessions are counted without them.
const MOST_NODES: usize = 10_000;

#[derive(Default)]
struct Counts {
    sessions: FxHashMap<Arc<str>, u64>,
    statuses: FxHashMap<(u16, SocketAddr, Box<str>), u64>,
    /// From and to clients, to and from nodes.
    bytes: FxHashMap<SocketAddr, [u64; 4]>,
    active: FxHashMap<SocketAddr, u64>,
}

static COUNTS: LazyLock<Mutex<Counts>> = LazyLock::new(Mutex::default);

/// Counts a session as active until it is dropped.
struct Active(SocketAddr);

impl Drop for Active {
    fn drop(&mut self) {
        if let Some(count) = COUNTS.lock().active.get_mut(&self.0) {
            *count = count.saturating_sub(1);
        }
    }
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn StreamPlugin>, String> {
    let conf: Prometheus = typed(conf)?;
    Ok(Arc::new(conf))
}

impl StreamPlugin for Prometheus {
    fn preread(&self, session: &mut Session, _: &[u8]) -> SessionVerdict {
        let local = session.facts.local;
        if session.extensions.get::<Active>().is_none() {
            *COUNTS.lock().active.entry(local).or_default() += 1;
            session.extensions.insert(Active(local));
        }
        SessionVerdict::Next
    }

    fn log(&self, session: &mut Session) {
        drop(session.extensions.take::<Active>());
        let (log, local) = (&session.log, session.facts.local);
        let name = |owner: &Arc<StreamOwner>| match (&owner.name, self.prefer_name) {
            (Some(name), true) => name.clone(),
            _ => owner.id.clone(),
        };
        let route = session.owner.as_ref().map(name).unwrap_or_default();
        let node = session.peer.as_ref().and_then(Peer::node);
        let node: Box<str> = node.map(|node| format!("{}:{}", node.ip, node.port)).unwrap_or_default().into();
        let mut counts = COUNTS.lock();
        *counts.sessions.entry(route).or_default() += 1;
        let node = if counts.statuses.len() < MOST_NODES { node } else { Box::default() };
        *counts.statuses.entry((log.status, local, node)).or_default() += 1;
        let moved =
            [log.bytes_received, log.bytes_sent, log.upstream_bytes_sent, log.upstream_bytes_received];
        let bytes = counts.bytes.entry(local).or_default();
        bytes.iter_mut().zip(moved).for_each(|(count, moved)| *count += moved);
    }
}

/// Family, labels and value, family after family.
pub(crate) fn samples() -> Vec<(&'static str, Vec<(&'static str, String)>, f64)> {
    let counts = COUNTS.lock();
    let mut all = Vec::new();
    for (route, count) in &counts.sessions {
        all.push(("stream_connection_total", vec![("route", route.to_string())], *count as f64));
    }
    for (local, count) in &counts.active {
        all.push(("stream_active_connections", vec![("listen_addr", local.to_string())], *count as f64));
    }
    for ((status, local, node), count) in &counts.statuses {
        let labels = vec![
            ("code", status.to_string()),
            ("listen_addr", local.to_string()),
            ("node", node.to_string()),
        ];
        all.push(("stream_status", labels, *count as f64));
    }
    for (local, bytes) in &counts.bytes {
        let kinds = [
            ("ingress", "downstream"),
            ("egress", "downstream"),
            ("egress", "upstream"),
            ("ingress", "upstream"),
        ];
        for ((kind, side), count) in kinds.into_iter().zip(bytes) {
            let labels = vec![
                ("listen_addr", local.to_string()),
                ("type", kind.to_owned()),
                ("side", side.to_owned()),
            ];
            all.push(("stream_bandwidth", labels, *count as f64));
        }
    }
    all
}
