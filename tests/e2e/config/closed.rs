//! What cannot be built opens nothing: it is refused when it is written, and where it comes in nevertheless, its place
//! answers 503 (a consumer 401), at every start and in every mode.

mod accepted;
mod captured;
mod conditions;
mod configurations;
mod doubts;
mod duplicates;
mod edges;
mod file_lists;
mod forms;
mod idle_plugins;
mod left_silent;
mod lua_doors;
mod lua_readings;
mod masked_messages;
mod matrix;
mod modes;
mod never_runs;
mod nobody;
mod numbers;
mod overruled;
mod placeless;
mod places;
mod readings;
mod redirected;
mod references;
mod rewritten;
mod sealed;
mod small_doors;
mod spellings;
mod stored;
mod strange;
mod units;
mod unknown_fields;
mod unreached;
mod ways;
mod writes;

use serde_json::Value;
use tidegate_testkit::gateway::{ADMIN_KEY, EMBEDDED};
use tidegate_testkit::{Client, Gateway, Message};

/// A plugin that answers by itself: a route that has it is open unless something else refuses.
const OPEN: &str = r#""mocking":{"response_example":"open"}"#;

fn ask(gateway: &Gateway, target: &str, fields: &str) -> Message {
    let request = format!("GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{fields}\r\n");
    gateway.client().request(&request).unwrap_or_else(|error| panic!("{target}: {error}"))
}

fn status(gateway: &Gateway, target: &str) -> u16 {
    ask(gateway, target, "").status()
}

/// What the Control API tells of the objects that cannot be used: `routes/1` and the reason.
fn rejected(gateway: &Gateway) -> Vec<(String, String)> {
    let mut client = Client::connect(gateway.control).expect("the control port accepts connections");
    let answer = client.get("localhost", "/v1/rejected").expect("an answer");
    assert_eq!(answer.status(), 200);
    let body: Value = serde_json::from_str(&answer.body_text()).expect("JSON");
    let text = |object: &Value, name: &str| object[name].as_str().expect("a text").to_owned();
    let list = body["list"].as_array().expect("a list");
    assert_eq!(body["total"], list.len());
    list.iter()
        .map(|object| (format!("{}/{}", text(object, "kind"), text(object, "id")), text(object, "reason")))
        .collect()
}

fn is_rejected(gateway: &Gateway, object: &str) -> bool {
    rejected(gateway).iter().any(|(name, _)| name == object)
}

/// Writes an object that has to be stored.
pub(crate) fn put(gateway: &Gateway, path: &str, value: &str) {
    let (status, body) = gateway.admin("PUT", &format!("/apisix/admin/{path}"), value);
    assert!(matches!(status, 200 | 201), "PUT {path} {value}: {status} {body}");
}

/// Writes an object that must not be stored; the reason.
fn refused(gateway: &Gateway, method: &str, path: &str, value: &str) -> String {
    let (status, body) = gateway.admin(method, &format!("/apisix/admin/{path}"), value);
    assert_eq!(status, 400, "{method} {path} {value}: {body}");
    body
}

/// A request of the Admin API with fields of its own.
fn admin(gateway: &Gateway, method: &str, path: &str, fields: &str, body: &str) -> Message {
    let mut client = Client::connect(gateway.admin).expect("the admin port accepts connections");
    let request = format!(
        "{method} /apisix/admin/{path} HTTP/1.1\r\nHost: a\r\nX-API-KEY: {ADMIN_KEY}\r\nContent-Length: {}\r\n{fields}\r\n{body}",
        body.len()
    );
    client.request(&request).expect("an answer")
}

/// A gateway in API-driven mode, which holds nothing yet.
fn api_driven() -> Gateway {
    let config = EMBEDDED.replace("config_provider: embedded", "config_provider: yaml");
    let mut gateway = Gateway::start_unready(&config, None);
    gateway.process.wait_for_port(gateway.admin);
    gateway
}

/// Sends a whole configuration.
fn configure(gateway: &Gateway, digest: &str, body: &str) -> Message {
    admin(gateway, "PUT", "configs", &format!("X-Digest: {digest}\r\n"), body)
}
