//! Routes of which no path can be read: they are named, and nothing is said to be shut that is open.

use serde_json::Value;
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::{Client, Gateway, eventually};

fn rejected(gateway: &Gateway) -> Vec<(String, String)> {
    let mut client = Client::connect(gateway.control).expect("connects");
    let answer = client.get("localhost", "/v1/rejected").expect("an answer").body_text();
    let answer: Value = serde_json::from_str(&answer).unwrap_or_else(|_| panic!("{answer}"));
    let text = |item: &Value, name: &str| item[name].as_str().unwrap_or_default().to_owned();
    let list = answer["list"].as_array().cloned().unwrap_or_default();
    list.iter()
        .map(|item| (format!("{}/{}", text(item, "kind"), text(item, "id")), text(item, "effect")))
        .collect()
}

#[test]
fn a_route_without_a_path_is_said_to_be_open() {
    let not_known = "not known: requests that it was for may be served by other routes";
    for (item, name) in [
        ("{id: g, Uri: '/g', plugins: {key-auth: {}}}", "routes/g"),
        ("{id: g, uri: 7, plugins: {key-auth: {}}}", "routes/g"),
        ("{id: g, uri: '', plugins: {key-auth: {}}}", "routes/g"),
        ("{id: g, uris: ['', 5], plugins: {key-auth: {}}}", "routes/g"),
        ("{id: g, uri: 'g/*', plugins: {key-auth: 1}}", "routes/g"),
        ("", "routes/arr_1"),
        ("text", "routes/arr_1"),
        ("[{uri: /g}]", "routes/arr_1"),
        ("{routes: [{id: g, uri: /g, plugins: {key-auth: {}}}]}", "routes/arr_1"),
    ] {
        let file = format!(
            "routes:\n- {item}\n- {{id: open, uri: '/*', plugins: {{mocking: {{response_example: x}}}}}}\n"
        );
        let gateway = Gateway::start(YAML_PROVIDER, Some(&file));
        assert_eq!(rejected(&gateway), [(name.to_owned(), not_known.to_owned())], "{item}");
        let log = gateway.error_log();
        assert!(
            log.contains(&format!("{name} cannot be used")) && log.contains("NOT refused"),
            "{item}: {log}"
        );
    }
}

/// Also an empty text is not a path: the old one stays.
#[test]
fn a_path_that_becomes_unreadable_stays_shut() {
    let file = |uri: &str| {
        format!(
            "routes:\n- {{id: g, {uri}, plugins: {{key-auth: {{}}}}}}\n- {{id: open, uri: '/*', plugins: {{mocking: {{response_example: x}}}}}}\n"
        )
    };
    for uri in ["uri: ''", "uris: ['']", "uris: ''", "uri: 7", "Uri: '/g'"] {
        let gateway = Gateway::start(YAML_PROVIDER, Some(&file("uri: /g")));
        let status = || gateway.client().get("h", "/g").expect("an answer").status();
        assert_eq!(status(), 401);
        gateway.write_routes(&file(uri));
        eventually("the file is read", || status() != 401);
        assert_eq!(status(), 503, "{uri}");
    }
}
