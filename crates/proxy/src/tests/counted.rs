//! Work of which `perf/benches.py` counts the instructions: it runs these tests under callgrind with TIDEGATE_ROUNDS rounds, and
//! with twice as many. Without it they run a few rounds, and check what the work makes.

use std::{
    cell::Cell,
    future::Future,
    hint::black_box,
    net::SocketAddr,
    pin::pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use serde_json::{Value, json};
use tidegate_plugin_api::{
    BuildContext, Catalog, Phases, Plugin, PluginDef, Request, RequestBody, Step, WorkerSnapshot,
    connection::ConnectionInfo, route::RouteUpstream,
};
use tidegate_protocol::{RequestHead, RequestLimits};

use super::stage::compile;
use crate::{phases::RequestChains, upstream_head::OutgoingHead};

const BROWSER: &str = "GET /products/17?color=blue HTTP/1.1\r\nHost: shop.example.com\r\nConnection: keep-alive\r\n\
    sec-ch-ua: \"Chromium\";v=\"130\"\r\nsec-ch-ua-mobile: ?0\r\nsec-ch-ua-platform: \"Linux\"\r\nUpgrade-Insecure-Requests: 1\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nSec-Fetch-Site: none\r\nSec-Fetch-Mode: navigate\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\nAccept-Language: en-US,en;q=0.9\r\nCookie: session=0123456789abcdef; theme=dark\r\n\r\n";

fn rounds() -> u64 {
    std::env::var("TIDEGATE_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(10)
}

/// What never waits.
fn at_once<T>(work: impl Future<Output = T>) -> T {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}

fn request(snapshot: &Rc<WorkerSnapshot>) -> Request {
    let mut head = RequestHead::default();
    assert!(head.parse(BROWSER.as_bytes(), &mut 0, &RequestLimits::default()).is_ok_and(|end| end.is_some()));
    let connection = ConnectionInfo {
        id: 1,
        peer: SocketAddr::from(([127, 0, 0, 1], 40_000)),
        local: SocketAddr::from(([127, 0, 0, 1], 9080)),
        tls: None,
        rare: Default::default(),
        requests: Cell::new(1),
    };
    let mut request = Request::new(head, Rc::new(connection), snapshot.clone(), 0);
    request.body = RequestBody::Empty;
    request
}

fn snapshot(plugins: Value) -> Rc<WorkerSnapshot> {
    let catalog = Catalog::new(&[&FIRST, &SECOND, &THIRD], None).expect("a catalog");
    let upstream = json!({"type": "roundrobin", "nodes": {"127.0.0.1:1": 1}});
    let route = json!({"uri": "/*", "plugins": plugins, "upstream": upstream});
    Rc::new(WorkerSnapshot::new(compile(catalog, [("1", route)])))
}

#[test]
fn writing_a_head() {
    let snapshot = snapshot(json!({}));
    let request = request(&snapshot);
    let RouteUpstream::Some(handle) = &snapshot.routes.iter().next().expect("a route").upstream else {
        panic!("no upstream")
    };
    let node = handle.nodes.first().expect("a node");
    let mut out = Vec::with_capacity(4096);
    for _ in 0..rounds() {
        out.clear();
        OutgoingHead::new(black_box(&request), handle, node, false).write_http1(&mut out);
    }
    let text = String::from_utf8(out).expect("text");
    assert!(text.starts_with("GET /products/17?color=blue HTTP/1.1\r\nHost: shop.example.com\r\n"), "{text}");
    assert!(text.contains("\r\nX-Real-IP: 127.0.0.1\r\n") && text.ends_with("\r\n\r\n"), "{text}");
}

#[test]
fn a_chain_without_plugins() {
    assert_eq!(run(json!({})), 0);
}

#[test]
fn a_chain_of_three_plugins() {
    assert_eq!(run(json!({"first": {}, "second": {}, "third": {}})), 3 * 4);
}

/// How many phases of plugins ran per round.
fn run(plugins: Value) -> u64 {
    let snapshot = snapshot(plugins);
    let route = snapshot.routes.iter().next().expect("a route").clone();
    let mut request = request(&snapshot);
    let (before, rounds) = (RUN.get(), rounds());
    for _ in 0..rounds {
        let mut chains = RequestChains::new(&request, false);
        chains.set_route(&route);
        at_once(async {
            assert!(chains.rewrite(&mut request).await.is_ok());
            assert!(chains.access(&mut request).await.is_ok());
            assert!(chains.before_proxy(&mut request, true).await.is_ok());
        });
        chains.header_filter(&mut request);
        chains.log(&mut request);
    }
    (RUN.get() - before) / rounds
}

thread_local! {
    static RUN: Cell<u64> = const { Cell::new(0) };
}

/// Does as little as a plugin can.
struct Counting;

impl Counting {
    fn count() {
        RUN.set(RUN.get() + 1);
    }
}

impl Plugin for Counting {
    fn rewrite<'a>(&'a self, _: &'a mut Request) -> Step<'a> {
        Counting::count();
        Step::Next
    }

    fn access<'a>(&'a self, _: &'a mut Request) -> Step<'a> {
        Counting::count();
        Step::Next
    }

    fn header_filter(&self, _: &mut Request) {
        Counting::count();
    }

    fn log(&self, _: &mut Request) {
        Counting::count();
    }
}

fn build(_: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(Counting))
}

const fn declaration(name: &'static str, priority: i64) -> PluginDef {
    let phases = Phases::REWRITE.and(Phases::ACCESS).and(Phases::HEADER_FILTER).and(Phases::LOG);
    PluginDef { name, priority, schema: r#"{"type":"object"}"#, phases, build, ..PluginDef::DEFAULT }
}

static FIRST: PluginDef = declaration("first", 3);
static SECOND: PluginDef = declaration("second", 2);
static THIRD: PluginDef = declaration("third", 1);
