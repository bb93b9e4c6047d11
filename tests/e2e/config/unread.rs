//! Keys of config.yaml that cannot have the effect that they were written for are named with file and line.

use std::fs;
use std::process::Command;

use tidegate_testkit::gateway::binary;

/// What is put into config.yaml, the line, and what is said; empty: nothing.
const CASES: [(&str, &str, &str); 17] = [
    (
        "nginx_config: {http: {real_ip_header: X_Real_IP, real_ip_from: [127.0.0.1], underscores_in_headers: 'off'}}",
        "1",
        "X_Real_IP is never read: fields with _ in their names are dropped",
    ),
    (
        "nginx_config: {http: {real_ip_header: X_Real_IP, real_ip_from: [127.0.0.1], underscores_in_headers: 'on'}}",
        "",
        "",
    ),
    ("nginx_config: {http: {real_ip_header: proxy_protocol}}", "1", "no port speaks the PROXY protocol"),
    (
        "apisix: {proxy_protocol: {listen_http_port: 9181}}\nnginx_config: {http: {real_ip_header: proxy_protocol}}",
        "",
        "",
    ),
    ("apisix: {proxy_protocol: {listen_http_port: 9181}}", "1", "the address in PROXY headers is not used"),
    (
        "apisix: {enable_admin: false}\ndeployment: {admin: {admin_listen: {ip: 127.0.0.1, port: 9180}}}",
        "2",
        "no effect: deployment.admin.admin_listen: the Admin API is not served, because apisix.enable_admin is false",
    ),
    (
        "deployment: {role: data_plane, role_data_plane: {config_provider: yaml}, admin: {admin_listen: {ip: 127.0.0.1, port: 9180}}}",
        "1",
        "because deployment.role is data_plane",
    ),
    ("apisix: {proxy_mode: http&stream}", "1", "nothing listens for TCP or UDP"),
    (
        "apisix: {proxy_mode: http&stream, stream_proxy: {tcp: [{addr: 9182, proxy_protocol: true}]}}",
        "1",
        "no peer's PROXY header is believed",
    ),
    (
        "apisix: {proxy_mode: http&stream, stream_proxy: {tcp: [{addr: 9182, proxy_protocol: true}]}}\nnginx_config: {stream: {real_ip_from: [127.0.0.1]}}",
        "",
        "",
    ),
    ("apisix: {proxy_mode: http&stream, stream_proxy: {tcp: [9100]}}", "", ""),
    ("apisix: {ssl: {fallback_sni: 'not a name!'}}", "1", "\"not a name!\" is not a host name"),
    ("deployment: {etcd: {host: ['http://127.0.0.1:1'], prefix: apisix}}", "1", "does not begin with /"),
    (
        "deployment: {etcd: {host: ['http://127.0.0.1:1'], tls: {verify: false}}}",
        "1",
        "no effect: deployment.etcd.tls.verify: deployment.etcd.host has no address with https://",
    ),
    ("deployment: {etcd: {host: ['http://127.0.0.1:1'], tls: {verify: true}}}", "", ""),
    (
        "deployment: {etcd: {host: ['http://127.0.0.1:1'], user: root}}",
        "1",
        "deployment.etcd.user has no effect without deployment.etcd.password",
    ),
    ("deployment: {etcd: {host: ['http://127.0.0.1:1'], user: root, password: p, prefix: /apisix}}", "", ""),
];

#[test]
fn a_test_names_them() {
    for (text, line, expected) in CASES {
        let prefix = tempfile::tempdir().expect("a folder");
        let file = prefix.path().join("conf/config.yaml");
        fs::create_dir_all(prefix.path().join("conf")).expect("a folder");
        fs::write(&file, text).expect("written");
        let output = Command::new(binary())
            .arg("test")
            .arg("--prefix")
            .arg(prefix.path())
            .output()
            .expect("tidegate runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let place = format!("{}:{line}:", file.display());
        match expected {
            "" => assert!(
                !["never read", "no effect", "nothing listens", "does not begin", "host name", "is believed"]
                    .iter()
                    .any(|text| said.contains(text)),
                "{text}: {said}"
            ),
            expected => assert!(
                said.lines().any(|said| said.contains(&place) && said.contains(expected)),
                "{text}: {said}"
            ),
        }
    }
}
