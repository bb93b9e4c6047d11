//! Choosing the upstream, and the node of it for each attempt.

use std::{cell::Cell, sync::Arc};

use tidegate_plugin_api::{
    Reply, Request, UpstreamHandle,
    route::RouteUpstream,
    upstream::{HashKey, Peer, Serves, Timeouts},
};
use tidegate_telemetry::error_log;

use crate::runtime::Runtime;

/// The upstream of a request: a plugin's choice, else the route's.
pub(crate) fn upstream(request: &Request) -> Result<Arc<UpstreamHandle>, Box<Reply>> {
    if let Some(upstream) = &request.edits.upstream {
        return for_requests(upstream);
    }
    match request.route.as_ref().map(|route| &route.upstream) {
        Some(RouteUpstream::Some(upstream)) => for_requests(upstream),
        Some(RouteUpstream::Missing) => Err(Box::new(Reply::page(502))),
        Some(RouteUpstream::None) | None => {
            error_log::log(
                error_log::Level::Error,
                format_args!("missing upstream configuration in Route or Service"),
            );
            Err(Box::new(Reply::page(503)))
        }
    }
}

/// The upstream of a request whose nodes are message brokers.
pub(crate) fn brokers(request: &Request) -> Option<Arc<UpstreamHandle>> {
    let of_route = || match &request.route.as_ref()?.upstream {
        RouteUpstream::Some(upstream) => Some(upstream),
        _ => None,
    };
    let chosen = request.edits.upstream.as_ref().or_else(of_route)?;
    (chosen.serves == Serves::Messages).then(|| chosen.clone())
}

/// As in nginx, which knows no URL that begins with such a scheme. In clear text it would go where TLS is asked for.
pub(crate) fn for_requests(upstream: &Arc<UpstreamHandle>) -> Result<Arc<UpstreamHandle>, Box<Reply>> {
    if upstream.serves == Serves::Requests {
        return Ok(upstream.clone());
    }
    error_log::log(
        error_log::Level::Error,
        format_args!(
            "upstream {} has a scheme for {}: no request is sent there",
            upstream.name,
            if upstream.serves == Serves::Sessions { "sessions of streams" } else { "messages" }
        ),
    );
    Err(Box::new(Reply::page(500)))
}

pub(crate) fn timeouts(request: &Request, upstream: &UpstreamHandle) -> Timeouts {
    let route = || request.route.as_ref().and_then(|route| route.timeouts.as_deref().copied());
    request.edits.timeouts.or_else(route).unwrap_or(upstream.timeouts)
}

/// The key that consistent hashing uses for this request; `None` for other balancers.
pub(crate) fn hash_key(request: &Request, upstream: &UpstreamHandle) -> Option<Vec<u8>> {
    let key = match upstream.hash_key.as_deref()? {
        HashKey::Variable(variable) => request.variable(variable).map(std::borrow::Cow::into_owned),
        HashKey::Combination(template) => {
            let mut text = Vec::new();
            (template.render_into(request, &mut text) > 0).then_some(text)
        }
        HashKey::Consumer => request.consumer.as_ref().map(|consumer| consumer.username.as_bytes().to_vec()),
    };
    // Without the key, the client's address takes its place.
    Some(key.filter(|key| !key.is_empty()).unwrap_or_else(|| request.remote_addr.to_string().into_bytes()))
}

/// The next node to try.
pub(crate) fn pick(
    request: &Request,
    upstream: &Arc<UpstreamHandle>,
    hash_key: Option<&[u8]>,
    tried: &[u16],
    now_ms: u64,
) -> Option<Peer> {
    let index = upstream.balancer.pick(request.worker, hash_key, tried, now_ms)?;
    Some(Peer { upstream: upstream.clone(), index })
}

/// Counts a request as in flight on its node, until dropped.
pub(crate) struct InFlight {
    peer: Peer,
    worker: &'static Runtime,
    latency_ms: Cell<Option<f64>>,
}

impl InFlight {
    pub(crate) fn new(peer: Peer, worker: &'static Runtime) -> InFlight {
        peer.upstream.balancer.started(peer.index);
        InFlight { peer, worker, latency_ms: Cell::new(None) }
    }

    /// The node answered after that time.
    pub(crate) fn answered(&self, latency_ms: f64) {
        self.latency_ms.set(Some(latency_ms));
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let Peer { upstream, index } = &self.peer;
        upstream.balancer.finished(*index, self.latency_ms.get(), self.worker.deadlines.now_ms());
    }
}
