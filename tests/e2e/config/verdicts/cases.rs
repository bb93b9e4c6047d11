//! The configurations, and what becomes of each.

use serde_json::{Value, json};

use crate::config::config_keys::{embedded, standalone};
use crate::protocols::certs::{Authority, self_signed};

pub(super) enum Verdict {
    Starts,
    /// Neither verb gets further; both name this.
    Refused(&'static str),
    /// The gateway serves, and both warn of this.
    Warns(&'static str),
    /// The gateway serves, without an object that both name.
    LeavesOut(&'static str),
}

pub(super) struct Case {
    pub name: String,
    pub config: String,
    /// Below the prefix.
    pub files: Vec<(&'static str, String)>,
    /// `--config`, below the prefix.
    pub file: Option<&'static str>,
    pub verdict: Verdict,
}

use Verdict::{LeavesOut, Refused, Starts};

const NO_ROUTES: &str = "routes: []\n#END\n";

/// A configuration of keys over the one of the standalone gateway.
pub(super) fn keys(set: &[(&str, Value)], verdict: Verdict) -> Case {
    let name = format!("{set:?}");
    let files = vec![("conf/apisix.yaml", NO_ROUTES.to_owned())];
    Case { name, config: standalone(set), files, file: None, verdict }
}

pub(super) fn store(set: &[(&str, Value)], verdict: Verdict) -> Case {
    Case { config: embedded(set), files: Vec::new(), ..keys(set, verdict) }
}

/// As it stands in the file.
pub(super) fn raw(config: &str, verdict: Verdict) -> Case {
    Case { name: config.to_owned(), config: config.to_owned(), ..keys(&[], verdict) }
}

/// The standalone gateway with these resources.
fn resources(text: &str, verdict: Verdict) -> Case {
    let files = vec![("conf/apisix.yaml", format!("{text}#END\n"))];
    Case { name: text.to_owned(), files, ..keys(&[], verdict) }
}

pub(super) fn good() -> Vec<Case> {
    let (pair, authority) = (self_signed("admin.test"), Authority::new());
    let https = json!({"admin_ssl_cert": "conf/cert.pem", "admin_ssl_cert_key": "conf/key.pem", "admin_ssl_ca_cert": "conf/ca.pem"});
    let mut with_files = store(
        &[("deployment.admin.https_admin", json!(true)), ("deployment.admin.admin_api_mtls", https)],
        Starts,
    );
    with_files.files = vec![
        ("conf/cert.pem", pair.cert),
        ("conf/key.pem", pair.key),
        ("conf/ca.pem", authority.cert.clone()),
    ];
    let mut trusting = keys(&[("apisix.ssl.ssl_trusted_certificate", json!("conf/ca.pem,system"))], Starts);
    trusting.files.push(("conf/ca.pem", authority.cert));
    let mut from_json = keys(&[("deployment.role_data_plane.config_provider", json!("json"))], Starts);
    from_json.files = vec![(
        "conf/apisix.json",
        r#"{"routes": [{"id": 1, "uri": "/a", "plugins": {"mocking": {"response_example": "a"}}}]}"#
            .to_owned(),
    )];
    let multi = r#"routes:
- {id: 1, uri: /a, plugins: {multi-auth: {auth_plugins: [{basic-auth: {}}, {key-auth: {}}]}, mocking: {response_example: a}}}
"#;
    let several = r#"consumers:
- {username: jack, plugins: {key-auth: {key: k}}}
global_rules:
- {id: 1, plugins: {cors: {}}}
services:
- {id: s, upstream: {type: roundrobin, nodes: {"127.0.0.1:1": 1}}}
routes:
- {id: 1, uri: /a, service_id: s, plugins: {key-auth: {}}}
"#;
    let lua = "routes:\n- {id: 1, uri: /a, plugins: {serverless-pre-function: {functions: [\"return function() end\"]}}}\n";
    vec![
        keys(&[], Starts),
        store(&[], Starts),
        store(&[("deployment.role_traditional.config_provider", json!("yaml"))], Starts),
        with_files,
        trusting,
        from_json,
        resources(multi, Starts),
        resources(several, Starts),
        resources(lua, Starts),
        resources(
            "routes:\n- {id: 1, uri: /a, script_id: 3, plugins: {mocking: {response_example: a}}}\n",
            Starts,
        ),
        keys(&[("apisix.ssl", json!({"listen": [{"port": "@ADMIN@", "enable_http3": true}]}))], Starts),
        keys(&[("apisix.ssl.ssl_ciphers", json!("HIGH:!aNULL:!MD5"))], Starts),
        keys(&[("apisix.status", json!({"ip": "127.0.0.1", "port": "@ADMIN@"}))], Starts),
        keys(&[("apisix.node_listen", json!("@HTTP@"))], Starts),
        keys(&[("apisix.node_lisen", json!(1))], Starts),
        keys(&[("apisix.proxy_mode", json!("http"))], Starts),
        keys(
            &[("apisix.proxy_mode", json!("http&stream")), ("apisix.stream_proxy.tcp", json!(["@ADMIN@"]))],
            Starts,
        ),
        keys(&[("plugins", json!(["mocking", "ai-proxy"]))], Starts),
        keys(&[("plugins", json!([]))], Starts),
        keys(&[("plugin_attr.prometheus.enable_export_server", json!(false))], Starts),
        keys(&[("nginx_config.http.access_log", json!("${{TIDEGATE_NO_SUCH:=logs/a.log}}"))], Starts),
        keys(&[("discovery.dns", json!({"servers": ["127.0.0.1:53"]}))], Starts),
        keys(&[("nginx_config.max_pending_timers", json!(1))], Starts),
    ]
}

pub(super) fn wrong_files() -> Vec<Case> {
    let mut elsewhere = keys(&[], Refused("conf/other.yaml"));
    elsewhere.file = Some("conf/other.yaml");
    let mut absent = keys(&[], Refused("apisix.yaml"));
    absent.files.clear();
    absent.name = "no apisix.yaml".to_owned();
    let mut cut = keys(&[], Refused("missing valid end flag"));
    cut.files = vec![("conf/apisix.yaml", "routes: []\n".to_owned())];
    let mut no_folder = keys(&[], Refused("logs"));
    no_folder.files.push(("logs", "a file".to_owned()));
    vec![
        elsewhere,
        absent,
        cut,
        no_folder,
        raw("apisix: [1, 2\n", Refused("config.yaml:")),
        raw("- a list\n", Refused("config.yaml should have keys")),
        keys(
            &[("apisix.enable_ipv6", json!("maybe"))],
            Refused("apisix.enable_ipv6 should be true or false"),
        ),
        keys(&[("apisix.node_listen", json!([70_000]))], Refused("apisix.node_listen[] should be")),
        keys(&[("apisix.id", json!("${{TIDEGATE_NO_SUCH}}"))], Refused("TIDEGATE_NO_SUCH")),
        keys(
            &[("apisix.stream_proxy.only", json!(true))],
            Refused("apisix.stream_proxy.only: true is refused"),
        ),
        keys(&[("discovery.tars", json!({"db_conf": {}}))], Refused("discovery.tars is refused")),
        keys(&[("discovery.nacos", json!({"host": []}))], Refused("invalid discovery nacos configuration")),
        keys(
            &[("discovery.zookeeper", json!({"host": []}))],
            Refused("unknown registry discovery.zookeeper"),
        ),
        keys(
            &[("deployment.role_data_plane.config_provider", json!("xds"))],
            Refused("config_provider: xds is refused"),
        ),
        keys(&[("deployment.role", json!("spare"))], Refused("deployment.role should be one of")),
        keys(
            &[("apisix.data_encryption.keyring", json!(["short"]))],
            Refused("each key should have 16 or 32 characters"),
        ),
        keys(&[("apisix.trusted_addresses", json!(["10.0.0.0/33"]))], Refused("apisix.trusted_addresses[]")),
        keys(
            &[("plugin_attr.log-rotate.interval", json!("often")), ("plugins", json!(["log-rotate"]))],
            Refused("plugin_attr.log-rotate"),
        ),
        keys(
            &[("plugin_attr.static-files.threads", json!(0))],
            Refused("plugin_attr.static-files.threads should be a whole number"),
        ),
        store(&[("deployment.admin.https_admin", json!(true))], Refused("https_admin needs")),
    ]
}

/// `https_admin` with these files; what is `None` is a good one.
fn https(cert: Option<&str>, key: Option<&str>, ca: Option<&str>, cause: &'static str) -> Case {
    let pair = self_signed("admin.test");
    let mut mtls = json!({"admin_ssl_cert": "conf/cert.pem", "admin_ssl_cert_key": "conf/key.pem"});
    let mut files = Vec::new();
    let mut file = |name, text: Option<&str>, good: String| match text {
        Some("absent") => {}
        Some(text) => files.push((name, text.to_owned())),
        None => files.push((name, good)),
    };
    file("conf/cert.pem", cert, pair.cert);
    file("conf/key.pem", key, pair.key);
    if ca.is_some() {
        file("conf/ca.pem", ca, String::new());
        mtls["admin_ssl_ca_cert"] = json!("conf/ca.pem");
    }
    let set = [("deployment.admin.https_admin", json!(true)), ("deployment.admin.admin_api_mtls", mtls)];
    Case { files, name: format!("https: {cause}"), ..store(&set, Refused(cause)) }
}

pub(super) fn unusable() -> Vec<Case> {
    let other = self_signed("other.test");
    let trusts =
        |file: &str, cause| keys(&[("apisix.ssl.ssl_trusted_certificate", json!(file))], Refused(cause));
    let mut empty = trusts("conf/ca.pem", "apisix.ssl.ssl_trusted_certificate");
    empty.files.push(("conf/ca.pem", "no certificate".to_owned()));
    let etcd = |more: &[(&str, Value)], cause| {
        let mut set = vec![
            ("deployment.etcd.startup_retry", json!(1)),
            ("deployment.etcd.timeout", json!(1)),
            ("deployment.role_traditional.config_provider", json!("etcd")),
        ];
        set.extend_from_slice(more);
        store(&set, Refused(cause))
    };
    let pair = json!({"cert": "conf/absent.pem", "key": "conf/absent.key"});
    let mut damaged = store(&[], Refused("tidegate.redb"));
    damaged.files.push(("data/tidegate.redb", "not a store at all".repeat(500)));
    vec![
        https(Some("absent"), None, None, "deployment.admin.admin_api_mtls.admin_ssl_cert: cannot read"),
        https(Some("no certificate"), None, None, "admin_ssl_cert: conf/cert.pem: certificate: none found"),
        https(None, Some("absent"), None, "admin_ssl_cert_key: cannot read"),
        https(None, Some("no key"), None, "deployment.admin.admin_api_mtls.admin_ssl_cert_key: conf/key.pem"),
        https(None, Some(&other.key), None, "conf/key.pem: the key does not match the certificate"),
        https(None, None, Some("absent"), "admin_ssl_ca_cert: cannot read"),
        https(None, None, Some("nothing"), "admin_ssl_ca_cert: conf/ca.pem: no certificate found"),
        trusts("conf/absent.pem", "apisix.ssl.ssl_trusted_certificate"),
        empty,
        keys(
            &[(
                "apisix.ssl",
                json!({"listen": [{"port": "@ADMIN@"}], "ssl_ciphers": "DHE-RSA-AES128-GCM-SHA256"}),
            )],
            Refused("apisix.ssl.ssl_ciphers: none of these cipher suites is supported"),
        ),
        etcd(&[("deployment.etcd.host", json!(["127.0.0.1:2379"]))], "should begin with http:// or https://"),
        etcd(&[("deployment.etcd.host", json!(["http://127.0.0.1:1"]))], "127.0.0.1:1"),
        etcd(
            &[("deployment.etcd.host", json!(["https://127.0.0.1:1"])), ("deployment.etcd.tls", pair)],
            "deployment.etcd.tls.cert: cannot read",
        ),
        damaged,
    ]
}

pub(super) fn ports(taken: u16) -> Vec<Case> {
    let here = json!({"ip": "127.0.0.1", "port": taken});
    vec![
        keys(&[("apisix.node_listen", json!([here]))], Refused("cannot listen on 127.0.0.1")),
        keys(&[("apisix.ssl", json!({"listen": [here]}))], Refused("cannot listen on 127.0.0.1")),
        keys(&[("apisix.control", here.clone())], Refused("(apisix.control)")),
        keys(&[("apisix.status", here.clone())], Refused("(apisix.status)")),
        keys(
            &[("plugin_attr.prometheus.export_addr", here.clone())],
            Refused("(plugin_attr.prometheus.export_addr)"),
        ),
        store(&[("deployment.admin.admin_listen", here)], Refused("(deployment.admin.admin_listen)")),
        keys(&[("apisix.node_listen", json!([{"ip": "localhost", "port": 9080}]))], Refused("localhost")),
        keys(
            &[("apisix.node_listen", json!([{"ip": "192.0.2.1", "port": 9080}]))],
            Refused("this machine does not have that address"),
        ),
        keys(
            &[("apisix.status", json!({"ip": "127.0.0.1", "port": "@HTTP@"}))],
            Refused("is taken by apisix.node_listen"),
        ),
        streams(
            json!([19130, {"addr": 19130, "tls": true}]),
            "is twice in apisix.stream_proxy.tcp, with different options",
        ),
        streams(json!(["19129-19131", {"addr": 19130, "proxy_protocol": true}]), "port 19130 is twice"),
        streams(json!([19130, "127.0.0.1:19130"]), "is taken by apisix.stream_proxy.tcp"),
        streams(json!([{"tls": true}]), "addr is missing"),
    ]
}

fn streams(tcp: Value, said: &'static str) -> Case {
    let mode = ("apisix.proxy_mode", json!("http&stream"));
    keys(&[mode, ("apisix.stream_proxy.tcp", tcp)], Refused(said))
}

pub(super) fn left_out() -> Vec<Case> {
    vec![
        resources("routes: [5]\n", LeavesOut("[routes/1]")),
        resources("routes: {}\n", Refused("invalid data of [routes], it should be a list; write routes: []")),
        resources("global_rules:\nroutes: []\n", Refused("1:1: invalid data of [global_rules]")),
        resources("globals: [{id: 1}]\nroutes: []\n", LeavesOut("did you mean global_rules?")),
        resources("routes:\n- {id: bad, uri: /a, plugins: {kye-auth: {}}}\n", LeavesOut("kye-auth")),
        resources(
            "routes:\n- {id: bad, uri: /a, filter_func: \"function( nonsense\", plugins: {mocking: {response_example: a}}}\n",
            LeavesOut("filter_func"),
        ),
        resources(
            "upstreams:\n- {id: bad, type: roundrobin, nodes: {\"a:1\": -1}}\n",
            LeavesOut("upstreams"),
        ),
        resources("ssls:\n- {id: bad, sni: a.test, cert: x, key: y}\n", LeavesOut("ssls")),
    ]
}
