//! Requests for unit tests, without a connection behind them.

use std::{rc::Rc, sync::Arc};

use tidegate_plugin_api::{
    ConsumerIndex, PluginChain, Request, Snapshot, WorkerSnapshot, connection::ConnectionInfo,
    route::RouterOptions,
};
use tidegate_protocol::{RequestHead, RequestLimits};

/// The request that these bytes are.
pub(crate) fn request(text: &str) -> Request {
    let mut head = RequestHead::default();
    let parsed = head.parse(text.as_bytes(), &mut 0, &RequestLimits::default());
    assert!(matches!(parsed, Ok(Some(_))), "the test's request does not parse: {parsed:?}");
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], 9080));
    let connection = ConnectionInfo {
        id: 1,
        peer: std::net::SocketAddr::from(([127, 0, 0, 1], 40_000)),
        local: address,
        tls: None,
        rare: Default::default(),
        requests: std::cell::Cell::new(1),
    };
    let snapshot = Snapshot {
        revision: 1,
        router: tidegate_routing::router::Router::build(
            tidegate_routing::router::Mode::HostUri,
            std::iter::empty(),
        ),
        routes: Default::default(),
        stream: Default::default(),
        globals: PluginChain::default(),
        consumers: ConsumerIndex::default(),
        upstreams: Default::default(),
        metadata: Default::default(),
        matches_on_body: false,
        certificates: Default::default(),
        graphql_weights: Default::default(),
        options: RouterOptions::default(),
    };
    let path = head.raw_path().to_vec();
    let host = head.host().ok().flatten().unwrap_or_default().to_vec();
    let snapshot = Rc::new(WorkerSnapshot::new(Arc::new(snapshot)));
    let mut request = Request::new(head, Rc::new(connection), snapshot, 0);
    request.path = path;
    request.host = host.split(|&byte| byte == b':').next().unwrap_or_default().to_vec();
    request
}
