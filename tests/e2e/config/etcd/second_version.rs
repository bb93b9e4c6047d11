//! A config.yaml of APISIX 2.10 runs as it is: all keys of its defaults, Admin API on the data port, etcd at the top.

use tidegate_testkit::{Etcd, Gateway, eventually, free_port};

use super::{mock, status};

/// Every key of that version, with its value then; ports and the address of etcd are the test's.
const CONFIG: &str = "
apisix:
  node_listen: @HTTP@
  enable_admin: true
  enable_admin_cors: true
  enable_debug: false
  enable_dev_mode: false
  enable_reuseport: true
  enable_ipv6: false
  config_center: etcd
  enable_server_tokens: true
  extra_lua_path: ''
  extra_lua_cpath: ''
  proxy_cache:
    cache_ttl: 10s
    zones: [{name: disk_cache_one, memory_size: 50m, disk_size: 1G, disk_path: /tmp/disk_cache_one, cache_levels: '1:2'}]
  allow_admin: [127.0.0.0/24]
  admin_api_mtls: {admin_ssl_cert: '', admin_ssl_cert_key: '', admin_ssl_ca_cert: ''}
  admin_key:
    - {name: admin, key: test-admin-key, role: admin}
    - {name: viewer, key: test-viewer-key, role: viewer}
  delete_uri_tail_slash: false
  global_rule_skip_internal_api: true
  router: {http: radixtree_uri, ssl: radixtree_sni}
  resolver_timeout: 5
  enable_resolv_search_opt: true
  ssl:
    enable: true
    enable_http2: true
    listen_port: @TLS@
    ssl_protocols: TLSv1.2 TLSv1.3
    ssl_ciphers: ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256
    ssl_session_tickets: false
    key_encrypt_salt: edd1c9f0985e76a2
  enable_control: true
  control: {ip: 127.0.0.1, port: @CONTROL@}
  disable_sync_configuration_during_start: false
nginx_config:
  error_log: logs/error.log
  error_log_level: warn
  worker_processes: 1
  enable_cpu_affinity: true
  worker_rlimit_nofile: 20480
  worker_shutdown_timeout: 240s
  event: {worker_connections: 10620}
  stream: {lua_shared_dict: {etcd-cluster-health-check-stream: 10m}}
  main_configuration_snippet: |
    # nothing
  http_configuration_snippet: |
    # nothing
  http_server_configuration_snippet: |
    # nothing
  http_admin_configuration_snippet: |
    # nothing
  http_end_configuration_snippet: |
    # nothing
  stream_configuration_snippet: |
    # nothing
  http:
    enable_access_log: true
    access_log: logs/access.log
    access_log_format: '$remote_addr - $remote_user [$time_local] $http_host \"$request\" $status'
    access_log_format_escape: default
    keepalive_timeout: 60s
    client_header_timeout: 60s
    client_body_timeout: 60s
    client_max_body_size: 0
    send_timeout: 10s
    underscores_in_headers: 'on'
    real_ip_header: X-Real-IP
    real_ip_recursive: 'off'
    real_ip_from: [127.0.0.1, 'unix:']
    proxy_ssl_server_name: true
    upstream: {keepalive: 320, keepalive_requests: 1000, keepalive_timeout: 60s}
    charset: utf-8
    variables_hash_max_size: 2048
    lua_shared_dict: {internal-status: 10m, plugin-limit-req: 10m}
etcd:
  host: ['@ETCD@']
  prefix: /apisix
  timeout: 30
  health_check_timeout: 10
  health_check_retry: 2
  tls: {verify: true}
graphql: {max_size: 1048576}
plugins: [real-ip, client-control, request-id, fault-injection, serverless-pre-function, batch-requests, cors,
  ip-restriction, ua-restriction, referer-restriction, uri-blocker, request-validation, openid-connect, wolf-rbac,
  hmac-auth, basic-auth, jwt-auth, key-auth, consumer-restriction, authz-keycloak, proxy-mirror, proxy-cache,
  proxy-rewrite, api-breaker, limit-conn, limit-count, limit-req, gzip, server-info, traffic-split, redirect,
  response-rewrite, grpc-transcode, prometheus, datadog, echo, http-logger, sls-logger, tcp-logger, kafka-logger,
  syslog, udp-logger, example-plugin, mocking, serverless-post-function, ext-plugin-post-req]
stream_plugins: [ip-restriction, limit-conn, mqtt-proxy]
plugin_attr:
  log-rotate: {interval: 3600, max_kept: 168}
  skywalking: {service_name: APISIX, service_instance_name: APISIX Instance Name, endpoint_addr: 'http://127.0.0.1:12800'}
  opentelemetry: {trace_id_source: x-request-id}
  prometheus:
    export_uri: /apisix/prometheus/metrics
    metric_prefix: apisix_
    enable_export_server: true
    export_addr: {ip: 127.0.0.1, port: @METRICS@}
  server-info: {report_interval: 60, report_ttl: 3600}
  dubbo-proxy: {upstream_multiplex_count: 32}
";

#[test]
fn a_config_of_2_10_runs_unchanged() {
    let etcd = Etcd::start();
    etcd.put("/apisix/routes/old", &mock("/old", 202));
    let config = CONFIG.replace("@ETCD@", &etcd.url()).replace("@TLS@", &free_port().to_string());
    let gateway = Gateway::start(&config, None);
    assert_eq!(status(&gateway, "/old"), 202);
    let call = |method: &str, path: &str, key: &str, body: &str| {
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: h\r\nX-API-KEY: {key}\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let answer = gateway.client().request(&request).expect("an answer");
        (answer.status(), answer.body_text())
    };
    // On the data port, in the shape of that version.
    let (code, answer) = call("PUT", "/apisix/admin/routes/1", "test-admin-key", &mock("/new", 201));
    assert_eq!(code, 201, "{answer}");
    assert!(answer.contains(r#""action":"set""#) && answer.contains(r#""node":{"#), "{answer}");
    assert_eq!(status(&gateway, "/new"), 201);
    let (code, answer) = call("GET", "/apisix/admin/routes", "test-viewer-key", "");
    assert_eq!(code, 200);
    assert!(answer.contains(r#""nodes":["#) && answer.contains(r#""key":"/apisix/routes/old""#), "{answer}");
    assert_eq!(call("PUT", "/apisix/admin/routes/1", "test-viewer-key", "{}").0, 401);
    assert_eq!(call("GET", "/apisix/admin/routes", "wrong", "").0, 401);
    eventually("it is in etcd", || etcd.get("/apisix/routes/1").contains(r#""uri":"/new""#));

    let said = gateway.process.output();
    for note in [
        "apisix.admin_key is the APISIX 2.x name; it is read as deployment.admin.admin_key",
        "apisix.allow_admin is the APISIX 2.x name; it is read as deployment.admin.allow_admin",
        "apisix.config_center is the APISIX 2.x name; it is read as deployment.role_traditional.config_provider",
        "apisix.ssl.listen_port is the APISIX 2.x name; it is read as apisix.ssl.listen",
        "apisix.ssl.key_encrypt_salt is the APISIX 2.x name; it is read as apisix.data_encryption.keyring",
        "etcd is the APISIX 2.x name; it is read as deployment.etcd",
        "without port_admin: the Admin API shares port",
        "deployment.admin.admin_api_version is v2",
    ] {
        assert!(said.contains(note), "{note:?} in:\n{said}");
    }
}
