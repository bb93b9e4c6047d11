//! The way users begin: Admin API, a route, real nginx behind it, curl in front.

use std::process::Command;
use std::time::{Duration, Instant};

use tidegate_testkit::gateway::{ADMIN_KEY, EMBEDDED};
use tidegate_testkit::{Gateway, eventually, servers};

fn curl(arguments: &[&str]) -> String {
    let output = Command::new("curl").args(["-sS", "--max-time", "15"]).args(arguments).output();
    let output = output.expect("curl runs; scripts/install-deps.sh installs it");
    assert!(output.status.success(), "curl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_route_put_with_curl_is_live_at_once() {
    let nginx = servers::nginx("location / { return 200 \"nginx got $request_uri for $http_host\"; }");
    let mut gateway = Gateway::start(EMBEDDED, None);
    gateway.process.wait_for_port(gateway.admin);
    let route = format!(
        r#"{{"uri":"/shop/*","upstream":{{"type":"roundrobin","nodes":{{"{}":1}}}}}}"#,
        nginx.address
    );
    let url = format!("http://{}/apisix/admin/routes/1", gateway.admin);
    let key = format!("X-API-KEY: {ADMIN_KEY}");
    let answer = curl(&["-w", " %{http_code}", "-X", "PUT", "-H", &key, "-d", &route, &url]);
    assert!(answer.ends_with(" 201"), "{answer}");
    let started = Instant::now();
    let shop = format!("http://{}/shop/cart?x=1", gateway.http);
    while curl(&["-H", "Host: shop.example", &shop]) != "nginx got /shop/cart?x=1 for shop.example" {
        assert!(started.elapsed() < Duration::from_secs(10), "the route is not live after ten seconds");
    }
    let refused = curl(&["-w", " %{http_code}", "-X", "PUT", "-H", "X-API-KEY: wrong", "-d", &route, &url]);
    assert!(refused.ends_with(" 401"), "{refused}");
    let (status, _) = gateway.admin("DELETE", "/apisix/admin/routes/1", "");
    assert_eq!(status, 200);
    let started = Instant::now();
    while !curl(&["-w", " %{http_code}", &shop]).ends_with(" 404") {
        assert!(started.elapsed() < Duration::from_secs(10), "the route is still live after ten seconds");
    }
}

#[test]
fn routes_survive_a_restart() {
    let nginx = servers::nginx("location / { return 200 kept; }");
    let mut gateway = Gateway::start(EMBEDDED, None);
    gateway.process.wait_for_port(gateway.admin);
    let route =
        format!(r#"{{"uri":"/kept","upstream":{{"type":"roundrobin","nodes":{{"{}":1}}}}}}"#, nginx.address);
    let (status, body) = gateway.admin("PUT", "/apisix/admin/routes/kept", &route);
    assert_eq!(status, 201, "{body}");
    // Acknowledged means durable: no orderly stop.
    gateway.process.signal_kill();
    gateway.process.wait_for_exit();
    gateway.restart();
    assert_eq!(gateway.client().get("h", "/kept").expect("answers").body_text(), "kept");
}

#[test]
fn an_edited_routes_file_is_taken_up_and_a_broken_one_is_not() {
    let nginx = servers::nginx("location / { return 200 $uri; }");
    let node = format!("upstream: {{type: roundrobin, nodes: {{\"{}\": 1}}}}", nginx.address);
    let routes = |uri: &str| format!("routes:\n  - id: 1\n    uri: {uri}\n    {node}\n");
    let gateway = Gateway::start(tidegate_testkit::gateway::YAML_PROVIDER, Some(&routes("/old")));
    assert_eq!(gateway.client().get("h", "/old").expect("answers").status(), 200);
    gateway.write_routes(&routes("/new"));
    eventually("the new file is read", || {
        gateway.client().get("h", "/new").expect("answers").status() == 200
    });
    gateway.write_routes("routes: [not, a: route");
    eventually("the broken file is reported", || {
        (gateway.error_log() + &gateway.process.output()).contains("apisix.yaml")
    });
    assert_eq!(
        gateway.client().get("h", "/new").expect("answers").status(),
        200,
        "the last good routes stay"
    );
}

#[test]
fn sigterm_ends_the_process_in_good_order() {
    let mut gateway = Gateway::start(EMBEDDED, None);
    assert!(gateway.process.stop().success(), "{}", gateway.process.output());
}
