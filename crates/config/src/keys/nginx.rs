//! `nginx_config`: processes, logs, timeouts.

use super::{
    forms,
    key::Otherwise::*,
    key::Takes::*,
    key::{COUNT, Key, key, unset},
};

const NO_TIMER_LIMIT: &str = "timers have no limit";
const NO_DICT: &str = "there are no shared dictionaries; what needs memory takes it";
const NO_NGINX: &str = "there is no nginx to read it; look for a key or a plugin that does the same";

const WORKERS: super::key::Takes = AnyOf(&[Word(&["auto"]), Integer(1, 1024)]);
const LEVELS: super::key::Takes =
    Word(&["debug", "info", "notice", "warn", "error", "crit", "alert", "emerg"]);
const ESCAPES: super::key::Takes = Word(&["default", "json", "none"]);

#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    key("nginx_config", Table, "{}", "Processes, logs and timeouts; the name is from APISIX, there is no nginx here."),
    unset("nginx_config.user", Text, "\"nobody\"", "The user of the workers.")
        .no_effect("start the process as the user it should run as"),
    key("nginx_config.error_log", Form(&forms::ERROR_LOG), "\"logs/error.log\"", "The error log, below the prefix; /dev/stderr for containers."),
    key("nginx_config.error_log_level", LEVELS, "\"warn\"", "The least serious level that is logged."),
    key("nginx_config.worker_processes", WORKERS, "\"auto\"",
        "Worker threads; auto is one for each core. APISIX_WORKER_PROCESSES in the environment takes precedence."),
    key("nginx_config.enable_cpu_affinity", Bool, "false", "Tie each worker to a core."),
    key("nginx_config.worker_rlimit_nofile", COUNT, "20480", "Open files the process asks the system for; a limit that is higher already stays."),
    key("nginx_config.worker_shutdown_timeout", Duration, "\"240s\"", "How long a graceful stop waits for requests; 0 means no limit."),
    key("nginx_config.max_pending_timers", COUNT, "16384", "Pending timers at most.")
        .no_effect(NO_TIMER_LIMIT),
    key("nginx_config.max_running_timers", COUNT, "4096", "Running timers at most.")
        .no_effect(NO_TIMER_LIMIT),
    key("nginx_config.event", Table, "{}", "Connections."),
    key("nginx_config.event.worker_connections", Integer(1, i64::MAX), "10620", "Connections of each worker, to clients and upstreams."),
    unset("nginx_config.envs", List(&Text), "[\"TEST_ENV\"]", "Environment variables to pass on.")
        .no_effect("the whole environment is visible"),
    key("nginx_config.meta", FreeTable, "{}", "Shared dictionaries of nginx.")
        .no_effect(NO_DICT),
    key("nginx_config.stream", Table, "{}", "TCP and UDP proxying."),
    key("nginx_config.stream.enable_access_log", Bool, "false", "Log each session of a stream route."),
    key("nginx_config.stream.access_log", Form(&forms::LOG_FILE), "\"logs/access_stream.log\"", "The file, below the prefix."),
    key("nginx_config.stream.access_log_format", Text,
        "\"$remote_addr [$time_local] $protocol $status $bytes_sent $bytes_received $session_time\"", "One line, with variables of sessions."),
    key("nginx_config.stream.access_log_format_escape", ESCAPES, "\"default\"", "How variables are escaped."),
    key("nginx_config.stream.metrics_zone_size", Size, "\"1m\"", "Memory for metrics.")
        .no_effect(NO_DICT),
    key("nginx_config.stream.lua_shared_dict", FreeTable, "{}", "Shared dictionaries of nginx.")
        .no_effect(NO_DICT),
    unset("nginx_config.stream.real_ip_from", List(&Network), "[\"192.168.1.0/24\"]",
        "Peers whose PROXY protocol headers name the client of a session."),
    key("nginx_config.main_configuration_snippet", Snippet, "\"\"", "Text for nginx.conf.")
        .no_effect(NO_NGINX),
    key("nginx_config.http_configuration_snippet", Snippet, "\"\"", "Text for nginx.conf.")
        .no_effect(NO_NGINX),
    key("nginx_config.http_server_configuration_snippet", Snippet, "\"\"", "Text for nginx.conf.")
        .no_effect(NO_NGINX),
    key("nginx_config.http_server_location_configuration_snippet", Snippet, "\"\"", "Text for nginx.conf.")
        .no_effect(NO_NGINX),
    key("nginx_config.http_admin_configuration_snippet", Snippet, "\"\"", "Text for nginx.conf.")
        .no_effect(NO_NGINX),
    key("nginx_config.http_end_configuration_snippet", Snippet, "\"\"", "Text for nginx.conf.")
        .no_effect(NO_NGINX),
    key("nginx_config.stream_configuration_snippet", Snippet, "\"\"", "Text for nginx.conf.")
        .no_effect(NO_NGINX),
    key("nginx_config.http", Table, "{}", "HTTP."),
    key("nginx_config.http.enable_access_log", Bool, "true", "Log each request."),
    key("nginx_config.http.access_log", Form(&forms::LOG_FILE), "\"logs/access.log\"", "The file, below the prefix; /dev/stdout for containers."),
    key("nginx_config.http.access_log_buffer", Size, "16384", "Bytes that are gathered before a write."),
    key("nginx_config.http.access_log_format", Text,
        "\"$remote_addr - $remote_user [$time_local] $http_host \\\"$request\\\" $status $body_bytes_sent $request_time \\\"$http_referer\\\" \\\"$http_user_agent\\\" $upstream_addr $upstream_status $upstream_response_time \\\"$upstream_scheme://$upstream_host$upstream_uri\\\" \\\"$apisix_request_id\\\"\"",
        "One line, with variables."),
    key("nginx_config.http.access_log_format_escape", ESCAPES, "\"default\"", "How variables are escaped."),
    key("nginx_config.http.keepalive_timeout", Duration, "\"60s\"", "How long an idle client connection stays open."),
    key("nginx_config.http.client_header_timeout", Duration, "\"60s\"", "How long a client may take to send its headers."),
    key("nginx_config.http.client_body_timeout", Duration, "\"60s\"", "How long a client may pause within a body."),
    key("nginx_config.http.client_max_body_size", Size, "0", "The largest body, else 413; 0 means no limit."),
    key("nginx_config.http.send_timeout", Duration, "\"10s\"", "How long a client may pause taking an answer."),
    key("nginx_config.http.underscores_in_headers", Switch, "\"on\"", "Accept header names with underscores; when off, such headers are left out."),
    key("nginx_config.http.real_ip_header", Form(&forms::HEADER_NAME), "\"X-Real-IP\"", "The header that names the client's address."),
    key("nginx_config.http.real_ip_recursive", Switch, "\"off\"", "Skip trusted addresses from the right."),
    key("nginx_config.http.real_ip_from", List(&Network), "[\"127.0.0.1\", \"unix:\"]", "Peers whose real_ip_header is trusted."),
    unset("nginx_config.http.custom_lua_shared_dict", FreeTable, "{\"ipc_shared_dict\": \"100m\"}", "Shared dictionaries of nginx.")
        .no_effect(NO_DICT),
    key("nginx_config.http.proxy_ssl_server_name", Bool, "true", "Send the host as SNI to upstreams."),
    key("nginx_config.http.upstream", Table, "{}", "Connections to upstreams."),
    key("nginx_config.http.upstream.keepalive", COUNT, "320", "Idle connections each worker keeps to an upstream."),
    key("nginx_config.http.upstream.keepalive_requests", COUNT, "1000", "Requests until a connection is closed."),
    key("nginx_config.http.upstream.keepalive_timeout", Duration, "\"60s\"", "How long an idle connection is kept."),
    key("nginx_config.http.charset", Text, "\"utf-8\"", "The charset of the gateway's own answers.")
        .only("\"utf-8\"", Ignored("answers of the gateway are in UTF-8")),
    key("nginx_config.http.variables_hash_max_size", COUNT, "2048", "Size of nginx's table of variables.")
        .no_effect("variables need no such limit"),
    key("nginx_config.http.lua_shared_dict", FreeTable, "{}", "Shared dictionaries of nginx.")
        .no_effect(NO_DICT),
];
