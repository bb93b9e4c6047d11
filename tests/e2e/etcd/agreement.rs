//! A write through any gateway is in force on all of them, soon.

use std::time::{Duration, Instant};

use testkit::{Etcd, Gateway};

use super::{config, mock, status, wait};

const ROUNDS: usize = 30;

#[test]
fn three_gateways_agree() {
    let etcd = Etcd::start();
    let gateways: Vec<Gateway> = (0..3).map(|_| Gateway::start(&config(&etcd.url()), None)).collect();
    let mut delays = Vec::new();
    for round in 0..ROUNDS {
        let path = format!("/round{round}");
        let writer = &gateways[round % 3];
        let start = Instant::now();
        let (code, answer) = writer.admin("PUT", &format!("/apisix/admin/routes/{round}"), &mock(&path, 202));
        assert_eq!(code, 201, "{answer}");
        assert_eq!(status(writer, &path), 202, "the writer sees its own write");
        for other in &gateways {
            wait("the others serve it", || status(other, &path) == 202);
        }
        delays.push(start.elapsed());
    }
    delays.sort();
    let (middle, worst) = (delays[ROUNDS / 2], delays[ROUNDS - 1]);
    println!("from PUT to live on three gateways: median {middle:?}, worst {worst:?} of {ROUNDS}");
    assert!(worst < Duration::from_secs(1), "{delays:?}");

    // Changes of the same object through different gateways: the last one stands everywhere.
    for (round, writer) in gateways.iter().cycle().take(9).enumerate() {
        let body = mock("/same", 201 + (round as u16 % 3));
        assert!(writer.admin("PUT", "/apisix/admin/routes/same", &body).0 < 300);
    }
    let modified = |gateway: &Gateway| gateway.admin("GET", "/apisix/admin/routes/same", "").1;
    for gateway in &gateways {
        wait("all serve the last one", || status(gateway, "/same") == 203);
        assert_eq!(modified(gateway), modified(&gateways[0]));
    }
    assert_eq!(gateways[1].admin("DELETE", "/apisix/admin/routes/same", "").0, 200);
    for gateway in &gateways {
        wait("it is gone everywhere", || status(gateway, "/same") == 404);
    }
}
