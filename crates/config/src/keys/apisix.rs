//! `apisix`: listening, routing, TLS.

use super::{
    forms,
    key::Otherwise::*,
    key::Takes::*,
    key::{COUNT, Key, NO_STREAM, NO_STREAM_PORTS, ONLY_STREAM, PORT, key, unset},
};

const LISTEN_IP: super::key::Takes = Form(&forms::LISTEN_IP);

const NO_LUA_PATH: &str = "Lua code is part of routes and plugins; modules are not loaded";
const KEPT: &str = "the cache holds what the configuration refers to";
const PER_PORT_HTTP2: &str = "apisix.enable_http2 is for all ports";

#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    key("apisix", Table, "{}", "The gateway itself."),
    unset("apisix.id", Text, "\"gateway-1\"", "The name of this instance.")
        .no_effect("instances are identified by their host name"),
    key("apisix.node_listen", AnyOf(&[PORT, List(&AnyOf(&[PORT, Table]))]), "[9080]",
        "Ports for HTTP: one port, or a list of ports and of {ip, port, enable_http2}. Without ip: all addresses."),
    unset("apisix.node_listen[].ip", LISTEN_IP, "\"127.0.0.2\"", "The address to listen on."),
    unset("apisix.node_listen[].port", PORT, "9080", "The port to listen on."),
    unset("apisix.node_listen[].enable_http2", Bool, "true", "HTTP/2 on this port.")
        .only("true", Ignored(PER_PORT_HTTP2)),
    key("apisix.enable_admin", Bool, "true", "Serve the Admin API."),
    key("apisix.enable_dev_mode", Bool, "false", "Run a single worker."),
    key("apisix.enable_reuseport", Bool, "true", "Give each worker its own listening socket.")
        .only("true", Ignored("each worker always has a listening socket of its own")),
    key("apisix.show_upstream_status_in_response_header", Bool, "false",
        "Send X-APISIX-Upstream-Status with every answer; otherwise only when the upstream answered 5xx."),
    key("apisix.enable_ipv6", Bool, "true", "Listen on IPv6 addresses too, and resolve names to them."),
    key("apisix.enable_http2", Bool, "true", "Speak HTTP/2 to clients that ask for it."),
    key("apisix.http2", Table, "{}", "Limits for HTTP/2 clients."),
    key("apisix.http2.max_concurrent_streams", Integer(1, 10_000), "128", "Concurrent requests on one connection."),
    key("apisix.http2.stream_window", Form(&forms::HTTP2_WINDOW), "\"256k\"",
        "Flow-control window of one request's body, in bytes: 64k to 2g."),
    key("apisix.http2.connection_window", Form(&forms::HTTP2_WINDOW), "\"1m\"",
        "Flow-control window of a connection, at least stream_window; unless set, it grows with stream_window."),
    key("apisix.http2.max_resets", Integer(1, 1_000_000), "200",
        "Requests a client may cancel within ten seconds. One that cancels more is disconnected."),
    key("apisix.http2.max_control_frames", Integer(10, 10_000_000), "1000",
        "PING, SETTINGS and PRIORITY frames a client may send within ten seconds. One that sends more is disconnected."),
    unset("apisix.proxy_protocol", Table, "{}", "Accept the PROXY protocol."),
    unset("apisix.proxy_protocol.listen_http_port", PORT, "9181", "Port for HTTP behind the PROXY protocol."),
    unset("apisix.proxy_protocol.listen_https_port", PORT, "9182", "Port for HTTPS behind the PROXY protocol."),
    unset("apisix.proxy_protocol.enable_tcp_pp", Bool, "true", "Accept it on all ports of stream_proxy.tcp.")
        .only("false", Ignored(NO_STREAM)),
    unset("apisix.proxy_protocol.enable_tcp_pp_to_upstream", Bool, "true", "Send it to the upstreams of stream routes.")
        .only("false", Ignored(NO_STREAM)),
    key("apisix.enable_server_tokens", Bool, "true", "Show the version in the Server header."),
    key("apisix.extra_lua_path", Text, "\"\"", "Folders with Lua modules.")
        .no_effect(NO_LUA_PATH),
    key("apisix.extra_lua_cpath", Text, "\"\"", "Folders with Lua modules in C.")
        .no_effect(NO_LUA_PATH),
    unset("apisix.lua_module_hook", Text, "\"my_project.my_hook\"", "A Lua module that is loaded first.")
        .no_effect(NO_LUA_PATH),
    key("apisix.proxy_cache", Table, "{}", "Where the plugin proxy-cache keeps responses."),
    key("apisix.proxy_cache.cache_ttl", Duration, "\"10s\"", "How long responses are kept by default."),
    key("apisix.proxy_cache.zones", List(&Table),
        "[{\"name\": \"disk_cache_one\", \"memory_size\": \"50m\", \"disk_size\": \"1G\", \"disk_path\": \"/tmp/disk_cache_one\", \"cache_levels\": \"1:2\"}, {\"name\": \"memory_cache\", \"memory_size\": \"50m\"}]",
        "The caches. Those with a disk_path are on disk."),
    unset("apisix.proxy_cache.zones[].name", Form(&forms::NAME), "\"memory_cache\"", "The name that cache_zone of the plugin refers to."),
    unset("apisix.proxy_cache.zones[].memory_size", Size, "\"50m\"", "Memory for responses; a cache on disk needs none for its index."),
    unset("apisix.proxy_cache.zones[].disk_size", Size, "\"1G\"", "Disk space for responses."),
    unset("apisix.proxy_cache.zones[].disk_path", Text, "\"/tmp/disk_cache_one\"", "Folder for responses."),
    unset("apisix.proxy_cache.zones[].cache_levels", Form(&forms::CACHE_LEVELS), "\"1:2\"", "How folders nest below disk_path."),
    key("apisix.delete_uri_tail_slash", Bool, "false", "Ignore a slash at the end of the path."),
    key("apisix.normalize_uri_like_servlet", Bool, "false", "Normalise paths as Java servlet containers do."),
    key("apisix.match_uri_encoded_slash", Bool, "false", "Match routes with %2F still encoded."),
    key("apisix.max_post_args_readable_size", Integer(0, i64::MAX), "64",
        "Megabytes of a body that are read to match post_arg conditions; 0 means no limit."),
    key("apisix.body_memory", Table, "{}", "Memory for bodies: of requests that are read before they go on, and of answers that a plugin holds until they are whole."),
    unset("apisix.body_memory.total", Size, "\"512m\"",
        "The most that all of them take together, and what is made of them; beyond it 503. Unset: a quarter of the machine's or cgroup's memory, 64m at least. One client gets an eighth."),
    key("apisix.body_memory.min_rate", Size, "1024",
        "Bytes a second that a client has to send of such a body, else 408; 0 means no limit."),
    key("apisix.body_memory.rate_window", Duration, "\"10s\"", "Waiting time after which min_rate applies."),
    key("apisix.body_memory.parsed", Size, "\"16m\"",
        "The most that one body may take when a plugin or a condition reads it; beyond it 413."),
    key("apisix.max_own_hops", Integer(0, 1000), "10",
        "How often a request may come back to this gateway, through upstreams, mirrors and batches that point at it, before it is answered 508."),
    key("apisix.log_memory", Size, "\"64m\"",
        "The most that log entries take in memory until a receiver has them, over all plugins that send them in batches, with what is made of them to send them. One plugin gets half, and so do response bodies that are kept for the log. Beyond it entries are dropped and counted."),
    unset("apisix.plugin_answer_memory", Size, "\"128m\"",
        "The most that answers of services take in memory, over all plugins that ask one (forward-auth, opa, openid-connect), service discovery and secret managers; one service gets half. Beyond it an answer is dropped, as if the service had failed. Unset: an eighth of the machine's or cgroup's memory, 64m at least."),
    key("apisix.router", Table, "{}", "How routes are looked up."),
    key("apisix.router.http", Word(&["radixtree_host_uri", "radixtree_uri", "radixtree_uri_with_parameter"]),
        "\"radixtree_host_uri\"", "By host and then path, by path, or by path with :parameters."),
    key("apisix.router.ssl", Word(&["radixtree_sni"]), "\"radixtree_sni\"", "Certificates are found by SNI.")
        .only("\"radixtree_sni\"", Ignored("certificates are found by SNI")),
    key("apisix.proxy_mode", Word(&["http", "stream", "http&stream"]), "\"http\"", "What is proxied.")
        .only("\"http\"", RefusedIf("\"stream\"", ONLY_STREAM, NO_STREAM_PORTS)),
    unset("apisix.stream_proxy", Table, "{}", "Listening for TCP and UDP."),
    unset("apisix.stream_proxy.only", Bool, "false", "Old spelling of proxy_mode: true is stream, false is http&stream.")
        .only("false", Refused(ONLY_STREAM)),
    unset("apisix.stream_proxy.tcp", List(&AnyOf(&[PORT, Text, Table])), "[9100, \"127.0.0.1:9101\"]",
        "Ports, addresses, ranges like 2000-2100, or {addr, tls, proxy_protocol, proxy_protocol_to_upstream}.")
        .no_effect(NO_STREAM_PORTS),
    unset("apisix.stream_proxy.tcp[].addr", AnyOf(&[PORT, Text]), "9100", "Port, address with port, or range.")
        .no_effect(NO_STREAM_PORTS),
    unset("apisix.stream_proxy.tcp[].tls", Bool, "true", "Terminate TLS there.")
        .no_effect(NO_STREAM_PORTS),
    unset("apisix.stream_proxy.tcp[].proxy_protocol", Bool, "true", "Accept the PROXY protocol there.")
        .no_effect(NO_STREAM_PORTS),
    unset("apisix.stream_proxy.tcp[].proxy_protocol_to_upstream", Bool, "true", "Send the PROXY protocol on.")
        .no_effect(NO_STREAM_PORTS),
    unset("apisix.stream_proxy.udp", List(&AnyOf(&[PORT, Text])), "[9200]", "Ports, addresses or ranges.")
        .no_effect(NO_STREAM_PORTS),
    unset("apisix.dns_resolver", List(&Form(&forms::NAME_SERVER)), "[\"1.1.1.1\"]", "Name servers; otherwise those of /etc/resolv.conf."),
    unset("apisix.dns_resolver_valid", COUNT, "30", "Seconds to keep a name, overriding its TTL."),
    key("apisix.resolver_timeout", Integer(1, i64::MAX), "5", "Seconds to wait for a name server."),
    key("apisix.enable_resolv_search_opt", Bool, "true", "Try the search domains of /etc/resolv.conf."),
    key("apisix.ssl", Table, "{}", "TLS with clients."),
    key("apisix.ssl.enable", Bool, "true", "Listen for HTTPS."),
    key("apisix.ssl.listen", List(&AnyOf(&[PORT, Table])), "[{\"port\": 9443, \"enable_http3\": false}]", "Ports for HTTPS: a port, or {ip, port, enable_http3}."),
    unset("apisix.ssl.listen[].ip", LISTEN_IP, "\"127.0.0.3\"", "The address to listen on."),
    unset("apisix.ssl.listen[].port", PORT, "9443", "The port to listen on."),
    unset("apisix.ssl.listen[].enable_http2", Bool, "true", "HTTP/2 on this port.")
        .only("true", Ignored(PER_PORT_HTTP2)),
    unset("apisix.ssl.listen[].enable_http3", Bool, "false", "HTTP/3 at the UDP port of the same number.")
        .only("false", Ignored("HTTP/3 is not served: clients use HTTP/2 or HTTP/1.1 on the TCP port")),
    key("apisix.ssl.ssl_trusted_certificate", Text, "\"system\"", "File with the CAs to trust (PEM), or system."),
    key("apisix.ssl.ssl_protocols", Form(&forms::TLS_VERSIONS), "\"TLSv1.2 TLSv1.3\"", "TLS versions separated by spaces: TLSv1.2, TLSv1.3, or both. Older ones are not supported and cause a warning."),
    key("apisix.ssl.ssl_ciphers", Text,
        "\"ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:DHE-RSA-AES128-GCM-SHA256:DHE-RSA-AES256-GCM-SHA384\"",
        "Cipher suites of TLS 1.2 for clients, by their OpenSSL names; TLS 1.3 has its own. Those with DHE key exchange are ignored."),
    key("apisix.ssl.ssl_session_tickets", Bool, "false", "Hand out session tickets; this weakens forward secrecy."),
    unset("apisix.ssl.fallback_sni", Text, "\"my.default.domain\"", "The name to assume when a client sends none."),
    key("apisix.enable_control", Bool, "true", "Serve the Control API."),
    unset("apisix.control", Table, "{}", "Where the Control API listens."),
    unset("apisix.control.ip", LISTEN_IP, "\"127.0.0.1\"", "Its address."),
    unset("apisix.control.port", PORT, "9090", "Its port."),
    unset("apisix.control.hosts", List(&Text), "[\"gateway.internal\"]",
        "Host names it accepts, without a port, besides addresses and localhost; the same holds for an Admin API without a key and without CORS. Any other Host gets 403, as protection against DNS rebinding."),
    key("apisix.disable_sync_configuration_during_start", Bool, "false", "Do not wait for the configuration at startup.")
        .only("false", Ignored("startup always waits for the configuration")),
    key("apisix.worker_startup_time_threshold", COUNT, "60", "Seconds that tell a first start of a worker from a restart.")
        .no_effect("workers are threads and do not restart"),
    key("apisix.data_encryption", Table, "{}", "Encryption of private keys and secrets in the store."),
    key("apisix.data_encryption.enable_encrypt_fields", Bool, "true", "Encrypt the secret fields of plugins too."),
    key("apisix.data_encryption.keyring", AnyOf(&[Text, List(&Text)]), "[\"qeddd145sfvddff3\", \"edd1c9f0985e76a2\"]",
        "Keys of 16 or 32 characters. The first encrypts, all decrypt: add new ones in front and keep the old ones. The default is published, and an empty list or null encrypts nothing: the start warns of both. tidegate init writes a key of your own, but for etcd.").secret(),
    unset("apisix.status", Table, "{}", "Serve /status and /status/ready."),
    unset("apisix.status.ip", LISTEN_IP, "\"127.0.0.1\"", "Its address."),
    unset("apisix.status.port", PORT, "7085", "Its port; 7085 unless it is set."),
    key("apisix.events", FreeTable, "{\"module\": \"lua-resty-events\"}", "How workers of APISIX exchange events.")
        .no_effect("workers are threads of one process"),
    unset("apisix.disable_upstream_healthcheck", Bool, "false", "Switch all health checks off."),
    key("apisix.client_limits", Table, "{}", "Limits for clients, beyond those of nginx_config. Not in APISIX."),
    key("apisix.client_limits.connections", COUNT, "0",
        "Open connections of all clients together; 0 means no limit but worker_connections of each worker."),
    key("apisix.client_limits.connections_per_address", Integer(0, 4_294_967_295), "0",
        "Open connections of one address (IPv6: of one /64 network); 0 means no limit. Others are closed at once."),
    unset("apisix.client_limits.handshakes", Integer(1, i64::MAX), "4000",
        "TLS handshakes that may be unfinished at a time. Beyond it the oldest one ends, if it is a second old; else the new one is refused. Unset: a thirty-second of the machine's or cgroup's memory at 64 KB each, 256 at least, and a quarter of the file descriptors at most."),
    unset("apisix.client_limits.handshakes_per_address", Integer(1, i64::MAX), "1000",
        "The same for one address, or network of 64 bits with IPv6. Unset: a quarter of handshakes."),
    key("apisix.client_limits.handshake_timeout", Duration, "\"10s\"", "Time for a TLS handshake, from the first byte to the last."),
    key("apisix.client_limits.min_body_rate", Size, "0",
        "Bytes a second that a client has to send of a body while it is waited for, else 408; 0 means no limit."),
    key("apisix.client_limits.min_answer_rate", Size, "0",
        "Bytes a second that a client has to take of an answer while it is waited for, else its connection is closed; 0 means no limit."),
    key("apisix.client_limits.rate_window", Duration, "\"10s\"", "Waiting time after which a rate applies."),
    unset("apisix.trusted_addresses", List(&Network), "[\"127.0.0.1\", \"172.18.0.0/16\"]",
        "Peers whose X-Forwarded headers are trusted. By default none are, except that X-Forwarded-For is extended."),
    unset("apisix.trusted_gateways", List(&Network), "[\"10.0.0.0/8\"]",
        "Gateways in front whose X-Consumer-* and other headers that identify the client are passed on. Not in APISIX."),
    key("apisix.lru", Table, "{}", "Caches."),
    key("apisix.lru.secret", Table, "{}", "The cache of resolved secrets."),
    key("apisix.lru.secret.ttl", COUNT, "300", "Seconds a secret is kept."),
    key("apisix.lru.secret.count", COUNT, "512", "Secrets kept at most.")
        .no_effect(KEPT),
    key("apisix.lru.secret.neg_ttl", COUNT, "60", "Seconds a failure is kept."),
    key("apisix.lru.secret.neg_count", COUNT, "512", "Failures kept at most.")
        .no_effect(KEPT),
    key("apisix.tracing", Bool, "false", "Trace the phases of a request too, not only the request.")
        .only("false", Ignored("whole requests are traced, not their phases")),
];
