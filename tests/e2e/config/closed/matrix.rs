//! Every plugin that may refuse a request, at every place, with a secret that is gone or a number that nothing can be built
//! from: at the write, while the gateway runs, after a restart. Nothing opens.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use tidegate_testkit::gateway::{EMBEDDED, Gateway, YAML_PROVIDER, workspace_root};
use tidegate_testkit::{Etcd, Upstream, eventually};

use super::{ask, put, refused, rejected, status};

/// Each with a configuration that can be built.
const GUARDS: [(&str, &str); 50] = [
    ("acl", r#"{"allow_labels":{"org":["a"]}}"#),
    ("api-breaker", r#"{"break_response_code":502}"#),
    ("app-key", "{}"),
    (
        "authz-casbin",
        r#"{"username":"user","model":"[request_definition]\nr = s, o, a\n[policy_definition]\np = s\n[policy_effect]\ne = some(where (p.eft == allow))\n[matchers]\nm = r.s == p.s","policy":"p, nobody"}"#,
    ),
    (
        "authz-casdoor",
        r#"{"endpoint_addr":"http://127.0.0.1:1","client_id":"c","client_secret":"s","callback_url":"http://h/cb"}"#,
    ),
    ("authz-keycloak", r#"{"client_id":"c","token_endpoint":"http://127.0.0.1:1/"}"#),
    ("aws-lambda", r#"{"function_uri":"http://127.0.0.1:1/"}"#),
    ("azure-functions", r#"{"function_uri":"http://127.0.0.1:1/"}"#),
    ("basic-auth", "{}"),
    (
        "cas-auth",
        r#"{"idp_uri":"http://127.0.0.1:1","cas_callback_uri":"/cb","logout_uri":"/out","cookie":{"secret":"0123456789abcdef0123456789abcdef"}}"#,
    ),
    ("chaitin-waf", "{}"),
    ("client-control", r#"{"max_body_size":1}"#),
    ("consumer-restriction", r#"{"whitelist":["nobody"]}"#),
    ("csrf", r#"{"key":"k"}"#),
    ("degraphql", r#"{"query":"{ a }"}"#),
    ("dingtalk-auth", r#"{"app_key":"a","app_secret":"s","secret":"12345678","redirect_uri":"/login"}"#),
    ("ext-plugin-post-req", "{}"),
    ("ext-plugin-post-resp", "{}"),
    ("ext-plugin-pre-req", "{}"),
    ("fault-injection", r#"{"abort":{"http_status":403}}"#),
    (
        "feishu-auth",
        r#"{"app_id":"a","app_secret":"s","secret":"12345678","auth_redirect_uri":"https://a.test","redirect_uri":"/login"}"#,
    ),
    ("forward-auth", r#"{"uri":"http://127.0.0.1:1/"}"#),
    ("graphql-limit-count", r#"{"count":1,"time_window":60}"#),
    ("hmac-auth", "{}"),
    ("ip-restriction", r#"{"whitelist":["10.0.0.1"]}"#),
    ("jwe-decrypt", "{}"),
    ("jwt-auth", "{}"),
    ("key-auth", "{}"),
    ("ldap-auth", r#"{"base_dn":"dc=x","ldap_uri":"127.0.0.1:1"}"#),
    ("ldap-auth-advanced", r#"{"base_dn":"dc=x","ldap_uri":"127.0.0.1:1"}"#),
    ("limit-conn", r#"{"conn":1,"burst":0,"default_conn_delay":0.1,"key":"remote_addr"}"#),
    ("limit-count", r#"{"count":1,"time_window":60}"#),
    ("limit-req", r#"{"rate":1,"burst":0,"key":"remote_addr"}"#),
    ("multi-auth", r#"{"auth_plugins":[{"basic-auth":{}},{"key-auth":{}}]}"#),
    ("oas-validator", r#"{"spec":"{}"}"#),
    ("opa", r#"{"host":"http://127.0.0.1:1","policy":"p"}"#),
    (
        "openid-connect",
        r#"{"client_id":"a","client_secret":"s","discovery":"http://127.0.0.1:1/d","bearer_only":true}"#,
    ),
    ("openfunction", r#"{"function_uri":"http://127.0.0.1:1/"}"#),
    ("openwhisk", r#"{"api_host":"http://127.0.0.1:1","service_token":"a:b","namespace":"n","action":"a"}"#),
    ("real-ip", r#"{"source":"arg_ip","trusted_addresses":["127.0.0.1"]}"#),
    ("referer-restriction", r#"{"whitelist":["a.com"]}"#),
    ("request-validation", r#"{"header_schema":{"type":"object","required":["x"]}}"#),
    ("saml-auth", include_str!("saml_auth.json")),
    ("serverless-post-function", r#"{"functions":["return function() return 403 end"]}"#),
    ("serverless-pre-function", r#"{"functions":["return function() return 403 end"]}"#),
    ("sla", r#"{"limits":[{"interval":60,"limit":1}]}"#),
    ("ua-restriction", r#"{"denylist":["x"]}"#),
    ("uri-blocker", r#"{"block_rules":["x"]}"#),
    ("wolf-rbac", "{}"),
    ("workflow", r#"{"rules":[{"actions":[["return",{"code":403}]]}]}"#),
];

/// One more than the largest integer with a sign.
const TOO_LARGE: u64 = 1 << 63;

/// On a consumer these say who it is, and guard nothing.
const OF_CONSUMERS: [&str; 9] = [
    "app-key",
    "basic-auth",
    "hmac-auth",
    "jwe-decrypt",
    "jwt-auth",
    "key-auth",
    "ldap-auth",
    "ldap-auth-advanced",
    "wolf-rbac",
];

fn with_plugins(base: &str) -> String {
    let names: Vec<&str> = GUARDS.iter().map(|(name, _)| *name).collect();
    format!("{base}plugins: [{}, mocking]\n", names.join(", "))
}

fn conf(text: &str, field: &str, value: Value) -> Value {
    let mut conf: Value = serde_json::from_str(text).expect("JSON");
    conf["_meta"] = json!({ field: value });
    conf
}

/// It passes the schema, and no place in the order has this number.
fn bad_number(text: &str) -> Value {
    conf(text, "priority", json!(TOO_LARGE))
}

fn secret(text: &str, reference: &str) -> Value {
    conf(text, "error_response", json!(reference))
}

/// The objects of one plugin, in all places but the global rules: collection, id and value.
fn objects(name: &str, conf: &Value) -> Vec<(&'static str, String, Value)> {
    let plugins = json!({ name: conf });
    let open = json!({"mocking": {"response_example": "open"}});
    let uri = |place: &str| format!("/{place}/{name}");
    let id = |place: &str| format!("{place}-{name}");
    let guarded = json!({ name: conf, "mocking": {"response_example": "open"} });
    let mut objects = vec![
        ("routes", id("route"), json!({"uri": uri("route"), "plugins": guarded})),
        ("services", name.to_owned(), json!({"plugins": plugins})),
        ("routes", id("service"), json!({"uri": uri("service"), "service_id": name, "plugins": open})),
        ("plugin_configs", name.to_owned(), json!({"plugins": plugins})),
        ("routes", id("config"), json!({"uri": uri("config"), "plugin_config_id": name, "plugins": open})),
    ];
    if !OF_CONSUMERS.contains(&name) {
        let user = |place: &str| format!("{place}_{}", name.replace('-', "_"));
        let key = |place: &str| json!({"key": id(place)});
        let consumer = json!({"username": user("own"), "plugins": {"key-auth": key("own"), name: conf}});
        let member =
            json!({"username": user("group"), "group_id": name, "plugins": {"key-auth": key("group")}});
        objects.extend([
            ("consumers", user("own"), consumer),
            ("consumer_groups", name.to_owned(), json!({"plugins": plugins})),
            ("consumers", user("group"), member),
        ]);
    }
    objects
}

fn keyed() -> Value {
    json!({"uri": "/keyed", "plugins": {"key-auth": {}, "mocking": {"response_example": "open"}}})
}

/// The places of a plugin that answer something else than a place that is shut.
fn open_places(gateway: &Gateway, name: &str) -> Vec<String> {
    let mut answers = Vec::new();
    for place in ["route", "service", "config"] {
        answers.push((place, 503, status(gateway, &format!("/{place}/{name}"))));
    }
    if !OF_CONSUMERS.contains(&name) {
        let of = |place: &str| ask(gateway, "/keyed", &format!("apikey: {place}-{name}\r\n")).status();
        answers.extend([("own", 401, of("own")), ("group", 503, of("group"))]);
    }
    let open = answers.into_iter().filter(|(_, expected, found)| expected != found);
    open.map(|(place, _, found)| format!("{name} at {place}: {found}")).collect()
}

fn all_open(gateway: &Gateway) -> Vec<String> {
    GUARDS.iter().flat_map(|(name, _)| open_places(gateway, name)).collect()
}

/// The list of what is rejected changes before each worker has taken the new snapshot.
fn every_worker_shuts(gateway: &Gateway) {
    eventually("every worker has it", || all_open(gateway).is_empty());
}

fn check_all(gateway: &Gateway, when: &str) {
    let open = all_open(gateway);
    assert_eq!(open, Vec::<String>::new(), "{when}\n{:?}\n{}", rejected(gateway), gateway.error_log());
}

#[test]
fn the_list_has_every_plugin_that_guards() {
    let mut guards = BTreeSet::new();
    let groups = fs::read_dir(workspace_root().join("crates/plugins/src")).expect("the plugins' sources");
    // Guards of streams have tests of their own (protocols::stream).
    let groups = groups.flatten().filter(|group| group.file_name() != "stream");
    for entry in groups.flat_map(|group| fs::read_dir(group.path())).flatten().flatten() {
        let Ok(text) = fs::read_to_string(entry.path()) else { continue };
        for declaration in text.split("static PLUGIN: PluginDef = PluginDef {").skip(1) {
            let (declaration, _) = declaration.split_once("};").expect("its end");
            let name = declaration.split("name: \"").nth(1).and_then(|rest| rest.split('"').next());
            if !declaration.contains("guards: false") || declaration.contains("answers: true") {
                guards.insert(name.expect("a name").to_owned());
            }
        }
    }
    // Those that answer in the upstream's place refuse nothing that could be seen here.
    let tested = GUARDS.iter().chain(&super::places::ANSWERING);
    assert_eq!(guards, tested.map(|(name, _)| (*name).to_owned()).collect());
}

#[test]
fn secrets_that_are_gone_open_nothing() {
    let config = with_plugins(EMBEDDED).replace(
        "  ssl: {enable: false}\n",
        "  ssl: {enable: false}\n  lru: {secret: {ttl: 1, neg_ttl: 1}}\n",
    );
    let mut gateway = Gateway::start(&config, None);
    let gone = Arc::new(AtomicBool::new(false));
    let vault = Upstream::service({
        let gone = gone.clone();
        move |_| match gone.load(Ordering::Relaxed) {
            true => (404, json!({"errors": []}).to_string()),
            false => (200, json!({"data": {"key": "text"}}).to_string()),
        }
    });
    let manager = json!({"uri": format!("http://{}", vault.address), "prefix": "kv", "token": "t"});
    put(&gateway, "secrets/vault/1", &manager.to_string());
    put(&gateway, "routes/keyed", &keyed().to_string());
    put(&gateway, "routes/open", r#"{"uri":"/open","plugins":{"mocking":{"response_example":"open"}}}"#);

    // Gone at the write: stored, with a warning, and shut. A number is refused.
    for (name, text) in GUARDS {
        for (collection, id, value) in objects(name, &bad_number(text)) {
            if value.to_string().contains(&TOO_LARGE.to_string()) {
                refused(&gateway, "PUT", &format!("{collection}/{id}"), &value.to_string());
            }
        }
        write(&gateway, name, &secret(text, "$env://TG_GONE"));
        let rule = json!({"plugins": {name: bad_number(text)}}).to_string();
        refused(&gateway, "PUT", "global_rules/1", &rule);
        put_rule(&gateway, name, text, "$env://TG_GONE");
        assert_eq!(status(&gateway, "/open"), 503, "global rule {name}");
        assert_eq!(gateway.admin("DELETE", &format!("/apisix/admin/global_rules/{name}"), "").0, 200);
        assert_eq!(status(&gateway, "/open"), 200);
    }
    check_all(&gateway, "at the write");

    // There at the write, gone later.
    for (name, text) in GUARDS {
        write(&gateway, name, &secret(text, "$secret://vault/1/x/key"));
    }
    assert_eq!(rejected(&gateway), []);
    for (name, text) in GUARDS {
        put_rule(&gateway, name, text, "$secret://vault/1/x/key");
    }
    assert_eq!(rejected(&gateway), []);
    gone.store(true, Ordering::Relaxed);
    let rules = |(name, _): &&(String, String)| name.starts_with("global_rules/");
    eventually("every rule is shut", || rejected(&gateway).iter().filter(rules).count() == GUARDS.len());
    eventually("every worker has it", || status(&gateway, "/open") == 503);
    gateway.process.stop();
    gateway.restart();
    for (name, _) in GUARDS {
        assert_eq!(status(&gateway, "/open"), 503, "with the rules from {name} on");
        assert_eq!(gateway.admin("DELETE", &format!("/apisix/admin/global_rules/{name}"), "").0, 200);
    }
    assert_eq!(status(&gateway, "/open"), 200);
    check_all(&gateway, "after a restart");
    gone.store(false, Ordering::Relaxed);
    eventually("the secret is back", || rejected(&gateway).is_empty());
    gone.store(true, Ordering::Relaxed);
    eventually("it is gone again", || !rejected(&gateway).is_empty());
    every_worker_shuts(&gateway);
    check_all(&gateway, "while running");
}

fn write(gateway: &Gateway, name: &str, conf: &Value) {
    for (collection, id, value) in objects(name, conf) {
        put(gateway, &format!("{collection}/{id}"), &value.to_string());
    }
}

fn put_rule(gateway: &Gateway, name: &str, text: &str, reference: &str) {
    let rule = json!({"plugins": {name: secret(text, reference)}}).to_string();
    put(gateway, &format!("global_rules/{name}"), &rule);
}

/// apisix.yaml with all objects; JSON is YAML.
fn document(conf: impl Fn(&str) -> Value) -> String {
    let mut document = json!({"routes": [keyed()]});
    for (name, text) in GUARDS {
        for (collection, id, mut value) in objects(name, &conf(text)) {
            if collection != "consumers" {
                value["id"] = json!(id);
            }
            match document[collection].as_array_mut() {
                Some(list) => list.push(value),
                None => document[collection] = json!([value]),
            }
        }
    }
    document.to_string()
}

#[test]
fn numbers_that_cannot_be_open_nothing_in_files() {
    let good = document(|text| conf(text, "priority", json!(20_000.0)));
    let bad = document(bad_number);
    let mut gateway = Gateway::start(&with_plugins(YAML_PROVIDER), Some(&bad));
    check_all(&gateway, "at the start");
    gateway.write_routes(&good);
    eventually("all is good", || rejected(&gateway).is_empty());
    eventually("workers have it", || status(&gateway, "/route/ip-restriction") == 403);
    gateway.write_routes(&bad);
    eventually("all is bad again", || !rejected(&gateway).is_empty());
    every_worker_shuts(&gateway);
    check_all(&gateway, "while running");
    gateway.process.stop();
    gateway.restart();
    check_all(&gateway, "after a restart");
}

#[test]
fn numbers_that_cannot_be_open_nothing_in_global_rules() {
    let etcd = Etcd::start();
    etcd.put("/apisix/routes/open", r#"{"uri":"/open","plugins":{"mocking":{"response_example":"open"}}}"#);
    let mut gateway = Gateway::start(&with_plugins(&crate::config::etcd::config(&etcd.url())), None);
    eventually("the route is there", || status(&gateway, "/open") == 200);
    for (name, text) in GUARDS {
        let rule = json!({"plugins": {name: bad_number(text)}}).to_string();
        etcd.put("/apisix/global_rules/1", &rule);
        eventually(name, || status(&gateway, "/open") == 503);
        etcd.control(&["del", "/apisix/global_rules/1"]);
        eventually(name, || status(&gateway, "/open") == 200);
    }
    let all: serde_json::Map<String, Value> =
        GUARDS.iter().map(|(name, text)| ((*name).to_owned(), bad_number(text))).collect();
    etcd.put("/apisix/global_rules/1", &json!({ "plugins": all }).to_string());
    eventually("all of them", || status(&gateway, "/open") == 503);
    gateway.process.stop();
    gateway.restart();
    assert_eq!(status(&gateway, "/open"), 503, "after a restart");
}
