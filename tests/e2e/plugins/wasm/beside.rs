//! What runs beside requests, and what instances share.

use serde_json::json;
use tidegate_testkit::{Gateway, eventually};

use super::kit::{Fixture, Module};

fn metrics(gateway: &Gateway) -> String {
    let (status, page) = gateway.admin("GET", "/apisix/prometheus/metrics", "");
    if status == 200 {
        return page;
    }
    let answer = gateway.client().get("h", "/apisix/prometheus/metrics").expect("the page");
    answer.body_text()
}

/// Counts requests and ticks.
fn counting() -> Vec<u8> {
    let mut module = Module::default();
    let (requests, ticks, sizes) =
        (module.text("seen.requests"), module.text("ticks"), module.text("sizes_ms"));
    module
        .with("(global $requests (mut i32) (i32.const 0)) (global $ticks (mut i32) (i32.const 0)) (global $sizes (mut i32) (i32.const 0))")
        .on(
            "proxy_on_configure",
            2,
            Some(1),
            &format!(
                "(call $ok (call $define (i32.const 0) {requests} (i32.const 8))) (global.set $requests (call $number))
                 (call $ok (call $define (i32.const 1) {ticks} (i32.const 8))) (global.set $ticks (call $number))
                 (call $ok (call $define (i32.const 2) {sizes} (i32.const 8))) (global.set $sizes (call $number))
                 (call $ok (call $tick (i32.const 20)))"
            ),
        )
        .on("proxy_on_tick", 1, None, "(call $ok (call $increment (global.get $ticks) (i64.const 1)))")
        .on(
            "proxy_on_request_headers",
            3,
            Some(0),
            "(call $ok (call $increment (global.get $requests) (i64.const 1)))
             (call $ok (call $record (global.get $sizes) (i64.const 7)))",
        )
        .build()
}

#[test]
fn metrics_and_timers() {
    let fixture = Fixture::with_admin(vec![("counting", counting())], "");
    let public = json!({"uri": "/apisix/prometheus/metrics", "plugins": {"public-api": {}}});
    assert_eq!(fixture.gateway.admin("PUT", "/apisix/admin/routes/m", &public.to_string()).0, 201);
    let route = json!({"uri": "/a", "plugins": {"counting": {"conf": "c"}}, "upstream": fixture.node()});
    assert_eq!(
        fixture.gateway.admin("PUT", "/apisix/admin/routes/1?wait=applied", &route.to_string()).0,
        201
    );
    for _ in 0..5 {
        assert_eq!(fixture.get("/a").status(), 200);
    }
    let value = |name: &str| -> Option<f64> {
        let page = metrics(&fixture.gateway);
        let line = page.lines().find(|line| line.starts_with(name))?.to_owned();
        line.rsplit(' ').next()?.parse().ok()
    };
    let plugin = "{plugin=\"counting\"}";
    eventually("requests are counted", || value(&format!("apisix_wasm_seen_requests{plugin}")) == Some(5.0));
    assert_eq!(value(&format!("apisix_wasm_sizes_ms_sum{plugin}")), Some(35.0));
    assert_eq!(value("apisix_wasm_sizes_ms_bucket{plugin=\"counting\",le=\"5\"}"), Some(0.0));
    assert_eq!(value("apisix_wasm_sizes_ms_bucket{plugin=\"counting\",le=\"10\"}"), Some(5.0));
    eventually("the timer runs", || value(&format!("apisix_wasm_ticks{plugin}")) >= Some(3.0));
    assert!(value("apisix_webassembly_memory_bytes") > Some(0.0));
    // With its configuration the timer ends.
    assert_eq!(fixture.gateway.admin("DELETE", "/apisix/admin/routes/1?wait=applied", "").0, 200);
    eventually("the timer stands still", || {
        let before = value(&format!("apisix_wasm_ticks{plugin}"));
        std::thread::park_timeout(std::time::Duration::from_millis(100));
        value(&format!("apisix_wasm_ticks{plugin}")) == before
    });
}

/// A number that all workers share, and a queue that a configuration takes from.
#[test]
fn instances_share_data_and_queues() {
    let mut module = Module::default();
    let (key, name, queue) = (module.text("count"), module.text("x-count"), module.text("jobs"));
    let done = module.text("done");
    let sharing = module
        .with("(global $queue (mut i32) (i32.const 0)) (global $cas (mut i32) (i32.const 0))")
        .on(
            "proxy_on_configure",
            2,
            Some(1),
            &format!("(call $ok (call $register {queue} (i32.const 8))) (global.set $queue (call $number))"),
        )
        .on(
            "proxy_on_request_headers",
            3,
            Some(0),
            &format!(
                "(i32.store (i32.const 8) (i32.const 0))
                 (i32.store (i32.const 16) (i32.const 48))
                 (if (i32.eqz (call $get_shared {key} (i32.const 0) (i32.const 4) (i32.const 8)))
                   (then (i32.store (i32.const 16) (i32.load8_u (call $at)))))
                 (i32.store (i32.const 16) (i32.add (i32.load (i32.const 16)) (i32.const 1)))
                 ;; One that is not the newest does not count.
                 (call $fail_unless (i32.eq (i32.const 8)
                   (call $set_shared {key} (i32.const 16) (i32.const 1) (i32.const 999999))))
                 (call $ok (call $set_shared {key} (i32.const 16) (i32.const 1) (call $number)))
                 (call $ok (call $set_header (i32.const 0) {name} (i32.const 16) (i32.const 1)))
                 (call $ok (call $enqueue (global.get $queue) (i32.const 16) (i32.const 1)))"
            ),
        )
        .on(
            "proxy_on_queue_ready",
            2,
            None,
            &format!(
                "(if (i32.eqz (call $dequeue (local.get 1) (i32.const 0) (i32.const 4)))
                   (then (call $ok (call $log (i32.const 3) {done}))
                         (call $ok (call $log (i32.const 3) (call $at) (call $size)))))"
            ),
        )
        .build();
    let fixture = Fixture::start(vec![("sharing", sharing)], "");
    for expected in 1..=4 {
        assert_eq!(fixture.get("/sharing").status(), 200);
        let seen = fixture.upstream.take()[0].text().to_lowercase();
        assert!(seen.contains(&format!("x-count: {expected}\r\n")), "{seen}");
    }
    for taken in 1..=4 {
        fixture.gateway.wait_for_log(&format!("wasm plugin sharing: {taken}"));
    }
}
