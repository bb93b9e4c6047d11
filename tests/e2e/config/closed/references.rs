//! What names something that is not there keeps its place, is told, and recovers when that comes.

use tidegate_testkit::gateway::{EMBEDDED, Gateway, YAML_PROVIDER};
use tidegate_testkit::{Client, Etcd, Upstream, eventually};

use super::{OPEN, admin, api_driven, ask, configure, is_rejected, put, rejected, status};

const SPLIT: &str = r#""traffic-split":{"rules":[{"weighted_upstreams":[{"upstream_id":"9","weight":1}]}]}"#;

/// Lists of a configuration in which everything names what is not there, below an open route for everything.
fn lists() -> Vec<String> {
    let broader = format!(r#"{{"id":"broad","uri":"/*","priority":-1,"plugins":{{{OPEN}}}}}"#);
    vec![
        format!(
            r#""routes":[{broader},{{"id":"upstream","uri":"/upstream","upstream_id":"9"}},
            {{"id":"service","uri":"/service","service_id":"9","plugins":{{{OPEN}}}}},
            {{"id":"config","uri":"/config","plugin_config_id":"9","plugins":{{{OPEN}}}}},
            {{"id":"split","uri":"/split","plugins":{{{SPLIT}}},"upstream":{{"nodes":{{"127.0.0.1:1":1}}}}}},
            {{"id":"through","uri":"/through","service_id":"1"}},
            {{"id":"own","uri":"/own","service_id":"1","plugins":{{{OPEN}}}}},
            {{"id":"guarded","uri":"/guarded","plugins":{{"key-auth":{{}},{OPEN}}}}}]"#
        ),
        r#""services":[{"id":"1","upstream_id":"9"}]"#.to_owned(),
        r#""consumers":[{"username":"a","group_id":"9","plugins":{"key-auth":{"key":"k"}}}]"#.to_owned(),
    ]
}

const NAMED: [(&str, &str); 6] = [
    ("routes/upstream", "upstream 9 does not exist"),
    ("routes/service", "service 9 does not exist"),
    ("routes/config", "plugin config 9 does not exist"),
    ("routes/split", "upstream 9 does not exist"),
    ("services/1", "upstream 9 does not exist"),
    ("consumers/a", "consumer group 9 does not exist"),
];

fn check(gateway: &Gateway) {
    assert_eq!(status(gateway, "/else"), 200, "the broader route is open");
    for path in ["/upstream", "/service", "/config", "/split", "/through"] {
        assert_eq!(status(gateway, path), 503, "{path}\n{}", gateway.error_log());
    }
    assert_eq!(ask(gateway, "/guarded", "apikey: k\r\n").status(), 503);
    let told = rejected(gateway);
    for (object, reason) in NAMED {
        assert!(told.iter().any(|(name, why)| name == object && why == reason), "{object}: {told:?}");
        let line = format!("{object} cannot be used: {reason}");
        assert_eq!(gateway.error_log().matches(&line).count(), 1, "{line}");
    }
    assert_eq!(told.len(), NAMED.len(), "{told:?}");
    let mut metrics = Client::connect(gateway.metrics).expect("the metrics port accepts connections");
    let page = metrics.get("m", "/apisix/prometheus/metrics").expect("an answer").body_text();
    assert!(page.contains("apisix_rejected_objects{kind=\"routes\"} 4\n"), "{page}");
}

#[test]
fn in_a_file() {
    let text = format!("{{{}}}\n", lists().join(","));
    let gateway = Gateway::start(YAML_PROVIDER, Some(&text));
    check(&gateway);
    let (good, said) = gateway.verb("test");
    assert!(!good && said.contains("routes/service cannot be used: service 9 does not exist"), "{said}");
    // What was missing comes.
    let upstream = Upstream::start();
    let more = format!(
        r#""upstreams":[{{"id":9,"nodes":{{"{}":1}}}}],"plugin_configs":[{{"id":9,"plugins":{{}}}}],
        "consumer_groups":[{{"id":9,"plugins":{{}}}}]"#,
        upstream.address
    );
    let text = text.replace(r#""services":["#, r#""services":[{"id":9},"#);
    gateway.write_routes(&format!("{{{more},{}", text.trim_start_matches('{')));
    eventually("nothing is missing", || rejected(&gateway).is_empty());
    for path in ["/upstream", "/service", "/config", "/split", "/through"] {
        // Each worker takes the change up by itself.
        eventually(path, || status(&gateway, path) == 200);
    }
    assert_eq!(ask(&gateway, "/guarded", "apikey: k\r\n").status(), 200);
}

#[test]
fn in_api_driven_mode() {
    let gateway = api_driven();
    let answer = configure(&gateway, "1", &format!("{{{}}}", lists().join(",")));
    assert_eq!(answer.status(), 202, "{}", answer.body_text());
    let warning = answer.header("X-Tidegate-Warning").unwrap_or_default();
    assert!(warning.contains("does not exist") && warning.contains("and 6 more"), "{warning}");
    check(&gateway);
}

#[test]
fn in_etcd_in_any_order() {
    let etcd = Etcd::start();
    etcd.put("/apisix/routes/1", &format!(r#"{{"uri":"/x","service_id":"1","plugins":{{{OPEN}}}}}"#));
    let gateway = Gateway::start(&crate::config::etcd::config(&etcd.url()), None);
    eventually("its place is shut", || status(&gateway, "/x") == 503);
    assert!(is_rejected(&gateway, "routes/1"));
    etcd.put("/apisix/services/1", "{}");
    eventually("it is open", || status(&gateway, "/x") == 200);
    assert_eq!(rejected(&gateway), []);
    etcd.put("/apisix/consumers/a/credentials/1", r#"{"plugins":{"key-auth":{"key":"k"}}}"#);
    eventually("nobody has it", || is_rejected(&gateway, "consumers/a/credentials/1"));
    etcd.put("/apisix/consumers/a", r#"{"username":"a"}"#);
    eventually("the secret can be had", || rejected(&gateway).is_empty());
}

#[test]
fn the_deletion_of_a_secret_manager_names_who_reads_from_it() {
    let gateway = Gateway::start(EMBEDDED, None);
    for id in ["w", "wide"] {
        put(
            &gateway,
            &format!("secrets/vault/{id}"),
            r#"{"uri":"http://127.0.0.1:1","prefix":"kv","token":"t"}"#,
        );
    }
    put(
        &gateway,
        "consumers/a",
        r#"{"username":"a","plugins":{"key-auth":{"key":"$secret://vault/w/a/b"}}}"#,
    );
    let unused = admin(&gateway, "DELETE", "secrets/vault/wide", "", "");
    assert_eq!((unused.status(), unused.header("X-Tidegate-Warning")), (200, None));
    let used = admin(&gateway, "DELETE", "secrets/vault/w", "", "");
    assert_eq!(used.status(), 200);
    let expected = Some("vault/w is still referenced by consumers/a");
    assert_eq!(used.header("X-Tidegate-Warning"), expected);
}

#[test]
fn a_forced_deletion_names_who_is_left() {
    let gateway = Gateway::start(EMBEDDED, None);
    put(&gateway, "upstreams/9", r#"{"nodes":{"127.0.0.1:1":1}}"#);
    put(&gateway, "services/1", r#"{"upstream_id":"9"}"#);
    put(&gateway, "routes/1", r#"{"uri":"/1","service_id":"1"}"#);
    put(
        &gateway,
        "routes/2",
        &format!(r#"{{"uri":"/2","plugins":{{{SPLIT}}},"upstream":{{"nodes":{{"127.0.0.1:1":1}}}}}}"#),
    );
    let refused = admin(&gateway, "DELETE", "upstreams/9", "", "");
    assert_eq!((refused.status(), refused.header("X-Tidegate-Warning")), (400, None));
    let forced = admin(&gateway, "DELETE", "upstreams/9?force=true", "", "");
    assert_eq!(forced.status(), 200);
    assert_eq!(forced.header("X-Tidegate-Warning"), Some("9 is still referenced by services/1, routes/2"));
    assert_eq!((status(&gateway, "/1"), status(&gateway, "/2")), (503, 503));
    assert!(is_rejected(&gateway, "services/1") && is_rejected(&gateway, "routes/2"));
    // As before, nothing is written that names what is not there.
    let answer = admin(&gateway, "PUT", "routes/3", "", r#"{"uri":"/3","upstream_id":"9"}"#);
    assert_eq!(answer.status(), 400);
    assert!(
        answer.body_text().contains("failed to fetch upstream info by upstream id [9], response code: 404")
    );
    put(&gateway, "upstreams/9", r#"{"nodes":{"127.0.0.1:1":1}}"#);
    assert_eq!(rejected(&gateway), []);
}

/// A reference to a secret is one only where it is replaced: elsewhere it is a text that no request has.
#[test]
fn references_where_nothing_is_replaced_are_refused_or_named() {
    let gateway = Gateway::start(EMBEDDED, None);
    let upstream = r#""upstream":{"nodes":{"127.0.0.1:1":1}"#;
    for (path, body) in [
        ("/routes/1", format!(r#"{{"uri":"/a","host":"$env://H",{upstream}}}}}"#)),
        ("/routes/1", format!(r#"{{"uri":"/a","hosts":["$secret://vault/1/h"],{upstream}}}}}"#)),
        ("/routes/1", format!(r#"{{"uri":"/a","methods":["$env://M","POST"],{upstream}}}}}"#)),
        ("/routes/1", format!(r#"{{"uri":"/a",{upstream},"pass_host":"$env://P"}}}}"#)),
        ("/services/1", format!(r#"{{"hosts":["$ENV://H"],{upstream}}}}}"#)),
        ("/upstreams/1", r#"{"nodes":{"127.0.0.1:1":1},"checks":{"active":{"type":"$env://T"}}}"#.to_owned()),
    ] {
        let (status, answer) = gateway.admin("PUT", &format!("/apisix/admin{path}"), &body);
        assert_eq!(status, 400, "{body} {answer}");
    }
    let body = format!(r#"{{"uri":"/a",{upstream},"checks":{{"active":{{"http_path":"$env://P"}}}}}}}}"#);
    let request = admin(&gateway, "PUT", "routes/1", "", &body);
    let warning = request.header("X-Tidegate-Warning").unwrap_or_default();
    assert!(warning.contains("http_path is used literally: references are not resolved"), "{warning:?}");
}
