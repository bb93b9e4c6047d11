//! Answers of the services that plugins ask: one that does not end, or many at once, take little memory, and a document that
//! many requests wait for is asked for once.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{
    Arc, Condvar, Mutex,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use serde_json::{Value, json};
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::usage::growth;
use tidegate_testkit::{Client, Gateway, Upstream, upstream::Seen};

const MEGABYTE: u64 = 1 << 20;

/// Answers each request with 200 and a body that has no end.
fn endless() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            std::thread::spawn(move || {
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
                let chunk = [b"10000\r\n".as_slice(), &[b'1'; 0x10000], b"\r\n"].concat();
                while stream.write_all(&chunk).is_ok() {}
            });
        }
    });
    address
}

fn route(id: &str, plugins: Value, upstream: &Upstream) -> Value {
    let nodes = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    json!({"id": id, "uri": format!("/{id}"), "plugins": plugins, "upstream": nodes})
}

fn metric(gateway: &Gateway, start: &str) -> f64 {
    let mut client = Client::connect(gateway.metrics).expect("the metrics port accepts connections");
    let page = client.get("metrics", "/apisix/prometheus/metrics").expect("a page").body_text();
    let line = page.lines().find(|line| line.starts_with(start));
    let value = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
    value.unwrap_or_else(|| panic!("no {start} on the page: {page}"))
}

const PLUGINS: &str = "plugins: [prometheus, forward-auth, opa, openid-connect, proxy-mirror]\n";

fn open_id(discovery: &str) -> Value {
    json!({"client_id": "c", "client_secret": "s", "bearer_only": true, "use_jwks": true, "discovery": discovery})
}

fn at_once(gateway: &Gateway, path: &str, count: usize) -> Vec<u16> {
    // A token whose signature has to be looked at.
    let token = "eyJhbGciOiJSUzI1NiIsImtpZCI6ImEifQ.eyJzdWIiOiJ4In0.c2ln";
    let sent = format!("GET {path} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {token}\r\n\r\n");
    let mut clients: Vec<Client> = (0..count).map(|_| gateway.client()).collect();
    for client in &mut clients {
        client.send(sent.as_bytes()).expect("sends");
    }
    clients.iter_mut().map(|client| client.response().expect("an answer").status()).collect()
}

#[test]
fn answers_without_end_take_little() {
    let upstream = Upstream::start();
    let url = format!("http://{}/x", endless());
    let keys = url.clone();
    let provider = Upstream::service(move |request| {
        let at = request.header("Host").expect("a host");
        (
            200,
            json!({"issuer": format!("http://{at}"), "jwks_uri": keys, "introspection_endpoint": keys})
                .to_string(),
        )
    });
    let discovery = format!("http://{}/.well-known/openid-configuration", provider.address);
    let mut introspects = open_id(&discovery);
    introspects["use_jwks"] = false.into();
    let objects = json!({"routes": [
        route("discovery", json!({"openid-connect": open_id(&url)}), &upstream),
        route("keys", json!({"openid-connect": open_id(&discovery)}), &upstream),
        route("introspection", json!({"openid-connect": introspects}), &upstream),
        route("forward-auth", json!({"forward-auth": {"uri": url}}), &upstream),
        route("opa", json!({"opa": {"host": url, "policy": "p"}}), &upstream),
    ]});
    for (lines, count) in [("", 4), ("  plugin_answer_memory: 3m\n", 24)] {
        let config = YAML_PROVIDER.replacen("apisix:\n", &format!("apisix:\n{lines}"), 1);
        let gateway = Gateway::start(&format!("{config}{PLUGINS}"), Some(&objects.to_string()));
        for path in ["/discovery", "/keys", "/introspection", "/forward-auth", "/opa"] {
            // What a first request needs is not what is measured.
            at_once(&gateway, path, 1);
            let (answers, grown) = growth(&gateway, || at_once(&gateway, path, count));
            println!("{path}, {count} at once, {lines:?}: +{} KB, {answers:?}", grown >> 10);
            assert!(answers.iter().all(|status| *status >= 400), "{path}: {answers:?}");
            assert!(grown < 24 * MEGABYTE, "{path}: +{} MB", grown / MEGABYTE);
        }
        let refused = |reason: &str| {
            metric(&gateway, &format!("apisix_plugin_answers_refused_total{{reason=\"{reason}\"}}"))
        };
        match lines {
            "" => assert!(refused("length") >= 5.0 && refused("memory") == 0.0),
            _ => assert!(refused("memory") > 0.0),
        }
        assert_eq!(metric(&gateway, "apisix_plugin_answer_memory_bytes "), 0.0);
        gateway.wait_for_log("dropped a response of ");
    }
    assert!(upstream.seen().is_empty());
}

/// What a mirror answers is nobody's: it is not gathered.
#[test]
fn answers_of_mirrors_are_not_kept() {
    let upstream = Upstream::start();
    let mirror = json!({"proxy-mirror": {"host": format!("http://{}", endless())}});
    let objects = json!({"routes": [route("mirror", mirror, &upstream)]});
    let gateway = Gateway::start(&format!("{YAML_PROVIDER}{PLUGINS}"), Some(&objects.to_string()));
    at_once(&gateway, "/mirror", 1);
    let ((), grown) = growth(&gateway, || {
        for _ in 0..8 {
            assert_eq!(at_once(&gateway, "/mirror", 1), [200]);
        }
        // The copies are under way: each has far more to read than is kept.
        assert_eq!(at_once(&gateway, "/mirror", 8), [200; 8]);
    });
    assert!(grown < 12 * MEGABYTE, "+{} MB", grown / MEGABYTE);
}

#[test]
fn a_document_that_many_wait_for_is_asked_for_once() {
    let upstream = Upstream::start();
    let (asked, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new((Mutex::new(false), Condvar::new())));
    let (counted, held) = (asked.clone(), gate.clone());
    let provider = Upstream::service(move |request| {
        counted.fetch_add(1, SeqCst);
        let open = held.0.lock().expect("the gate");
        drop(held.1.wait_while(open, |open| !*open).expect("the gate"));
        let at = request.header("Host").expect("a host");
        (
            200,
            json!({"issuer": format!("http://{at}"), "jwks_uri": format!("http://{at}/keys"), "keys": []})
                .to_string(),
        )
    });
    let discovery = format!("http://{}/discovery", provider.address);
    let objects = json!({"routes": [
        route("identity", json!({"openid-connect": open_id(&discovery)}), &upstream),
        route("plain", json!({}), &upstream),
    ]});
    let gateway = Gateway::start(&format!("{YAML_PROVIDER}{PLUGINS}"), Some(&objects.to_string()));
    let release = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| at_once(&gateway, "/identity", 12));
        while asked.load(SeqCst) == 0 {
            std::thread::yield_now();
        }
        // The worker has seen what came before this.
        assert_eq!(gateway.client().get("h", "/plain").expect("an answer").status(), 200);
        assert_eq!(asked.load(SeqCst), 1, "discovery, once");
        *gate.0.lock().expect("the gate") = true;
        gate.1.notify_all();
        waiting.join().expect("answers")
    });
    assert_eq!(release, [401; 12]);
    assert!(asked.load(SeqCst) <= 3, "discovery, the keys, and these once more: {asked:?}");
}

/// What a later guard refuses is no business of the mirror's host.
#[test]
fn a_mirror_gets_no_request_that_is_refused_before_the_proxy() {
    let (upstream, mirror) = (Upstream::start(), Upstream::start());
    let deny = "return function(conf, ctx) if ngx.var.arg_key ~= 'k' then return 403 end end";
    let guard = json!({"serverless-post-function": {"phase": "before_proxy", "functions": [deny]}});
    let copies = json!({"proxy-mirror": {"host": format!("http://{}", mirror.address)}});
    let objects = json!({"routes": [route("guarded", guard, &upstream)], "global_rules": [{"id": "m", "plugins": copies}]});
    let gateway = Gateway::start(YAML_PROVIDER, Some(&objects.to_string()));
    let status = |target: &str| gateway.client().get("h", target).expect("an answer").status();
    assert_eq!((status("/guarded"), status("/guarded?key=k")), (403, 200));
    let copies: Vec<String> = mirror.wait_for(1).iter().map(Seen::text).collect();
    assert!(copies.len() == 1 && copies[0].starts_with("GET /guarded?key=k "), "{copies:?}");
}
