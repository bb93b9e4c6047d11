//! authz-casbin: models and policies in texts, files and metadata, and what they let through.

use serde_json::{Value, json};
use tidegate_testkit::gateway::{EMBEDDED, YAML_PROVIDER};
use tidegate_testkit::{Gateway, Upstream};

const MODEL: &str = "
    [request_definition]
    r = sub, obj, act
    [policy_definition]
    p = sub, obj, act
    [role_definition]
    g = _, _
    [policy_effect]
    e = some(where (p.eft == allow))
    [matchers]
    m = (g(r.sub, p.sub) || keyMatch(r.sub, p.sub)) && keyMatch(r.obj, p.obj) && keyMatch(r.act, p.act)";

const DENYING: &str = "
    [request_definition]
    r = sub, obj, act
    [policy_definition]
    p = obj, eft
    [policy_effect]
    e = !some(where (p.eft == deny))
    [matchers]
    m = keyMatch2(r.obj, p.obj)";

/// Of the route `name`.
fn policy(name: &str) -> String {
    format!("p, *, /{name}/public, GET\n    p, admin, *, *\n    g, alice, admin")
}

fn ask(gateway: &Gateway, method: &str, target: &str, fields: &str) -> (u16, String) {
    let text = format!("{method} {target} HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
    let answer = gateway.client().request(&text).unwrap_or_else(|error| panic!("{target}: {error}"));
    (answer.status(), answer.body_text())
}

#[test]
fn users_and_roles() {
    let upstream = Upstream::start();
    let files = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = files.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    let many: String = (0..5000).map(|number| format!("p, user{number}, /many/*, GET\n")).collect();
    let confs = [
        ("texts", json!({"model": MODEL, "policy": policy("texts")})),
        (
            "files",
            json!({"model_path": write("model", MODEL), "policy_path": write("policy", &policy("files"))}),
        ),
        ("metadata", json!({})),
        ("many", json!({"model": MODEL, "policy": many + &policy("many")})),
        ("denying", json!({"model": DENYING, "policy": "p, /denying/secret/*, deny"})),
        (
            "slow",
            json!({"model": MODEL.replace("keyMatch(r.obj, p.obj)", "regexMatch(r.obj, p.obj)"),
                   "policy": "p, *, (a|aa)+(?=x)$, GET"}),
        ),
        (
            "address",
            json!({"model": MODEL.replace("keyMatch(r.obj, p.obj)", "ipMatch(r.obj, p.obj)"), "policy": "p, *, 10.0.0.0/8, GET"}),
        ),
    ];
    let target = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    let routes: Vec<Value> = confs
        .into_iter()
        .map(|(name, mut conf)| {
            conf["username"] = json!("X-User");
            json!({"id": name, "uri": format!("/{name}/*"), "plugins": {"authz-casbin": conf}, "upstream": target})
        })
        .collect();
    let metadata = json!([{"id": "authz-casbin", "model": MODEL, "policy": policy("metadata")}]);
    let objects = json!({"routes": routes, "plugin_metadata": metadata}).to_string();
    let gateway = Gateway::start(YAML_PROVIDER, Some(&objects));
    let denied = "{\"message\":\"Access Denied\"}\n";
    for name in ["texts", "files", "metadata", "many"] {
        for (method, path, fields, expected) in [
            ("GET", "public", "", 200),
            ("POST", "public", "", 403),
            ("GET", "other", "", 403),
            ("GET", "other", "X-User: bob\r\n", 403),
            ("POST", "other", "X-User: admin\r\n", 200),
            ("POST", "other", "x-user: alice\r\n", 200),
            ("POST", "other", "X-User: alice\r\nX-User: bob\r\n", 403),
            ("POST", "other", "X_User: alice\r\n", 403),
            ("GET", "x/%2e%2e/public", "", 200),
            ("GET", "public/../other", "", 403),
            ("GET", "%F0%9F%98%80", "X-User: \u{e9}\r\n", 403),
        ] {
            let (status, body) = ask(&gateway, method, &format!("/{name}/{path}"), fields);
            assert_eq!(status, expected, "{method} /{name}/{path} {fields}: {body}");
            assert!(status == 200 || body == denied, "{body}");
        }
    }
    assert_eq!(ask(&gateway, "GET", "/many/x", "X-User: user4999\r\n").0, 200);
    for (path, expected) in
        [("open", 200), ("secret/x", 403), ("secret/%0A", 403), ("x%2F..%2Fsecret/x", 403)]
    {
        assert_eq!(ask(&gateway, "GET", &format!("/denying/{path}"), "").0, expected, "{path}");
    }
    // What cannot be decided lets nothing through.
    assert_eq!(ask(&gateway, "GET", "/address/x", "").0, 503);
    let long = format!("/slow/{}", "a".repeat(4000));
    assert!([403, 503].contains(&ask(&gateway, "GET", &long, "").0));
}

#[test]
fn models_that_cannot_be_read_are_refused_when_they_are_written() {
    let gateway = Gateway::start(EMBEDDED, None);
    let put =
        |path: &str, body: &Value| gateway.admin("PUT", &format!("/apisix/admin/{path}"), &body.to_string());
    let route = |conf: &Value| put("routes/1", &json!({"uri": "/x", "plugins": {"authz-casbin": conf}}));
    for (conf, said) in [
        (json!({"model": MODEL, "policy": ""}), "matches none"),
        (json!({"username": "u"}), "matches none"),
        (json!({"username": "u", "model": MODEL}), "matches none"),
        (
            json!({"username": "u", "model": MODEL, "policy": "", "model_path": "a", "policy_path": "b"}),
            "matches both",
        ),
        (json!({"username": "u", "model": "[x]", "policy": ""}), "request_definition is missing"),
        (
            json!({"username": "u", "model": MODEL, "policy": "p, a"}),
            "policy, line 1: a rule has 3 values, and not 1",
        ),
        (
            json!({"username": "u", "model": MODEL.replace("keyMatch(", "keyGet("), "policy": ""}),
            "function keyGet is not supported",
        ),
        (json!({"username": "a b", "model": MODEL, "policy": ""}), "username"),
    ] {
        let (status, answer) = route(&conf);
        assert!(status == 400 && answer.contains(said), "{conf}: {answer}");
    }
    let (status, answer) =
        route(&json!({"username": "u", "model_path": "no/model", "policy_path": "no/policy"}));
    assert!(status == 201, "{answer}");
    gateway.wait_for_log("every request is refused");
    assert_eq!(ask(&gateway, "GET", "/x", "").0, 503);
    assert_eq!(put("plugin_metadata/authz-casbin", &json!({"model": MODEL, "policy": "x, y"})).0, 400);
    let metadata =
        |policy: &str| put("plugin_metadata/authz-casbin", &json!({"model": MODEL, "policy": policy}));
    assert_eq!(metadata("p, jack, *, *").0, 201);
    assert_eq!(route(&json!({"username": "u"})).0, 200);
    let status = || ask(&gateway, "GET", "/x", "u: jack\r\n").0;
    // Let through, to no upstream.
    assert_ne!(status(), 403);
    assert_eq!(metadata("p, bob, *, *").0, 200);
    assert_eq!(status(), 403);
}
