//! Caches of answers, connections and traces: what config.yaml says of their sizes and times.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_testkit::gateway::Gateway;
use tidegate_testkit::{PATIENCE, Upstream};

use super::standalone;

fn pair(first: &str, second: &str) -> (String, String) {
    (first.to_owned(), second.to_owned())
}

fn start(zones: &Value, ttl: &str, upstream: &Upstream) -> Gateway {
    let node = upstream.address;
    let cached = |strategy: &str, zone: &str| {
        format!(
            "plugins: {{proxy-cache: {{cache_strategy: {strategy}, cache_zone: {zone}}}}}, upstream: {{nodes: {{\"{node}\": 1}}}}"
        )
    };
    let routes = format!(
        "routes:\n- {{id: m, uri: /bytes/*, host: memory.test, {}}}\n- {{id: d, uri: /bytes/*, host: disk.test, {}}}\n",
        cached("memory", "small"),
        cached("disk", "folder")
    );
    let config = standalone(&[
        ("apisix.proxy_cache.zones", zones.clone()),
        ("apisix.proxy_cache.cache_ttl", json!(ttl)),
    ]);
    Gateway::start(&config, Some(&routes))
}

/// Folders above the first file of a cache, once there is one: it is written behind the answer's back.
fn depth_of(gateway: &Gateway) -> usize {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(depth) = depth(&gateway.prefix().join("data/answers")) {
            return depth;
        }
        assert!(Instant::now() < deadline, "no file was written");
    }
}

fn depth(folder: &Path) -> Option<usize> {
    let entries: Vec<_> = fs::read_dir(folder).ok()?.flatten().collect();
    entries.iter().find_map(|entry| match entry.path().is_dir() {
        true => depth(&entry.path()).map(|depth| depth + 1),
        false => Some(0),
    })
}

#[test]
fn caches_have_the_names_sizes_and_folders_of_the_file() {
    let upstream = Upstream::start();
    let zones = |memory: &str, disk: &str, levels: &str| {
        json!([
            {"name": "small", "memory_size": memory},
            {"name": "folder", "memory_size": "1m", "disk_size": disk, "disk_path": "data/answers", "cache_levels": levels},
        ])
    };
    let get = |gateway: &Gateway, host: &str, path: &str| {
        let status = || {
            let answer = gateway.client().get(host, path).expect("an answer");
            answer.header("apisix-cache-status").unwrap_or_default().to_owned()
        };
        (status(), status())
    };
    let roomy = start(&zones("10m", "10m", "1:2"), "60s", &upstream);
    assert_eq!(get(&roomy, "memory.test", "/bytes/50000"), pair("MISS", "HIT"));
    assert_eq!(get(&roomy, "disk.test", "/bytes/50000"), pair("MISS", "HIT"));
    assert_eq!(depth_of(&roomy), 2, "1:2");
    let narrow = start(&zones("20k", "20k", "1"), "60s", &upstream);
    assert_eq!(get(&narrow, "memory.test", "/bytes/50000"), pair("MISS", "MISS"));
    // Two of these have no room together: the one that was written first goes.
    assert_eq!(get(&narrow, "disk.test", "/bytes/15000"), pair("MISS", "HIT"));
    let deadline = Instant::now() + PATIENCE;
    // The first may be written after it.
    while get(&narrow, "disk.test", "/bytes/15001").1 != "HIT" {
        assert!(Instant::now() < deadline, "never kept");
    }
    while ["/bytes/15000", "/bytes/15001"].iter().all(|path| get(&narrow, "disk.test", path).0 == "HIT") {
        assert!(Instant::now() < deadline, "both are kept");
    }
    assert_eq!(depth_of(&narrow), 1, "1");
}

#[test]
fn answers_on_disk_get_the_age_of_the_file() {
    let upstream = Upstream::start();
    let zones = json!([
        {"name": "small", "memory_size": "1m"},
        {"name": "folder", "memory_size": "1m", "disk_size": "1m", "disk_path": "data/answers", "cache_levels": "1"},
    ]);
    let gateway = start(&zones, "1s", &upstream);
    let status = || {
        let answer = gateway.client().get("disk.test", "/bytes/10").expect("an answer");
        answer.header("apisix-cache-status").unwrap_or_default().to_owned()
    };
    assert_eq!(status(), "MISS");
    let began = Instant::now();
    while status() == "HIT" {
        // The default is ten seconds.
        assert!(began.elapsed().as_secs() < 8, "still fresh");
    }
}

#[test]
fn connections_to_upstreams_are_kept_as_the_file_says() {
    let connections = |keys: &[(&str, Value)]| {
        let upstream = Upstream::start();
        let routes =
            format!("routes:\n- {{id: 1, uri: /*, upstream: {{nodes: {{\"{}\": 1}}}}}}\n", upstream.address);
        let gateway = Gateway::start(&standalone(keys), Some(&routes));
        for _ in 0..4 {
            assert_eq!(gateway.client().get("h", "/echo").expect("an answer").status(), 200);
        }
        upstream.seen().iter().map(|seen| seen.connection).max().map_or(0, |last| last + 1)
    };
    assert_eq!(connections(&[]), 1);
    assert_eq!(connections(&[("nginx_config.http.upstream.keepalive", json!(0))]), 4);
    assert_eq!(connections(&[("nginx_config.http.upstream.keepalive_requests", json!(2))]), 2);
}

#[test]
fn idle_connections_to_upstreams_end_when_the_file_says() {
    for (time, pause_ms, connections) in [("100ms", 2500, 2), ("60s", 300, 1)] {
        let upstream = Upstream::start();
        let routes =
            format!("routes:\n- {{id: 1, uri: /*, upstream: {{nodes: {{\"{}\": 1}}}}}}\n", upstream.address);
        let keys = [("nginx_config.http.upstream.keepalive_timeout", json!(time))];
        let gateway = Gateway::start(&standalone(&keys), Some(&routes));
        let mut client = gateway.client();
        assert_eq!(client.get("h", "/echo").expect("an answer").status(), 200);
        // The idle time is what is tested; it is looked at once a second.
        assert!(client.stays_silent(Duration::from_millis(pause_ms)));
        assert_eq!(client.get("h", "/echo").expect("an answer").status(), 200);
        assert_eq!(upstream.connections(), connections, "keepalive_timeout: {time}");
    }
}
