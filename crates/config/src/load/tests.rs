use std::{fs, time::Duration};

use super::*;
use crate::settings::{Access, AdminRole, HttpRouter, Level, Provider, Role, listener::Listener};

fn load_text(text: &str, variables: &[(&str, &str)]) -> Result<Loaded, LoadError> {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("conf")).unwrap();
    fs::write(folder.path().join("conf/config.yaml"), text).unwrap();
    let source =
        Source { prefix: folder.path().to_owned(), plugins: vec!["cors", "prometheus"], ..Source::default() };
    load_with(&source, &|name| {
        variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    })
}

fn settings(text: &str) -> Settings {
    load_text(text, &[]).unwrap().settings
}

/// The messages without the folder.
fn short(messages: &[String]) -> Vec<String> {
    messages
        .iter()
        .map(|message| message.split_once("/conf/").map_or(message.as_str(), |(_, rest)| rest).to_owned())
        .collect()
}

fn check_error(text: &str, variables: &[(&str, &str)], expected: &[&str]) {
    let error = load_text(text, variables).map(|_| ()).unwrap_err();
    assert_eq!(short(&error.0), expected, "{text}");
}

fn listener(ip: &str, port: u16) -> Listener {
    Listener::new(ip, port)
}

fn implied(port: u16) -> Listener {
    Listener { implied: true, ..Listener::new("::", port) }
}

#[test]
fn defaults() {
    let settings = settings("");
    assert_eq!(settings.apisix.node_listen, [listener("0.0.0.0", 9080), implied(9080)]);
    assert_eq!(settings.apisix.tls.listen, [listener("0.0.0.0", 9443), implied(9443)]);
    assert_eq!(settings.apisix.control, Some(listener("127.0.0.1", 9090)));
    assert_eq!(settings.admin.listen, Some(listener("0.0.0.0", 9180)));
    assert_eq!(settings.admin.allow, Some(vec!["127.0.0.0/24".to_owned()]));
    assert_eq!(settings.metrics_listener(), Some(listener("127.0.0.1", 9091)));
    assert_eq!(settings.apisix.status, None);
    assert_eq!((settings.role, settings.provider), (Role::Traditional, Provider::Embedded));
    assert_eq!(settings.apisix.router, HttpRouter::HostUri);
    assert_eq!(settings.nginx.error_log_level, Level::Warn);
    assert_eq!(settings.nginx.timeouts.send, Duration::from_secs(10));
    assert_eq!(settings.nginx.client_max_body_bytes, 0);
    assert!(settings.nginx.underscores_in_headers && !settings.nginx.real_ip_recursive);
    assert!(
        settings
            .nginx
            .access_log
            .format
            .starts_with("$remote_addr - $remote_user [$time_local] $http_host \"$request\"")
    );
    assert_eq!(settings.plugins, ["cors", "prometheus"]);
    assert_eq!(settings.apisix.cache_zones[0].disk_bytes, 1 << 30);
    assert_eq!(settings.apisix.cache_zones[1].disk_path, None);
    assert_eq!(settings.apisix.trusted_addresses, None);
    assert_eq!(settings.etcd.hosts, ["http://127.0.0.1:2379"]);
    assert_eq!(settings.plugin_attribute("prometheus")["metric_prefix"], "apisix_");
}

#[test]
fn what_users_set() {
    let settings = settings(
        "apisix:
  node_listen: [1984, {ip: 127.0.0.2, port: 9081}]
  router: {http: radixtree_uri}
  proxy_mode: http
  trusted_addresses: [10.0.0.0/8]
  data_encryption: {keyring: edd1c9f0985e76a2}
  enable_control: false
nginx_config:
  worker_processes: 3
  http: {send_timeout: 1m, client_max_body_size: 16k, real_ip_recursive: on, access_log: off, keepalive_timeout: 500ms}
plugins: [cors]
plugin_attr: {prometheus: {export_addr: {port: 9200}}}
deployment:
  admin:
    allow_admin:
    admin_key: [{name: v, key: 12345, role: viewer}]
    admin_listen: {port: 9181}
",
    );
    assert_eq!(
        settings.apisix.node_listen,
        [listener("0.0.0.0", 1984), implied(1984), listener("127.0.0.2", 9081)]
    );
    assert_eq!(settings.apisix.router, HttpRouter::Uri);
    assert_eq!(settings.apisix.data_encryption.keyring, ["edd1c9f0985e76a2"]);
    assert_eq!(settings.apisix.control, None);
    assert_eq!(settings.nginx.workers, 3);
    assert_eq!(settings.nginx.timeouts.send, Duration::from_secs(60));
    assert_eq!(settings.nginx.timeouts.keepalive, Duration::from_millis(500));
    assert_eq!(settings.nginx.client_max_body_bytes, 16_384);
    assert!(settings.nginx.real_ip_recursive && !settings.nginx.access_log.enable);
    assert_eq!(settings.plugins, ["cors"]);
    assert_eq!(settings.metrics_listener(), None, "prometheus is not among the plugins");
    assert_eq!(settings.plugin_attribute("prometheus")["export_addr"]["ip"], "127.0.0.1");
    assert_eq!(settings.admin.allow, None);
    assert_eq!(
        (settings.admin.access.keys()[0].value(), settings.admin.access.keys()[0].role),
        (Some("12345"), AdminRole::Viewer)
    );
    assert_eq!(settings.admin.listen, Some(listener("0.0.0.0", 9181)));
}

#[test]
fn roles_and_providers() {
    use {Provider::*, Role::*};
    for (text, role, provider, admin) in [
        (
            "deployment: {role: traditional, role_traditional: {config_provider: etcd}}",
            Traditional,
            Etcd,
            true,
        ),
        ("deployment: {role_traditional: {config_provider: yaml}}", Traditional, ApiDriven, true),
        (
            "apisix: {enable_admin: false}\ndeployment: {role_traditional: {config_provider: yaml}}",
            Traditional,
            Yaml,
            false,
        ),
        ("apisix: {config_center: yaml, enable_admin: false}", Traditional, Yaml, false),
        ("deployment: {role: data_plane, role_data_plane: {config_provider: yaml}}", DataPlane, Yaml, false),
        ("deployment: {role: data_plane, role_data_plane: {config_provider: json}}", DataPlane, Json, false),
        (
            "deployment: {role: control_plane, role_control_plane: {config_provider: etcd}}",
            ControlPlane,
            Etcd,
            true,
        ),
        ("deployment: {role: control_plane}", ControlPlane, Embedded, true),
        ("deployment: {etcd: {host: 'http://e:2379'}}", Traditional, Etcd, true),
        ("deployment: {etcd: {prefix: /other}}", Traditional, Embedded, true),
        (
            "deployment: {role_traditional: {config_provider: embedded}, etcd: {host: ['http://e:2379']}}",
            Traditional,
            Embedded,
            true,
        ),
        ("deployment: {role: data_plane, etcd: {host: ['http://e:2379']}}", DataPlane, Etcd, false),
        ("apisix: {config_center: etcd}", Traditional, Etcd, true),
        ("etcd: {host: ['http://e:2379']}", Traditional, Etcd, true),
        ("apisix: {allow_admin: [127.0.0.1]}", Traditional, Embedded, true),
    ] {
        let settings = settings(text);
        assert_eq!((settings.role, settings.provider), (role, provider), "{text}");
        assert_eq!(settings.admin.listen.is_some(), admin, "{text}");
    }
    check_error(
        "deployment: {role: data_plane}",
        &[],
        &[
            "config.yaml:1:20: role data_plane needs deployment.role_data_plane.config_provider; name etcd, yaml or json",
        ],
    );
}

#[test]
fn old_layout() {
    let loaded = load_text(
        "apisix:\n  node_listen: 1984\n  admin_key:\n    - {name: a, key: k, role: admin}\n  allow_admin: [127.0.0.1]\n  port_admin: 9999\netcd:\n  host: ['http://e:2379']\n",
        &[],
    )
    .unwrap();
    assert_eq!(loaded.settings.admin.access.keys()[0].value(), Some("k"));
    assert_eq!(loaded.settings.admin.listen, Some(listener("0.0.0.0", 9999)));
    assert_eq!(loaded.settings.admin.allow, Some(vec!["127.0.0.1".to_owned()]));
    assert_eq!(loaded.settings.etcd.hosts, ["http://e:2379"]);
    assert_eq!(loaded.settings.provider, Provider::Etcd);
    assert_eq!(loaded.settings.apisix.router, HttpRouter::Uri);
    assert!(loaded.settings.admin.version_2);
    // Four keys that moved, two defaults that changed since, the keyring, a short key.
    assert_eq!(loaded.warnings.len(), 8, "{:?}", loaded.warnings);
}

#[test]
fn environment_overrides() {
    let variables = [
        ("APISIX_DEPLOYMENT_ETCD_HOST", r#"["http://a:1", "http://b:2"]"#),
        ("APISIX_WORKER_PROCESSES", "5"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "99"),
        ("PORT", "1234"),
    ];
    let settings = load_text("apisix: {node_listen: '${{PORT}}'}\nplugins: ['${{NAME:=cors}}']", &variables)
        .unwrap()
        .settings;
    assert_eq!(settings.etcd.hosts, ["http://a:1", "http://b:2"]);
    assert_eq!(settings.nginx.workers, 5);
    assert_eq!(settings.plugin_attr["opentelemetry"]["batch_span_processor"]["max_export_batch_size"], 99);
    assert_eq!(settings.apisix.node_listen, [listener("0.0.0.0", 1234), implied(1234)]);
    assert_eq!(settings.plugins, ["cors"]);
    let alone = load_text("", &[("APISIX_STAND_ALONE", "true")]).unwrap().settings;
    assert_eq!((alone.role, alone.provider), (Role::DataPlane, Provider::Yaml));
    check_error(
        "a: ${{NONE}}",
        &[],
        &["config.yaml:1:4: failed to handle configuration: can't find environment variable NONE"],
    );
    check_error(
        "",
        &[("APISIX_WORKER_PROCESSES", "x")],
        &["environment variable APISIX_WORKER_PROCESSES should be auto or a number from 1"],
    );
}

#[test]
fn profiles_and_files() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("conf")).unwrap();
    fs::write(folder.path().join("conf/config-dev.yaml"), "apisix: {node_listen: 1111}").unwrap();
    let mut source =
        Source { prefix: folder.path().to_owned(), plugins: vec!["cors", "prometheus"], ..Source::default() };
    let profile = |name: &str| (name == "APISIX_PROFILE").then(|| "dev".to_owned());
    let settings = load_with(&source, &profile).unwrap().settings;
    assert_eq!(settings.apisix.node_listen, [listener("0.0.0.0", 1111), implied(1111)]);
    assert_eq!(settings.files.resources_yaml, folder.path().join("conf/apisix-dev.yaml"));
    source.listen = Some("127.0.0.1:2222".to_owned());
    let settings = load_with(&source, &|_| None).unwrap().settings;
    assert_eq!(settings.apisix.node_listen, [listener("127.0.0.1", 2222)]);
    source.listen = Some("nowhere".to_owned());
    assert!(load_with(&source, &|_| None).unwrap_err().to_string().contains("nowhere"));
    source.file = Some(folder.path().join("none.yaml"));
    assert!(load_with(&source, &|_| None).unwrap_err().to_string().contains("none.yaml"));
}

#[test]
fn roles_and_scopes_of_admin_keys() {
    for (entry, message) in [
        ("role: ~", "1:49: role is empty; use admin, editor or viewer"),
        (
            "scope: {team: a}",
            "1:50: role admin has no scope: who may write users and plugins of code can reach everything; use editor or viewer",
        ),
        ("role: viewer, scope: {}", "1:64: scope is empty; name a label, or remove it"),
        ("role: editor, scope: ~", "1:64: scope is empty; name a label, or remove it"),
    ] {
        check_error(
            &format!("deployment: {{admin: {{admin_key: [{{key: a, {entry}}}]}}}}"),
            &[],
            &[&format!("config.yaml:{message}")],
        );
    }
    let scoped =
        settings("deployment: {admin: {admin_key: [{key: a, role: editor, scope: {team: a, tier: '1'}}]}}");
    let key = &scoped.admin.access.keys()[0];
    assert_eq!((key.role, key.scope.len(), key.scope["tier"].as_str()), (AdminRole::Editor, 2, "1"));
}

#[test]
fn faults_across_keys() {
    // The Admin API may share the data port, as in APISIX 2.x; others may not.
    assert_eq!(
        settings("apisix: {node_listen: 9180}").admin.listen.map(|listener| listener.port),
        Some(9180)
    );
    assert_eq!(
        settings("apisix: {enable_ipv6: false, node_listen: [9080, 9080]}").apisix.node_listen.len(),
        1
    );
    check_error(
        "deployment: {admin: {admin_key: [{name: a}, {name: b, key: ''}]}}",
        &[],
        &["config.yaml:1:33: one key of each role can be generated; give the other entries a key"],
    );
    // Only false opens the Admin API.
    for text in ["admin_key: ~", "admin_key: []", "admin_key_required: ~, admin_key: ~"] {
        let access = settings(&format!("deployment: {{admin: {{{text}}}}}")).admin.access;
        assert_eq!(access, Access::Keys(Vec::new()), "{text}");
    }
    let open = settings("deployment: {admin: {admin_key_required: false}}");
    assert_eq!(open.admin.access, Access::Open);
    assert_eq!(settings("deployment: {admin: {allow_admin: []}}").admin.allow, Some(Vec::new()));
    check_error(
        "apisix:\n  control:\n    port: 9091\n",
        &[],
        &[
            "config.yaml: port 9091 of plugin_attr.prometheus.export_addr is taken by apisix.control; use another",
        ],
    );
    settings("apisix: {node_listen: [{ip: 0.0.0.0, port: 9080}, {ip: '::', port: 9080}]}");
    settings("apisix: {node_listen: 9180, enable_admin: false}");
    check_error(
        "deployment:\n  admin:\n    https_admin: true\n",
        &[],
        &[
            "config.yaml:3:18: https_admin needs admin_api_mtls.admin_ssl_cert and admin_api_mtls.admin_ssl_cert_key",
        ],
    );
    check_error(
        "apisix: {data_encryption: {keyring: [short]}}",
        &[],
        &["config.yaml:1:37: each key should have 16 or 32 characters"],
    );
    check_error(
        "deployment: {role_traditional: {config_provider: etcd}, etcd: {host: ['e:1']}}",
        &[],
        &["config.yaml:1:71: each address should begin with http:// or https://, and one at least is needed"],
    );
    check_error(
        "apisix: [",
        &[],
        &load_text("apisix: [", &[])
            .map(|_| ())
            .map_err(|error| short(&error.0))
            .unwrap_err()
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>(),
    );
}
