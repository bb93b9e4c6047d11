//! What a gateway costs etcd while nothing changes, how soon a silent etcd is noticed all the same, and etcd's own proxy in between.

use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tidegate_testkit::process::Process;
use tidegate_testkit::{Client, Etcd, Gateway, eventually, eventually_within, free_port};

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

/// `etcd grpc-proxy` makes one watch toward etcd of those of many gateways.
struct Proxy {
    process: Process,
    port: u16,
    endpoint: String,
}

impl Proxy {
    fn of(etcd: &Etcd) -> Proxy {
        let (port, endpoint) = (free_port(), etcd.address.to_string());
        Proxy { process: Self::launch(port, &endpoint), port, endpoint }
    }

    fn launch(port: u16, endpoint: &str) -> Process {
        let mut command = Command::new("etcd");
        let listen = format!("--listen-addr=127.0.0.1:{port}");
        command.args(["grpc-proxy", "start", &format!("--endpoints={endpoint}"), &listen]);
        let mut process = Process::start("etcd grpc-proxy", &mut command);
        process.wait_for_port(([127, 0, 0, 1], port).into());
        process
    }

    fn restart(&mut self) {
        self.process.signal_kill();
        self.process.wait_for_exit();
        self.process = Self::launch(self.port, &self.endpoint);
    }
}

#[test]
fn gateways_follow_through_a_proxy_of_etcd() {
    let mut etcd = Etcd::start();
    let mut proxy = Proxy::of(&etcd);
    let hosts = format!("http://127.0.0.1:{}", proxy.port);
    let gateways = [Gateway::start(&config(&hosts), None), Gateway::start(&config(&hosts), None)];
    let everywhere = |path: &str| gateways.iter().all(|gateway| status(gateway, path) == 201);
    let put = |id: &str, path: &str| {
        let (code, answer) =
            gateways[0].admin("PUT", &format!("/apisix/admin/routes/{id}"), &mock(path, 201));
        if code >= 300 {
            eprintln!("{code} {answer}");
        }
        code < 300
    };
    assert!(put("1", "/one"), "{}", gateways[0].error_log());
    eventually("a write through the proxy takes effect everywhere", || everywhere("/one"));
    // Longer than three PINGs take: more of them than a server allows end the connection.
    let (start, connected) = (Instant::now(), gateways[1].error_log().matches("reconnected").count());
    eventually("twenty seconds pass", || start.elapsed() > Duration::from_secs(20));
    assert_eq!(
        gateways[1].error_log().matches("reconnected").count(),
        connected,
        "{}",
        gateways[1].error_log()
    );

    proxy.restart();
    eventually("a write after the proxy's return", || put("1", "/two"));
    eventually("it takes effect everywhere", || everywhere("/two"));

    etcd.kill();
    etcd.restart();
    etcd.put("/apisix/routes/2", &mock("/three", 201));
    etcd.compact();
    eventually("changes after etcd's return take effect everywhere", || everywhere("/three"));
    eventually("a write after etcd's return", || put("2", "/four"));
    eventually("it takes effect everywhere", || everywhere("/four"));
}
