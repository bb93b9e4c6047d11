//! Users who are for the objects with given labels: what each endpoint shows them and lets them change. The endpoints are those of
//! the API's own description, so that a new one is tried as well.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tidegate_testkit::{Gateway, Message};

use super::sessions::{Session, as_admin, send, start_with};

/// In each object of others, in a place that lists, histories and views would show.
const MARK: &str = "seen-by-others";

/// Objects of team b, with one of each kind that there is; those of team a are called `own`.
const OTHERS: [(&str, &str); 13] = [
    (
        "upstreams/other",
        r#"{"nodes":{"127.0.0.1:1":1},"desc":"seen-by-others","labels":{"team":"b"},"checks":{"active":{"http_path":"/seen-by-others"}}}"#,
    ),
    ("services/other", r#"{"upstream_id":"other","desc":"seen-by-others","labels":{"team":"b"}}"#),
    ("plugin_configs/other", r#"{"plugins":{},"desc":"seen-by-others","labels":{"team":"b"}}"#),
    ("consumer_groups/other", r#"{"plugins":{},"desc":"seen-by-others","labels":{"team":"b"}}"#),
    ("consumers/other", r#"{"username":"other","desc":"seen-by-others","labels":{"team":"b"}}"#),
    (
        "consumers/other/credentials/c",
        r#"{"plugins":{"key-auth":{"key":"k-other"}},"desc":"seen-by-others"}"#,
    ),
    (
        "routes/other",
        r#"{"uri":"/other","name":"seen-by-others","upstream_id":"other","labels":{"team":"b"}}"#,
    ),
    ("routes/bare", r#"{"uri":"/bare","name":"seen-by-others","upstream_id":"other"}"#),
    (
        "protos/other",
        r#"{"content":"syntax = \"proto3\"; message A {}","desc":"seen-by-others","labels":{"team":"b"}}"#,
    ),
    (
        "global_rules/other",
        r#"{"plugins":{"response-rewrite":{"headers":{"set":{"X-Mark":"seen-by-others"}}}}}"#,
    ),
    ("plugin_metadata/http-logger", r#"{"log_format":{"x":"seen-by-others"}}"#),
    ("secrets/vault/other", r#"{"uri":"http://127.0.0.1:1","prefix":"seen-by-others","token":"t"}"#),
    ("services/other/graphql_cost_decorations/d", r#"{"field_path":"a.b","desc":"seen-by-others","cost":2}"#),
];

pub(super) const KEY: &str = "key-of-team-a";

pub(super) fn gateway() -> Gateway {
    let gateway = start_with(&format!("{{name: ci, key: {KEY}, role: editor, scope: {{team: a}}}}"));
    for (path, value) in OTHERS {
        let answer = as_admin(&gateway, "PUT", &format!("/{path}"), value);
        // Decorations are named by the store.
        assert!(
            matches!(answer.status(), 200 | 201) || path.contains("decorations"),
            "{path}: {}",
            answer.body_text()
        );
    }
    let own = [
        ("upstreams/own", r#"{"nodes":{"127.0.0.1:1":1},"labels":{"team":"a"}}"#),
        ("consumers/own", r#"{"username":"own","labels":{"team":"a"}}"#),
        ("routes/own", r#"{"uri":"/own","upstream_id":"own","labels":{"team":"a","x":"y"}}"#),
    ];
    for (path, value) in own {
        assert_eq!(as_admin(&gateway, "PUT", &format!("/{path}"), value).status(), 201, "{path}");
    }
    gateway
}

fn user(gateway: &Gateway, name: &str, role: &str) -> Session {
    let user = json!({"role": role, "password": "correct horse battery", "scope": {"team": "a"}});
    let answer = as_admin(gateway, "PUT", &format!("/users/{name}"), &user.to_string());
    assert_eq!(answer.status(), 201, "{}", answer.body_text());
    Session::of_user(gateway, name)
}

/// As a script does, without a session.
pub(super) fn with_key(gateway: &Gateway, method: &str, path: &str, body: &str) -> Message {
    send(gateway.admin, method, path, &format!("X-API-KEY: {KEY}\r\n"), body)
}

pub(super) fn json_of(message: &Message) -> Value {
    serde_json::from_slice(&message.body).unwrap_or_default()
}

/// Everything that is not team a's, as an admin exports it.
fn rest(gateway: &Gateway) -> String {
    let text = as_admin(gateway, "GET", "/export", "").body_text();
    let is_own = |item: &Value| item.pointer("/labels/team") == Some(&json!("a"));
    let document = tidegate_config::yaml::to_value(&text).expect("YAML");
    let lists = document.as_object().expect("lists").iter().map(|(name, list)| {
        let items = list.as_array().into_iter().flatten();
        (name.clone(), items.filter(|item| !is_own(item)).cloned().collect::<Vec<_>>())
    });
    let lists: BTreeMap<String, Vec<Value>> = lists.filter(|(_, items)| !items.is_empty()).collect();
    let users = as_admin(gateway, "GET", "/users", "").body_text();
    format!("{} {users}", json!(lists))
}

/// A path of the description with names of others in it.
fn filled(path: &str, id: &str) -> String {
    let mut filled = path.trim_start_matches("/apisix/admin").to_owned();
    while let (Some(from), Some(to)) = (filled.find('{'), filled.find('}')) {
        let name = match &filled[from + 1..to] {
            "manager" => "vault",
            "revision" => "3",
            _ => id,
        };
        filled.replace_range(from..=to, name);
    }
    filled
}

/// Bodies that would do harm: objects of a's, changes that reach out, nothing.
fn bodies(path: &str) -> Vec<String> {
    let labels = json!({"team": "a"});
    let route = json!({"uri": "/taken", "upstream_id": "other", "labels": labels});
    let object = json!({"labels": labels, "desc": "taken", "nodes": {"127.0.0.1:2": 1}, "plugins": {}, "uri": "/taken"});
    let changes = |method: &str, path: &str, value: Value| {
        let mut change = json!({"method": method, "path": path, "value": value});
        if method == "DELETE" {
            change.as_object_mut().expect("an object").remove("value");
        }
        json!({ "changes": [change] }).to_string()
    };
    match path {
        "/transactions" => vec![
            changes("PUT", "/routes/other", route.clone()),
            changes("PATCH", "/routes/other", json!({"labels": labels})),
            changes("DELETE", "/routes/other", Value::Null),
            changes("DELETE", "/consumers/other", Value::Null),
            changes("DELETE", "/consumers/other/credentials/c", Value::Null),
            changes("PUT", "/global_rules/g", json!({"plugins": {}})),
            changes("PUT", "/routes/new", route),
            changes("PUT", "/consumers/other/credentials/d", json!({"plugins": {"key-auth": {"key": "k"}}})),
        ],
        "/rollback" => vec![
            json!({"revision": 1}).to_string(),
            json!({"revision": 1, "dry_run": true}).to_string(),
            json!({"revision": 1, "key": "/routes/other"}).to_string(),
            json!({"revision": 1, "key": "/routes/other", "dry_run": true}).to_string(),
        ],
        _ => vec![
            object.to_string(),
            route.to_string(),
            json!({"labels": {"team": "b"}}).to_string(),
            String::new(),
        ],
    }
}

#[test]
fn no_endpoint_reaches_out_of_the_scope_of_a_user() {
    let gateway = gateway();
    let session = user(&gateway, "ed", "editor");
    reaches_nothing(&gateway, &|method, path, body| session.send(method, path, body));
}

#[test]
fn no_endpoint_reaches_out_of_the_scope_of_a_key() {
    let gateway = gateway();
    reaches_nothing(&gateway, &|method, path, body| with_key(&gateway, method, path, body));
    let route = json!({"uri": "/n", "upstream_id": "own", "labels": {"team": "a"}}).to_string();
    assert_eq!(with_key(&gateway, "PUT", "/routes/new", &route).status(), 201);
    let shown = json_of(&with_key(&gateway, "GET", "/sessions/current", ""));
    assert_eq!(
        (&shown["name"], &shown["role"], &shown["scopes"]),
        (&json!("ci"), &json!("editor"), &json!(["team=a"]))
    );
    // A session that begins with the key is for no more than the key.
    let session = Session::begin(&gateway, &json!({"key": KEY}));
    assert_eq!(json_of(&session.send("GET", "/routes", ""))["total"], 2);
    assert_eq!(session.send("GET", "/routes/other", "").status(), 404);
    let history = json_of(&as_admin(&gateway, "GET", "/history?key=/routes/new", ""));
    assert_eq!(history["list"][0]["who"]["name"], "ci");
    assert_eq!(history["list"][0]["who"]["role"], "editor");
}

/// What is sent in the name of who is for the objects of team a.
fn reaches_nothing(gateway: &Gateway, ask: &dyn Fn(&str, &str, &str) -> Message) {
    let before = rest(gateway);
    assert!(before.contains(MARK));
    let description = json_of(&as_admin(gateway, "GET", "/openapi.json", ""));
    let paths = description["paths"].as_object().expect("paths").iter();
    let mut asked = 0;
    for (path, operations) in paths.filter(|(path, _)| path.starts_with("/apisix/admin")) {
        for method in operations.as_object().expect("operations").keys().map(|method| method.to_uppercase()) {
            // Signing out would end the test; what signs in is tried elsewhere.
            if path.contains("/sessions")
                || !["GET", "PUT", "POST", "PATCH", "DELETE"].contains(&method.as_str())
            {
                continue;
            }
            for id in ["other", "bare", "own"] {
                let path = filled(path, id);
                let bodies =
                    if method == "GET" || method == "DELETE" { vec![String::new()] } else { bodies(&path) };
                for body in bodies.iter().filter(|_| id != "own" || method == "GET") {
                    let answer = ask(&method, &path, body);
                    let text = answer.body_text();
                    assert!(!text.contains(MARK), "{method} {path} {body}: {text}");
                    asked += 1;
                }
            }
        }
    }
    assert!(asked > 300, "{asked} requests only");
    for (path, _) in OTHERS {
        let collection = path.split('/').next().unwrap_or_default();
        for path in [format!("/{path}"), format!("/{collection}"), format!("/history?key=/{path}")] {
            let answer = ask("GET", &path, "");
            assert!(!answer.body_text().contains(MARK), "{path}: {}", answer.body_text());
            assert!(
                path.matches('/').count() < 2 || matches!(answer.status(), 403 | 404),
                "{path}: {}",
                answer.status()
            );
        }
    }
    assert_eq!(rest(gateway), before, "objects of others have changed");
}

#[test]
fn what_is_in_a_scope_is_read_written_and_restored() {
    let gateway = gateway();
    let session = user(&gateway, "ed", "editor");
    let shown = json_of(&session.send("GET", "/sessions/current", ""));
    assert_eq!(shown["scopes"], json!(["team=a"]));
    let list = json_of(&session.send("GET", "/routes", ""));
    assert_eq!((&list["total"], &list["list"][0]["value"]["id"]), (&json!(1), &json!("own")));
    assert_eq!(session.send("GET", "/consumers/own", "").status(), 200);
    let refused = |method: &str, path: &str, body: Value, reason: &str| {
        let answer = session.send(method, path, &body.to_string());
        let text = answer.body_text();
        assert!(
            answer.status() == 403 && text.contains(reason),
            "{method} {path} {body}: {} {text}",
            answer.status()
        );
    };
    let labels = json!({"team": "a"});
    // A label cannot be left out, changed or removed, in whatever way.
    refused("PUT", "/routes/new", json!({"uri": "/n"}), "it has to carry these labels");
    refused(
        "PUT",
        "/routes/own",
        json!({"uri": "/n", "labels": {"team": "b"}}),
        "it has to carry these labels",
    );
    refused("POST", "/routes", json!({"uri": "/n"}), "it has to carry these labels");
    refused("PATCH", "/routes/own", json!({"labels": {"team": null}}), "it has to carry these labels");
    refused("PATCH", "/routes/own", json!({"labels": {"team": "b"}}), "it has to carry these labels");
    refused("PATCH", "/routes/own/labels/team", json!("b"), "it has to carry these labels");
    refused("PATCH", "/routes/own/labels", json!({"x": "y"}), "it has to carry these labels");
    // Nor what others have be taken over, or named.
    refused(
        "PUT",
        "/routes/other",
        json!({"uri": "/n", "labels": labels}),
        "routes/other is outside of your scope",
    );
    refused(
        "PUT",
        "/routes/new",
        json!({"uri": "/n", "upstream_id": "other", "labels": labels}),
        "upstream_id other",
    );
    refused(
        "PUT",
        "/routes/new",
        json!({"uri": "/n", "upstream_id": "none", "labels": labels}),
        "upstream_id none",
    );
    refused("PATCH", "/routes/own", json!({"plugin_config_id": "other"}), "plugin_config_id other");
    refused("PATCH", "/routes/own/upstream_id", json!("other"), "upstream_id other");
    refused(
        "PUT",
        "/consumers/own",
        json!({"username": "own", "group_id": "other", "labels": labels}),
        "group_id other",
    );
    let split = json!({"traffic-split": {"rules": [{"weighted_upstreams": [{"upstream_id": "other", "weight": 1}]}]}});
    refused("PATCH", "/routes/own", json!({"plugins": split}), "upstream_id other");
    for (plugin, more) in [
        ("limit-count", json!({"count": 1, "time_window": 6})),
        ("limit-req", json!({"rate": 1, "burst": 1, "key": "remote_addr"})),
        ("limit-conn", json!({"conn": 1, "burst": 1, "default_conn_delay": 1, "key": "remote_addr"})),
    ] {
        for host in ["127.0.0.1", "localhost"] {
            let mut conf = more.clone();
            conf["policy"] = json!("redis");
            conf["redis_host"] = json!(host);
            conf["redis_port"] = json!(gateway.admin.port());
            let route =
                json!({"uri": "/r", "upstream_id": "own", "labels": labels, "plugins": {plugin: conf}});
            refused("PUT", "/routes/redis", route, "is this gateway's own");
        }
    }
    refused("PUT", "/global_rules/1", json!({"plugins": {}}), "outside of your scope");
    refused("POST", "/explain", json!({"url": "http://h/own"}), "of the whole gateway");
    refused("PUT", "/import", json!({}), "of the whole gateway");
    refused("POST", "/rollback", json!({"revision": 1}), "name an object of yours");
    assert_eq!(session.send("GET", "/traffic", "").status(), 403);
    assert_eq!(session.send("GET", "/traffic?route=other", "").status(), 403);
    // What an admin has written stays, and may be written again beside it.
    let mixed = json!({"uri": "/m", "upstream_id": "other", "labels": labels}).to_string();
    assert_eq!(as_admin(&gateway, "PUT", "/routes/mixed", &mixed).status(), 201);
    assert_eq!(session.send("PATCH", "/routes/mixed", r#"{"uri":"/mm"}"#).status(), 200);
    assert_eq!(
        session
            .send(
                "PUT",
                "/routes/new",
                &json!({"uri": "/n", "upstream_id": "own", "labels": labels}).to_string()
            )
            .status(),
        201
    );
    let credential = r#"{"plugins":{"key-auth":{"key":"k-own"}}}"#;
    assert_eq!(session.send("PUT", "/consumers/own/credentials/1", credential).status(), 201);
    assert_eq!(session.send("PUT", "/consumers/other/credentials/1", credential).status(), 404);
    // Nothing is told of what an object of others has in it.
    for path in ["/routes/bare", "/routes/bare/uri", "/routes/bare/uri/x", "/routes/bare/none/x"] {
        let answer = session.send("PATCH", path, r#"{"labels":{"team":"a"}}"#);
        assert_eq!(
            (answer.status(), answer.body_text().trim()),
            (404, r#"{"message":"Key not found"}"#),
            "{path}"
        );
    }
    assert_eq!(session.send("DELETE", "/routes/other", "").status(), 404);
    // Transactions, all or nothing.
    let change = |path: &str| json!({"method": "PATCH", "path": path, "value": {"desc": "d"}});
    let both = json!({"changes": [change("/routes/own"), change("/routes/other")]}).to_string();
    let answer = session.send("POST", "/transactions", &both);
    assert!(
        answer.status() == 400 && answer.body_text().contains("/routes/other: Key not found"),
        "{}",
        answer.body_text()
    );
    let one = json!({"changes": [change("/routes/own")]}).to_string();
    assert_eq!(session.send("POST", "/transactions", &one).status(), 200);
    // History and undo of what is one's own.
    let history = json_of(&session.send("GET", "/history?key=/routes/own", ""));
    let newest = history["list"][0]["revision"].as_u64().expect("a revision");
    assert_eq!(history["list"][0]["who"]["name"], "ed");
    assert_eq!(json_of(&session.send("GET", &format!("/history/{newest}"), ""))["total"], 1);
    let back = json!({"revision": newest - 1, "key": "/routes/own"}).to_string();
    assert_eq!(session.send("POST", "/rollback", &back).status(), 200);
    assert_eq!(json_of(&session.send("GET", "/routes/own", ""))["value"]["desc"], Value::Null);
    assert_eq!(session.send("DELETE", "/routes/new", "").status(), 200);
    // A viewer of the same team reads as much and writes nothing.
    let viewer = user(&gateway, "vi", "viewer");
    assert_eq!(viewer.send("GET", "/routes/own", "").status(), 200);
    assert_eq!(viewer.send("GET", "/routes/other", "").status(), 404);
    assert_eq!(viewer.send("PATCH", "/routes/own", r#"{"desc":"v"}"#).status(), 401);
    // A change of the scope signs out.
    let wider = json!({"role": "editor", "scope": null}).to_string();
    assert_eq!(as_admin(&gateway, "PUT", "/users/ed", &wider).status(), 200);
    assert_eq!(session.send("GET", "/routes", "").status(), 401);
    for scope in [json!({}), json!([]), json!({"team": 1}), json!({"team": ""}), json!("team")] {
        let user = json!({"role": "editor", "password": "correct horse battery", "scope": scope}).to_string();
        assert_eq!(as_admin(&gateway, "PUT", "/users/x", &user).status(), 400, "{user}");
    }
    let user =
        json!({"role": "admin", "password": "correct horse battery", "scope": {"team": "a"}}).to_string();
    assert_eq!(as_admin(&gateway, "PUT", "/users/x", &user).status(), 400);
}

/// What belonged to a consumer or service of others stays theirs when an object of the same name is made in the scope.
#[test]
fn parts_of_the_past_are_where_their_owner_was() {
    let gateway = gateway();
    let session = user(&gateway, "ed", "editor");
    let revision =
        || json_of(&as_admin(&gateway, "GET", "/revision", ""))["stored"].as_u64().expect("a revision");
    let (others, own) = (json!({"team": "b"}), json!({"team": "a"}));
    let credential = json!({"plugins": {"key-auth": {"key": "revoked"}}, "desc": MARK});
    let decoration = json!({"field_path": "Query.secret", "add_value": 2, "desc": MARK});
    let consumer = |labels: &Value| json!({"username": "again", "labels": labels}).to_string();
    let service = |labels: &Value| json!({"labels": labels}).to_string();
    as_admin(&gateway, "PUT", "/consumers/again", &consumer(&others));
    as_admin(&gateway, "PUT", "/consumers/again/credentials/k", &credential.to_string());
    let with_credential = revision();
    as_admin(&gateway, "DELETE", "/consumers/again", "");
    as_admin(&gateway, "PUT", "/services/again", &service(&others));
    let made =
        as_admin(&gateway, "POST", "/services/again/graphql_cost_decorations", &decoration.to_string());
    assert_eq!(made.status(), 201, "{}", made.body_text());
    let with_decoration = revision();
    let key = json_of(&made)["key"].as_str().expect("a key").trim_start_matches("/apisix").to_owned();
    as_admin(&gateway, "DELETE", "/services/again", "");
    let gone = revision();
    assert_eq!(session.send("PUT", "/consumers/again", &consumer(&own)).status(), 201);
    assert_eq!(session.send("PUT", "/services/again", &service(&own)).status(), 201);
    for at in with_credential..=gone {
        let answer = session.send("GET", &format!("/history/{at}"), "");
        assert_eq!(answer.status(), 404, "{at}: {}", answer.body_text());
    }
    for (at, key) in [(with_credential, "/consumers/again/credentials/k"), (with_decoration, &key)] {
        for dry_run in [true, false] {
            let back = json!({"revision": at, "key": key, "dry_run": dry_run}).to_string();
            let answer = session.send("POST", "/rollback", &back);
            let text = answer.body_text();
            assert!(
                answer.status() == 403 && text.contains("at that revision"),
                "{key}: {} {text}",
                answer.status()
            );
            assert!(!text.contains(MARK), "{text}");
        }
        for key in [key, key.rsplitn(3, '/').nth(2).expect("an owner")] {
            let answer = session.send("POST", "/rollback", &json!({"revision": at, "key": key}).to_string());
            assert!(answer.status() >= 400, "{key}: {}", answer.body_text());
        }
        assert_eq!(session.send("GET", key, "").status(), 404, "{key}");
    }
    // One's own comes back, and is shown.
    let credential = json!({"plugins": {"key-auth": {"key": "own key"}}}).to_string();
    assert_eq!(session.send("PUT", "/consumers/again/credentials/k", &credential).status(), 201);
    let written = revision();
    assert_eq!(session.send("GET", &format!("/history/{written}"), "").status(), 200);
    let history = json_of(&session.send("GET", "/history?key=/consumers/again/credentials/k", ""));
    assert_eq!(history["total"], 1, "{history}");
    assert_eq!(session.send("DELETE", "/consumers/again/credentials/k", "").status(), 200);
    assert_eq!(session.send("GET", &format!("/history/{}", revision()), "").status(), 200);
    let back = json!({"revision": written, "key": "/consumers/again/credentials/k"}).to_string();
    let answer = session.send("POST", "/rollback", &back);
    assert_eq!(answer.status(), 200, "{}", answer.body_text());
    assert_eq!(session.send("DELETE", "/consumers/again", "").status(), 200);
    let answer = session.send("GET", &format!("/history/{}", revision()), "");
    assert_eq!((answer.status(), &json_of(&answer)["total"]), (200, &json!(2)), "{}", answer.body_text());
    let back = json!({"revision": written, "key": "/consumers/again"}).to_string();
    assert_eq!(session.send("POST", "/rollback", &back).status(), 200);
    assert_eq!(session.send("GET", "/consumers/again/credentials/k", "").status(), 200);
}

/// What the gateway shows on ports of its own, and what plugins publish of it, is of everybody.
#[test]
fn an_editor_with_a_scope_does_not_lead_traffic_to_the_gateway_itself() {
    let gateway = gateway();
    let session = user(&gateway, "ed", "editor");
    let labels = json!({"team": "a"});
    let route = |more: Value| {
        let mut route = json!({"uri": "/v1/*", "labels": labels});
        route.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        route.to_string()
    };
    let refused = |method: &str, path: &str, body: &str, reason: &str| {
        let answer = session.send(method, path, body);
        let text = answer.body_text();
        assert!(
            answer.status() == 403 && text.contains(reason),
            "{method} {path} {body}: {} {text}",
            answer.status()
        );
    };
    let ports = [
        (gateway.control, "apisix.control"),
        (gateway.admin, "deployment.admin.admin_listen"),
        (gateway.metrics, "plugin_attr.prometheus.export_addr"),
    ];
    for (port, key) in ports.map(|(address, key)| (address.port(), key)) {
        for host in ["127.0.0.1", "localhost", "0.0.0.0", "[::1]", "127.1"] {
            let nodes = json!({format!("{host}:{port}"): 1});
            refused("PUT", "/routes/ctl", &route(json!({"upstream": {"nodes": nodes}})), key);
        }
        let listed = json!({"nodes": [{"host": "127.0.0.1", "port": port, "weight": 1}], "labels": labels})
            .to_string();
        refused("PUT", "/upstreams/ctl", &listed, key);
        refused("POST", "/upstreams", &listed, key);
        refused("PATCH", "/upstreams/own/nodes", &json!({format!("127.0.0.1:{port}"): 1}).to_string(), key);
        refused(
            "PUT",
            "/services/ctl",
            &json!({"upstream": {"nodes": {format!("localhost:{port}"): 1}}, "labels": labels}).to_string(),
            key,
        );
        let inline = json!({"nodes": {format!("127.0.0.1:{port}"): 1}, "type": "roundrobin"});
        let split = json!({"traffic-split": {"rules": [{"weighted_upstreams": [{"upstream": inline, "weight": 1}]}]}});
        refused("PATCH", "/routes/own", &json!({"plugins": split}).to_string(), key);
        let function =
            json!({"azure-functions": {"function_uri": format!("http://127.0.0.1:{port}/v1/routes")}});
        refused("PATCH", "/routes/own", &json!({"plugins": function}).to_string(), key);
        let changes = json!({"changes": [{"method": "PUT", "path": "/upstreams/ctl", "value": {"nodes": {format!("127.0.0.1:{port}"): 1}, "labels": labels}}]});
        let answer = session.send("POST", "/transactions", &changes.to_string());
        assert!(answer.status() == 400 && answer.body_text().contains(key), "{}", answer.body_text());
    }
    let elsewhere = route(json!({"upstream": {"nodes": {"127.0.0.1:1": 1, "node.example:80": 1}}}));
    assert_eq!(session.send("PUT", "/routes/elsewhere", &elsewhere).status(), 201);
    let public = json!({"public-api": {"uri": "/apisix/prometheus/metrics"}});
    refused(
        "PUT",
        "/routes/m",
        &route(json!({"plugins": public})),
        "plugins.public-api is not for who has a scope",
    );
    refused("PATCH", "/routes/own", &json!({"plugins": public}).to_string(), "plugins.public-api");
    // An admin may, and what an admin wrote stays.
    let written = route(json!({"upstream": {"nodes": {gateway.control.to_string(): 1}}, "plugins": public}));
    assert_eq!(as_admin(&gateway, "PUT", "/routes/m", &written).status(), 201);
    assert_eq!(session.send("PATCH", "/routes/m", r#"{"desc":"d"}"#).status(), 200);
}

#[test]
fn a_scope_that_is_not_mentioned_stays() {
    let gateway = gateway();
    drop(user(&gateway, "ed", "editor"));
    let put = |user: Value| {
        let answer = as_admin(&gateway, "PUT", "/users/ed", &user.to_string());
        (answer.status(), json_of(&answer))
    };
    let (status, shown) = put(json!({"role": "viewer", "password": "another horse battery"}));
    assert_eq!((status, &shown["role"], &shown["scope"]), (200, &json!("viewer"), &json!({"team": "a"})));
    let (status, shown) = put(json!({"role": "admin"}));
    assert!(
        status == 400 && shown["error_msg"].as_str().is_some_and(|text| text.contains("null")),
        "{shown}"
    );
    let (status, shown) = put(json!({"role": "editor", "scope": {"team": "b"}}));
    assert_eq!((status, &shown["scope"]), (200, &json!({"team": "b"})));
    let (status, shown) = put(json!({"role": "editor", "scope": null}));
    assert_eq!((status, &shown["scope"]), (200, &Value::Null));
    assert_eq!(put(json!({"role": "admin"})).0, 200);
}

/// An id that is free may be taken by others: what named it would lead to their object.
#[test]
fn what_is_referred_to_is_not_forced_away_in_a_scope() {
    let gateway = gateway();
    let session = user(&gateway, "ed", "editor");
    for path in ["/upstreams/own", "/upstreams/own?force=true"] {
        let answer = session.send("DELETE", path, "");
        assert!(
            answer.status() == 400 && answer.body_text().contains("own"),
            "{path}: {}",
            answer.body_text()
        );
    }
    let change = json!({"changes": [{"method": "DELETE", "path": "/upstreams/own"}]}).to_string();
    assert_eq!(session.send("POST", "/transactions", &change).status(), 400);
    let brief = r#"{"nodes":{"127.0.0.1:1":1},"labels":{"team":"a"}}"#;
    let answer = session.send("PUT", "/upstreams/own?ttl=1", brief);
    assert!(answer.status() == 400 && answer.body_text().contains("ttl"), "{}", answer.body_text());
    assert_eq!(session.send("DELETE", "/routes/own", "").status(), 200);
    assert_eq!(session.send("DELETE", "/upstreams/own?force=true", "").status(), 200);
}
