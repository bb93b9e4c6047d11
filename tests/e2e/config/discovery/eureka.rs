//! Eureka, by a fake of `GET /eureka/apps` with the documents that Netflix' server writes.

use base64::Engine;
use tidegate_testkit::usage::growth;
use tidegate_testkit::{Message, Upstream};

use super::registry::Registry;
use super::{control, gateway, get, node, route, wait_for};

/// The instances of the application WEB.
#[expect(clippy::ptr_arg, reason = "the state is a list that tests change")]
fn answer(instances: &mut Vec<String>, request: &Message) -> (u16, String) {
    let user = base64::engine::general_purpose::STANDARD.encode("u:p");
    if request.header("Authorization") != Some(&format!("Basic {user}")) {
        return (401, String::new());
    }
    if request.header("Accept") != Some("application/json") || request.target() != "/eureka/apps" {
        return (404, String::new());
    }
    let list = instances.join(",");
    let application = format!(r#"{{"name":"WEB","instance":[{list}]}}"#);
    let all = if instances.is_empty() { String::new() } else { application };
    (
        200,
        format!(r#"{{"applications":{{"versions__delta":"1","apps__hashcode":"x","application":[{all}]}}}}"#),
    )
}

fn instance(node: &Upstream, status: &str, overridden: &str) -> String {
    let port = node.address.port();
    format!(
        r#"{{"instanceId":"i{port}","hostName":"h","app":"WEB","ipAddr":"127.0.0.1","status":"{status}",
        "overriddenStatus":"{overridden}","port":{{"$":{port},"@enabled":"true"}},
        "securePort":{{"$":443,"@enabled":"false"}},"metadata":{{"weight":"3","zone":"z1"}}}}"#
    )
}

#[test]
fn applications_that_are_up() {
    let (a, b) = (node("a"), node("b"));
    let registry = Registry::start(vec![instance(&a, "UP", "UNKNOWN")], answer);
    let host = format!("http://u:p@{}", registry.address);
    let gateway = gateway(&format!(
        "  eureka: {{host: [\"http://127.0.0.1:1\", \"{host}\"], prefix: /eureka/, fetch_interval: 1}}"
    ));
    route(&gateway, "/web", r#""service_name":"WEB","discovery_type":"eureka""#);
    assert_eq!(get(&gateway, "/web"), (200, "a".to_owned()));
    let dump = control(&gateway, "/v1/discovery/eureka/dump").1;
    let expected = serde_json::json!([
        {"host": "127.0.0.1", "port": a.address.port(), "weight": 3, "metadata": {"zone": "z1"}}
    ]);
    assert_eq!(dump["services"]["WEB"], expected, "{dump}");
    // Nobody needs a password to read this.
    assert_eq!(dump["config"]["host"][1], format!("http://***@{}", registry.address));

    registry.change(|instances| instances.push(instance(&b, "UP", "UNKNOWN")));
    wait_for(&gateway, "/web", &["a", "b"]);
    registry.change(|instances| {
        *instances = vec![instance(&a, "UP", "OUT_OF_SERVICE"), instance(&b, "UP", "UNKNOWN")];
    });
    wait_for(&gateway, "/web", &["b"]);
    registry.set_down(true);
    registry.wait_for_requests(3);
    assert_eq!(get(&gateway, "/web"), (200, "b".to_owned()));
    registry.change(Vec::clear);
    registry.set_down(false);
    wait_for(&gateway, "/web", &["503"]);
}

/// 8 million numbers in 16 MB would take 600 MB and more.
#[test]
fn what_is_too_much_to_read_is_told() {
    let a = node("a");
    let registry = Registry::start(vec![instance(&a, "UP", "UNKNOWN")], answer);
    let host = format!("http://u:p@{}", registry.address);
    let gateway = gateway(&format!("  eureka: {{host: [\"{host}\"], prefix: /eureka/, fetch_interval: 1}}"));
    route(&gateway, "/web", r#""service_name":"WEB","discovery_type":"eureka""#);
    wait_for(&gateway, "/web", &["a"]);
    let numbers = format!("[1{}]", ",1".repeat(8_000_000));
    let ((), grown) = growth(&gateway, || {
        registry.change(|instances| instances.push(numbers));
        gateway.wait_for_log("more than 1000000 values");
    });
    println!("+{} MB", grown >> 20);
    assert!(grown < 280 << 20, "+{} MB", grown >> 20);
    assert_eq!(get(&gateway, "/web"), (200, "a".to_owned()), "what was known still counts");
}

#[test]
fn discovered_nodes_are_probed() {
    let (a, b) = (node("a"), Upstream::service(|_| (500, "broken".to_owned())));
    let both = vec![instance(&a, "UP", "UNKNOWN"), instance(&b, "UP", "UNKNOWN")];
    let registry = Registry::start(both, answer);
    let host = format!("http://u:p@{}", registry.address);
    let gateway = gateway(&format!("  eureka: {{host: [\"{host}\"], prefix: /eureka/, fetch_interval: 1}}"));
    let checks = r#""checks":{"active":{"http_path":"/","healthy":{"interval":1,"successes":1},
        "unhealthy":{"interval":1,"http_failures":1}}}"#;
    route(&gateway, "/web", &format!(r#""service_name":"WEB","discovery_type":"eureka",{checks}"#));
    wait_for(&gateway, "/web", &["a"]);
}
