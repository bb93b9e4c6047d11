//! The OpenAPI document: a public validator takes it, and what the gateway answers is in it.
//!
//! Both need tools of PyPI, which `scripts/openapi-tools` installs; without them the tests say so and pass.

use std::{fs, path::PathBuf, process::Command};

use serde_json::{Value, json};
use tidegate_testkit::gateway::{ADMIN_KEY, EMBEDDED, Gateway, binary, workspace_root};

/// Seconds of `make test-all`; `TIDEGATE_OPENAPI_SECONDS` names another time.
const LONG: u64 = 600;

/// A program of `target/openapi-tools`.
fn tool(name: &str) -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(workspace_root().join("target"), PathBuf::from);
    let path = target.join("openapi-tools/bin").join(name);
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: {name} is not installed (scripts/openapi-tools)");
    None
}

fn printed(arguments: &[&str]) -> String {
    let output = Command::new(binary()).arg("openapi").args(arguments).output().expect("tidegate runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn both_documents_are_valid() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, arguments, path) in [
        ("resources.json", &[][..], "/apisix/admin/routes/{id}"),
        ("configurations.json", &["--api-driven"][..], "/apisix/admin/configs"),
    ] {
        let text = printed(arguments);
        let document: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(document["openapi"], "3.1.0");
        assert!(document["paths"].get(path).is_some(), "{name} lacks {path}");
        assert!(document["components"]["schemas"].get("plugin.key-auth").is_some(), "{name} lacks plugins");
        let file = folder.path().join(name);
        fs::write(&file, text).expect("written");
        let Some(validator) = tool("openapi-spec-validator") else { return };
        let output = Command::new(validator).arg(&file).output().expect("the validator runs");
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{name}: {said}");
    }
}

#[test]
fn the_gateway_has_the_document_of_its_own_plugins() {
    let gateway = Gateway::start(&format!("{EMBEDDED}plugins: [key-auth, limit-count]\n"), None);
    let (status, text) = gateway.admin("GET", "/apisix/admin/openapi.json", "");
    let document: Value = serde_json::from_str(&text).expect("JSON");
    let plugins = document["components"]["schemas"]["Plugins"]["properties"].as_object().expect("plugins");
    assert_eq!(
        (status, plugins.keys().map(String::as_str).collect::<Vec<_>>()),
        (200, vec!["key-auth", "limit-count"])
    );
}

/// Ten seconds of the Admin API find what is plainly wrong.
#[test]
fn answers_are_in_the_document() {
    keeps_to_its_document(10);
}

#[test]
#[ignore = "ten minutes"]
fn answers_are_in_the_document_for_ten_minutes() {
    let seconds = std::env::var("TIDEGATE_OPENAPI_SECONDS").ok().and_then(|text| text.parse().ok());
    keeps_to_its_document(seconds.unwrap_or(LONG));
}

/// No status, content type or body that the document does not have, and no 5xx.
fn keeps_to_its_document(seconds: u64) {
    let Some(tool) = tool("schemathesis") else { return };
    let gateway = Gateway::start(EMBEDDED, None);
    let (_, text) = gateway.admin("GET", "/apisix/admin/openapi.json", "");
    let document: Value = serde_json::from_str(&text).expect("JSON");
    let parts = [
        ("/apisix/admin", gateway.admin, seconds),
        ("/v1/", gateway.control, seconds / 4 + 2),
        ("/metrics", gateway.metrics, 2),
    ];
    for (prefix, address, seconds) in parts {
        let file = gateway.prefix().join("openapi.json");
        fs::write(&file, only(&document, prefix).to_string()).expect("written");
        let output = Command::new(&tool)
            .args(["--no-color", "run"])
            .arg(&file)
            .args(["--url", &format!("http://{address}"), "--max-time", &seconds.to_string()])
            .args(["--header", &format!("X-API-KEY: {ADMIN_KEY}"), "--suppress-health-check", "all"])
            .args(["--checks", CHECKS, "--warnings", "off"])
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .current_dir(gateway.prefix())
            .output()
            .expect("schemathesis runs");
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{prefix}: {said}");
    }
    let log = gateway.error_log();
    assert!(!log.contains("panicked"), "{log}");
}

/// The document with the paths of one API. The schemas of plugins are left out: the tool would spend its time on values for
/// 100 of them, which the gateway checks by these very schemas.
fn only(document: &Value, prefix: &str) -> Value {
    let mut document = document.clone();
    let schemas = document["components"]["schemas"].as_object_mut().expect("schemas");
    schemas.retain(|name, _| !name.starts_with("plugin."));
    for name in ["Plugins", "ConsumerPlugins", "Metadata"] {
        schemas[name] = json!({"type": "object"});
    }
    let paths = document["paths"].as_object_mut().expect("paths");
    paths.retain(|path, _| path.starts_with(prefix));
    for item in paths.values_mut().filter_map(Value::as_object_mut) {
        item.remove("servers");
    }
    document
}

const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,ignored_auth";
