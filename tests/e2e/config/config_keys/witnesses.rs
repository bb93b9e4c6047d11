//! Which test sees the effect of which key.

use std::collections::HashSet;
use std::fs;

use tidegate_config::keys;
use tidegate_testkit::gateway::workspace_root;

/// Key, and the file and function of the test.
#[rustfmt::skip]
const WITNESSES: &[(&str, &str)] = &[
    ("deployment.admin.admin_key_required", "config/config_keys/admin::keys_roles_and_networks_are_asked_for"),
    ("deployment.admin.admin_key[].name", "config/config_keys/admin::keys_roles_and_networks_are_asked_for"),
    ("deployment.admin.admin_key[].key", "config/config_keys/admin::keys_roles_and_networks_are_asked_for"),
    ("deployment.admin.admin_key[].role", "config/config_keys/admin::keys_roles_and_networks_are_asked_for"),
    ("deployment.admin.enable_admin_cors", "config/config_keys/admin::answers_have_the_shape_and_headers_of_the_file"),
    ("deployment.admin.allow_admin", "config/config_keys/admin::keys_roles_and_networks_are_asked_for"),
    ("deployment.admin.admin_listen.ip", "config/config_keys/listening::ports_and_addresses_are_those_of_the_file"),
    ("deployment.admin.admin_listen.port", "config/config_keys/listening::ports_and_addresses_are_those_of_the_file"),
    ("deployment.admin.https_admin", "config/config_keys/admin::https_has_the_certificates_of_the_file"),
    ("deployment.admin.admin_api_mtls.admin_ssl_cert", "config/config_keys/admin::https_has_the_certificates_of_the_file"),
    ("deployment.admin.admin_api_mtls.admin_ssl_cert_key", "config/config_keys/admin::https_has_the_certificates_of_the_file"),
    ("deployment.admin.admin_api_mtls.admin_ssl_ca_cert", "config/config_keys/admin::https_has_the_certificates_of_the_file"),
    ("deployment.admin.admin_api_version", "config/config_keys/admin::answers_have_the_shape_and_headers_of_the_file"),
    ("deployment.admin.audit_log", "operations/audit::the_lines_go_where_logs_go"),
    ("deployment.admin.limits.connections", "operations/admin_bounds/connections::strangers_leave_room_for_the_operator"),
    ("deployment.admin.limits.connections_per_address", "operations/admin_bounds/connections::clients_with_a_key_do_not_count"),
    ("deployment.admin.limits.header_timeout", "operations/admin_bounds/connections::heads_and_idle_connections_have_their_times"),
    ("deployment.admin.limits.body_timeout", "operations/admin_bounds/bodies::a_body_has_its_time_and_more_while_it_makes_progress"),
    ("deployment.admin.limits.keepalive_timeout", "operations/admin_bounds/connections::heads_and_idle_connections_have_their_times"),
    ("deployment.admin.limits.large_bodies", "operations/admin_bounds/bodies::few_large_bodies_are_taken_at_a_time"),
    ("deployment.admin.limits.compile_timeout", "config/changes::a_write_that_is_not_compiled_in_time_says_so"),
    ("deployment.admin.limits.reserved_descriptors", "operations/admin_bounds/descriptors::the_reserve_is_that_of_the_file"),
    ("deployment.role", "config/etcd/roles::a_control_plane_writes_and_a_data_plane_serves"),
    ("deployment.role_traditional.config_provider", "config/config_keys/words::stream_routes_are_refused_wherever_they_come_from"),
    ("deployment.role_data_plane.config_provider", "config/etcd/roles::a_control_plane_writes_and_a_data_plane_serves"),
    ("deployment.role_control_plane.config_provider", "config/etcd/roles::a_control_plane_writes_and_a_data_plane_serves"),
    ("deployment.etcd.host", "config/etcd/roles::a_control_plane_writes_and_a_data_plane_serves"),
    ("deployment.etcd.prefix", "config/etcd/second_version::a_config_of_2_10_runs_unchanged"),
    ("deployment.etcd.startup_retry", "config/config_keys/admin::a_start_asks_etcd_as_often_as_the_file_says"),
    ("deployment.etcd.user", "config/etcd/secured::tokens_are_renewed_and_passwords_checked"),
    ("deployment.etcd.password", "config/etcd/secured::tokens_are_renewed_and_passwords_checked"),
    ("deployment.etcd.tls.cert", "config/etcd/secured::certificates_are_shown_and_checked"),
    ("deployment.etcd.tls.key", "config/etcd/secured::certificates_are_shown_and_checked"),
    ("deployment.etcd.tls.verify", "config/etcd/secured::certificates_are_shown_and_checked"),
    ("deployment.etcd.tls.sni", "config/etcd/secured::certificates_are_shown_and_checked"),
    ("history.max_entries", "operations/history::a_checkpoint_outlives_its_history"),
    ("history.max_bytes", "operations/history/bytes::large_writes_take_no_more_of_the_disk_than_the_file_says"),
    ("apisix.node_listen", "config/config_keys/listening::ports_and_addresses_are_those_of_the_file"),
    ("apisix.node_listen[].ip", "config/config_keys/listening::ports_and_addresses_are_those_of_the_file"),
    ("apisix.node_listen[].port", "config/config_keys/listening::ports_and_addresses_are_those_of_the_file"),
    ("apisix.enable_admin", "config/config_keys/listening::what_is_switched_off_does_not_listen"),
    ("apisix.enable_dev_mode", "config/config_keys/process::workers_are_as_many_as_the_file_says_and_where_it_says"),
    ("apisix.show_upstream_status_in_response_header", "config/config_keys/requests::paths_answers_and_addresses_of_apis"),
    ("apisix.enable_ipv6", "config/config_keys/listening::what_is_switched_off_does_not_listen"),
    ("apisix.enable_http2", "protocols/http2::it_can_be_switched_off"),
    ("apisix.http2.max_concurrent_streams", "config/config_keys/protocols::http2_clients_are_told_their_limits"),
    ("apisix.http2.stream_window", "config/config_keys/protocols::http2_clients_are_told_their_limits"),
    ("apisix.http2.connection_window", "config/config_keys/protocols::http2_clients_are_told_their_limits"),
    ("apisix.http2.max_resets", "config/config_keys/protocols::http2_floods_are_what_the_file_says"),
    ("apisix.http2.max_control_frames", "config/config_keys/protocols::http2_floods_are_what_the_file_says"),
    ("apisix.proxy_protocol.listen_http_port", "protocols/proxy_protocol::headers_are_taken_off_and_believed_where_configured"),
    ("apisix.proxy_protocol.listen_https_port", "protocols/proxy_protocol::headers_are_taken_off_and_believed_where_configured"),
    ("apisix.enable_server_tokens", "config/config_keys/requests::paths_answers_and_addresses_of_apis"),
    ("apisix.proxy_cache.cache_ttl", "config/config_keys/caches::answers_on_disk_get_the_age_of_the_file"),
    ("apisix.proxy_cache.zones[].name", "config/config_keys/caches::caches_have_the_names_sizes_and_folders_of_the_file"),
    ("apisix.proxy_cache.zones[].memory_size", "config/config_keys/caches::caches_have_the_names_sizes_and_folders_of_the_file"),
    ("apisix.proxy_cache.zones[].disk_size", "config/config_keys/caches::caches_have_the_names_sizes_and_folders_of_the_file"),
    ("apisix.proxy_cache.zones[].disk_path", "config/config_keys/caches::caches_have_the_names_sizes_and_folders_of_the_file"),
    ("apisix.proxy_cache.zones[].cache_levels", "config/config_keys/caches::caches_have_the_names_sizes_and_folders_of_the_file"),
    ("apisix.delete_uri_tail_slash", "config/config_keys/requests::paths_answers_and_addresses_of_apis"),
    ("apisix.normalize_uri_like_servlet", "config/config_keys/requests::paths_answers_and_addresses_of_apis"),
    ("apisix.match_uri_encoded_slash", "config/config_keys/requests::paths_answers_and_addresses_of_apis"),
    ("apisix.max_post_args_readable_size", "config/config_keys/requests::bodies_and_the_addresses_of_clients"),
    ("apisix.body_memory.total", "plugins/body_memory::beyond_the_budget_requests_are_refused_and_others_served"),
    ("apisix.body_memory.min_rate", "plugins/body_memory::who_holds_memory_has_to_send"),
    ("apisix.body_memory.rate_window", "plugins/body_memory::who_holds_memory_has_to_send"),
    ("apisix.body_memory.parsed", "config/config_keys/requests::bodies_and_the_addresses_of_clients"),
    ("apisix.max_own_hops", "config/loops::chains_end_at_the_limit_of_the_file"),
    ("apisix.proxy_protocol.enable_tcp_pp", "protocols/stream/secure::proxy_headers_come_in_and_go_out"),
    ("apisix.proxy_protocol.enable_tcp_pp_to_upstream", "protocols/stream/secure::proxy_headers_come_in_and_go_out"),
    ("apisix.proxy_mode", "protocols/stream/sessions::routes_are_found_by_port_and_addresses"),
    ("apisix.stream_proxy.tcp", "protocols/stream/sessions::routes_are_found_by_port_and_addresses"),
    ("apisix.stream_proxy.tcp[].addr", "protocols/stream/secure::tls_ends_here_and_names_choose"),
    ("apisix.stream_proxy.tcp[].tls", "protocols/stream/secure::tls_ends_here_and_names_choose"),
    ("apisix.stream_proxy.tcp[].proxy_protocol", "protocols/stream/secure::proxy_headers_come_in_and_go_out"),
    ("apisix.stream_proxy.tcp[].proxy_protocol_to_upstream", "protocols/stream/secure::proxy_headers_come_in_and_go_out"),
    ("apisix.stream_proxy.udp", "protocols/stream/udp::datagrams_of_a_client_stay_with_one_node"),
    ("apisix.client_limits.udp_sessions", "protocols/stream/udp::invented_addresses_take_no_place_from_sessions_that_work"),
    ("apisix.client_limits.udp_sessions_per_address", "protocols/stream/udp::invented_addresses_take_no_place_from_sessions_that_work"),
    ("apisix.client_limits.sessions_per_stream_route", "protocols/stream/limits::sessions_of_a_route_and_of_an_address_are_bounded"),
    ("nginx_config.stream.enable_access_log", "protocols/stream/sessions::redis_is_reached_through_a_service"),
    ("nginx_config.stream.access_log", "protocols/stream/sessions::redis_is_reached_through_a_service"),
    ("nginx_config.stream.access_log_format", "protocols/stream/sessions::redis_is_reached_through_a_service"),
    ("nginx_config.stream.access_log_format_escape", "protocols/stream/plugins::mqtt_clients_are_balanced_by_their_ids"),
    ("nginx_config.stream.real_ip_from", "protocols/stream/secure::proxy_headers_come_in_and_go_out"),
    ("stream_plugins", "protocols/stream/plugins::ip_restriction_and_limit_conn_close"),
    ("apisix.client_limits.handshakes", "protocols/half_handshakes::they_keep_nobody_out"),
    ("apisix.client_limits.handshakes_per_address", "protocols/half_handshakes::they_keep_nobody_out"),
    ("apisix.client_limits.handshake_timeout", "plugins/byte_bounds::half_handshakes_are_given_up"),
    ("apisix.plugin_answer_memory", "plugins/side_answers::answers_without_end_take_little"),
    ("apisix.log_memory", "plugins/byte_bounds::entries_that_nobody_takes_are_bounded_in_bytes"),
    ("apisix.router.http", "config/config_keys/requests::paths_answers_and_addresses_of_apis"),
    ("apisix.dns_resolver", "config/config_keys/listening::a_name_server_of_the_file_is_asked"),
    ("apisix.ssl.enable", "config/config_keys/listening::what_is_switched_off_does_not_listen"),
    ("apisix.ssl.listen", "config/config_keys/listening::ports_and_addresses_are_those_of_the_file"),
    ("apisix.ssl.listen[].ip", "config/config_keys/listening::ports_and_addresses_are_those_of_the_file"),
    ("apisix.ssl.listen[].port", "config/config_keys/listening::ports_and_addresses_are_those_of_the_file"),
    ("apisix.ssl.ssl_trusted_certificate", "protocols/tls_upstream::upstreams_are_verified_when_asked_to"),
    ("apisix.ssl.ssl_protocols", "config/config_keys/protocols::clients_get_the_protocols_of_the_file"),
    ("apisix.ssl.ssl_ciphers", "config/config_keys/protocols::clients_get_the_cipher_suites_of_the_file"),
    ("apisix.ssl.ssl_session_tickets", "protocols/tls_server::sessions_are_resumed_by_every_worker"),
    ("apisix.ssl.fallback_sni", "protocols/tls_server::the_certificate_suits_the_client"),
    ("apisix.enable_control", "config/config_keys/listening::what_is_switched_off_does_not_listen"),
    ("apisix.control.ip", "config/config_keys/listening::ports_and_addresses_are_those_of_the_file"),
    ("apisix.control.port", "config/config_keys/listening::ports_and_addresses_are_those_of_the_file"),
    ("apisix.control.hosts", "config/rebinding::pages_of_browsers_do_not_reach_what_asks_for_no_key"),
    ("apisix.data_encryption.enable_encrypt_fields", "config/config_keys/admin::secrets_of_plugins_are_encrypted_on_disk_unless_the_file_says_no"),
    ("apisix.data_encryption.keyring", "config/config_keys/admin::secrets_of_plugins_are_encrypted_on_disk_unless_the_file_says_no"),
    ("apisix.status.ip", "config/config_keys/listening::ports_and_addresses_are_those_of_the_file"),
    ("apisix.status.port", "config/config_keys/listening::ports_and_addresses_are_those_of_the_file"),
    ("apisix.disable_upstream_healthcheck", "config/config_keys/listening::health_checks_can_be_switched_off"),
    ("apisix.client_limits.connections", "protocols/slow_clients::connections_are_limited_together_and_by_address"),
    ("apisix.client_limits.connections_per_address", "protocols/slow_clients::connections_are_limited_together_and_by_address"),
    ("apisix.client_limits.min_body_rate", "protocols/slow_clients::bodies_have_a_least_rate_when_asked_for"),
    ("apisix.client_limits.min_answer_rate", "protocols/slow_clients::answers_have_a_time_limit_and_a_least_rate"),
    ("apisix.client_limits.rate_window", "protocols/slow_clients::bodies_have_a_least_rate_when_asked_for"),
    ("apisix.trusted_gateways", "config/claims::gateways_in_front_say_who_the_client_is"),
    ("apisix.trusted_addresses", "config/config_keys/requests::bodies_and_the_addresses_of_clients"),
    ("apisix.lru.secret.ttl", "config/secrets::values_are_refreshed_kept_and_withdrawn"),
    ("apisix.lru.secret.neg_ttl", "config/secrets::values_are_refreshed_kept_and_withdrawn"),
    ("nginx_config.error_log", "config/config_keys/logs::errors_go_where_the_file_says_from_its_level_on"),
    ("nginx_config.error_log_level", "config/config_keys/logs::errors_go_where_the_file_says_from_its_level_on"),
    ("nginx_config.worker_processes", "config/config_keys/process::workers_are_as_many_as_the_file_says_and_where_it_says"),
    ("nginx_config.enable_cpu_affinity", "config/config_keys/process::workers_are_as_many_as_the_file_says_and_where_it_says"),
    ("nginx_config.worker_shutdown_timeout", "config/config_keys/process::a_graceful_stop_waits_as_long_as_it_may"),
    ("nginx_config.event.worker_connections", "config/config_keys/process::connections_of_a_worker_have_a_limit"),
    ("nginx_config.http.enable_access_log", "config/config_keys/logs::lines_of_requests_have_the_format_of_the_file"),
    ("nginx_config.http.access_log", "config/config_keys/logs::lines_of_requests_have_the_format_of_the_file"),
    ("nginx_config.http.access_log_format", "config/config_keys/logs::lines_of_requests_have_the_format_of_the_file"),
    ("nginx_config.http.access_log_format_escape", "config/config_keys/logs::lines_of_requests_have_the_format_of_the_file"),
    ("nginx_config.http.keepalive_timeout", "config/config_keys/process::times_of_clients_are_those_of_the_file"),
    ("nginx_config.http.client_header_timeout", "protocols/slow_clients::a_head_has_one_time_limit_however_it_drips"),
    ("nginx_config.http.client_body_timeout", "protocols/gathering::limits_of_bodies_hold_while_they_are_gathered"),
    ("nginx_config.http.client_max_body_size", "config/config_keys/requests::bodies_and_the_addresses_of_clients"),
    ("nginx_config.http.send_timeout", "protocols/slow_clients::answers_have_a_time_limit_and_a_least_rate"),
    ("nginx_config.http.underscores_in_headers", "config/claims::names_with_underscores_can_be_refused"),
    ("nginx_config.http.real_ip_header", "config/config_keys/requests::bodies_and_the_addresses_of_clients"),
    ("nginx_config.http.real_ip_recursive", "config/config_keys/requests::bodies_and_the_addresses_of_clients"),
    ("nginx_config.http.real_ip_from", "config/config_keys/requests::bodies_and_the_addresses_of_clients"),
    ("nginx_config.http.upstream.keepalive", "config/config_keys/caches::connections_to_upstreams_are_kept_as_the_file_says"),
    ("nginx_config.http.upstream.keepalive_requests", "config/config_keys/caches::connections_to_upstreams_are_kept_as_the_file_says"),
    ("nginx_config.http.upstream.keepalive_timeout", "config/config_keys/caches::idle_connections_to_upstreams_end_when_the_file_says"),
    ("graphql.max_size", "config/config_keys/requests::bodies_and_the_addresses_of_clients"),
    ("plugins", "config/config_keys/requests::plugins_that_are_not_listed_are_off"),
    ("discovery", "config/discovery/settings::a_bad_registry_stops_the_start_with_its_name"),
    ("discovery.dns", "config/discovery/dns::addresses_of_a_name_with_a_port"),
    ("discovery.consul", "config/discovery/consul::instances_come_and_go_and_stay_while_consul_is_down"),
    ("discovery.consul_kv", "config/discovery/consul_kv::keys_come_and_go"),
    ("discovery.nacos", "config/discovery/nacos::instances_by_namespace_and_group"),
    ("discovery.eureka", "config/discovery/eureka::applications_that_are_up"),
    ("discovery.kubernetes", "config/discovery/kubernetes::endpoints_are_listed_and_watched"),
    ("plugin_attr.prometheus.export_uri", "plugins/prometheus::attributes_and_metadata_change_names_and_labels"),
    ("plugin_attr.prometheus.metric_prefix", "plugins/prometheus::attributes_and_metadata_change_names_and_labels"),
    ("plugin_attr.prometheus.enable_export_server", "config/config_keys/listening::what_is_switched_off_does_not_listen"),
    ("plugin_attr.prometheus.export_addr.ip", "config/config_keys/listening::ports_and_addresses_are_those_of_the_file"),
    ("plugin_attr.prometheus.export_addr.port", "config/config_keys/listening::ports_and_addresses_are_those_of_the_file"),
    ("plugin_attr.prometheus.max_series", "plugins/byte_bounds::series_beyond_the_limit_are_counted_together"),
    ("plugin_attr.prometheus.default_buckets", "plugins/prometheus::attributes_and_metadata_change_names_and_labels"),
    ("plugin_attr.prometheus.metrics.http_status.extra_labels", "plugins/prometheus::attributes_and_metadata_change_names_and_labels"),
    ("plugin_attr.log-rotate.interval", "config/config_keys/logs::logs_are_rotated_by_time_and_by_size_and_few_are_kept"),
    ("plugin_attr.log-rotate.max_kept", "config/config_keys/logs::logs_are_rotated_by_time_and_by_size_and_few_are_kept"),
    ("plugin_attr.log-rotate.max_size", "config/config_keys/logs::logs_are_rotated_by_time_and_by_size_and_few_are_kept"),
    ("plugin_attr.log-rotate.enable_compression", "config/config_keys/logs::logs_are_rotated_by_time_and_by_size_and_few_are_kept"),
    ("plugin_attr.opentelemetry.trace_id_source", "config/config_keys/telemetry::identifiers_of_traces_are_shown_and_chosen_as_the_file_says"),
    ("plugin_attr.opentelemetry.resource", "config/config_keys/telemetry::traces_are_reported_as_the_file_says"),
    ("plugin_attr.opentelemetry.collector.address", "config/config_keys/telemetry::traces_are_reported_as_the_file_says"),
    ("plugin_attr.opentelemetry.collector.request_headers", "config/config_keys/telemetry::traces_are_reported_as_the_file_says"),
    ("plugin_attr.opentelemetry.set_ngx_var", "config/config_keys/telemetry::identifiers_of_traces_are_shown_and_chosen_as_the_file_says"),
    ("plugin_attr.zipkin.set_ngx_var", "config/config_keys/telemetry::identifiers_of_traces_are_shown_and_chosen_as_the_file_says"),
    ("plugin_attr.redirect.https_port", "config/config_keys/requests::paths_answers_and_addresses_of_apis"),
    ("plugin_attr.static-files.threads", "config/config_keys/process::threads_that_read_files_are_as_many_as_the_file_says"),
    ("plugin_attr.serverless.time_limit_ms", "config/config_keys/process::functions_have_the_time_that_the_file_gives"),
    ("plugin_attr.serverless-pre-function.time_limit_ms", "config/config_keys/process::functions_have_the_time_that_the_file_gives"),
    ("plugin_attr.batch-requests.uri", "config/config_keys/requests::paths_answers_and_addresses_of_apis"),
    ("plugin_attr.node-status.uri", "config/config_keys/requests::paths_answers_and_addresses_of_apis"),
    ("nginx_config.http.proxy_ssl_server_name", "config/config_keys/protocols::upstreams_are_told_the_name_that_is_meant_unless_the_file_says_no"),
    ("apisix.dns_resolver_valid", "config/config_keys/listening::names_are_kept_as_long_as_the_file_says"),
    ("plugin_attr.prometheus.metrics.http_status.expire", "config/config_keys/telemetry::metrics_go_when_the_file_says"),
    ("plugin_attr.prometheus.metrics.http_latency.expire", "config/config_keys/telemetry::metrics_go_when_the_file_says"),
    ("plugin_attr.prometheus.metrics.bandwidth.expire", "config/config_keys/telemetry::metrics_go_when_the_file_says"),
    ("plugin_attr.prometheus.metrics.http_latency.extra_labels", "config/config_keys/telemetry::metrics_have_the_labels_of_the_file"),
    ("plugin_attr.prometheus.metrics.bandwidth.extra_labels", "config/config_keys/telemetry::metrics_have_the_labels_of_the_file"),
    ("plugin_attr.opentelemetry.batch_span_processor.max_export_batch_size", "config/config_keys/telemetry::batches_are_as_large_as_the_file_says"),
    ("plugin_attr.proxy-mirror.timeout.connect", "config/config_keys/telemetry::mirrors_are_given_up_when_the_file_says"),
    ("plugin_attr.proxy-mirror.timeout.read", "config/config_keys/telemetry::mirrors_are_given_up_when_the_file_says"),
    ("plugin_attr.proxy-mirror.timeout.send", "config/config_keys/telemetry::mirrors_are_given_up_when_the_file_says"),
];

/// Keys that are served and that no test sees from outside, and why. A debt: it may only shrink.
#[rustfmt::skip]
const UNSEEN: &[(&str, &str)] = &[
    ("nginx_config.worker_rlimit_nofile", "the process takes what the system allows at most: more needs CAP_SYS_RESOURCE"),
    ("nginx_config.http.access_log_buffer", "a smaller buffer only changes the number of writes"),
    ("apisix.resolver_timeout", "needs a name server that is silent, and time"),
    ("apisix.enable_resolv_search_opt", "needs another /etc/resolv.conf"),
    ("deployment.etcd.timeout", "needs an etcd that stops in the middle of an answer"),
    ("deployment.etcd.resync_delay", "a pause, which only times tell"),
    ("history.max_age", "tested in crate store, where the clock can be set"),
    ("plugin_attr.opentelemetry.collector.request_timeout", "needs time"),
    ("plugin_attr.opentelemetry.batch_span_processor.max_queue_size", "needs a collector that is slower than requests"),
    ("plugin_attr.opentelemetry.batch_span_processor.batch_timeout", "needs time"),
    ("plugin_attr.opentelemetry.batch_span_processor.inactive_timeout", "needs time"),
    ("discovery.nacos.timeout", "needs a registry that is silent, and time"),
    ("discovery.eureka.timeout", "as discovery.nacos.timeout"),
    ("plugin_attr.static-files.queue", "needs a disk that is slow"),
];

#[test]
fn every_key_that_is_served_has_a_witness() {
    let witnessed: HashSet<&str> = WITNESSES.iter().chain(UNSEEN).map(|(key, _)| *key).collect();
    assert_eq!(witnessed.len(), WITNESSES.len() + UNSEEN.len(), "a key is named twice");
    let served: HashSet<&str> = keys::all().filter(|key| key.needs_witness()).map(|key| key.path).collect();
    let missing: Vec<&&str> = served.difference(&witnessed).collect();
    assert!(missing.is_empty(), "served without a test: {missing:#?}");
    let gone: Vec<&&str> = witnessed.difference(&served).collect();
    assert!(gone.is_empty(), "not served, or no key: {gone:#?}");
}

#[test]
fn witnesses_exist_and_name_their_keys() {
    let folder = workspace_root().join("tests/e2e");
    let mut wrong = Vec::new();
    for (key, witness) in WITNESSES {
        let (file, function) = witness.split_once("::").expect("file::function");
        // The settings of a table of tests may stand above its functions, or in the file of its folder.
        let above = file.rsplit_once('/').map_or(file, |(above, _)| above);
        let [own, shared] = [file, above]
            .map(|name| fs::read_to_string(folder.join(format!("{name}.rs"))).unwrap_or_default());
        if !own.contains(&format!("#[test]\nfn {function}() {{")) {
            wrong.push(format!("{key}: no test {witness}"));
        }
        let name = key.rsplit('.').next().unwrap_or_default();
        if !own.contains(name) && !shared.contains(name) {
            wrong.push(format!("{key}: {file}.rs does not mention {name}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
