//! `deployment`: the role, the configuration provider, the Admin API, etcd. `history`: what is kept of changes.

use super::{COUNT, Key, Otherwise::*, PORT, Takes::*, forms, key, unset};

#[rustfmt::skip]
pub const KEYS: &[Key] = &[
    key("deployment", Table, "{}", "The role of this process, and where its configuration is."),
    key("deployment.admin", Table, "{}", "The Admin API."),
    key("deployment.admin.admin_key_required", Bool, "true", "Ask for a key. Only false opens the API, to everyone who reaches it."),
    key("deployment.admin.admin_key", List(&Table), "[{\"name\": \"admin\", \"key\": \"\", \"role\": \"admin\"}]",
        "The keys. Without one, a random key is generated and kept in data/admin.key. An empty list or null: no request is let in.").secret(),
    unset("deployment.admin.admin_key[].name", Text, "\"admin\"", "Whose key it is."),
    unset("deployment.admin.admin_key[].key", Text, "\"\"", "What X-API-KEY must hold."),
    unset("deployment.admin.admin_key[].role", Word(&["admin", "viewer"]), "\"admin\"", "admin may write, viewer only read. An entry without a role is one of admin."),
    key("deployment.admin.enable_admin_cors", Bool, "true", "Let pages of other origins use the API."),
    key("deployment.admin.enable_admin_ui", Bool, "false", "Serve the dashboard at /ui/.")
        .only("false", Ignored("there is no dashboard; the Admin API is served")),
    key("deployment.admin.allow_admin", List(&Network), "[\"127.0.0.0/24\"]", "Who may use it; null: everyone, an empty list: no one."),
    key("deployment.admin.admin_listen", Table, "{}", "Where it listens."),
    key("deployment.admin.admin_listen.ip", Form(&forms::LISTEN_IP), "\"0.0.0.0\"", "Its address."),
    key("deployment.admin.admin_listen.port", PORT, "9180", "Its port."),
    unset("deployment.admin.admin_listen.listen", Text, "\"0.0.0.0\"", "Old name of ip.")
        .no_effect("deployment.admin.admin_listen.ip is what counts"),
    unset("deployment.admin.https_admin", Bool, "true", "Speak HTTPS there, with the files of admin_api_mtls."),
    unset("deployment.admin.admin_api_mtls", Table, "{}", "Certificates for HTTPS."),
    unset("deployment.admin.admin_api_mtls.admin_ssl_cert", Text, "\"\"", "File with the certificate (PEM)."),
    unset("deployment.admin.admin_api_mtls.admin_ssl_cert_key", Text, "\"\"", "File with its key (PEM)."),
    unset("deployment.admin.admin_api_mtls.admin_ssl_ca_cert", Text, "\"\"", "File with the CA of client certificates (PEM)."),
    key("deployment.admin.admin_api_version", Word(&["v3", "v2", "default"]), "\"v3\"", "The shape of answers."),
    key("deployment.admin.audit_log", Form(&forms::LOG_FILE), "\"logs/audit.log\"",
        "A line for each attempt to change something through the Admin or Control API, below the prefix; /dev/stdout or /dev/stderr for containers, off for none. null means none, too, and is warned of. Not in APISIX."),
    key("deployment.role", Word(&["traditional", "control_plane", "data_plane", "standalone"]), "\"traditional\"",
        "traditional serves traffic and the Admin API; data_plane traffic only; control_plane the Admin API only."),
    key("deployment.role_traditional", Table, "{}", "For role traditional."),
    key("deployment.role_traditional.config_provider", Word(&["embedded", "etcd", "yaml", "json"]), "\"embedded\"",
        "embedded: a database in data/ below the prefix. etcd: a cluster; the default where deployment.etcd.host is set. yaml, json: conf/apisix.yaml or conf/apisix.json; with enable_admin: true, yaml means that PUT /apisix/admin/configs brings everything."),
    unset("deployment.role_data_plane", Table, "{}", "For role data_plane."),
    unset("deployment.role_data_plane.config_provider", Word(&["embedded", "etcd", "yaml", "json", "xds"]), "\"yaml\"",
        "As above; embedded reads the database of an earlier run.")
        .not("\"xds\"", Refused("the xDS bridge of APISIX is a library for nginx; use etcd, yaml, json or embedded")),
    unset("deployment.role_control_plane", Table, "{}", "For role control_plane."),
    unset("deployment.role_control_plane.config_provider", Word(&["embedded", "etcd"]), "\"embedded\"", "As above."),
    key("deployment.etcd", Table, "{}", "The etcd cluster, for config_provider etcd."),
    key("deployment.etcd.host", AnyOf(&[List(&Text), Text]), "[\"http://127.0.0.1:2379\"]",
        "Its members. Naming any chooses config_provider etcd, unless another one is named. APISIX_DEPLOYMENT_ETCD_HOST in the environment, a JSON list, takes precedence.").secret(),
    key("deployment.etcd.prefix", Text, "\"/apisix\"", "What all keys begin with."),
    key("deployment.etcd.timeout", Integer(1, i64::MAX), "30", "Seconds for one read or write."),
    key("deployment.etcd.watch_timeout", COUNT, "50", "Seconds until a quiet watch is renewed.")
        .no_effect("a quiet watch is asked for a sign of life every half second"),
    unset("deployment.etcd.resync_delay", COUNT, "5", "The longest pause between attempts to connect, in seconds; it grows from 50 ms and never exceeds 1 s."),
    unset("deployment.etcd.health_check_timeout", Integer(-1, i64::MAX), "10", "Seconds until a failed member is tried again.")
        .no_effect("after a failure the next member is tried at once"),
    key("deployment.etcd.startup_retry", COUNT, "2", "Rounds over all members before a start fails; with the configuration of an earlier run on disk, one is enough to start from that."),
    unset("deployment.etcd.user", Text, "\"root\"", "User name."),
    unset("deployment.etcd.password", Text, "\"\"", "Its password.").secret(),
    unset("deployment.etcd.use_grpc", Bool, "false", "Speak gRPC to etcd.")
        .no_effect("etcd is always spoken to in gRPC"),
    key("deployment.etcd.tls", Table, "{}", "TLS with etcd."),
    unset("deployment.etcd.tls.cert", Text, "\"/path/to/cert\"", "File with the client certificate."),
    unset("deployment.etcd.tls.key", Text, "\"/path/to/key\"", "File with its key."),
    key("deployment.etcd.tls.verify", Bool, "true", "Check the certificates of the members."),
    unset("deployment.etcd.tls.sni", Text, "\"etcd.example.com\"", "SNI, in place of the host."),
    unset("deployment.certs", FreeTable, "{}", "Certificates between planes.")
        .no_effect("APISIX does not read it since 3.0 either"),
    key("history", Table, "{}", "Who changed what and how to get back, for config_provider embedded. Not in APISIX."),
    key("history.max_entries", Integer(0, 10_000_000), "10000", "Changes that are kept; 0: none. Checkpoints do not count."),
    key("history.max_age", Duration, "\"30d\"", "How long they are kept."),
];
