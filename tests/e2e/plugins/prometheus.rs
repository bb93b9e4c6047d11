//! The metrics page: APISIX's families and labels, what `plugin_attr.prometheus` and the metadata change, and a page
//! of 100,000 series.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read;
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;
use serde_json::{Value, json};
use tidegate_testkit::gateway::{EMBEDDED, Gateway, YAML_PROVIDER};
use tidegate_testkit::{Behaviour, Client, PATIENCE, Step, Upstream};

/// A sample of the page: its name, labels and value.
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

fn scrape(gateway: &Gateway, path: &str) -> String {
    let mut client = Client::connect(gateway.metrics).expect("the metrics port accepts connections");
    let answer = client.get("metrics", path).expect("a page");
    assert_eq!(answer.status(), 200);
    assert!(answer.header("Content-Type").is_some_and(|kind| kind.starts_with("text/plain")));
    answer.body_text()
}

/// Reads the text format strictly: every sample must belong to a family announced before it.
fn samples(page: &str) -> Vec<Sample> {
    let mut found = Vec::new();
    let mut family = "";
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            family = rest.split(' ').next().unwrap_or_default();
            continue;
        }
        if line.starts_with('#') {
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line}"));
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        assert!(name == family || base == Some(family), "{name} in the family {family}");
        let labels = labels.trim_end_matches('}').split("\",").filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once("=\"").unwrap_or_else(|| panic!("label {pair}: {line}"));
            (name.to_owned(), value.trim_end_matches('"').to_owned())
        });
        let value = value.parse().unwrap_or_else(|_| panic!("value of {line}"));
        found.push(Sample { name: name.to_owned(), labels: labels.collect(), value });
    }
    found
}

/// The sum of the samples with these labels; `None` when there are none.
fn sum(samples: &[Sample], name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let matching = samples.iter().filter(|sample| {
        let has =
            |(label, value): &(&str, &str)| sample.labels.get(*label).is_some_and(|found| found == value);
        sample.name == name && labels.iter().all(has)
    });
    let values: Vec<f64> = matching.map(|sample| sample.value).collect();
    (!values.is_empty()).then(|| values.iter().sum())
}

/// Counting happens after the answer is sent: looks again until the sample has the value.
fn until(gateway: &Gateway, path: &str, name: &str, labels: &[(&str, &str)], value: f64) -> Vec<Sample> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let page = scrape(gateway, path);
        let samples = samples(&page);
        if sum(&samples, name, labels) == Some(value) {
            return samples;
        }
        assert!(Instant::now() < deadline, "{name} {labels:?} never {value}:\n{page}");
    }
}

fn put(gateway: &Gateway, path: &str, body: &Value) {
    let (status, answer) = gateway.admin("PUT", &format!("/apisix/admin/{path}"), &body.to_string());
    assert!(matches!(status, 200 | 201), "{path}: {status} {answer}");
}

const PAGE: &str = "/apisix/prometheus/metrics";

/// Every family of APISIX's dashboard, with the labels that its panels select, sum and divide by.
const DASHBOARD: &[(&str, &[&str])] = &[
    ("apisix_http_status", &["code", "route", "service", "consumer", "node"]),
    ("apisix_http_latency_bucket", &["type", "route", "service", "consumer", "node", "le"]),
    ("apisix_bandwidth", &["type", "route", "service"]),
    ("apisix_http_requests_total", &[]),
    ("apisix_nginx_http_current_connections", &["state"]),
    ("apisix_nginx_metric_errors_total", &[]),
    ("apisix_etcd_reachable", &[]),
    ("apisix_etcd_modify_indexes", &["key"]),
    ("apisix_shared_dict_capacity_bytes", &["name"]),
    ("apisix_shared_dict_free_space_bytes", &["name"]),
];

#[test]
fn the_dashboard_finds_its_families() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(EMBEDDED, None);
    let node = upstream.address.to_string();
    put(&gateway, "services/s", &json!({"upstream": {"type": "roundrobin", "nodes": {&node: 1}}}));
    put(&gateway, "consumers/jack", &json!({"username": "jack", "plugins": {"key-auth": {"key": "k"}}}));
    put(
        &gateway,
        "routes/r",
        &json!({"uri": "/hello/*", "service_id": "s", "plugins": {"key-auth": {}, "prometheus": {}}}),
    );
    let request = "GET /hello/x HTTP/1.1\r\nHost: h\r\napikey: k\r\n\r\n";
    assert_eq!(gateway.client().request(request).expect("an answer").status(), 200);
    let labels = [
        ("code", "200"),
        ("route", "r"),
        ("matched_uri", "/hello/*"),
        ("matched_host", ""),
        ("service", "s"),
        ("consumer", "jack"),
        ("node", "127.0.0.1"),
        ("request_type", "traditional_http"),
        ("request_llm_model", ""),
        ("llm_model", ""),
        ("response_source", "upstream"),
    ];
    let samples = until(&gateway, PAGE, "apisix_http_status", &labels, 1.0);
    for (family, labels) in DASHBOARD {
        let mut of_family = samples.iter().filter(|sample| sample.name == *family).peekable();
        assert!(of_family.peek().is_some(), "{family} is not on the page");
        for sample in of_family {
            for label in *labels {
                assert!(sample.labels.contains_key(*label), "{family} has no label {label}");
            }
        }
    }
    let values = |name: &str, label: &str, values: &[&str]| {
        for value in values {
            assert!(sum(&samples, name, &[(label, value)]).is_some(), "{name} without {label}={value}");
        }
    };
    let states = ["accepted", "active", "handled", "reading", "waiting", "writing"];
    values("apisix_nginx_http_current_connections", "state", &states);
    let keys = [
        "consumers",
        "global_rules",
        "max_modify_index",
        "prev_index",
        "protos",
        "routes",
        "services",
        "ssls",
        "stream_routes",
        "upstreams",
        "x_etcd_index",
    ];
    values("apisix_etcd_modify_indexes", "key", &keys);
    values("apisix_http_latency_bucket", "type", &["request", "upstream", "apisix"]);
    values("apisix_bandwidth", "type", &["ingress", "egress"]);
    let index = |key| sum(&samples, "apisix_etcd_modify_indexes", &[("key", key)]).expect("an index");
    assert!(index("services") < index("consumers") && index("consumers") < index("routes"));
    assert!(
        index("x_etcd_index") >= index("max_modify_index") && index("routes") == index("max_modify_index")
    );
    assert_eq!(sum(&samples, "apisix_bandwidth", &[("type", "ingress")]), Some(request.len() as f64));
}

#[test]
fn attributes_and_metadata_change_names_and_labels() {
    let config = EMBEDDED.replace(
        "  prometheus: {export_addr",
        "  prometheus: {metric_prefix: mine_, export_uri: /page, default_buckets: [15, 55], \
         metrics: {http_status: {extra_labels: [{team: $arg_team}]}}, export_addr",
    );
    let gateway = Gateway::start(&config, None);
    let plugins = json!({"prometheus": {"prefer_name": true}, "mocking": {"response_example": "x"}});
    put(&gateway, "services/s", &json!({"name": "the service"}));
    put(
        &gateway,
        "routes/r",
        &json!({"name": "the route", "uri": "/hello", "hosts": ["h"], "service_id": "s", "plugins": plugins}),
    );
    let get = |target: &str| gateway.client().get("h", target).expect("an answer").status();
    assert_eq!(get("/hello?team=core"), 200);
    let labels = [
        ("team", "core"),
        ("route", "the route"),
        ("service", "the service"),
        ("matched_host", "h"),
        ("response_source", "apisix"),
    ];
    let found = until(&gateway, "/page", "mine_http_status", &labels, 1.0);
    assert_eq!(sum(&found, "mine_http_latency_bucket", &[("type", "request"), ("le", "+Inf")]), Some(1.0));
    let mut bounds: Vec<&str> = found
        .iter()
        .filter(|sample| sample.name == "mine_http_latency_bucket")
        .filter_map(|sample| sample.labels.get("le").map(String::as_str))
        .collect();
    bounds.sort_unstable();
    bounds.dedup();
    assert_eq!(bounds, ["+Inf", "15", "55"]);
    assert!(
        found.iter().filter(|it| it.name != "mine_http_status").all(|it| !it.labels.contains_key("team"))
    );

    // A label is disabled for the family that is named, not for its neighbours.
    put(
        &gateway,
        "plugin_metadata/prometheus",
        &json!({"disabled_labels": {"http_status": ["route", "matched_uri"], "bandwidth": ["service"]}}),
    );
    assert_eq!(get("/hello?team=core"), 200);
    let labels = [("team", "core"), ("route", ""), ("matched_uri", ""), ("service", "the service")];
    let found = until(&gateway, "/page", "mine_http_status", &labels, 1.0);
    let route = ("route", "the route");
    assert_eq!(sum(&found, "mine_http_latency_count", &[("type", "request"), route]), Some(2.0));
    assert!(sum(&found, "mine_bandwidth", &[("type", "egress"), route, ("service", "")]).is_some());
    assert!(
        sum(&found, "mine_bandwidth", &[("type", "egress"), route, ("service", "the service")]).is_some()
    );
}

#[test]
fn entries_of_loggers_are_shown_by_route() {
    let silent = Upstream::with(|_| Behaviour { read_body: true, steps: vec![Step::Silence] });
    let logger =
        format!("http-logger: {{uri: \"http://{}/\", batch_max_size: 1, name: mylog}}", silent.address);
    let routes = format!(
        "routes:\n- {{id: logged, uri: /, plugins: {{mocking: {{response_example: x}}, {logger}}}}}\n"
    );
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes));
    assert_eq!(gateway.client().get("h", "/").expect("an answer").status(), 200);
    let labels = [("name", "mylog"), ("route_id", "logged"), ("server_addr", "127.0.0.1")];
    until(&gateway, PAGE, "apisix_batch_process_entries", &labels, 1.0);
}

/// 20,000 label sets make 5 x 20,000 = 100,000 series, not counting a histogram's buckets.
#[test]
fn a_page_of_100_000_series_does_not_hold_up_requests() {
    const SETS: usize = 20_000;
    let config = YAML_PROVIDER.replace(
        "  prometheus: {export_addr",
        "  prometheus: {default_buckets: [10, 1000], max_series: 100000, metrics: {http_status: {extra_labels: [{x: $arg_x}]}, \
         http_latency: {extra_labels: [{x: $arg_x}]}, bandwidth: {extra_labels: [{x: $arg_x}]}}, export_addr",
    );
    let routes = "routes:\n- {id: r, uri: /, plugins: {mocking: {response_example: x, with_mock_header: false}, \
                  prometheus: {}}}\n";
    let gateway = Gateway::start(&config, Some(routes));
    let mut client = gateway.client();
    for first in (0..SETS).step_by(100) {
        let mut requests = String::new();
        for set in first..first + 100 {
            let _ = write!(requests, "GET /?x={set} HTTP/1.1\r\nHost: h\r\n\r\n");
        }
        client.send(requests.as_bytes()).expect("sent");
        for _ in 0..100 {
            assert_eq!(client.response().expect("an answer").status(), 200);
        }
    }
    // Requests are counted in their order; only the last may not be yet.
    let page = scrape(&gateway, PAGE);
    let series = |start: &str| page.lines().filter(|line| line.starts_with(start)).count();
    assert!(series("apisix_http_status{") >= SETS - 1, "{}", series("apisix_http_status{"));
    // Of request, upstream and apisix only the first and last: nothing was proxied.
    assert!(series("apisix_http_latency_count{") >= 2 * SETS - 2);
    assert!(series("apisix_bandwidth{") >= 2 * SETS - 2);
    assert_eq!(series("apisix_metric_series_overflow_total 0"), 1);

    // While one thread scrapes, requests are answered: far sooner than a page takes.
    let started = Instant::now();
    let page = std::thread::scope(|scope| {
        let page = scope.spawn(|| scrape(&gateway, PAGE));
        let mut slowest = Duration::ZERO;
        let mut asked = 0;
        while !page.is_finished() {
            let sent = Instant::now();
            assert_eq!(client.get("h", "/?x=1").expect("an answer").status(), 200);
            slowest = slowest.max(sent.elapsed());
            asked += 1;
        }
        let took = started.elapsed();
        println!("scrape {took:?}, {asked} requests meanwhile, slowest {slowest:?}");
        assert!(asked > 10 && slowest < took / 2, "{asked} requests, slowest {slowest:?} of {took:?}");
        page.join().expect("a page")
    });
    println!("{} lines, {} bytes", page.lines().count(), page.len());
}

/// On the page's own port and through `public-api`.
#[test]
fn a_page_is_compressed_for_those_who_accept_it() {
    let config = format!("{EMBEDDED}plugins: [public-api, prometheus, mocking]\n");
    let gateway = Gateway::start(&config, None);
    put(&gateway, "routes/page", &json!({"uri": PAGE, "plugins": {"public-api": {}}}));
    let ask = |address, accepted: &str| {
        let mut client = Client::connect(address).expect("the port accepts connections");
        let request = format!("GET {PAGE} HTTP/1.1\r\nHost: h\r\nAccept-Encoding: {accepted}\r\n\r\n");
        client.request(&request).expect("a page")
    };
    for address in [gateway.metrics, gateway.http] {
        let plain = ask(address, "br, gzip;q=0");
        assert_eq!((plain.status(), plain.header("Content-Encoding")), (200, None));
        let compressed = ask(address, "gzip, deflate");
        assert_eq!(compressed.header("Content-Encoding"), Some("gzip"));
        assert_eq!(compressed.header("Vary"), Some("Accept, Accept-Encoding"));
        let mut text = String::new();
        GzDecoder::new(&compressed.body[..]).read_to_string(&mut text).expect("gzip");
        assert!(samples(&text).iter().any(|sample| sample.name == "apisix_node_info"), "{text}");
        assert!(compressed.body.len() * 3 < plain.body.len());
    }
}

/// What Prometheus asks for by default, and where it looks. A series has one name, whichever format is asked for.
#[test]
fn openmetrics_is_for_those_who_ask() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(EMBEDDED, None);
    let route = json!({"uri": "/*", "plugins": {"prometheus": {}}, "upstream": {"nodes": {upstream.address.to_string(): 1}}});
    assert_eq!(gateway.admin("PUT", "/apisix/admin/routes/1", &route.to_string()).0, 201);
    assert_eq!(gateway.client().get("a.example", "/").expect("a response").status(), 200);
    let page = |accept: &str| {
        let mut client = Client::connect(gateway.metrics).expect("the metrics port accepts connections");
        let request = format!("GET /metrics HTTP/1.1\r\nHost: m\r\nAccept: {accept}\r\n\r\n");
        let answer = client.request(&request).expect("a page");
        assert_eq!(answer.header("Vary"), Some("Accept, Accept-Encoding"));
        (answer.header("Content-Type").unwrap_or_default().to_owned(), answer.body_text())
    };
    tidegate_testkit::eventually("the request is counted", || {
        page("*/*").1.contains("apisix_http_latency_bucket")
    });
    let (kind, text) = page("*/*");
    assert_eq!(kind, "text/plain; version=0.0.4");
    let (kind, open) =
        page("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1");
    assert_eq!(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8");
    let names = |page: &str| {
        let lines = page.lines().filter(|line| !line.starts_with('#'));
        let names = lines.map(|line| line.split(['{', ' ']).next().unwrap_or_default().to_owned());
        names.collect::<std::collections::BTreeSet<String>>()
    };
    assert_eq!(names(&text), names(&open));
    check_openmetrics(&open);
}

/// The rules of OpenMetrics 1.0 that differ from those of the text format.
fn check_openmetrics(page: &str) {
    assert!(page.ends_with("\n# EOF\n") && page.matches("# EOF").count() == 1);
    let mut families = std::collections::BTreeMap::new();
    let (mut family, mut kind) = ("", "");
    for line in page.lines().filter(|line| *line != "# EOF") {
        assert!(!line.is_empty(), "no empty lines");
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            (family, kind) = rest.split_once(' ').expect("a type");
            assert!(families.insert(family, kind).is_none(), "{family} is there twice");
            assert!(!(kind == "counter" && family.ends_with("_total")), "{family}");
        } else if let Some(rest) = line.strip_prefix("# UNIT ") {
            let (name, unit) = rest.split_once(' ').expect("a unit");
            assert!(name == family && name.ends_with(&format!("_{unit}")), "{line}");
        } else if !line.starts_with("# HELP ") {
            let name = line.split(['{', ' ']).next().unwrap_or_default();
            let suffix = name.strip_prefix(family).unwrap_or_else(|| panic!("{line} in the family {family}"));
            let allowed: &[&str] = match kind {
                "counter" => &["_total"],
                "histogram" => &["_bucket", "_sum", "_count"],
                _ => &[""],
            };
            assert!(allowed.contains(&suffix), "{line} in the {kind} {family}");
            if let Some((_, bound)) = line.split_once("le=\"") {
                assert!(bound.starts_with("+Inf\"") || bound.contains('.'), "{line}");
            }
        }
    }
    assert_eq!(families.get("apisix_http_status"), Some(&"unknown"), "APISIX's name has no _total");
    assert_eq!(families.get("apisix_log_lines_lost"), Some(&"counter"));
}
