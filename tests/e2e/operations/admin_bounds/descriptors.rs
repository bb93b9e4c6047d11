//! File descriptors in reserve.

use std::path::Path;
use std::process::Command;

use rustix::process::{Signal, geteuid};
use tidegate_testkit::gateway::{EMBEDDED, Gateway, run_command};
use tidegate_testkit::{Client, Upstream, servers};

use super::{ask, with};

/// With so many file descriptors, and no right to have more.
pub(crate) fn with_few(descriptors: u32) -> impl FnOnce(&Path) -> Command {
    move |prefix| {
        let run = run_command(prefix);
        let mut command = Command::new("sh");
        let drop = if geteuid().is_root() { "setpriv --bounding-set=-sys_resource --" } else { "" };
        command.arg("-c").arg(format!("ulimit -n {descriptors}; exec {drop} \"$@\"")).arg("sh");
        command.arg(run.get_program()).args(run.get_args());
        command
    }
}

fn start(config: &str) -> Gateway {
    let mut gateway = Gateway::start_by(config, None, with_few(256));
    gateway.process.wait_for_port(gateway.admin);
    gateway.process.wait_for_port(gateway.http);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", gateway.process.id())).expect("limits");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("a line");
    assert!(line.split_whitespace().nth(3) == Some("256"), "{line}");
    gateway
}

fn open_descriptors(gateway: &Gateway) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", gateway.process.id())).expect("the process").count()
}

/// As many as the gateway takes up, and more.
fn idle_clients(gateway: &Gateway) -> Vec<std::net::TcpStream> {
    (0..600).map(|_| std::net::TcpStream::connect(gateway.http).expect("connects")).collect()
}

/// An answer to a client that comes now. Who comes with the crowd may find the places of the idle ones still taken.
fn soon(gateway: &Gateway, path: &str) -> tidegate_testkit::Message {
    let begun = std::time::Instant::now();
    loop {
        if let Ok(answer) = gateway.client().get("h", path) {
            return answer;
        }
        assert!(begun.elapsed() < tidegate_testkit::PATIENCE, "{path} is not answered");
    }
}

#[test]
fn idle_clients_leave_the_admin_api_usable() {
    let upstream = Upstream::start();
    let gateway = start(EMBEDDED);
    let route = serde_json::json!({"uri": "/*", "upstream": {"nodes": {upstream.address.to_string(): 1}}});
    assert_eq!(gateway.admin("PUT", "/apisix/admin/routes/1", &route.to_string()).0, 201);
    let mut early = gateway.client();
    assert_eq!(early.get("h", "/").expect("an answer").status(), 200);
    let clients = idle_clients(&gateway);
    gateway.wait_for_log("closing idle ones");
    for _ in 0..3 {
        let mut own: Vec<Client> =
            (0..8).map(|_| Client::connect(gateway.admin).expect("connects")).collect();
        assert!(own.iter_mut().all(|client| ask(client) == Some(200)));
        assert_eq!(gateway.admin("PUT", "/apisix/admin/routes/1", &route.to_string()).0, 200);
    }
    assert_eq!(
        Client::connect(gateway.control)
            .expect("connects")
            .get("localhost", "/v1/routes")
            .map(|a| a.status())
            .ok(),
        Some(200)
    );
    // Who comes still gets answers, for which connections to nodes are needed.
    assert_eq!(soon(&gateway, "/").status(), 200);
    drop(clients);
}

/// What requests and the process need beyond clients: Redis, a name, a log that is reopened.
#[test]
fn idle_clients_leave_descriptors_for_the_work() {
    let (upstream, redis) = (Upstream::start(), servers::redis(&[]));
    let gateway = start(EMBEDDED);
    let put = |id: &str, route: serde_json::Value| {
        let (status, answer) =
            gateway.admin("PUT", &format!("/apisix/admin/routes/{id}"), &route.to_string());
        assert!(status < 300, "{answer}");
    };
    let nodes = |node: String| serde_json::json!({"nodes": {node: 1}});
    let limit = serde_json::json!({"count": 9, "time_window": 600, "rejected_code": 429, "key_type": "constant", "key": "all",
        "policy": "redis", "redis_host": "127.0.0.1", "redis_port": redis.address.port()});
    put("plain", serde_json::json!({"uri": "/plain", "upstream": nodes(upstream.address.to_string())}));
    let limited = serde_json::json!({"uri": "/limited", "plugins": {"limit-count": limit}, "upstream": nodes(upstream.address.to_string())});
    put("limited", limited);
    let mut early = gateway.client();
    assert_eq!(early.get("h", "/plain").expect("an answer").status(), 200);
    let clients = idle_clients(&gateway);
    gateway.wait_for_log("closing idle ones");
    let answer = soon(&gateway, "/limited");
    assert_eq!((answer.status(), answer.header("X-RateLimit-Remaining")), (200, Some("8")), "Redis");
    put(
        "named",
        serde_json::json!({"uri": "/named", "upstream": nodes(format!("localhost:{}", upstream.address.port()))}),
    );
    assert_eq!(soon(&gateway, "/named").status(), 200, "a name");
    let log = gateway.prefix().join("logs/access.log");
    std::fs::rename(&log, gateway.prefix().join("logs/access.log.1")).expect("renamed");
    gateway.process.signal(Signal::USR1);
    let started = std::time::Instant::now();
    while !std::fs::read_to_string(&log).is_ok_and(|text| text.contains("/after")) {
        assert!(started.elapsed() < tidegate_testkit::PATIENCE, "the access log is not reopened");
        assert_eq!(soon(&gateway, "/after").status(), 404);
    }
    drop(clients);
}

#[test]
fn the_reserve_is_that_of_the_file() {
    // One after the other, each answered, so that the most that are ever open does not depend on the moment of looking.
    let count = |reserved: u32| {
        let gateway = start(&with(&format!("limits: {{reserved_descriptors: {reserved}}}")));
        let (mut clients, mut most) = (Vec::new(), 0);
        for _ in 0..300 {
            let mut client = gateway.client();
            assert_eq!(client.get("h", "/").expect("an answer").status(), 404);
            clients.push(client);
            most = most.max(open_descriptors(&gateway));
        }
        gateway.wait_for_log("closing idle ones");
        most
    };
    let (none, some) = (count(0), count(32));
    assert!(none > some + 20, "{none} with 0, {some} with 32");
    assert!(some <= 256 - 32, "{some}");
}
