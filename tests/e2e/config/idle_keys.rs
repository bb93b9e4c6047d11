//! Settings that something else leaves without effect: keys of config.yaml beside others, plugins that are off, stream routes
//! behind others. All are told where they are written.

use serde_json::{Value, json};
use tidegate_testkit::gateway::{ADMIN_KEY, EMBEDDED};
use tidegate_testkit::{Client, Gateway, free_port};

/// The warning of a write that is taken.
pub(super) fn warning(gateway: &Gateway, path: &str, object: &Value) -> String {
    let body = object.to_string();
    let put = format!(
        "PUT /apisix/admin/{path} HTTP/1.1\r\nHost: h\r\nX-API-KEY: {ADMIN_KEY}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let answer = Client::connect(gateway.admin).expect("a connection").request(&put).expect("an answer");
    assert!(matches!(answer.status(), 200 | 201), "{object}: {}", answer.body_text());
    answer.header("X-Tidegate-Warning").unwrap_or_default().to_owned()
}

/// A config.yaml with these keys in a section, or with a section of its own.
pub(super) fn with(section: &str, keys: &str) -> String {
    let below = format!("{section}:\n");
    match EMBEDDED.contains(&below) {
        true => EMBEDDED.replacen(&below, &format!("{below}{keys}"), 1),
        false => format!("{EMBEDDED}{below}{keys}"),
    }
}

/// What `tidegate test` says of a config.yaml, with the line of the key.
#[test]
fn keys_that_others_leave_without_effect_are_told() {
    let streams = "TCP and UDP are not proxied: apisix.proxy_mode is http; write http&stream";
    let off = |plugin: &str| format!("plugin {plugin} is off by default; write the list plugins with it");
    for (section, keys, wanted) in [
        ("apisix", "  proxy_protocol: {enable_tcp_pp: true}\n", streams.to_owned()),
        ("nginx_config", "  stream: {enable_access_log: true}\n", streams.to_owned()),
        ("xrpc", "  protocols: [{name: redis}]\n", streams.to_owned()),
        ("plugin_attr", "  log-rotate: {interval: 2}\n", off("log-rotate")),
        ("plugin_attr", "  skywalking: {endpoint_addr: \"http://127.0.0.1:1\"}\n", off("skywalking")),
        ("plugin_attr", "  server-info: {report_ttl: 30}\n", off("server-info")),
        ("wasm", "  time_limit_ms: 10\n", "wasm.plugins names no module".to_owned()),
        ("apisix", "  client_limits: {rate_window: 5s}\n", "no minimum rate is set".to_owned()),
        (
            "apisix",
            "  proxy_cache: {zones: [{name: a, memory_size: 50}]}\n",
            "50 bytes hold no response of usual size; for megabytes write 50m".to_owned(),
        ),
        (
            "apisix",
            "  data_encryption: {enable_encrypt_fields: false}\n",
            "are stored in plain text".to_owned(),
        ),
    ] {
        let gateway = Gateway::start(&with(section, keys), None);
        let (done, said) = gateway.verb("test");
        assert!(done, "{said}");
        let line = said.lines().find(|line| line.contains(&wanted));
        assert!(line.is_some_and(|line| line.contains("conf/config.yaml:")), "{keys}: {said}");
    }
}

#[test]
fn keys_that_have_an_effect_or_say_the_default_are_not() {
    let listed = with("plugin_attr", "  log-rotate: {interval: 2}\n") + "plugins: [prometheus, log-rotate]\n";
    for config in [
        with("plugin_attr", "  log-rotate: {interval: 3600, enable_compression: false}\n"),
        listed,
        with("plugin_attr", "  serverless: {time_limit_ms: 20}\n"),
        with("nginx_config", "  stream: {enable_access_log: false, access_log: logs/access_stream.log}\n"),
        with("stream_plugins", "- ip-restriction\n- limit-conn\n- mqtt-proxy\n- syslog\n- traffic-split\n"),
    ] {
        let gateway = Gateway::start(&config, None);
        let (done, said) = gateway.verb("test");
        assert!(done && !said.contains("no effect"), "{config}: {said}");
    }
}

/// In each kind of object. A route with the plugin is refused; metadata, of which some plugins live alone, is told.
#[test]
fn a_plugin_that_is_off_is_told_wherever_it_is_configured() {
    let gateway = Gateway::start(EMBEDDED, None);
    for (name, metadata) in
        [("error-log-logger", json!({"tcp": {"host": "127.0.0.1", "port": 1}})), ("opentelemetry", json!({}))]
    {
        let told = warning(&gateway, &format!("plugin_metadata/{name}"), &metadata);
        assert!(told.contains(&format!("it has no effect: plugin {name} is off")), "{told}");
        gateway.wait_for_log(&format!("plugin_metadata/{name}: it has no effect"));
    }
    let told = warning(&gateway, "plugin_metadata/http-logger", &json!({"log_format": {"a": "$host"}}));
    assert_eq!(told, "");
    let full = json!({"batch_span_processor": {"drop_on_queue_full": false}});
    let told = warning(&gateway, "plugin_metadata/opentelemetry", &full);
    assert!(told.contains("drop_on_queue_full: false has no effect"), "{told}");
    let told = warning(&gateway, "plugin_metadata/http-logger", &json!({"log_format": {"a": "$remte_addr"}}));
    assert!(told.contains("log_format: $remte_addr is not a variable"), "{told}");
    let plugins = json!({"opentelemetry": {}});
    let upstream = json!({"nodes": {"127.0.0.1:1": 1}});
    for (path, object) in [
        ("routes/1", json!({"uri": "/a", "upstream": upstream, "plugins": plugins})),
        ("services/1", json!({"upstream": upstream, "plugins": plugins})),
        ("plugin_configs/1", json!({"plugins": plugins})),
        ("consumer_groups/1", json!({"plugins": plugins})),
        ("global_rules/1", json!({"plugins": plugins})),
        ("consumers/a", json!({"username": "a", "plugins": plugins})),
    ] {
        let body = object.to_string();
        let put = format!(
            "PUT /apisix/admin/{path} HTTP/1.1\r\nHost: h\r\nX-API-KEY: {ADMIN_KEY}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        let answer = Client::connect(gateway.admin).expect("a connection").request(&put).expect("an answer");
        assert_eq!(answer.status(), 400, "{path}");
        assert!(answer.body_text().contains("it is disabled, add it to plugins"), "{path}");
    }
}

#[test]
fn a_route_without_an_upstream_is_told() {
    let gateway = Gateway::start(EMBEDDED, None);
    let none = "it has no upstream: requests that no plugin answers are answered 503";
    for (plugins, wanted) in [
        (json!({"prometheus": {}}), none),
        (json!({"key-auth": {}}), none),
        (json!({"mocking": {"response_example": "a"}}), ""),
        (json!({"redirect": {"uri": "/b"}}), ""),
        (json!({"fault-injection": {"abort": {"http_status": 403}}}), ""),
        (json!({"serverless-pre-function": {"functions": ["return function() end"]}}), ""),
    ] {
        let told = warning(&gateway, "routes/1", &json!({"uri": "/a", "plugins": plugins}));
        assert_eq!(told.contains(none), !wanted.is_empty(), "{plugins}: {told}");
    }
}

#[test]
fn names_of_sessions_that_have_none_are_told() {
    let (tcp, udp) = (free_port(), free_port());
    let ports = format!("{{tcp: [\"127.0.0.1:{tcp}\"], udp: [\"127.0.0.1:{udp}\"]}}");
    let listening = format!("  proxy_mode: http&stream\n  stream_proxy: {ports}\n");
    let gateway = Gateway::start(&with("apisix", &listening), None);
    let route = |more: Value| {
        let mut route = json!({"sni": "a.test", "upstream": {"nodes": {"127.0.0.1:1": 1}}});
        more.as_object().into_iter().flatten().for_each(|(name, value)| route[name] = value.clone());
        route
    };
    for (more, wanted) in [
        (json!({"server_port": udp}), format!("port {udp} is one of UDP, whose sessions have no name")),
        (json!({}), "TLS ends at no port of apisix.stream_proxy.tcp".to_owned()),
        (json!({"server_port": tcp}), String::new()),
    ] {
        let told = warning(&gateway, "stream_routes/1", &route(more));
        assert!(if wanted.is_empty() { told.is_empty() } else { told.contains(&wanted) }, "{told}");
    }
}

/// A guard of a stream route that takes no session never runs.
#[test]
fn a_stream_route_behind_another_is_told() {
    let port = free_port();
    let listening = format!("  proxy_mode: http&stream\n  stream_proxy: {{tcp: [\"127.0.0.1:{port}\"]}}\n");
    let gateway = Gateway::start(&with("apisix", &listening), None);
    let upstream = json!({"nodes": {"127.0.0.1:1": 1}});
    let first = json!({"server_port": port, "upstream": upstream});
    let guard = json!({"server_port": port, "upstream": upstream, "plugins": {"ip-restriction": {"blacklist": ["127.0.0.1"]}}});
    assert_eq!(warning(&gateway, "stream_routes/9", &guard), "");
    assert_eq!(warning(&gateway, "stream_routes/1", &first), "");
    let behind = "no session reaches this stream route: stream route 1 takes its sessions before it by id";
    gateway.wait_for_log(&format!("stream_routes/9: {behind}"));
    let told = warning(&gateway, "stream_routes/9", &guard);
    assert!(told.contains(behind), "{told}");
    // Of one address: the others get to the second.
    let narrow = json!({"server_port": port, "remote_addr": "10.0.0.1", "upstream": upstream});
    assert_eq!(warning(&gateway, "stream_routes/1", &narrow), "");
    assert_eq!(warning(&gateway, "stream_routes/9", &guard), "");
}

#[test]
fn a_stream_route_that_no_listener_or_certificate_serves_is_told() {
    let (port, secure) = (free_port(), free_port());
    let listening = format!(
        "  proxy_mode: http&stream\n  stream_proxy: {{tcp: [\"127.0.0.1:{port}\", {{addr: \"127.0.0.1:{secure}\", tls: true}}]}}\n"
    );
    let gateway = Gateway::start(&with("apisix", &listening), None);
    let upstream = json!({"nodes": {"127.0.0.1:1": 1}});
    let route = |fields: Value| {
        let mut route = json!({"upstream": upstream});
        route.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
        warning(&gateway, "stream_routes/1", &route)
    };
    let told = route(json!({"server_addr": "10.9.9.9"}));
    assert!(
        told.contains(
            "server_addr 10.9.9.9 matches no session: the gateway listens for them on 127.0.0.1 only"
        ),
        "{told}"
    );
    assert!(
        route(json!({"server_addr": "10.0.0.0/8", "server_port": port})).contains("server_addr 10.0.0.0/8")
    );
    assert_eq!(route(json!({"server_addr": "127.0.0.0/8"})), "");
    let told = route(json!({"server_port": secure, "sni": "a.test"}));
    assert!(told.contains("sni a.test matches no session: no ssl object has the name"), "{told}");
    // Names of handshakes that pass are of no certificate here.
    assert_eq!(route(json!({"server_port": port, "sni": "a.test"})), "");
    let pair = rcgen::generate_simple_self_signed(["a.test".to_owned()]).expect("a certificate");
    let ssl = json!({"snis": ["*.test"], "cert": pair.cert.pem(), "key": pair.signing_key.serialize_pem()});
    let _ = warning(&gateway, "ssls/1", &ssl);
    assert_eq!(route(json!({"server_port": secure, "sni": "a.test"})), "");
}

/// Sessions have no header fields: such a guard would never run.
#[test]
fn plugins_of_sessions_that_never_do_anything_are_told() {
    let port = free_port();
    let listening = format!("  proxy_mode: http&stream\n  stream_proxy: {{tcp: [\"127.0.0.1:{port}\"]}}\n");
    let gateway = Gateway::start(&with("apisix", &listening), None);
    let route = |plugins: Value| {
        let route =
            json!({"server_port": port, "upstream": {"nodes": {"127.0.0.1:1": 1}}, "plugins": plugins});
        warning(&gateway, "stream_routes/1", &route)
    };
    let guard = |name: &str| json!({"ip-restriction": {"whitelist": ["127.0.0.9"], "_meta": {"filter": [[name, "==", "127.0.0.1"]]}}});
    let told = route(guard("http_x"));
    assert!(
        told.contains("plugin ip-restriction: _meta.filter: no session has a variable $http_x"),
        "{told}"
    );
    // Nor a path or a consumer.
    for name in ["uri", "host", "request_method", "consumer_name"] {
        let told = route(guard(name));
        assert!(told.contains(&format!("_meta.filter: no session has a variable ${name}")), "{name}: {told}");
    }
    assert_eq!(route(guard("remote_addr")), "");
    let told = route(json!({"limit-conn": {"conn": 1, "burst": 0, "default_conn_delay": 0.1, "key": "uri"}}));
    assert!(told.contains("its key has no value in sessions"), "{told}");
    let told = route(json!({"traffic-split": {"rules": [{"match": [{"vars": [["http_x", "==", "1"]]}],
        "weighted_upstreams": [{"weight": 1, "upstream": {"nodes": {"127.0.0.1:2": 1}}}]}]}}));
    assert!(told.contains("traffic-split: match: no session has a variable $http_x"), "{told}");
    let syslog = json!({"host": "127.0.0.1", "port": 5140});
    let told = route(json!({"syslog": syslog}));
    assert!(told.contains("plugins.syslog sends nothing without log_format"), "{told}");
    let _ = warning(&gateway, "plugin_metadata/syslog", &json!({"log_format": {"a": "$remote_addr"}}));
    assert_eq!(route(json!({"syslog": syslog})), "");
}

/// A label in another case lets through whom it should refuse.
#[test]
fn labels_that_no_consumer_has_are_told() {
    let gateway = Gateway::start(EMBEDDED, None);
    let anna =
        json!({"username": "anna", "labels": {"team": "a"}, "plugins": {"key-auth": {"key": "key-of-anna"}}});
    assert_eq!(warning(&gateway, "consumers/anna", &anna), "");
    let route = |acl: Value| {
        let plugins = json!({"key-auth": {}, "acl": acl});
        warning(
            &gateway,
            "routes/1",
            &json!({"uri": "/a", "plugins": plugins, "upstream": {"nodes": {"127.0.0.1:1": 1}}}),
        )
    };
    let told = route(json!({"deny_labels": {"Team": ["a"]}}));
    assert!(told.contains("plugins.acl.deny_labels: no consumer has the label Team; case counts"), "{told}");
    let told = route(json!({"deny_labels": {"team": ["A", "B"]}}));
    assert!(
        told.contains("plugins.acl.deny_labels: no consumer has the label team: A, B; case counts"),
        "{told}"
    );
    assert_eq!(route(json!({"deny_labels": {"team": ["a"]}})), "");
    assert_eq!(route(json!({"deny_labels": {"role": ["a"]}, "external_user_label_field": "role"})), "");
    // `groups`, which users of an identity provider have, is like others where there are none.
    let told = route(json!({"deny_labels": {"groups": ["a"]}}));
    assert!(told.contains("deny_labels: no consumer has the label groups; case counts"), "{told}");
    let bert = json!({"username": "bert", "labels": {"groups": "admins"}, "plugins": {"key-auth": {"key": "key-of-bert"}}});
    assert_eq!(warning(&gateway, "consumers/bert", &bert), "");
    let told = route(json!({"allow_labels": {"groups": ["Admins"]}}));
    assert!(told.contains("allow_labels: no consumer has the label groups: Admins; case counts"), "{told}");
    assert_eq!(route(json!({"deny_labels": {"groups": ["admins"]}})), "");
    let sign_in = json!({"feishu-auth": {"app_id": "a", "app_secret": "b", "auth_redirect_uri": "http://a/b", "redirect_uri": "http://a/c", "secret": "0123456789abcdef"}});
    let provider = json!({"uri": "/f", "plugins": sign_in, "upstream": {"nodes": {"127.0.0.1:1": 1}}});
    let _ = warning(&gateway, "routes/provider", &provider);
    assert_eq!(route(json!({"deny_labels": {"groups": ["a"]}})), "");
}

/// The objects that a page writes with curl: path and body.
fn written_by(page: &str) -> Vec<(String, Value)> {
    let calls = page.split("/apisix/admin/").skip(1);
    let object = |call: &str| {
        let call = call.split("```").next()?;
        let path = call.split([' ', '"', '\'', '?', '\n']).next()?.to_owned();
        let body = call.split_once("-d '")?.1;
        let end = body.find("}'")?;
        let value = serde_json::from_str::<Value>(body.get(..=end)?).ok()?;
        call.contains("-X PUT").then_some((path, value))
    };
    calls.filter_map(object).collect()
}

/// What the pages show is right as it is.
#[test]
fn examples_are_not_told() {
    const OFF: &str = "it has no effect: plugin";
    const SAID: [&str; 9] = [
        "is not a variable",
        "it has no upstream",
        "every weight is 0",
        "has no nodes",
        "no session reaches",
        "is not available: ",
        "says which consumer a request is of",
        "needs an upstream with scheme",
        OFF,
    ];
    let listening =
        format!("  proxy_mode: http&stream\n  stream_proxy: {{tcp: [\"127.0.0.1:{}\"]}}\n", free_port());
    let gateway = Gateway::start(&with("apisix", &listening), None);
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let pages = ["plugins", "guide"].into_iter().flat_map(|folder| {
        std::fs::read_dir(docs.join(folder)).expect("a folder").map(|entry| entry.expect("an entry").path())
    });
    let mut taken = 0;
    for page in pages.filter(|path| path.extension().is_some_and(|extension| extension == "md")) {
        let text = std::fs::read_to_string(&page).expect("a page");
        let is_off = ["off by default", "默认关闭"].iter().any(|said| text.contains(said));
        for (path, object) in written_by(&text) {
            let body = object.to_string();
            let put = format!(
                "PUT /apisix/admin/{path} HTTP/1.1\r\nHost: h\r\nX-API-KEY: {ADMIN_KEY}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            let answer =
                Client::connect(gateway.admin).expect("a connection").request(&put).expect("an answer");
            let told = answer.header("X-Tidegate-Warning").unwrap_or_default();
            let wrong = SAID.iter().find(|said| told.contains(*said) && !(is_off && **said == OFF));
            assert!(wrong.is_none(), "{}: {path} {body}: {told}", page.display());
            taken += usize::from(matches!(answer.status(), 200 | 201));
        }
    }
    assert!(taken > 100, "only {taken} objects of the pages were written");
}
