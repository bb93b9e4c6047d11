//! What it means that a directive is left out. The lists are what may be left out: everything that is not on them, and that
//! nothing converts, closes what it applies to. So an unknown guard stays a guard.

use super::parse::Directive;

/// What a directive that is not converted does to the block that it applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// No answer changes.
    None,
    /// Answers change, but not who gets which.
    Answers(&'static str),
    /// Perhaps it decides who gets what.
    Closes,
}

pub(super) fn of(name: &str) -> Effect {
    let lists = [PROCESS.as_slice(), &TRANSFER, &LOGS, &LUA, &OF_EVERY_FILE];
    if lists.iter().any(|list| list.contains(&name)) {
        return Effect::None;
    }
    let is_parameter =
        CLOSED_HANDLERS.iter().any(|handler| name.starts_with(handler)) && !name.ends_with("_pass");
    if is_parameter || PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
        return Effect::None;
    }
    match ANSWERS.iter().find(|(known, _)| *known == name) {
        Some((_, how)) => Effect::Answers(how),
        None => Effect::Closes,
    }
}

/// What holds without the directive, too, written out: the same file without it is converted as well.
pub(crate) fn is_default(directive: &Directive) -> bool {
    let value = directive.argument(0);
    match directive.name.as_str() {
        "underscores_in_headers" => value == "off",
        "ignore_invalid_headers" | "merge_slashes" => value == "on",
        _ => false,
    }
}

/// What the report says of a directive without effect.
pub(crate) fn remark(name: &str) -> &'static str {
    match name {
        "server_tokens" => {
            "the field Server is the gateway's; `apisix.enable_server_tokens` is about its version"
        }
        _ => "",
    }
}

/// For blocks that do not proxy.
pub(crate) fn is_of_proxies(name: &str) -> bool {
    name.starts_with("proxy_") && name != "proxy_pass" && name != "proxy_cache_purge"
}

/// For blocks that serve no files.
pub(crate) fn is_of_files(name: &str) -> bool {
    const FILES: [&str; 12] = [
        "root",
        "index",
        "autoindex",
        "autoindex_exact_size",
        "autoindex_localtime",
        "autoindex_format",
        "gzip_static",
        "brotli_static",
        "default_type",
        "types",
        "disable_symlinks",
        "alias",
    ];
    FILES.contains(&name)
}

/// The process, its sockets and its memory.
const PROCESS: [&str; 38] = [
    "accept_mutex",
    "accept_mutex_delay",
    "daemon",
    "debug_connection",
    "debug_points",
    "env",
    "events",
    "load_module",
    "lock_file",
    "master_process",
    "multi_accept",
    "pcre_jit",
    "pid",
    "quic_bpf",
    "quic_gso",
    "quic_retry",
    "referer_hash_bucket_size",
    "referer_hash_max_size",
    "resolver",
    "resolver_timeout",
    "server_names_hash_bucket_size",
    "server_names_hash_max_size",
    "ssl_engine",
    "thread_pool",
    "timer_resolution",
    "use",
    "user",
    "variables_hash_bucket_size",
    "variables_hash_max_size",
    "map_hash_bucket_size",
    "map_hash_max_size",
    "types_hash_bucket_size",
    "types_hash_max_size",
    "worker_aio_requests",
    "worker_connections",
    "worker_processes",
    "worker_shutdown_timeout",
    "working_directory",
];

/// How bytes travel: buffers, times, connections.
const TRANSFER: [&str; 52] = [
    "aio",
    "aio_write",
    "chunked_transfer_encoding",
    "client_body_buffer_size",
    "client_body_in_single_buffer",
    "client_body_temp_path",
    "client_body_timeout",
    "client_header_buffer_size",
    "client_header_timeout",
    "connection_pool_size",
    "directio",
    "directio_alignment",
    "gzip_buffers",
    "gzip_disable",
    "gzip_hash",
    "gzip_window",
    "http2",
    "http2_body_preread_size",
    "http2_chunk_size",
    "http2_idle_timeout",
    "http2_max_concurrent_pushes",
    "http2_max_concurrent_streams",
    "http2_max_field_size",
    "http2_max_header_size",
    "http2_max_requests",
    "http2_push_preload",
    "http2_recv_buffer_size",
    "http2_recv_timeout",
    "http3",
    "keepalive_disable",
    "keepalive_min_timeout",
    "keepalive_requests",
    "keepalive_time",
    "keepalive_timeout",
    "large_client_header_buffers",
    "lingering_close",
    "lingering_time",
    "lingering_timeout",
    "open_file_cache",
    "output_buffers",
    "postpone_output",
    "read_ahead",
    "request_pool_size",
    "reset_timedout_connection",
    "send_lowat",
    "send_timeout",
    "sendfile",
    "sendfile_max_chunk",
    "subrequest_output_buffer_size",
    "tcp_nodelay",
    "tcp_nopush",
    "limit_rate_after",
];

const LOGS: [&str; 11] = [
    "access_log",
    "error_log",
    "log_format",
    "log_not_found",
    "log_subrequest",
    "open_log_file_cache",
    "rewrite_log",
    "uninitialized_variable_warn",
    "limit_conn_log_level",
    "limit_req_log_level",
    "limit_conn_dry_run_log_level",
];

/// About what is the gateway's own with every file, whatever the directive says.
const OF_EVERY_FILE: [&str; 1] = ["server_tokens"];

/// Of OpenResty, what runs before requests or beside them.
const LUA: [&str; 14] = [
    "lua_capture_error_log",
    "lua_code_cache",
    "lua_max_pending_timers",
    "lua_max_running_timers",
    "lua_package_cpath",
    "lua_package_path",
    "lua_shared_dict",
    "lua_socket_buffer_size",
    "lua_socket_connect_timeout",
    "lua_socket_keepalive_timeout",
    "lua_socket_log_errors",
    "lua_socket_pool_size",
    "lua_ssl_trusted_certificate",
    "lua_ssl_verify_depth",
];

/// Settings of handshakes, which decide with what a client can connect at all, among others.
const PREFIXES: [&str; 9] = [
    "open_file_cache_",
    "ssl_buffer_size",
    "ssl_ciphers",
    "ssl_dhparam",
    "ssl_ecdh_curve",
    "ssl_prefer_server_ciphers",
    "ssl_session_",
    "ssl_stapling",
    "worker_",
];

/// Protocols whose `_pass` closes what uses it.
const CLOSED_HANDLERS: [&str; 4] = ["fastcgi_", "uwsgi_", "scgi_", "memcached_"];

const IN_REDIRECTS: &str =
    "redirects to a path are sent as a path: clients stay at the name and port that they asked";

/// What clients may notice, with how.
const ANSWERS: [(&str, &str); 26] = [
    ("add_trailer", "trailers are not added"),
    ("charset", "the character set of answers may differ"),
    ("charset_types", "the character set of answers may differ"),
    ("etag", "answers of files have an ETag"),
    ("expires", "no Expires and Cache-Control are added"),
    ("http2_push", "nothing is pushed"),
    ("if_modified_since", "conditional requests are answered as RFC 9110 says"),
    ("limit_rate", "answers are sent as fast as clients read"),
    ("max_ranges", "more ranges may be answered"),
    ("mirror", "requests are not mirrored"),
    ("mirror_request_body", "requests are not mirrored"),
    ("msie_padding", "old browsers get the same answers as others"),
    ("msie_refresh", "old browsers get the same answers as others"),
    ("override_charset", "the character set of answers may differ"),
    ("port_in_redirect", IN_REDIRECTS),
    ("proxy_bind", "connections leave from the system's address"),
    ("proxy_force_ranges", "ranges are up to the upstream"),
    ("proxy_limit_rate", "the upstream is read as fast as it sends"),
    ("proxy_next_upstream", "other nodes are tried after failed connections and timeouts"),
    ("proxy_next_upstream_timeout", "other nodes are tried after failed connections and timeouts"),
    ("proxy_next_upstream_tries", "other nodes are tried after failed connections and timeouts"),
    ("server_name_in_redirect", IN_REDIRECTS),
    ("source_charset", "the character set of answers may differ"),
    ("ssl_early_data", "early data is not taken"),
    ("stream", "TCP and UDP are not proxied"),
    ("mail", "mail is not proxied"),
];

/// What says how answers are kept, where `proxy_cache` has them kept.
pub(super) const CACHE: [&str; 15] = [
    "proxy_cache",
    "proxy_cache_background_update",
    "proxy_cache_bypass",
    "proxy_cache_convert_head",
    "proxy_cache_key",
    "proxy_cache_lock",
    "proxy_cache_lock_age",
    "proxy_cache_lock_timeout",
    "proxy_cache_max_range_offset",
    "proxy_cache_methods",
    "proxy_cache_min_uses",
    "proxy_cache_revalidate",
    "proxy_cache_use_stale",
    "proxy_cache_valid",
    "proxy_no_cache",
];

/// Proxy settings that neither clients nor upstreams can see.
pub(crate) fn is_quiet_in_proxies(name: &str) -> bool {
    const QUIET: [&str; 16] = [
        "proxy_buffering",
        "proxy_buffer_size",
        "proxy_buffers",
        "proxy_busy_buffers_size",
        "proxy_max_temp_file_size",
        "proxy_temp_path",
        "proxy_temp_file_write_size",
        "proxy_http_version",
        "proxy_socket_keepalive",
        "proxy_headers_hash_bucket_size",
        "proxy_headers_hash_max_size",
        "proxy_ignore_client_abort",
        "proxy_ssl_session_reuse",
        "proxy_ssl_protocols",
        "proxy_ssl_ciphers",
        "proxy_cache_path",
    ];
    QUIET.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_are_on_no_list() {
        for name in [
            "allow",
            "deny",
            "satisfy",
            "auth_basic",
            "auth_request",
            "auth_ldap",
            "auth_pam",
            "auth_digest",
            "auth_jwt",
            "auth_oidc",
            "js_access",
            "access_by_lua_block",
            "rewrite_by_lua_file",
            "header_filter_by_lua_block",
            "limit_except",
            "internal",
            "if",
            "secure_link",
            "valid_referers",
            "ssl_verify_client",
            "modsecurity",
            "include",
            "sub_filter",
            "no_such_directive",
            "fastcgi_pass",
            "underscores_in_headers",
            "merge_slashes",
            "proxy_hide_header",
            "proxy_cache_purge",
        ] {
            assert_eq!(of(name), Effect::Closes, "{name}");
        }
        assert_eq!(of("sendfile"), Effect::None);
        assert_eq!(of("server_tokens"), Effect::None);
        assert!(remark("server_tokens").contains("enable_server_tokens") && remark("sendfile").is_empty());
        assert!(is_of_proxies("proxy_buffers") && !is_of_proxies("proxy_pass"));
    }
}
