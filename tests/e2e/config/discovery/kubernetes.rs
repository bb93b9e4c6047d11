//! Kubernetes, by a fake of the API server: lists in pages, watches that send events as chunks and end, versions that
//! are gone, tokens. Debian has no API server, and building one takes ten minutes.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use tidegate_testkit::usage::growth;
use tidegate_testkit::{Behaviour, Message, Upstream};

use super::registry::argument;
use super::{control, gateway, get, node, route, wait_for};

const TOKEN: &str = "good-token";

/// The API server: objects, and the events since the start.
struct Server {
    upstream: Upstream,
    shared: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Default)]
struct State {
    slices: bool,
    /// Names and documents without versions.
    objects: Vec<(String, String)>,
    /// Version after the change, and the event.
    events: Vec<(u64, String)>,
    version: u64,
    /// Versions before this one are gone.
    oldest: u64,
    lists: usize,
    watches: usize,
}

impl Server {
    fn start(slices: bool) -> Server {
        let state = State { slices, version: 100, oldest: 100, ..State::default() };
        let shared = Arc::new((Mutex::new(state), Condvar::new()));
        let answering = shared.clone();
        let step = Upstream::answer(move |request| answer(&answering, request));
        let upstream = Upstream::with(move |_| {
            // A watch ends when it has sent what there was: its connection ends with it.
            Behaviour { read_body: true, steps: vec![step.clone()] }
        });
        Server { upstream, shared }
    }

    fn conf(&self) -> String {
        let port = self.upstream.address.port();
        let slices = self.change(|state| state.slices);
        format!(
            "{{service: {{schema: http, host: \"127.0.0.1\", port: \"{port}\"}}, client: {{token: {TOKEN}}}, \
             watch_endpoint_slices: {slices}}}"
        )
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.shared.0.lock().unwrap_or_else(PoisonError::into_inner));
        self.shared.1.notify_all();
        changed
    }

    /// Adds or changes an object.
    fn put(&self, name: &str, object: String) {
        self.change(|state| {
            let known = state.objects.iter().position(|(other, _)| other == name);
            let kind = if known.is_some() { "MODIFIED" } else { "ADDED" };
            match known {
                Some(position) => state.objects[position].1 = object.clone(),
                None => state.objects.push((name.to_owned(), object.clone())),
            }
            state.event(kind, &object);
        });
    }

    fn remove(&self, name: &str) {
        self.change(|state| {
            let position = state.objects.iter().position(|(other, _)| other == name).expect("an object");
            let (_, object) = state.objects.remove(position);
            state.event("DELETED", &object);
        });
    }
}

impl State {
    fn event(&mut self, kind: &str, object: &str) {
        self.version += 1;
        let object = object.replace("@VERSION@", &self.version.to_string());
        self.events.push((self.version, format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")));
    }

    fn list(&mut self, request: &Message) -> (u16, String) {
        self.lists += 1;
        // One object per page, so that pages are followed.
        let page: usize = argument(request, "continue").and_then(|page| page.parse().ok()).unwrap_or(0);
        assert!(argument(request, "limit").is_some(), "{}", request.target());
        let kind = if self.slices { "EndpointSliceList" } else { "EndpointsList" };
        let items = self.objects.get(page).map_or("", |(_, object)| object);
        let version = self.version.to_string();
        let next = if page + 1 < self.objects.len() { (page + 1).to_string() } else { String::new() };
        let metadata = format!(r#"{{"resourceVersion":"{version}","continue":"{next}"}}"#);
        let items = items.replace("@VERSION@", &version);
        (200, format!(r#"{{"kind":"{kind}","metadata":{metadata},"items":[{items}]}}"#))
    }
}

fn answer(shared: &(Mutex<State>, Condvar), request: &Message) -> Vec<u8> {
    let plain = |(status, body): (u16, String)| {
        format!("HTTP/1.1 {status} S\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
    };
    let mut state = shared.0.lock().unwrap_or_else(PoisonError::into_inner);
    let wanted = if state.slices { "/apis/discovery.k8s.io/v1/endpointslices" } else { "/api/v1/endpoints" };
    if request.header("Authorization") != Some(&format!("Bearer {TOKEN}")) {
        return plain((401, r#"{"kind":"Status","code":401}"#.to_owned()));
    }
    if request.target().split('?').next() != Some(wanted) {
        return plain((404, r#"{"kind":"Status","code":404}"#.to_owned()));
    }
    if argument(request, "watch").is_none() {
        return plain(state.list(request));
    }
    state.watches += 1;
    shared.1.notify_all();
    let from: u64 = argument(request, "resourceVersion").and_then(|it| it.parse().ok()).expect("a version");
    // Like a server whose watches are short: it waits for an event, sends it, and ends the watch.
    let nothing =
        |state: &mut State| from >= state.oldest && !state.events.iter().any(|(version, _)| *version > from);
    let waited = shared.1.wait_timeout_while(state, Duration::from_secs(20), nothing);
    let state = waited.unwrap_or_else(PoisonError::into_inner).0;
    let mut lines: String =
        state.events.iter().filter(|(version, _)| *version > from).map(|(_, event)| event.as_str()).collect();
    if from < state.oldest {
        lines =
            "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"message\":\"too old\"}}\n"
                .to_owned();
    }
    // An event may come in pieces.
    let mut bytes = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for piece in lines.as_bytes().chunks(50) {
        bytes.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        bytes.extend_from_slice(piece);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}

fn metadata(name: &str, more: &str) -> String {
    format!(r#"{{"name":"{name}","namespace":"shop","resourceVersion":"@VERSION@"{more}}}"#)
}

fn endpoints(name: &str, nodes: &[&Upstream]) -> String {
    let subset = |node: &&Upstream| {
        let port = node.address.port();
        format!(
            r#"{{"addresses":[{{"ip":"127.0.0.1"}}],"notReadyAddresses":[{{"ip":"127.0.0.9"}}],
            "ports":[{{"name":"http","port":{port},"protocol":"TCP"}}]}}"#
        )
        .replace('\n', " ")
    };
    let subsets: Vec<String> = nodes.iter().map(subset).collect();
    format!(r#"{{"metadata":{},"subsets":[{}]}}"#, metadata(name, ""), subsets.join(","))
}

fn slice(name: &str, service: &str, node: &Upstream, ready: bool) -> String {
    let labels = format!(r#","labels":{{"kubernetes.io/service-name":"{service}"}}"#);
    let port = node.address.port();
    let endpoint = format!(r#"{{"addresses":["127.0.0.1"],"conditions":{{"ready":{ready}}}}}"#);
    let metadata = metadata(name, &labels);
    format!(
        r#"{{"metadata":{metadata},"addressType":"IPv4","endpoints":[{endpoint}],"ports":[{{"name":"http","port":{port}}}]}}"#
    )
}

#[test]
fn endpoints_are_listed_and_watched() {
    let (a, b) = (node("a"), node("b"));
    let server = Server::start(false);
    server.put("other", endpoints("other", &[&b]));
    server.put("web", endpoints("web", &[&a]));
    let gateway = gateway(&format!("  kubernetes: {}", server.conf()));
    route(&gateway, "/web", r#""service_name":"shop/web:http","discovery_type":"kubernetes""#);
    assert_eq!(get(&gateway, "/web"), (200, "a".to_owned()));
    let dump = control(&gateway, "/v1/discovery/kubernetes/dump").1;
    assert_eq!(dump["endpoints"][0]["endpoints"][1]["name"], "shop/web", "{dump}");
    assert_eq!(dump["config"]["client"]["token"], "***");

    server.put("web", endpoints("web", &[&a, &b]));
    wait_for(&gateway, "/web", &["a", "b"]);
    server.put("web", endpoints("web", &[&b]));
    wait_for(&gateway, "/web", &["b"]);
    server.remove("web");
    wait_for(&gateway, "/web", &["503"]);
    // All of it was told by watches.
    server.change(|state| assert_eq!(state.lists, 2, "two pages, once"));

    // A version that is gone: the list is fetched again, with what no watch told.
    server.change(|state| {
        state.objects.push(("web".to_owned(), endpoints("web", &[&a])));
        state.version += 50;
        state.oldest = state.version;
    });
    wait_for(&gateway, "/web", &["a"]);
}

/// Each address times each port: a megabyte of both would be millions of nodes.
#[test]
fn addresses_times_ports_are_bounded() {
    let a = node("a");
    let server = Server::start(false);
    let many = |make: fn(u32) -> String| (0..1_500).map(make).collect::<Vec<_>>().join(",");
    let addresses = many(|at| format!(r#"{{"ip":"10.0.{}.{}"}}"#, at >> 8, at & 255));
    let ports = many(|at| format!(r#"{{"name":"p{at}","port":{}}}"#, 1 + at));
    server.put("web", endpoints("web", &[&a]));
    let gateway = gateway(&format!("  kubernetes: {}", server.conf()));
    route(&gateway, "/web", r#""service_name":"shop/web:http","discovery_type":"kubernetes""#);
    wait_for(&gateway, "/web", &["a"]);
    let ((), grown) = growth(&gateway, || {
        let subset = format!(r#"{{"addresses":[{addresses}],"ports":[{ports}]}}"#);
        server.put("wide", format!(r#"{{"metadata":{},"subsets":[{subset}]}}"#, metadata("wide", "")));
        server.remove("web");
        wait_for(&gateway, "/web", &["503"]);
    });
    println!("1,500 addresses at 1,500 ports: +{} MB", grown >> 20);
    assert!(grown < 96 << 20, "+{} MB", grown >> 20);
}

#[test]
fn slices_of_a_service_are_put_together() {
    let (a, b) = (node("a"), node("b"));
    let server = Server::start(true);
    server.put("web-1", slice("web-1", "web", &a, true));
    server.put("web-2", slice("web-2", "web", &b, false));
    let gateway = gateway(&format!("  kubernetes: {}", server.conf()));
    route(&gateway, "/web", r#""service_name":"shop/web:http","discovery_type":"kubernetes""#);
    assert_eq!(get(&gateway, "/web"), (200, "a".to_owned()));
    server.put("web-2", slice("web-2", "web", &b, true));
    wait_for(&gateway, "/web", &["a", "b"]);
    server.remove("web-1");
    wait_for(&gateway, "/web", &["b"]);
}

#[test]
fn several_clusters_and_one_that_is_gone() {
    let (a, b) = (node("a"), node("b"));
    let (first, second) = (Server::start(false), Server::start(false));
    first.put("web", endpoints("web", &[&a]));
    second.put("web", endpoints("web", &[&b]));
    let with_id = |id: &str, server: &Server| server.conf().replacen('{', &format!("{{id: {id}, "), 1);
    let gateway =
        gateway(&format!("  kubernetes: [{}, {}]", with_id("one", &first), with_id("two", &second)));
    route(&gateway, "/one", r#""service_name":"one/shop/web:http","discovery_type":"kubernetes""#);
    route(&gateway, "/two", r#""service_name":"two/shop/web:http","discovery_type":"kubernetes""#);
    assert_eq!(get(&gateway, "/one"), (200, "a".to_owned()));
    assert_eq!(get(&gateway, "/two"), (200, "b".to_owned()));
    drop(second);
    let start = std::time::Instant::now();
    while !gateway.error_log().contains("discovery kubernetes: ") {
        assert!(start.elapsed() < tidegate_testkit::PATIENCE, "{}", gateway.error_log());
        assert_eq!(get(&gateway, "/two"), (200, "b".to_owned()));
    }
    first.put("web", endpoints("web", &[&b]));
    wait_for(&gateway, "/one", &["b"]);
    assert_eq!(get(&gateway, "/two"), (200, "b".to_owned()));
}

#[test]
fn the_gateway_is_ready_when_the_list_has_come() {
    let server = Server::start(false);
    let port = tidegate_testkit::free_port();
    let apisix = format!("apisix:\n  status: {{ip: 127.0.0.1, port: {port}}}\n");
    let config = tidegate_testkit::gateway::EMBEDDED.replace("apisix:\n", &apisix);
    // The list fails until there is the right token.
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    std::fs::write(&file, "bad-token\n").expect("a file");
    let token = format!("token_file: \"{}\"", file.display());
    let conf = server.conf().replace(&format!("token: {TOKEN}"), &token);
    let gateway =
        tidegate_testkit::Gateway::start(&format!("{config}discovery:\n  kubernetes: {conf}\n"), None);
    let ready = || {
        let mut client =
            tidegate_testkit::Client::connect(([127, 0, 0, 1], port).into()).expect("the status port");
        client.get("h", "/status/ready").expect("an answer").status()
    };
    assert_eq!(ready(), 503);
    let start = std::time::Instant::now();
    while !gateway.error_log().contains("list: status 401") {
        assert!(start.elapsed() < tidegate_testkit::PATIENCE, "{}", gateway.error_log());
        assert_eq!(ready(), 503);
    }
    std::fs::write(&file, format!("{TOKEN}\n")).expect("a file");
    let start = std::time::Instant::now();
    while ready() != 200 {
        assert!(start.elapsed() < tidegate_testkit::PATIENCE, "never ready");
    }
}
