//! limit-count with `sync_interval`: what happens while Redis is away. Counts of this process stand in for a few intervals;
//! then requests are refused as without the interval, or counted on as `allow_degradation` says.

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::process::Process;
use tidegate_testkit::{Client, Gateway, PATIENCE, Upstream, servers};

fn redis(address: SocketAddr) -> Process {
    let mut command = Command::new(servers::find("redis-server"));
    command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port"]);
    command.arg(address.port().to_string());
    let mut process = Process::start("redis-server", &mut command);
    process.wait_for_port(address);
    process
}

fn gateway(redis: SocketAddr, upstream: SocketAddr) -> Gateway {
    let limit = |count: u32, more: &str| {
        format!(
            "{{limit-count: {{count: {count}, time_window: 3600, key: x, key_type: constant, \
             policy: redis, redis_host: 127.0.0.1, redis_port: {}, sync_interval: 0.2{more}}}}}",
            redis.port(),
        )
    };
    let mut routes = "routes:\n".to_owned();
    for (id, plugins) in [
        ("strict", limit(1_000_000, "")),
        ("lenient", limit(1_000_000, ", allow_degradation: true")),
        ("small", limit(3, ", allow_degradation: true")),
    ] {
        routes += &format!(
            "- {{id: {id}, uri: /{id}, plugins: {plugins}, upstream: {{nodes: {{\"{upstream}\": 1}}}}}}\n"
        );
    }
    Gateway::start(YAML_PROVIDER, Some(&routes))
}

fn wait_for_status(client: &mut Client, path: &str, wanted: u16, gateway: &Gateway) {
    let started = Instant::now();
    loop {
        let status = client.get("h", path).expect("an answer").status();
        if status == wanted {
            return;
        }
        assert!(started.elapsed() < PATIENCE, "{path} answers {status}: {}", gateway.error_log());
    }
}

#[test]
fn a_redis_that_stays_away_is_not_counted_around() {
    let address = SocketAddr::from(([127, 0, 0, 1], tidegate_testkit::free_port()));
    let mut server = redis(address);
    let upstream = Upstream::start();
    let gateway = gateway(address, upstream.address);
    let mut client = gateway.client();
    for path in ["/strict", "/lenient", "/small"] {
        assert_eq!(client.get("h", path).expect("an answer").status(), 200, "{path}");
    }
    server.stop();
    let died = Instant::now();
    wait_for_status(&mut client, "/strict", 500, &gateway);
    assert!(died.elapsed() > Duration::from_millis(600), "three intervals are bridged");
    let body = client.get("h", "/strict").expect("an answer").body_text();
    assert!(body.contains("failed to limit count"), "{body}");
    // Degradation means to count here, not to let everything through.
    assert_eq!(client.get("h", "/lenient").expect("an answer").status(), 200);
    let statuses: Vec<u16> = (0..6).map(|_| client.get("h", "/small").expect("an answer").status()).collect();
    assert_eq!(statuses.last(), Some(&503), "{statuses:?}");
    for (owner, next) in [
        ("routes/strict", "then requests are answered with 500"),
        ("routes/lenient", "as long as it fails (allow_degradation)"),
    ] {
        let started = Instant::now();
        let is_line = |line: &str| {
            let parts = [owner, &address.to_string(), "sync to redis failed", next];
            parts.iter().all(|part| line.contains(part))
        };
        while gateway.error_log().lines().filter(|line| is_line(line)).count() != 1 {
            // It is written once the interval of the last request is over.
            assert!(started.elapsed() < PATIENCE, "{owner}: {}", gateway.error_log());
            client.get("h", "/lenient").expect("an answer");
        }
    }

    let _server = redis(address);
    wait_for_status(&mut client, "/strict", 200, &gateway);
    gateway.wait_for_log("limit-count of routes/strict: counts are written to Redis again");
}

/// Without `sync_interval` each request asks. The log has a line when Redis goes away, not one for each request, and one when
/// it is back.
#[test]
fn a_redis_that_goes_away_is_logged_once() {
    let address = SocketAddr::from(([127, 0, 0, 1], tidegate_testkit::free_port()));
    let mut server = redis(address);
    let upstream = Upstream::start();
    let at =
        format!("policy: redis, redis_host: 127.0.0.1, redis_port: {}, key: remote_addr", address.port());
    let plugins = [
        ("count", format!("limit-count: {{count: 100000, time_window: 3600, {at}}}")),
        ("clock", format!("limit-count: {{windows: {{minute: 100000}}, {at}}}")),
        ("req", format!("limit-req: {{rate: 100000, burst: 0, {at}}}")),
        ("conn", format!("limit-conn: {{conn: 1000, burst: 0, default_conn_delay: 0.1, {at}}}")),
    ];
    let routes: String = plugins
        .iter()
        .map(|(id, plugin)| {
            format!(
                "- {{id: {id}, uri: /{id}, plugins: {{{plugin}}}, upstream: {{nodes: {{\"{}\": 1}}}}}}\n",
                upstream.address
            )
        })
        .collect();
    let gateway = Gateway::start(YAML_PROVIDER, Some(&format!("routes:\n{routes}")));
    let mut client = gateway.client();
    let paths = plugins.map(|(id, _)| format!("/{id}"));
    for path in &paths {
        assert_eq!(client.get("h", path).expect("an answer").status(), 200, "{path}");
    }
    server.stop();
    for path in paths.iter().cycle().take(100) {
        assert_eq!(client.get("h", path).expect("an answer").status(), 500, "{path}");
    }
    let _server = redis(address);
    for path in &paths {
        wait_for_status(&mut client, path, 200, &gateway);
    }
    for path in ["count", "clock", "req", "conn"] {
        gateway.wait_for_log(&format!("answers again (route {path})"));
        let log = gateway.error_log();
        let of_route: Vec<&str> =
            log.lines().filter(|line| line.contains(&format!("(route {path})"))).collect();
        assert_eq!(of_route.len(), 2, "{of_route:#?}");
        assert!(
            of_route[0].contains("failed to limit") && of_route[0].contains(&address.to_string()),
            "{of_route:#?}"
        );
    }
}
