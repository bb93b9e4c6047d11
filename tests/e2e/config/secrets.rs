//! `$secret://` references: a Vault that checks what it is asked; [`clouds`] has AWS and Google, [`no_values`] what is not a
//! secret, [`told`] who is told of it.

pub(crate) mod clouds;
mod no_values;
mod told;

use std::collections::HashMap;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use tidegate_testkit::gateway::{EMBEDDED, Gateway, YAML_PROVIDER};
use tidegate_testkit::{Message, Upstream, eventually, free_port};

/// What the Vault answers by path: a status and a body.
#[derive(Clone, Default)]
struct Secrets(Arc<Mutex<HashMap<String, (u16, Value)>>>);

impl Secrets {
    fn set(&self, path: &str, status: u16, body: Value) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), (status, body));
    }

    fn get(&self, path: &str) -> (u16, String) {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned();
        known.map_or((404, json!({"errors": []}).to_string()), |(status, body)| (status, body.to_string()))
    }
}

/// Its token is the value of PATH, which gateway and test share; its namespace is `ns`.
fn vault(secrets: &Secrets) -> Upstream {
    let secrets = secrets.clone();
    let token = std::env::var("PATH").expect("a PATH");
    Upstream::service(move |request| {
        let denied = request.header("X-Vault-Token") != Some(&token)
            || request.header("X-Vault-Namespace") != Some("ns")
            || request.method() != "GET";
        if denied { (403, json!({"errors": ["denied"]}).to_string()) } else { secrets.get(request.target()) }
    })
}

/// The `secrets` part of apisix.yaml: version 1 of the engine as `vault/1`, version 2 as `vault/v2`.
fn managers(vault: &Upstream) -> String {
    let uri = format!("uri: \"http://{}\", token: \"$ENV://PATH\", namespace: ns", vault.address);
    format!(
        "secrets:\n- {{id: vault/1, prefix: kv/apisix, {uri}}}\n- {{id: vault/v2, prefix: kv2/data, {uri}}}\n"
    )
}

fn get(gateway: &Gateway, path: &str, key: &str) -> Message {
    let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\napikey: {key}\r\n\r\n");
    gateway.client().request(&request).expect("an answer")
}

/// Asks until the status is this one.
fn until_status(gateway: &Gateway, path: &str, key: &str, status: u16) {
    // Nothing announces that a secret was fetched again.
    eventually(format_args!("{status} for {path} {key}"), || get(gateway, path, key).status() == status);
}

const KEY_AUTH_ROUTE: &str =
    "- {id: keyed, uri: /keyed, plugins: {key-auth: {}, mocking: {response_example: fine}}}\n";
const JACK: &str =
    "consumers:\n- {username: jack, plugins: {key-auth: {key: \"$secret://vault/1/jack/key\"}}}\n";

#[test]
fn vault_values_reach_consumers_plugins_and_certificates() {
    let secrets = Secrets::default();
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["vault.test".to_owned()]).expect("a name");
    let cert = params.self_signed(&key).expect("a certificate").pem();
    secrets.set("/v1/kv/apisix/jack", 200, json!({"data": {"key": "from-vault"}}));
    secrets.set("/v1/kv/apisix/tls", 200, json!({"data": {"cert": cert, "key": key.serialize_pem()}}));
    secrets.set(
        "/v1/kv2/data/web/site",
        200,
        json!({"data": {"data": {"title": "two"}, "metadata": {"version": 3}}}),
    );
    let vault = vault(&secrets);
    let rewrite = "response-rewrite: {headers: {set: {X-Title: \"$secret://vault/v2/web/site/title\"}}}";
    let resources = format!(
        "routes:\n{KEY_AUTH_ROUTE}- {{id: titled, uri: /titled, plugins: {{mocking: {{response_example: fine}}, \
         {rewrite}}}}}\n{JACK}{}ssls:\n- {{id: 1, sni: vault.test, cert: \"$secret://vault/1/tls/cert\", \
         key: \"$secret://vault/1/tls/key\"}}\n",
        managers(&vault)
    );
    let port = free_port();
    let config = YAML_PROVIDER
        .replace("ssl: {enable: false}", &format!("ssl: {{listen: [{{ip: 127.0.0.1, port: {port}}}]}}"));
    let gateway = Gateway::start(&config, Some(&resources));

    // The first request finds everything resolved.
    assert_eq!(get(&gateway, "/keyed", "from-vault").status(), 200, "{}", gateway.error_log());
    assert_eq!(get(&gateway, "/keyed", "$secret://vault/1/jack/key").status(), 401);
    assert_eq!(get(&gateway, "/titled", "").header("X-Title"), Some("two"));
    let url = format!("https://vault.test:{port}/titled");
    let output = Command::new("curl")
        .args(["-sk", "-m", "5", "-o", "/dev/null", "-w", "%{http_code}"])
        .args(["--resolve", &format!("vault.test:{port}:127.0.0.1"), &url])
        .output()
        .expect("curl runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "200", "{}", gateway.error_log());
    assert_eq!(vault.seen().len(), 4, "each reference is fetched once: {:?}", vault.seen());
}

#[test]
fn values_are_refreshed_kept_and_withdrawn() {
    let secrets = Secrets::default();
    let jack = "/v1/kv/apisix/jack";
    secrets.set(jack, 200, json!({"data": {"key": "first"}}));
    let vault = vault(&secrets);
    let config = YAML_PROVIDER.replace(
        "  ssl: {enable: false}\n",
        "  ssl: {enable: false}\n  lru: {secret: {ttl: 1, neg_ttl: 1}}\n",
    );
    let resources = format!("routes:\n{KEY_AUTH_ROUTE}{JACK}{}", managers(&vault));
    let gateway = Gateway::start(&config, Some(&resources));
    assert_eq!(get(&gateway, "/keyed", "first").status(), 200, "{}", gateway.error_log());

    secrets.set(jack, 200, json!({"data": {"key": "second"}}));
    until_status(&gateway, "/keyed", "second", 200);
    assert_eq!(get(&gateway, "/keyed", "first").status(), 401);

    // Sealed: two further questions fail, the value stays.
    secrets.set(jack, 503, json!({"errors": ["Vault is sealed"]}));
    vault.take();
    vault.wait_for(3);
    assert_eq!(get(&gateway, "/keyed", "second").status(), 200);
    assert!(gateway.error_log().contains("its last value stays in use"), "{}", gateway.error_log());

    secrets.set(jack, 404, json!({"errors": []}));
    until_status(&gateway, "/keyed", "second", 401);
    secrets.set(jack, 200, json!({"data": {"key": "third"}}));
    until_status(&gateway, "/keyed", "third", 200);
}

#[test]
fn references_that_lead_nowhere() {
    let secrets = Secrets::default();
    let vault = vault(&secrets);
    let nowhere = "$secret://vault/1/no/thing";
    let resources = format!(
        "routes:\n{KEY_AUTH_ROUTE}\
         - {{id: text, uri: /text, plugins: {{mocking: {{response_example: fine}}, \
         response-rewrite: {{body: \"{nowhere}\"}}}}}}\n\
         - {{id: secret, uri: /secret, plugins: {{csrf: {{key: \"{nowhere}\"}}, \
         mocking: {{response_example: fine}}}}}}\n{JACK}{}",
        managers(&vault)
    );
    let gateway = Gateway::start(YAML_PROVIDER, Some(&resources));
    // As in APISIX: nobody is jack, and a plugin's field keeps the text.
    assert_eq!(get(&gateway, "/keyed", "$secret://vault/1/jack/key").status(), 401);
    assert_eq!(get(&gateway, "/text", "").body_text(), nowhere);
    gateway.wait_for_log(&format!("failed to resolve secret reference: {nowhere}, field: body"));
    // Unlike APISIX: a key that stands in the configuration would protect nothing.
    assert_eq!(get(&gateway, "/secret", "").status(), 503);
    // What comes later is found soon, without a change of the configuration.
    secrets.set("/v1/kv/apisix/jack", 200, json!({"data": {"key": "late"}}));
    secrets.set("/v1/kv/apisix/no", 200, json!({"data": {"thing": "secret"}}));
    until_status(&gateway, "/keyed", "late", 200);
    until_status(&gateway, "/secret", "", 200);
    assert_eq!(get(&gateway, "/text", "").body_text(), "secret");
}

#[test]
fn the_admin_api_changes_managers_and_a_silent_one_delays_nothing_for_long() {
    let secrets = Secrets::default();
    secrets.set("/v1/kv/apisix/jack", 200, json!({"data": {"key": "from-vault"}}));
    let vault = vault(&secrets);
    let silent = Upstream::with(|_| tidegate_testkit::Behaviour {
        read_body: true,
        steps: vec![tidegate_testkit::Step::Silence],
    });
    let gateway = Gateway::start(EMBEDDED, None);
    let put = |path: &str, body: Value| {
        let (status, answer) = gateway.admin("PUT", &format!("/apisix/admin/{path}"), &body.to_string());
        assert!(matches!(status, 200 | 201), "{path}: {status} {answer}");
    };
    let manager = |uri: std::net::SocketAddr| json!({"uri": format!("http://{uri}"), "prefix": "kv/apisix", "token": "$ENV://PATH", "namespace": "ns"});
    put("secrets/vault/1", manager(silent.address));
    put(
        "consumers/jack",
        json!({"username": "jack", "plugins": {"key-auth": {"key": "$secret://vault/1/jack/key"}}}),
    );
    put(
        "routes/keyed",
        json!({"uri": "/keyed", "plugins": {"key-auth": {}, "mocking": {"response_example": "fine"}}}),
    );
    assert_eq!(get(&gateway, "/keyed", "from-vault").status(), 401);
    // The answer to the old question is still out; the new manager is asked at once.
    put("secrets/vault/1", manager(vault.address));
    until_status(&gateway, "/keyed", "from-vault", 200);
}
