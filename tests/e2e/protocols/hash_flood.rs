//! Keys that clients choose so that they collide in hash tables: they cost what other keys cost.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use tidegate_testkit::gateway::{YAML_PROVIDER, workspace_root};
use tidegate_testkit::usage::processor_time;
use tidegate_testkit::{Gateway, servers};

/// Rules of the route: each request brings so many keys.
const KEYS_PER_REQUEST: usize = 50;

/// Eight bytes that make rustc-hash's state 0 whatever stands in the eight before, where these 16 start at a multiple of
/// 16: the product of the two is taken, and this one is xor-ed with the same number first.
const COLLAPSE: [u8; 8] = 0xa409_3822_299f_31d0_u64.to_le_bytes();

/// A key of 40 bytes behind the eight that the gateway puts before it. Those that collide differ only where the state
/// becomes 0.
fn key(number: usize, colliding: bool) -> Vec<u8> {
    let mut key = b"prefix--".to_vec();
    key.extend_from_slice(format!("{number:08}").as_bytes());
    key.extend_from_slice(if colliding { &COLLAPSE } else { b"harmless" });
    key.extend_from_slice(b"the same sixteen");
    key
}

fn gateway(upstream: SocketAddr) -> Gateway {
    let rule = |number| json!({"count": 1_000_000, "time_window": 3600, "key": format!("$http_k{number}")});
    let rules: Vec<_> = (0..KEYS_PER_REQUEST).map(rule).collect();
    let routes = json!({"routes": [{
        "id": "all", "uri": "/*", "upstream": {"type": "roundrobin", "nodes": {upstream.to_string(): 1}},
        "plugins": {"limit-count": {"rules": rules, "show_limit_quota_header": false}},
    }]});
    Gateway::start(YAML_PROVIDER, Some(&routes.to_string()))
}

/// The processor time of a request that brings new keys, when there are so many already.
fn cost_of_requests(colliding: bool, keys: usize) -> (Duration, Duration) {
    let upstream = servers::nginx("location / { return 204; }");
    let gateway = gateway(upstream.address);
    let mut client = gateway.client();
    let mut request = |number: usize| {
        let mut head = b"GET / HTTP/1.1\r\nHost: h\r\n".to_vec();
        for of_rule in 0..KEYS_PER_REQUEST {
            head.extend_from_slice(format!("k{of_rule}: ").as_bytes());
            head.extend_from_slice(&key(number * KEYS_PER_REQUEST + of_rule, colliding));
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(b"\r\n");
        client.send(&head).expect("sends");
        assert_eq!(client.response().expect("an answer").status(), 204);
    };
    let requests = keys / KEYS_PER_REQUEST;
    let part = requests / 8;
    // The first ones warm the gateway up.
    (0..part).for_each(&mut request);
    let mut cost = |range: std::ops::Range<usize>| {
        let (before, count) = (processor_time(&gateway), range.len());
        range.for_each(&mut request);
        (processor_time(&gateway) - before) / u32::try_from(count).expect("a few thousand")
    };
    let first = cost(part..2 * part);
    cost(2 * part..requests - part);
    (first, cost(requests - part..requests))
}

#[test]
fn colliding_keys_cost_what_others_cost() {
    let keys = std::env::var("TIDEGATE_COLLIDING_KEYS")
        .map_or(100_000, |text| text.parse().expect("a number of keys"));
    // Neighbours on the machine cost time too: the best of three tries is what the gateway takes.
    let mut ratios = Vec::new();
    for _ in 0..3 {
        let (first, harmless) = cost_of_requests(false, keys);
        let (_, colliding) = cost_of_requests(true, keys);
        ratios.push(colliding.as_secs_f64() / harmless.as_secs_f64());
        println!(
            "{keys} keys, {KEYS_PER_REQUEST} a request: the first {first:?}, the last {harmless:?}, colliding {colliding:?}"
        );
        if ratios.iter().any(|ratio| *ratio <= 1.2) {
            return;
        }
    }
    panic!("colliding keys cost {ratios:?} times as much");
}

/// Where the hash with fixed seeds is used, and why no client chooses those keys.
const FIXED_SEEDS: &[(&str, &str)] = &[
    ("routing/src/router/", "paths and hosts of routes"),
    ("plugin-api/src/sharded.rs", "credentials of consumers; what clients send is only looked up"),
    ("plugin-api/src/certificates.rs", "names of certificates"),
    ("plugin-api/src/types.rs", "identifiers of objects and names of consumers"),
    ("plugin-api/src/catalog", "names of plugins"),
    ("plugin-api/src/graphql/weights.rs", "decorations of the configuration"),
    ("tidegate/src/boot/", "nodes and certificates of the configuration"),
    ("proxy/src/pool", "numbers of pools"),
    ("proxy/src/http2/pool", "numbers of pools"),
    ("plugins/src/traffic/proxy_cache/zones.rs", "names of zones"),
    ("plugins/src/lua/vm.rs", "numbers of functions"),
    ("wasm/src/runtime/instance.rs", "numbers of configurations"),
    ("plugins/src/lua_files.rs", "modules of the operator's files"),
    ("plugins/src/observability/file_logger/files.rs", "paths of the configuration"),
    ("clients/src/google.rs", "hashes of keys of the configuration"),
    ("clients/src/http/connect.rs", "settings of TLS"),
    ("clients/src/redis", "servers of the configuration"),
    ("clients/src/secrets/gcp.rs", "accounts of the configuration"),
    ("plugins/src/authentication/openid_connect/provider.rs", "providers of the configuration"),
    ("plugins/src/traffic/limit_count/groups.rs", "groups of the configuration"),
    ("plugins/src/security/consumer_restriction.rs", "names of consumers"),
    ("plugins/src/security/referer_restriction.rs", "hosts of the configuration"),
    ("plugins/src/traffic/sla.rs", "routes of the configuration"),
    ("plugins/src/traffic/traffic_split.rs", "upstreams of the configuration"),
    ("plugins/src/stream/prometheus.rs", "stream routes, nodes and listening addresses"),
    ("plugin-api/src/stream_route.rs", "ports and server names of stream routes"),
    ("plugin-api/src/session.rs", "upstreams of the configuration"),
    ("compiler/src/", "objects of the configuration"),
    ("bench/src/", "tidegate bench, which serves nobody"),
    ("balancing/src/", "nodes of the configuration"),
];

/// A map of clients' keys takes `ahash` or the standard library's hash, which draw their seeds at random.
#[test]
fn fixed_seeds_are_for_what_no_client_chooses() {
    let crates = workspace_root().join("crates");
    let mut folders = vec![crates.clone()];
    let mut wrong = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).expect("a folder").filter_map(|entry| Some(entry.ok()?.path())) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(&crates).expect("below crates").display().to_string();
            let rust = name.ends_with(".rs")
                && fs::read_to_string(&path).is_ok_and(|text| text.contains("rustc_hash"));
            if rust && !FIXED_SEEDS.iter().any(|(known, _)| name.starts_with(known)) {
                wrong.push(name);
            }
        }
    }
    assert!(wrong.is_empty(), "who chooses these keys? {wrong:?}");
}
