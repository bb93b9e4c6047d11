//! How many idle connections loggers keep to their receivers.

use std::sync::{Arc, Barrier};

use serde_json::{Value, json};
use tidegate_testkit::{Upstream, eventually};

use super::{Logged, url, with};
use crate::plugins::side_loops::metric;

/// Batches that are under way at once; fewer than a logger sends.
const TOGETHER: usize = 12;
const ROUNDS: usize = 3;
/// Threads that send. Each keeps its own.
const SENDERS: usize = 2;

fn as_many_as_configured(logger: &'static str, more: Value) {
    let together = Arc::new(Barrier::new(TOGETHER));
    let sink = Upstream::service(move |_| {
        together.wait();
        (200, "{}".to_owned())
    });
    let conf = with(json!({"endpoint_addrs": [url(&sink)], "keepalive_pool": 1}), more);
    let logged = Logged::start(logger, conf, Value::Null);
    let waiting = format!("apisix_log_entries_waiting{{plugin=\"{logger}\"}}");
    for round in 1..=ROUNDS {
        (0..TOGETHER).for_each(|_| assert_eq!(logged.get("/"), 200));
        sink.wait_for(round * TOGETHER);
        eventually("all are delivered", || metric(&logged.gateway, &waiting) == 0.0);
    }
    let least = TOGETHER + (ROUNDS - 1) * (TOGETHER - SENDERS);
    assert!(sink.connections() >= least, "{logger}: {} connections", sink.connections());
}

#[test]
fn idle_connections_to_loki() {
    as_many_as_configured("loki-logger", json!({}));
}

#[test]
fn idle_connections_to_lago() {
    as_many_as_configured(
        "lago",
        json!({"token": "t", "event_transaction_id": "a", "event_subscription_id": "b", "event_code": "c"}),
    );
}
