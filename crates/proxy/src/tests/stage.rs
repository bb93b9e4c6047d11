//! The worker under test: its routes, its nodes, and its clock.

use std::{
    cell::Cell,
    net::{IpAddr, SocketAddr, TcpListener as StdListener},
    os::{fd::OwnedFd, unix::net::UnixStream as StdUnixStream},
    sync::Arc,
};

use serde_json::{Value, json};
use tidegate_compiler::{Addresses, Compiler, Options, SecretSource, ServiceNodes, UpstreamTrust};
use tidegate_model::{
    Document, Kind, Object,
    resources::{DiscoveredService, Node},
};
use tidegate_plugin_api::{Catalog, Snapshot, route::RouterOptions};
use tidegate_routing::router::Mode;
use tokio::net::{TcpListener, TcpStream, UnixStream};

use super::{Peer, peer::within};
use crate::{Publisher, Settings, connection, runtime::Runtime, settings::Listen, worker::Worker};

/// Runs a scene. Each turn of the runtime asks the system for events.
pub(super) fn play(scene: impl AsyncFnOnce()) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .event_interval(1)
        .build_local(Default::default())
        .expect("a runtime");
    runtime.block_on(scene());
}

/// Enough turns for everybody to notice what has happened so far, and to answer it.
pub(super) async fn run_until_idle() {
    for _ in 0..48 {
        tokio::task::yield_now().await;
    }
}

pub(super) struct Stage {
    pub worker: &'static Worker,
    nodes: Vec<TcpListener>,
    now_ms: Cell<u64>,
}

const CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 40_000);

impl Stage {
    /// With one node behind the only route, and settings as they are by default.
    pub(super) async fn new() -> Stage {
        Stage::with(1, json!({}), Settings::default()).await
    }

    /// With so many nodes, which are tried in their order, and more fields of their upstream.
    pub(super) async fn with(nodes: usize, upstream: Value, settings: Settings) -> Stage {
        let mut listeners = Vec::new();
        for _ in 0..nodes {
            listeners.push(TcpListener::bind("127.0.0.1:0").await.expect("a port"));
        }
        let addresses: Vec<SocketAddr> =
            listeners.iter().map(|listener| listener.local_addr().expect("its address")).collect();
        let worker = worker(settings, snapshot(&addresses, upstream));
        Stage { worker, nodes: listeners, now_ms: Cell::new(0) }
    }

    /// In place of the nodes, sockets at which no connection is accepted any more: their queues are full.
    pub(super) async fn with_full_node(upstream: Value) -> (Stage, Vec<TcpStream>) {
        let socket =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a port");
        socket.listen(0).expect("listens");
        socket.set_nonblocking(true).expect("set");
        let listener = TcpListener::from_std(StdListener::from(socket)).expect("a listener");
        let address = listener.local_addr().expect("its address");
        let waiting = TcpStream::connect(address).await.expect("a place in the queue");
        let worker = worker(Settings::default(), snapshot(&[address], upstream));
        (Stage { worker, nodes: vec![listener], now_ms: Cell::new(0) }, vec![waiting])
    }

    /// A new connection of a client.
    pub(super) fn client(&self) -> Peer<UnixStream> {
        let (ours, theirs) = StdUnixStream::pair().expect("two sockets");
        for socket in [&ours, &theirs] {
            socket.set_nonblocking(true).expect("set");
        }
        let theirs = TcpStream::from_std(std::net::TcpStream::from(OwnedFd::from(theirs))).expect("a stream");
        let address = SocketAddr::from(([127, 0, 0, 1], 9080));
        let listen = Listen { address, tls: false, proxy_protocol: false, optional: false, stream: None };
        connection::spawn(self.worker, theirs, CLIENT, &listen);
        Peer::new(UnixStream::from_std(ours).expect("a stream"))
    }

    /// The next connection to a node.
    pub(super) async fn accept(&self, node: usize) -> Peer<TcpStream> {
        let (stream, _) =
            within("a connection to the node", self.nodes[node].accept()).await.expect("accepted");
        Peer::new(stream)
    }

    /// Whether no connection to the node waits.
    pub(super) async fn is_left_alone(&self, node: usize) -> bool {
        run_until_idle().await;
        let accepting = self.nodes[node].accept();
        tokio::select! {
            biased;
            _ = accepting => false,
            () = run_until_idle() => true,
        }
    }

    /// Closes the socket at which a node accepts.
    pub(super) fn close_node(&mut self, node: usize) {
        drop(self.nodes.remove(node));
    }

    /// Lets time pass for the worker, after all have come to rest.
    pub(super) async fn pass(&self, ms: u64) {
        run_until_idle().await;
        self.now_ms.set(self.now_ms.get() + ms);
        self.worker.deadlines.tick(self.now_ms.get());
        run_until_idle().await;
    }
}

fn worker(settings: Settings, snapshot: Arc<Snapshot>) -> &'static Worker {
    let publisher = Arc::new(Publisher::new(snapshot));
    let worker = Worker::new(Runtime::new(0, 0, settings, publisher, Arc::default(), Arc::default()));
    worker.renew_date();
    Box::leak(Box::new(worker))
}

/// A route for every path, on which WebSocket is permitted below `/ws/` only.
fn snapshot(nodes: &[SocketAddr], mut upstream: Value) -> Arc<Snapshot> {
    let node = |(number, address): (usize, &SocketAddr)| {
        let (host, priority) = (address.ip().to_string(), -(number as i64));
        json!({"host": host, "port": address.port(), "weight": 1, "priority": priority})
    };
    upstream["type"] = json!("roundrobin");
    upstream["nodes"] = nodes.iter().enumerate().map(node).collect();
    let routes = [
        ("all", json!({"uri": "/*", "upstream": upstream})),
        ("ws", json!({"uri": "/ws/*", "enable_websocket": true, "upstream": upstream})),
    ];
    compile(Catalog::new(&[], None).expect("a catalog"), routes)
}

/// Routes by their ids.
pub(super) fn compile<const N: usize>(catalog: Catalog, routes: [(&str, Value); N]) -> Arc<Snapshot> {
    let options = Options {
        router: Mode::HostUri,
        options: RouterOptions::default(),
        workers: 1,
        upstream_trust: UpstreamTrust::default(),
        tls_protocols: Vec::new(),
        tls_ciphers: Vec::new(),
        http2: true,
        session_tickets: false,
        keepalive: tidegate_plugin_api::upstream::KeepalivePool {
            size: 8,
            idle_timeout_ms: 60_000,
            requests: 1000,
        },
        timeouts: Default::default(),
        stream: None,
        protocols: Vec::new(),
    };
    let nobody = Arc::new(Nobody);
    let mut compiler =
        Compiler::new(options, Arc::new(catalog), nobody.clone(), nobody.clone(), nobody, None);
    let route = |(id, value): (&str, Value)| Object {
        kind: Kind::Route,
        id: id.into(),
        document: Document::new(&value),
        created: 1,
        modified: 1,
        fault: None,
        unread: None,
    };
    compiler.reset(routes.map(route).into_iter());
    assert_eq!(compiler.rejected(), []);
    compiler.snapshot(1)
}

/// Knows no names, services and secrets.
struct Nobody;

impl Addresses for Nobody {
    fn of(&self, _: &str) -> Option<Vec<IpAddr>> {
        None
    }
}

impl ServiceNodes for Nobody {
    fn of(&self, _: &DiscoveredService) -> Option<Arc<[Node]>> {
        None
    }
}

impl SecretSource for Nobody {
    fn get(&self, _: &str) -> Result<String, String> {
        Err("no secrets".to_owned())
    }
}
