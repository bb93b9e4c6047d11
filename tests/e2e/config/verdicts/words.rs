//! Values of config.yaml that would be taken in silence: each is refused or warned of, by `test` as by `run`.

use std::process::Command;

use serde_json::{Value, json};
use tidegate_testkit::gateway::binary;

use super::cases::{
    Case,
    Verdict::{Refused, Starts, Warns},
    keys, raw, store,
};
use super::{check, text, write};

/// What both verbs say of a file that both refuse.
fn refusal(config: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "conf/config.yaml", config);
    let said = |verb: &str| {
        let output = Command::new(binary())
            .args([verb, "--prefix"])
            .arg(folder.path())
            .output()
            .expect("tidegate runs");
        assert_eq!(output.status.code(), Some(1), "{verb}: {config}: {}", text(&output));
        text(&output)
    };
    let (tested, run) = (said("test"), said("run"));
    assert_eq!(tested, run, "{config}");
    run
}

/// Each value alone has a line of its own in what one start says.
fn all_refused(values: &[(&str, Value)]) {
    let mut root = json!({});
    for (key, value) in values {
        tidegate_config::keys::set(&mut root, key, value.clone());
    }
    let said = refusal(&root.to_string());
    for (key, value) in values {
        let line = said.lines().find(|line| line.contains("config.yaml:1:") && line.contains(key));
        assert!(line.is_some_and(|line| line.contains(" should be ")), "{key}: {value}: {said}");
    }
}

#[test]
fn wrong_scalars_are_refused_with_their_place() {
    let prometheus = |name: &str| format!("plugin_attr.prometheus.{name}");
    let families = ["http_status", "http_latency", "bandwidth"];
    let expire = families.map(|family| prometheus(&format!("metrics.{family}.expire")));
    let labels = families.map(|family| prometheus(&format!("metrics.{family}.extra_labels")));
    let mut values: Vec<(&str, Value)> = vec![
        ("apisix.dns_resolver", json!(["x"])),
        ("apisix.ssl.ssl_protocols", json!("banana")),
        ("apisix.http2.stream_window", json!("1k")),
        ("apisix.http2.connection_window", json!("3g")),
        ("apisix.node_listen", json!([{"ip": "banana", "port": 9080}])),
        ("apisix.control.ip", json!("banana")),
        ("apisix.status", json!({"ip": "banana", "port": 7085})),
        ("apisix.data_encryption.keyring", json!([null])),
        ("deployment.admin.admin_listen.ip", json!("banana")),
        ("deployment.admin.audit_log", json!("")),
        ("deployment.admin.allow_admin", json!([null])),
        ("nginx_config.event.worker_connections", json!(0)),
        ("nginx_config.http.real_ip_header", json!("a b:")),
        ("nginx_config.http.access_log", json!("syslog:server=127.0.0.1")),
        ("nginx_config.error_log", json!("syslog:server=127.0.0.1")),
        ("nginx_config.http.access_log", json!("")),
        ("nginx_config.error_log", json!("")),
        ("plugin_attr.prometheus.default_buckets", json!("banana")),
        ("plugin_attr.prometheus.metric_prefix", json!(" 1-")),
        ("plugin_attr.prometheus.export_uri", json!("banana")),
        ("plugin_attr.prometheus.export_addr.ip", json!("banana")),
        ("plugin_attr.opentelemetry.trace_id_source", json!("banana")),
        ("plugin_attr.opentelemetry.collector.request_timeout", json!(-1)),
        ("plugin_attr.opentelemetry.collector.address", json!("")),
        ("plugin_attr.opentelemetry.batch_span_processor.max_queue_size", json!([])),
        ("plugin_attr.opentelemetry.batch_span_processor.batch_timeout", json!("banana")),
        ("plugin_attr.opentelemetry.batch_span_processor.inactive_timeout", json!(0)),
        ("plugin_attr.opentelemetry.batch_span_processor.max_export_batch_size", json!(0)),
        ("plugin_attr.opentelemetry.set_ngx_var", json!("banana")),
        ("plugin_attr.zipkin.set_ngx_var", json!(1)),
        ("plugin_attr.log-rotate.interval", json!(0)),
        ("plugin_attr.log-rotate.max_kept", json!(-1)),
        ("plugin_attr.log-rotate.max_size", json!({"nope": 1})),
        ("plugin_attr.log-rotate.enable_compression", json!("banana")),
        ("plugin_attr.proxy-mirror.timeout.connect", json!("banana")),
        ("plugin_attr.proxy-mirror.timeout.read", json!(-1)),
        ("plugin_attr.proxy-mirror.timeout.send", json!([])),
        ("plugin_attr.redirect.https_port", json!(70_000)),
        ("plugin_attr.static-files.threads", json!(0)),
        ("plugin_attr.static-files.queue", json!("banana")),
        ("plugin_attr.serverless.time_limit_ms", json!(0)),
        ("plugin_attr.serverless-pre-function.time_limit_ms", json!("banana")),
        ("plugin_attr.batch-requests.uri", json!("banana")),
        ("plugin_attr.node-status.uri", json!(5)),
    ];
    values.extend(expire.iter().map(|key| (key.as_str(), json!("banana"))));
    values.extend(labels.iter().map(|key| (key.as_str(), json!({"nope": 1}))));
    all_refused(&values);
    all_refused(&[
        ("apisix.dns_resolver", json!([5])),
        ("plugin_attr.opentelemetry.collector.address", json!("nonsense::")),
        ("plugin_attr.skywalking.endpoint_addr", json!("notaurl")),
        ("apisix.ssl.ssl_protocols", json!("")),
        ("deployment.admin.audit_log", json!(true)),
        ("deployment.admin.admin_key", json!([{"name": "a", "key": false, "role": "admin"}])),
        ("plugin_attr.prometheus.default_buckets", json!([1, "x"])),
    ]);
    all_refused(&[
        ("apisix.dns_resolver", json!([""])),
        ("apisix.ssl.ssl_protocols", json!("TLSv1.1")),
        ("deployment.admin.audit_log", json!(false)),
        ("deployment.admin.admin_key", json!([{"name": "a", "key": 0, "role": "admin"}])),
        ("plugin_attr.prometheus.default_buckets", json!({"nope": 1})),
    ]);
    all_refused(&[
        ("apisix.dns_resolver", json!(["1.1.1.1:99999"])),
        ("apisix.ssl.ssl_protocols", json!("TLSv1.3 banana")),
        ("plugin_attr.prometheus.default_buckets", json!([0.5])),
    ]);
}

#[test]
fn numbers_in_quotes_are_numbers() {
    check(&keys(
        &[
            ("plugin_attr.redirect.https_port", json!("8443")),
            ("plugin_attr.prometheus.default_buckets", json!(["1", "5"])),
            ("plugin_attr.serverless.time_limit_ms", json!("50")),
            ("plugin_attr.opentelemetry.batch_span_processor.batch_timeout", json!("0.5")),
            ("plugin_attr.proxy-mirror.timeout.connect", json!("1h 30m")),
            ("apisix.ssl", json!({"enable": false, "ssl_protocols": null})),
        ],
        Starts,
    ));
}

/// What only several keys together make wrong.
fn contradictions() -> Vec<(&'static str, Value, &'static str)> {
    let labels = "plugin_attr.prometheus.metrics.http_status.extra_labels";
    vec![
        ("plugin_attr.prometheus.default_buckets", json!([5, 1]), "each above the one before"),
        ("plugin_attr.prometheus.default_buckets", json!([]), "one at least"),
        (labels, json!([{"host": "$host"}, {"host": "$host"}]), "label \"host\" is given twice"),
        (labels, json!([{"a-b": "$host"}]), "label \"a-b\" is not a valid label name"),
        (labels, json!([{"a": "host"}]), "should have a variable"),
        (labels, json!([{"route": "$host"}]), "label \"route\" is reserved"),
        (
            "apisix.http2",
            json!({"stream_window": "2m", "connection_window": "1m"}),
            "at least as much as apisix.http2.stream_window",
        ),
        (
            "apisix.proxy_cache.zones",
            json!([{"name": "a", "memory_size": "1m"}, {"name": "a", "memory_size": "1m"}]),
            "another zone is also named \"a\"",
        ),
        ("apisix.proxy_cache.zones", json!([{"memory_size": "1m"}]), "this zone has no name"),
        (
            "apisix.proxy_cache.zones",
            json!([{"name": "a", "disk_path": "/etc/passwd"}]),
            "zone \"a\" cannot keep its responses in /etc/passwd",
        ),
    ]
}

#[test]
fn keys_that_contradict_each_other_are_refused_with_their_place() {
    for (key, value, cause) in contradictions() {
        let mut root: Value =
            serde_json::from_str(&crate::config::config_keys::standalone(&[])).expect("JSON");
        tidegate_config::keys::set(&mut root, key, value.clone());
        let said = refusal(
            &root
                .to_string()
                .replace("\"@HTTP@\"", "9080")
                .replace("\"@CONTROL@\"", "9092")
                .replace("\"@METRICS@\"", "9091"),
        );
        let line = said.lines().find(|line| line.contains(cause));
        assert!(line.is_some_and(|line| line.contains("config.yaml:1:")), "{key}: {value}: {said}");
    }
}

#[test]
fn a_label_of_a_misspelt_variable_is_warned_of() {
    let folder = tempfile::tempdir().expect("a folder");
    let labels = json!([{"a": "$nosuch"}, {"b": "$host"}]);
    let root = json!({"plugin_attr": {"prometheus": {"metrics": {"http_status": {"extra_labels": labels}}}}});
    write(folder.path(), "conf/config.yaml", &root.to_string());
    let output = Command::new(binary()).args(["test", "--prefix"]).arg(folder.path()).output().expect("runs");
    let said = text(&output);
    assert!(output.status.success() && !said.contains("$host"), "{said}");
    let place = "config.yaml:1:";
    let line =
        said.lines().find(|line| line.contains("http_status.extra_labels[0].a: $nosuch is not a variable"));
    assert!(line.is_some_and(|line| line.contains(place)), "{said}");
}

#[test]
fn what_is_in_the_file_twice_or_unreadable_has_a_line() {
    let said = refusal("apisix: {enable_ipv6: true}\n---\napisix: {enable_ipv6: false}\n");
    assert!(said.contains("config.yaml:2:") && said.contains("a second document begins here"), "{said}");
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "conf/config.yaml", "");
    std::fs::write(folder.path().join("conf/config.yaml"), b"apisix:\n  id: \xff\n").expect("written");
    for verb in ["test", "run"] {
        let output =
            Command::new(binary()).args([verb, "--prefix"]).arg(folder.path()).output().expect("runs");
        assert!(text(&output).contains("config.yaml:2:7: this is not UTF-8"), "{verb}: {}", text(&output));
    }
}

/// A key in a place where messages quote what they find.
#[test]
fn secrets_are_never_quoted() {
    let admin = |value: Value| json!({"deployment": {"admin": {"admin_key": value}}});
    for root in [
        admin(json!("S3CRET")),
        admin(json!(["S3CRET"])),
        admin(json!([{"name": "a", "role": "S3CRET"}])),
        admin(json!([{"S3CRET": "a"}, "x"])),
        admin(json!(["${{S3CRET_KEY}}"])),
        json!({"apisix": {"data_encryption": {"keyring": {"S3CRET": 1}}}}),
        json!({"apisix": {"data_encryption": {"keyring": "S3CRET"}}}),
        json!({"deployment": {"etcd": {"host": ["http://root:S3CRET@127.0.0.1:1"]}}}),
        json!({"deployment": {"etcd": {"host": ["root:S3CRET@127.0.0.1:1"]}}}),
        json!({"deployment": {"etcd": {"password": ["S3CRET"], "host": {"S3CRET": 1}}}}),
        json!({"plugin_attr": {"opentelemetry": {"collector": {"request_headers": "S3CRET"}}}}),
        json!({"discovery": {"nacos": {"host": "http://u:S3CRET@h:1"}}}),
        json!({"discovery": {"consul": {"servers": ["http://u:S3CRET@h"], "timeout": "S3CRET"}}}),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        write(folder.path(), "conf/config.yaml", &root.to_string());
        for verb in ["test", "run"] {
            let mut command = Command::new(binary());
            command.args([verb, "--prefix"]).arg(folder.path()).env("S3CRET_KEY", "S3CRET");
            let output = command.output().expect("runs");
            let said = text(&output);
            assert!(!output.status.success() && !said.contains("S3CRET"), "{verb} {root}: {said}");
            assert!(said.contains("config.yaml:1:"), "{verb} {root}: {said}");
        }
    }
}

#[test]
fn what_has_no_effect_is_warned_of() {
    let deployment = |more: &str| {
        format!(
            "{{\"apisix\": {{\"node_listen\": [{{\"ip\": \"127.0.0.1\", \"port\": @HTTP@}}], \"ssl\": {{\"enable\": false}}, \
         \"control\": {{\"ip\": \"127.0.0.1\", \"port\": @CONTROL@}}}}, \"plugins\": [\"mocking\"], \
         \"deployment\": {{\"admin\": {{\"admin_listen\": {{\"ip\": \"127.0.0.1\", \"port\": @ADMIN@}}}}, {more}}}}}"
        )
    };
    let cases: Vec<Case> = vec![
        raw(
            &deployment("\"role_data_plane\": {\"config_provider\": \"yaml\"}"),
            Warns("deployment.role_data_plane.config_provider has no effect"),
        ),
        raw(
            &deployment("\"etcd\": {\"prefix\": \"/x\", \"user\": \"u\", \"password\": \"p\"}"),
            Warns("no effect: deployment.etcd.prefix, deployment.etcd.user, deployment.etcd.password"),
        ),
        keys(
            &[("deployment.etcd.host", json!(["http://127.0.0.1:1"]))],
            Warns("no effect: deployment.etcd.host"),
        ),
        keys(
            &[(
                "apisix.ssl",
                json!({"listen": [{"ip": "127.0.0.1", "port": "@ADMIN@"}], "ssl_protocols": "TLSv1.1 TLSv1.2"}),
            )],
            Warns("TLSv1.1 is not supported"),
        ),
        keys(
            &[
                ("nginx_config.http.access_log_format", json!("$status $no_such_variable")),
                ("nginx_config.http.enable_access_log", json!(true)),
            ],
            Warns("$no_such_variable"),
        ),
        keys(
            &[
                ("apisix.enable_ipv6", json!(false)),
                (
                    "apisix.node_listen",
                    json!([{"ip": "127.0.0.1", "port": "@HTTP@"}, {"ip": "::1", "port": "@ADMIN@"}]),
                ),
            ],
            Warns("apisix.enable_ipv6: false does not keep"),
        ),
        store(&[("apisix.data_encryption.keyring", json!([]))], Warns("nothing is encrypted")),
        store(&[("apisix.data_encryption.keyring", json!(null))], Warns("nothing is encrypted")),
        store(&[], Warns("apisix.data_encryption.keyring encrypts with a key that is published")),
        store(&[("deployment.admin.audit_log", json!(null))], Warns("there is no audit log")),
        store(&[("deployment.admin.allow_admin", json!([]))], Warns("no client can use the Admin API")),
        store(
            &[("deployment.admin.admin_api_mtls.admin_ssl_cert", json!("/nope"))],
            Warns("admin_ssl_cert has no effect"),
        ),
        store(
            &[("deployment.admin.admin_key", json!([{"name": "a", "key": " k\n"}]))],
            Warns("has leading or trailing whitespace"),
        ),
        store(
            &[("deployment.admin.admin_key", json!([{"name": "a", "key": "${NOKEY}"}]))],
            Warns("is used literally"),
        ),
    ];
    cases.iter().for_each(check);
    // Without any port for HTTP there is nothing to wait for.
    let gateway = tidegate_testkit::gateway::Gateway::start_unready(
        &crate::config::config_keys::standalone(&[("apisix.node_listen", json!([]))]),
        Some("routes: []\n"),
    );
    gateway.process.wait_for_output("no port for HTTP");
    gateway.process.signal_kill();
}

#[test]
fn values_that_nobody_can_use_are_refused() {
    [store(
        &[
            ("deployment.admin.admin_listen", json!({"ip": "127.0.0.1", "port": "@HTTP@"})),
            ("apisix.node_listen", json!("@HTTP@")),
        ],
        Refused("the Admin API would listen on every address"),
    )]
    .iter()
    .for_each(check);
}
