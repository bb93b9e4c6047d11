//! file-logger: which requests it logs, and the file that all have where a route names none.

use std::fs;

use serde_json::json;
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::{Gateway, eventually};

#[test]
fn entries_that_match_are_in_the_file_of_the_metadata() {
    let plugins = json!({
        "mocking": {"response_example": "x"}, "file-logger": {"match": [[["arg_name", "==", "jack"]]], "log_format": {"mark": "$arg_name"}},
    });
    let objects = json!({
        "routes": [{"id": "1", "uri": "/*", "plugins": plugins}],
        "plugin_metadata": [{"id": "file-logger", "path": "logs/of-all.log"}],
    });
    let gateway = Gateway::start(YAML_PROVIDER, Some(&objects.to_string()));
    for name in ["jill", "jack"] {
        assert_eq!(
            gateway.client().get("a.test", &format!("/?name={name}")).expect("a response").status(),
            200
        );
    }
    let file = gateway.prefix().join("logs/of-all.log");
    let text = || fs::read_to_string(&file).unwrap_or_default();
    eventually("an entry", || text().contains(r#""mark":"jack""#));
    assert!(!text().contains("jill"), "{}", text());
}
