//! A quota shared through redis: what several gateways with several workers admit together is the quota, not more and
//! not less, however they are hit at once.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tidegate_testkit::Client;
use tidegate_testkit::gateway::{Gateway, YAML_PROVIDER};
use tidegate_testkit::servers;

const GATEWAYS: usize = 4;
const CLIENTS_EACH: usize = 4;
const REQUESTS: usize = 100;
/// Reached while all clients are in the middle of their requests.
const QUOTA: usize = GATEWAYS * CLIENTS_EACH * REQUESTS / 2 + 1;

#[test]
fn gateways_and_workers_share_a_quota_exactly() {
    let redis = servers::redis(&[]);
    let upstream = servers::nginx("location / { return 200 ok; }");
    let resources = format!(
        "routes:\n\
         - {{uri: /limited, upstream: {{nodes: {{\"{}\": 1}}}}, plugins: {{limit-count: {{count: {QUOTA}, time_window: 3600, \
         key: x, key_type: constant, policy: redis, redis_host: 127.0.0.1, redis_port: {}}}}}}}\n\
         #END\n",
        upstream.address,
        redis.address.port(),
    );
    let config = YAML_PROVIDER.replace("worker_processes: 1", "worker_processes: 2");
    let gateways: Vec<Gateway> = (0..GATEWAYS).map(|_| Gateway::start(&config, Some(&resources))).collect();

    let (admitted, refused) = hit_all(&gateways, "/limited");
    assert_eq!(admitted, QUOTA);
    assert_eq!(
        admitted + refused,
        GATEWAYS * CLIENTS_EACH * REQUESTS,
        "every request got one of both answers"
    );
}

/// How many requests got 200 and how many 503, with all clients at once.
fn hit_all(gateways: &[Gateway], path: &str) -> (usize, usize) {
    let (admitted, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let start = Barrier::new(GATEWAYS * CLIENTS_EACH);
    thread::scope(|scope| {
        for gateway in gateways {
            for _ in 0..CLIENTS_EACH {
                scope.spawn(|| {
                    let mut client = Client::connect(gateway.http).expect("connects");
                    start.wait();
                    for _ in 0..REQUESTS {
                        let counter = match client.get("h", path).expect("answers").status() {
                            200 => &admitted,
                            503 => &refused,
                            other => panic!("{path} answered {other}\n{}", gateway.error_log()),
                        };
                        counter.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        }
    });
    (admitted.into_inner(), refused.into_inner())
}

/// rate-limiting of Kong with its settings of Redis: two gateways have one count, and what is refused counts nowhere.
#[test]
fn gateways_that_serve_a_file_of_kong_share_its_counts() {
    let redis = servers::redis(&["--requirepass", "secret"]);
    let upstream = servers::nginx("location / { return 200 ok; }");
    let text = format!(
        "_format_version: '3.0'\n\
         services:\n\
         - name: s\n\
         \x20 url: http://{}\n\
         \x20 routes: [{{name: a, paths: [/a]}}, {{name: b, paths: [/b]}}]\n\
         \x20 plugins:\n\
         \x20 - name: rate-limiting\n\
         \x20   config:\n\
         \x20     {{month: 3, year: 100, limit_by: ip, policy: redis, fault_tolerant: false, redis: {{host: 127.0.0.1,\n\
         \x20      port: {}, username: default, password: secret, database: 3, timeout: 2000, ssl: false}}}}\n",
        upstream.address,
        redis.address.port(),
    );
    let gateways = [Gateway::start_from("kong", &text), Gateway::start_from("kong", &text)];
    for (gateway, path, status, month, year) in [
        (0, "/a", 200, "2", "99"),
        (1, "/a", 200, "1", "98"),
        (1, "/b", 200, "0", "97"),
        (0, "/b", 429, "0", "97"),
        (1, "/a", 429, "0", "97"),
    ] {
        let answer = gateways[gateway].client().get("h", path).expect("answers");
        let header = |name: &str| answer.header(name).unwrap_or_default().to_owned();
        assert_eq!(answer.status(), status, "{}", gateways[gateway].error_log());
        assert_eq!(header("X-RateLimit-Remaining-Month"), month);
        assert_eq!(header("X-RateLimit-Remaining-Year"), year);
        assert_eq!(
            (header("RateLimit-Limit").as_str(), header("RateLimit-Remaining").as_str()),
            ("3", month)
        );
    }
}
