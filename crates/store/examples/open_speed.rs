//! How long the embedded database takes to open, and what a write costs: `open_speed ROUTES`.

#![allow(clippy::print_stdout, reason = "figures are what it is for")]

use std::{sync::Arc, time::Instant};

use serde_json::json;
use tidegate_model::Kind;
use tidegate_store::{Embedded, Operation, Store, embedded::Hooks};

fn main() {
    let count: usize = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(1000);
    let path = std::env::temp_dir().join(format!("store-open-speed-{}", std::process::id()));
    let store = Embedded::open(&path, Hooks::default()).expect("open");
    let put = |number: usize| Operation::Put {
        kind: Kind::Route,
        id: format!("route-{number}").into(),
        value: Arc::new(json!({
            "id": format!("route-{number}"), "uri": format!("/api/v1/service-{number}/*"), "methods": ["GET", "POST"],
            "plugins": {"limit-count": {"count": 100, "time_window": 60, "rejected_code": 503, "key": "remote_addr"}},
            "upstream": {"type": "roundrobin", "nodes": {"127.0.0.1:1980": 1, "127.0.0.1:1981": 1}},
            "create_time": 1_700_000_000, "update_time": 1_700_000_000,
        })),
        expected: None,
        ttl_seconds: None,
    };
    for chunk in (0..count).collect::<Vec<_>>().chunks(5000) {
        store.write_blocking(chunk.iter().map(|number| put(*number)).collect()).expect("write");
    }
    let started = Instant::now();
    for number in 0..100 {
        store.write_blocking(vec![put(number)]).expect("write");
    }
    println!("one write: {:?}", started.elapsed() / 100);
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..64 {
            scope.spawn(|| {
                (0..50).for_each(|number| drop(store.write_blocking(vec![put(number)]).expect("write")))
            });
        }
    });
    println!("one of 3200 writes from 64 threads: {:?}", started.elapsed() / 3200);
    drop(store);
    for _ in 0..3 {
        let started = Instant::now();
        let store = Embedded::open(&path, Hooks::default()).expect("open");
        let elapsed = started.elapsed();
        store.read(&mut |state| assert_eq!(state.list(Kind::Route).count(), count));
        println!("open with {count} routes: {elapsed:?}");
    }
    let _ = std::fs::remove_file(&path);
}
