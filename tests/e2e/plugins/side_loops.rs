//! Plugins whose service, receiver or mirror is the gateway itself: what they ask, copy and log does not go round, and nobody can
//! use what ends it to pass a guard or to stay out of the log.

use serde_json::{Value, json};
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::{Client, Gateway, Upstream, eventually};

const PLUGINS: &str = "plugins: [prometheus, public-api, batch-requests, proxy-rewrite, proxy-mirror, forward-auth, opa, \
    openid-connect, http-logger, loki-logger, elasticsearch-logger, opentelemetry]\n";

fn route(id: &str, plugins: Value, upstream: &str) -> Value {
    let nodes = json!({"type": "roundrobin", "nodes": {upstream: 1}});
    json!({"id": id, "uri": format!("/{id}"), "plugins": plugins, "upstream": nodes})
}

/// `@HTTP@` becomes the gateway's own port.
const OWN: &str = "127.0.0.1:@HTTP@";

fn own(path: &str) -> String {
    format!("http://{OWN}{path}")
}

fn start(objects: &Value) -> Gateway {
    Gateway::start(&format!("{YAML_PROVIDER}{PLUGINS}"), Some(&objects.to_string()))
}

fn page(gateway: &Gateway) -> String {
    let mut client = Client::connect(gateway.metrics).expect("the metrics port accepts connections");
    client.get("metrics", "/apisix/prometheus/metrics").expect("a page").body_text()
}

/// A number of the page; 0 while it is not there.
pub(super) fn metric(gateway: &Gateway, start: &str) -> f64 {
    let page = page(gateway);
    let line = page.lines().find(|line| line.starts_with(start));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_default()
}

fn requests(gateway: &Gateway) -> f64 {
    metric(gateway, "apisix_http_requests_total ")
}

fn get(gateway: &Gateway, path: &str) -> u16 {
    gateway.client().get("h", path).expect("an answer").status()
}

#[test]
fn questions_that_go_round_end() {
    let upstream = Upstream::start();
    let open_id = |url: &str| json!({"client_id": "c", "client_secret": "s", "discovery": url, "session": {"secret": "0123456789abcdef0123456789abcdef"}});
    let address = upstream.address.to_string();
    let objects = json!({"routes": [
        route("forward", json!({"forward-auth": {"uri": own("/forward")}}), &address),
        route("degraded", json!({"forward-auth": {"uri": own("/degraded"), "allow_degradation": true}}), &address),
        route("one", json!({"forward-auth": {"uri": own("/two")}}), &address),
        route("two", json!({"opa": {"host": own(""), "policy": "p"}}), &address),
        json!({"id": "policies", "uri": "/v1/data/p", "plugins": {"forward-auth": {"uri": own("/one")}}, "upstream": {"type": "roundrobin", "nodes": {address.as_str(): 1}}}),
        route("identity", json!({"openid-connect": open_id(&own("/identity"))}), &address),
    ]});
    let gateway = start(&objects);
    for (path, status) in [("/forward", 508), ("/degraded", 508), ("/one", 403), ("/identity", 500)] {
        let before = requests(&gateway);
        assert_eq!(get(&gateway, path), status, "{path}");
        assert_eq!(requests(&gateway) - before, 3.0, "{path}: the client's and two of plugins");
    }
    assert!(upstream.seen().is_empty(), "no guard let a request pass");
    gateway.wait_for_log("this gateway itself, is not sent");
}

/// One entry is delivered; what is known of its delivery is not.
#[test]
fn deliveries_are_not_delivered() {
    let upstream = Upstream::start();
    let one = |more: Value| {
        let mut conf = json!({"batch_max_size": 1, "inactive_timeout": 1, "max_retry_count": 0});
        conf.as_object_mut()
            .zip(more.as_object())
            .expect("objects")
            .0
            .extend(more.as_object().cloned().expect("fields"));
        conf
    };
    for (plugin, conf) in [
        ("http-logger", one(json!({"uri": own("/sink")}))),
        ("loki-logger", one(json!({"endpoint_addrs": [own("")]}))),
        ("elasticsearch-logger", one(json!({"endpoint_addrs": [own("")], "field": {"index": "i"}}))),
        ("opentelemetry", json!({"sampler": {"name": "always_on"}})),
    ] {
        let objects = json!({
            "global_rules": [{"id": "logs", "plugins": {plugin: conf}}],
            "plugin_metadata": [{
                "id": "opentelemetry",
                "collector": {"address": OWN},
                "batch_span_processor": {"max_export_batch_size": 1, "inactive_timeout": 1},
            }],
            "routes": [{"id": "all", "uri": "/*", "upstream": {"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}}}],
        });
        let gateway = start(&objects);
        let before = requests(&gateway);
        assert_eq!(get(&gateway, "/first"), 200, "{plugin}");
        let waiting = || metric(&gateway, &format!("apisix_log_entries_waiting{{plugin=\"{plugin}\"}}"));
        let dropped = |reason: &str| {
            metric(
                &gateway,
                &format!("apisix_log_entries_dropped_total{{plugin=\"{plugin}\",reason=\"{reason}\"}}"),
            )
        };
        eventually(plugin, || dropped("loop") >= 1.0 && waiting() == 0.0);
        // Elasticsearch is asked for its version first.
        let came = requests(&gateway) - before;
        assert!((2.0..=3.0).contains(&came), "{plugin}: {came}");
        gateway.wait_for_log("these requests are not logged, to avoid a loop");
    }
}

#[test]
fn copies_do_not_double_at_each_hop() {
    let upstream = Upstream::start();
    let mirror = json!({"proxy-mirror": {"host": own("")}});
    let objects = json!({"routes": [
        route("loop", mirror.clone(), OWN),
        route("once", mirror, &upstream.address.to_string()),
    ]});
    let gateway = start(&objects);
    assert_eq!(get(&gateway, "/once"), 200);
    eventually("the copy arrives", || upstream.seen().len() == 2);
    let before = requests(&gateway);
    assert_eq!(get(&gateway, "/loop"), 508);
    // The client's comes back ten times and is refused the eleventh; its only copy has come back once as it starts.
    eventually("all have ended", || metric(&gateway, "apisix_loops_ended_total ") == 2.0);
    assert_eq!(requests(&gateway) - before, 12.0 + 11.0);
    assert_eq!(upstream.seen().len(), 2);
}

/// What leads back on purpose arrives.
#[test]
fn one_question_and_one_copy_of_another_route_pass() {
    let upstream = Upstream::service(|request| (200, request.target().to_owned()));
    let address = upstream.address.to_string();
    let asks = json!({"forward-auth": {"uri": own("/auth")}});
    let logs = json!({"http-logger": {"uri": own("/sink"), "batch_max_size": 1}});
    let objects = json!({"routes": [
        route("asks", asks.clone(), &address),
        route("auth", json!({}), &address),
        route("mirrored", json!({"proxy-mirror": {"host": own(""), "path": "/shadow"}}), &address),
        route("shadow", asks, &address),
        route("logged", logs, &address),
        route("sink", json!({}), &address),
        route("around", json!({"proxy-rewrite": {"uri": "/asks"}}), OWN),
        json!({"id": "batch", "uri": "/apisix/batch-requests", "plugins": {"public-api": {}}}),
    ]});
    let gateway = start(&objects);
    let arrived = |path: &str| upstream.seen().iter().any(|seen| seen.message.target() == path);
    let body = json!({"pipeline": [{"path": "/around"}]}).to_string();
    let batch = format!(
        "POST /apisix/batch-requests HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    assert!(gateway.client().request(&batch).expect("an answer").body_text().contains("\"status\":200"));
    assert!(arrived("/asks"));
    assert_eq!(get(&gateway, "/mirrored"), 200);
    eventually("the copy", || arrived("/shadow"));
    assert_eq!(get(&gateway, "/logged"), 200);
    eventually("the entry", || {
        upstream
            .seen()
            .iter()
            .any(|seen| seen.message.target() == "/sink" && seen.message.body_text().contains("/logged"))
    });
}

/// A client that has learned the number of the process ends its own requests, at most.
#[test]
fn a_forged_field_opens_and_hides_nothing() {
    let upstream = Upstream::service(|request| (200, String::from_utf8_lossy(&request.head).into_owned()));
    let refuses = Upstream::service(|_| (401, String::new()));
    let receiver = Upstream::service(|_| (200, String::new()));
    let copies = Upstream::service(|_| (200, String::new()));
    let address = upstream.address.to_string();
    let url = |upstream: &Upstream| format!("http://{}", upstream.address);
    let watched = json!({
        "http-logger": {"uri": url(&receiver), "batch_max_size": 1},
        "proxy-mirror": {"host": url(&copies)},
    });
    let asks = json!({"forward-auth": {"uri": url(&refuses), "allow_degradation": true}});
    let asks_itself = json!({"forward-auth": {"uri": own("/refuses"), "allow_degradation": true}});
    let objects = json!({"routes": [
        route("learn", json!({"proxy-rewrite": {"uri": "/echo"}}), OWN),
        route("echo", json!({}), &address),
        route("watched", watched, &address),
        route("guarded", asks, &address),
        route("guarded-by-itself", asks_itself, &address),
        route("refuses", json!({}), &refuses.address.to_string()),
    ]});
    let gateway = start(&objects);
    let learned = gateway.client().get("h", "/learn").expect("an answer").body_text().to_ascii_lowercase();
    let member = learned.lines().find_map(|line| line.strip_prefix("cdn-loop: ")).expect("the field");
    let name = member.split(';').next().expect("a name");
    assert!(name.starts_with("tidegate-") && !member.contains("ticket="), "{member}");
    let arrived = upstream.seen().len();
    let (mut logged, mut copied) = (0, 0);
    for forged in
        ["hops=1", "side=1;hops=1", "side=2;hops=2", "ticket=0000000000000000;side=1;hops=1", "side=x;hops=9"]
    {
        let send = |path: &str| {
            let sent = format!("GET /{path} HTTP/1.1\r\nHost: h\r\nCDN-Loop: {name};{forged}\r\n\r\n");
            gateway.client().request(&sent).expect("an answer").status()
        };
        assert_eq!(send("guarded"), 401, "{forged}");
        assert!(matches!(send("guarded-by-itself"), 401 | 508), "{forged}");
        assert_eq!(send("watched"), 200, "{forged}");
        (logged, copied) = (logged + 1, copied + 1);
        eventually(forged, || receiver.seen().len() == logged && copies.seen().len() == copied);
    }
    assert_eq!(upstream.seen().len(), arrived + logged, "only what is not guarded");
    let sent = format!("GET /watched HTTP/1.1\r\nHost: h\r\nCDN-Loop: {name};side=3;hops=3\r\n\r\n");
    assert_eq!(gateway.client().request(&sent).expect("an answer").status(), 508);
}
