//! A quota shared through redis: what several gateways with several workers admit together is the quota, not more and
//! not less, however they are hit at once.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use testkit::Client;
use testkit::gateway::{Gateway, YAML_PROVIDER};
use testkit::servers;

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
