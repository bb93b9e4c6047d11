//! What a gateway costs etcd while nothing changes, and how soon a silent etcd is noticed all the same.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use tidegate_testkit::{Client, Etcd, Gateway, eventually, eventually_within};

use super::{config, metric, mock, status};

/// Requests that etcd has received over all watches.
fn watch_requests(etcd: &Etcd) -> u64 {
    let mut client = Client::connect(etcd.address).expect("etcd accepts connections");
    let page = client.get("etcd", "/metrics").expect("a page").body_text();
    let lines = page.lines().filter(|line| line.starts_with("grpc_server_msg_received_total{"));
    let watch = lines.filter(|line| line.contains("grpc_method=\"Watch\""));
    watch.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() as u64
}

#[test]
fn a_quiet_gateway_asks_etcd_for_nothing() {
    let etcd = Etcd::start();
    etcd.put("/apisix/routes/1", &mock("/one", 201));
    let gateway = Gateway::start(&config(&etcd.url()), None);
    eventually("the route takes effect", || status(&gateway, "/one") == 201);
    eventually("it watches", || watch_requests(&etcd) > 0);
    let (asked, start) = (watch_requests(&etcd), Instant::now());
    eventually("three seconds pass", || start.elapsed() > Duration::from_secs(3));
    assert_eq!(watch_requests(&etcd), asked, "requests over the watch while nothing changes");
    etcd.put("/apisix/routes/1", &mock("/two", 201));
    eventually("the change takes effect", || status(&gateway, "/two") == 201);
}

#[test]
fn etcd_that_stops_is_noticed_without_being_asked() {
    let etcd = Etcd::start();
    let gateway = Gateway::start(&config(&etcd.url()), None);
    eventually("the gateway says that etcd is there", || metric(&gateway, "apisix_etcd_reachable") == "1");
    // Its kernel still takes what comes.
    etcd.process.signal(Signal::STOP);
    let noticed = eventually_within(Duration::from_secs(30), "the gateway says that etcd is away", || {
        metric(&gateway, "apisix_etcd_reachable") == "0"
    });
    assert!(noticed < Duration::from_secs(11), "{noticed:?}");
    etcd.process.signal(Signal::CONT);
    eventually("the gateway says that etcd is back", || metric(&gateway, "apisix_etcd_reachable") == "1");
}
