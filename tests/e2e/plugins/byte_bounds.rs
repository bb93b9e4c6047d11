//! What clients make the gateway remember is bounded in bytes, whatever they send.
//!
//! A few thousand requests show it; with the numbers of `TIDEGATE_LIMITER_KEYS` and so on the tests do what attackers would.

use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use serde_json::json;
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::usage::growth;
use tidegate_testkit::{Behaviour, Client, Gateway, PATIENCE, Step, Upstream, servers};

const MEGABYTE: u64 = 1 << 20;

/// A number of this test, or that of a variable.
fn number(variable: &str, default: usize) -> usize {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

fn metric(gateway: &Gateway, start: &str) -> f64 {
    let mut client = Client::connect(gateway.metrics).expect("the metrics port accepts connections");
    let page = client.get("metrics", "/apisix/prometheus/metrics").expect("a page").body_text();
    let line = page.lines().find(|line| line.starts_with(start));
    let value = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
    value.unwrap_or_else(|| panic!("no {start} on the page: {page}"))
}

/// Paths of 7.8 KB are the keys of three plugins at once.
#[test]
fn long_keys_of_limiters_take_little() {
    let upstream = servers::nginx("location / { return 500; }");
    let routes = json!({"routes": [{
        "id": "all", "uri": "/*", "upstream": {"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}},
        "plugins": {
            "proxy-rewrite": {"uri": "/"},
            "limit-count": {"count": 2, "time_window": 3600, "key": "request_uri", "key_type": "var", "rejected_code": 429},
            "limit-req": {"rate": 1e6, "burst": 1e6, "key": "request_uri"},
            "api-breaker": {"break_response_code": 502, "unhealthy": {"http_statuses": [500], "failures": 100}},
        },
    }]});
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes.to_string()));
    let keys = number("TIDEGATE_LIMITER_KEYS", 5_000);
    let path = |number: usize| format!("/{number:08}{}", "k".repeat(7_800));
    let mut client = gateway.client();
    // What the first requests need is not what is measured.
    for number in 0..50 {
        assert_eq!(client.get("h", &path(number)).expect("an answer").status(), 500);
    }
    let ((), grown) = growth(&gateway, || {
        for number in 50..keys {
            assert_eq!(client.get("h", &path(number)).expect("an answer").status(), 500);
        }
    });
    println!("{keys} keys of 7.8 KB at three plugins: +{} MB", grown / MEGABYTE);
    assert!(grown < (keys as u64 * 600).max(16 * MEGABYTE), "+{} MB", grown / MEGABYTE);
    // Long keys are told apart by all of their bytes, and each is counted.
    for number in [0, keys - 1] {
        assert_eq!(client.get("h", &path(number)).expect("an answer").status(), 500, "the second");
        assert_eq!(client.get("h", &path(number)).expect("an answer").status(), 429, "the third");
    }
    assert_eq!(metric(&gateway, "apisix_limiter_keys{plugin=\"limit-count\"}"), keys as f64);
    assert_eq!(metric(&gateway, "apisix_limiter_keys_forgotten_total{plugin=\"limit-count\"}"), 0.0);
}

/// With these lines below `apisix`.
fn config(lines: &str) -> String {
    YAML_PROVIDER.replacen("apisix:\n", &format!("apisix:\n{lines}"), 1)
}

/// A receiver that accepts connections and never answers.
fn silent_receiver() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        // Kept: a connection that closes would be an answer.
        let _open: Vec<_> = listener.incoming().collect();
    });
    format!("http://{address}/")
}

#[test]
fn entries_that_nobody_takes_are_bounded_in_bytes() {
    let upstream = servers::nginx("location / { return 200; }");
    let routes = json!({"routes": [{
        "id": "all", "uri": "/*", "upstream": {"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}},
        "plugins": {"http-logger": {"uri": silent_receiver(), "timeout": 60, "include_req_body": true, "batch_max_size": 4}},
    }]});
    let posts = number("TIDEGATE_LOGGED_POSTS", 200);
    // A quote takes two bytes when it is sent.
    for (lines, bytes, most) in
        [("", 32 << 20, 64 * MEGABYTE), ("  log_memory: 16m\n", 8 << 20, 40 * MEGABYTE)]
    {
        let gateway = Gateway::start(&config(lines), Some(&routes.to_string()));
        let mut client = gateway.client();
        let head = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 524288\r\n\r\n";
        let body = vec![b'"'; 512 << 10];
        let ((), grown) = growth(&gateway, || {
            for _ in 0..posts {
                client.send(head.as_bytes()).expect("sends the head");
                client.send(&body).expect("sends the body");
                assert_eq!(client.response().expect("an answer").status(), 200);
            }
        });
        println!("{posts} posts of 512 KB for a receiver that hangs, {lines:?}: +{} MB", grown / MEGABYTE);
        assert!(grown < most, "{lines:?}: +{} MB", grown / MEGABYTE);
        let held = metric(&gateway, "apisix_log_entries_waiting_bytes{plugin=\"http-logger\"}");
        assert!((1.0..=f64::from(bytes)).contains(&held), "{held}");
        // The last entry may come after its answer.
        let started = Instant::now();
        let taken_or_dropped = || {
            metric(&gateway, "apisix_log_entries_waiting{plugin=\"http-logger\"}")
                + metric(
                    &gateway,
                    "apisix_log_entries_dropped_total{plugin=\"http-logger\",reason=\"memory\"}",
                )
        };
        while taken_or_dropped() < posts as f64 {
            assert!(started.elapsed() < PATIENCE, "{} of {posts}", taken_or_dropped());
        }
        gateway.wait_for_log(
            "log entries take too much memory (apisix.log_memory). discarding entry. plugin: http-logger",
        );
    }
}

/// Answers that do not end: what is kept of them for the log is bounded over all of them.
#[test]
fn response_bodies_kept_for_the_log_are_bounded() {
    let upstream = Upstream::with(|_| {
        let mut answer = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n".to_vec();
        answer.resize(answer.len() + 400_000, b'x');
        Behaviour { read_body: true, steps: vec![Step::Send(answer), Step::Silence] }
    });
    let routes = json!({"routes": [{
        "id": "all", "uri": "/*", "upstream": {"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}},
        "plugins": {"http-logger": {"uri": silent_receiver(), "include_resp_body": true}},
    }]});
    let gateway = Gateway::start(&config("  log_memory: 4m\n"), Some(&routes.to_string()));
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let mut client = gateway.client();
            client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").expect("sends");
            // All that there is of the answer, so that the gateway has seen it.
            client.exactly(400_000).expect("a part of the answer");
            client
        })
        .collect();
    gateway.wait_for_log(
        "a response body is not logged: bodies kept for logs take too much memory (apisix.log_memory)",
    );
    drop(clients);
}

/// The first bytes of a ClientHello, and no more.
#[test]
fn half_handshakes_are_given_up() {
    let config = config("  client_limits: {handshake_timeout: 300ms}\n")
        .replace("ssl: {enable: false}", "ssl: {enable: true, listen: [{ip: 127.0.0.1, port: @ADMIN@}]}");
    let gateway = Gateway::start(&config, Some(&json!({"routes": []}).to_string()));
    let mut client = Client::connect(gateway.admin).expect("the TLS port accepts connections");
    let started = Instant::now();
    client.send(&[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]).expect("sends");
    client.to_close().expect("the gateway closes");
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

/// Six batches of 17 KB, each with answers of 60 MB.
#[test]
fn answers_of_batches_count_as_bodies_do() {
    let upstream = servers::nginx("location / { return 200 $arg_body$http_big$http_big$http_big$http_big; }");
    let routes = json!({"routes": [
        {"id": "batch", "uri": "/apisix/batch-requests", "plugins": {"public-api": {}},
            "upstream": {"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}}},
        {"id": "big", "uri": "/big", "upstream": {"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}}},
    ]});
    let gateway = Gateway::start(
        &(config("  body_memory: {total: 16m}\n") + "plugins: [public-api, batch-requests]\n"),
        Some(&routes.to_string()),
    );
    let items = vec![json!({"path": "/big"}); 500];
    let body = json!({"headers": {"big": "b".repeat(4_000)}, "pipeline": items}).to_string();
    let post = |body: &str| {
        let mut client = gateway.client();
        let head = format!(
            "POST /apisix/batch-requests HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        client.send(head.as_bytes()).expect("sends the head");
        client.send(body.as_bytes()).expect("sends the body");
        client.response().expect("an answer").status()
    };
    let (statuses, grown) = growth(&gateway, || (0..2).map(|_| post(&body)).collect::<Vec<_>>());
    println!("two batches with answers of 8 MB: +{} MB", grown / MEGABYTE);
    assert_eq!(statuses, [503, 503]);
    assert!(grown < 24 * MEGABYTE, "+{} MB", grown / MEGABYTE);
    let few = json!({"headers": {"big": "b"}, "pipeline": vec![json!({"path": "/big"}); 50]}).to_string();
    assert_eq!(post(&few), 200);
    gateway.wait_for_log("the memory for bodies (apisix.body_memory.total, 16777216 bytes)");
}

/// Open and silent: what a tunnel holds is bounded, and nothing of it is for what may come.
#[test]
fn idle_tunnels_hold_little() {
    let upstream = Upstream::with(|_| Behaviour {
        read_body: false,
        steps: vec![
            Step::Send(
                b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
                    .to_vec(),
            ),
            Step::EchoTunnel,
        ],
    });
    let routes = json!({"routes": [{
        "id": "all", "uri": "/*", "enable_websocket": true,
        "upstream": {"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}},
    }]});
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes.to_string()));
    let open = || {
        let mut client = gateway.client();
        let head = "GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
        assert_eq!(client.request(head).expect("an answer").status(), 101);
        client.send(&[b'x'; 1000]).expect("sends");
        assert_eq!(client.exactly(1000).expect("an echo"), [b'x'; 1000]);
        client
    };
    let _warm = open();
    let tunnels = 300;
    let (clients, grown) = growth(&gateway, || (0..tunnels).map(|_| open()).collect::<Vec<_>>());
    println!("{tunnels} idle tunnels: {} KB each", grown / 1024 / tunnels);
    assert!(grown / tunnels < 24 << 10, "{} KB each", grown / 1024 / tunnels);
    drop(clients);
}

/// Labels whose values clients choose.
#[test]
fn series_beyond_the_limit_are_counted_together() {
    let upstream = servers::nginx("location / { return 200; }");
    let routes = json!({"routes": [{
        "id": "all", "uri": "/*", "plugins": {"prometheus": {}},
        "upstream": {"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}},
    }]});
    let config = YAML_PROVIDER.replace(
        "prometheus: {",
        "prometheus: {max_series: 5, metrics: {http_status: {extra_labels: [{who: $arg_who}]}}, ",
    );
    let gateway = Gateway::start(&config, Some(&routes.to_string()));
    let mut client = gateway.client();
    for number in 0..20 {
        assert_eq!(client.get("h", &format!("/?who=client-{number}")).expect("an answer").status(), 200);
    }
    gateway.wait_for_log("there are more than 5 combinations of values of labels");
    let mut metrics = Client::connect(gateway.metrics).expect("the metrics port accepts connections");
    let page = metrics.get("metrics", "/apisix/prometheus/metrics").expect("a page").body_text();
    let series: Vec<_> = page.lines().filter(|line| line.starts_with("apisix_http_status{")).collect();
    assert_eq!(series.len(), 6, "{series:?}");
    let together = series.iter().find(|line| line.contains("who=\"_overflow\""));
    assert!(together.is_some_and(|line| line.ends_with(" 15")), "{series:?}");
}

/// The bound is one of the process: more workers do not raise it, and long values count for more.
#[test]
fn series_are_bounded_over_all_workers() {
    let routes = json!({"routes": [{
        "id": "all", "uri": "/*", "plugins": {"prometheus": {}, "mocking": {"response_example": "fine"}},
    }]});
    let config = YAML_PROVIDER.replace("worker_processes: 1", "worker_processes: 4").replace(
        "prometheus: {",
        "prometheus: {max_series: 50, metrics: {http_status: {extra_labels: [{who: $arg_who}]}}, ",
    );
    for (more, range) in [("", 51..=51), (&*"v".repeat(1_000), 10..=49)] {
        let gateway = Gateway::start(&config, Some(&routes.to_string()));
        // Each connection comes to a worker by chance.
        let mut clients: Vec<Client> = (0..32).map(|_| gateway.client()).collect();
        for number in 0..320 {
            let client = clients.get_mut(number % 32).expect("a client");
            assert_eq!(client.get("h", &format!("/?who={number}{more}")).expect("an answer").status(), 200);
        }
        gateway.wait_for_log("there are more than 50 combinations of values of labels");
        let mut metrics = Client::connect(gateway.metrics).expect("the metrics port accepts connections");
        let page = metrics.get("metrics", "/apisix/prometheus/metrics").expect("a page").body_text();
        let series = page.lines().filter(|line| line.starts_with("apisix_http_status{")).count();
        println!("{series} series of {} bytes", more.len());
        assert!(range.contains(&series), "{series}");
    }
}

/// A histogram repeats its labels in each line: few sets of long labels make a long page.
#[test]
fn the_page_of_metrics_is_bounded_in_bytes() {
    const SETS: usize = 1_000;
    let routes = json!({"routes": [{
        "id": "all", "uri": "/*", "plugins": {"prometheus": {}, "mocking": {"response_example": "fine"}},
    }]});
    let config = YAML_PROVIDER.replace(
        "prometheus: {",
        &format!("prometheus: {{max_series: {SETS}, metrics: {{http_latency: {{extra_labels: [{{who: $arg_who}}]}}}}, "),
    );
    let gateway = Gateway::start(&config, Some(&routes.to_string()));
    let long = "v".repeat(1_000);
    let mut client = gateway.client();
    let ((), grown) = growth(&gateway, || {
        for number in 0..SETS {
            assert_eq!(client.get("h", &format!("/?who={number}{long}")).expect("an answer").status(), 200);
        }
        let mut metrics = Client::connect(gateway.metrics).expect("the metrics port accepts connections");
        let page = metrics.get("metrics", "/apisix/prometheus/metrics").expect("a page").body_text();
        println!("a page of {} KB", page.len() >> 10);
        // 8 KiB for each, on average; it was 55 KiB.
        assert!(page.len() < SETS * (8 << 10) + (200 << 10), "{} bytes", page.len());
        let together = page
            .lines()
            .find(|line| line.starts_with("apisix_http_latency_count") && line.contains("who=\"_overflow\""));
        assert!(together.is_some(), "{page:.2000}");
    });
    gateway.wait_for_log("bytes of memory, or 8192 of the page");
    assert!(metric(&gateway, "apisix_metric_series_overflow_total") > 0.0);
    println!("+{} MB", grown / MEGABYTE);
}

/// Small answers, each of which takes a block.
#[test]
fn a_cache_on_disk_takes_what_the_file_says() {
    let upstream = servers::nginx("location / { return 200 ok; }");
    let zone = "  proxy_cache: {cache_ttl: 60s, zones: [{name: folder, memory_size: 1m, disk_size: 1m, \
                disk_path: data/answers, cache_levels: \"1\"}]}\n";
    let cache = json!({"cache_strategy": "disk", "cache_zone": "folder", "cache_key": ["$request_uri"]});
    let routes = json!({"routes": [{
        "id": "all", "uri": "/*", "plugins": {"proxy-cache": cache},
        "upstream": {"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}},
    }]});
    let gateway = Gateway::start(&config(zone), Some(&routes.to_string()));
    let folder = gateway.prefix().join("data/answers");
    let mut client = gateway.client();
    let files = || {
        let folders = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        let files =
            folders.flat_map(|folder| std::fs::read_dir(folder.path()).into_iter().flatten().flatten());
        files.filter_map(|file| file.metadata().ok()).collect::<Vec<_>>()
    };
    for number in 0..600 {
        assert_eq!(client.get("h", &format!("/{number}")).expect("an answer").status(), 200);
    }
    // Until the last is there: it was asked for again, and came from the cache.
    let started = Instant::now();
    loop {
        let answer = client.get("h", "/599").expect("an answer");
        if answer.header("Apisix-Cache-Status") == Some("HIT") {
            break;
        }
        assert!(started.elapsed() < PATIENCE, "never stored");
    }
    let (started, limit) = (Instant::now(), MEGABYTE);
    loop {
        let files = files();
        let taken: u64 = files.iter().map(|file| file.blocks() * 512).sum();
        if taken <= limit && files.len() > 100 {
            println!("{} files of {taken} bytes on the disk", files.len());
            return;
        }
        assert!(started.elapsed() < PATIENCE, "{} files take {taken} bytes", files.len());
    }
}
