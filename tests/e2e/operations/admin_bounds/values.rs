//! Bodies of many small values: a tree of them would take a hundred times their bytes.

use tidegate_testkit::gateway::{ADMIN_KEY, EMBEDDED, Gateway};
use tidegate_testkit::usage::{growth, status_bytes};
use tidegate_testkit::{Client, Message, eventually};

use super::head;

const MEGABYTE: u64 = 1 << 20;
const JSON: &str = "Content-Type: application/json\r\nX-Digest: 1\r\n";

fn put(gateway: &Gateway, path: &str, fields: &str, body: &str) -> Message {
    let mut client = Client::connect(gateway.admin).expect("connects");
    client.send(head("PUT", path, ADMIN_KEY, body.len(), fields).as_bytes()).expect("sent");
    // A body that is refused early is read all the same, for a client that has shown a key.
    client.send(body.as_bytes()).expect("sent");
    client.response().expect("an answer")
}

fn of_values(count: usize) -> String {
    format!("{{\"routes\":[],\"x\":[{}1]}}", "1,".repeat(count))
}

fn api_driven() -> String {
    EMBEDDED
        .replace("config_provider: embedded", "config_provider: yaml")
        .replace("apisix:\n", "apisix:\n  enable_admin: true\n")
}

#[test]
fn a_body_has_so_many_values_and_no_more() {
    let body = of_values(6_000_000);
    let size = body.len() as u64;
    for (config, path) in [(EMBEDDED.to_owned(), "import"), (api_driven(), "configs")] {
        let gateway = Gateway::start(&config, None);
        let (answer, grown) = growth(&gateway, || put(&gateway, path, JSON, &body));
        let text = answer.body_text();
        assert!(answer.status() == 400 && text.contains("more than 4000000 values"), "{path}: {text}");
        println!("{path}: {} MB of values, +{} MB", size / MEGABYTE, grown / MEGABYTE);
        assert!(grown < 4 * size, "{path}: +{} MB", grown / MEGABYTE);
    }
    let gateway = Gateway::start(EMBEDDED, None);
    let yaml = format!("routes: []\nx: [{}1]\n#END\n", "1,".repeat(6_000_000));
    let (answer, grown) = growth(&gateway, || put(&gateway, "import", "", &yaml));
    assert_eq!(answer.status(), 400);
    assert!(grown < 4 * size, "YAML: +{} MB", grown / MEGABYTE);
}

/// What was read and refused takes no memory afterwards.
#[test]
fn the_memory_of_a_tree_goes_back() {
    let gateway = Gateway::start(EMBEDDED, None);
    let before = status_bytes(&gateway, "VmRSS");
    let answer = put(&gateway, "import", JSON, &of_values(3_900_000));
    assert!(answer.status() == 400 && answer.body_text().contains("unknown list"), "{}", answer.body_text());
    let grown = || status_bytes(&gateway, "VmRSS").saturating_sub(before);
    eventually("the memory goes back", || grown() < 48 * MEGABYTE);
}
