//! The fields of Kong's entities, in all versions whose files are read.

/// Entities of a kind.
pub(super) struct Kind {
    pub what: &'static str,
    lists: &'static [&'static str],
    pub keys: &'static [&'static str],
    pub flags: &'static [&'static str],
    pub needed: &'static [&'static str],
    /// A name may stand for the entity.
    pub may_be_name: bool,
}

/// Those that may guard, choose requests, or say who a client is.
#[rustfmt::skip]
const KINDS: [Kind; 7] = [
    Kind {
        what: "service",
        lists: &["services"],
        keys: &[
            "id", "name", "url", "protocol", "host", "port", "path", "retries", "connect_timeout", "write_timeout",
            "read_timeout", "tags", "client_certificate", "tls_verify", "tls_verify_depth", "tls_sans", "ca_certificates",
            "enabled", "created_at", "updated_at", "ws_id", "routes", "plugins", "filter_chains",
        ],
        flags: &["enabled"],
        needed: &[],
        may_be_name: false,
    },
    Kind {
        what: "route",
        lists: &["routes"],
        keys: &[
            "id", "name", "protocols", "methods", "hosts", "headers", "paths", "snis", "sources", "destinations",
            "expression", "priority", "regex_priority", "strip_path", "path_handling", "preserve_host", "request_buffering",
            "response_buffering", "https_redirect_status_code", "tags", "service", "created_at", "updated_at", "ws_id",
            "plugins", "filter_chains",
        ],
        flags: &["strip_path", "preserve_host"],
        needed: &[],
        may_be_name: false,
    },
    Kind {
        what: "plugin",
        lists: &["plugins", "consumer_group_plugins"],
        keys: &[
            "id", "name", "instance_name", "config", "enabled", "protocols", "run_on", "ordering", "partials", "tags",
            "service", "route", "consumer", "consumer_group", "created_at", "updated_at", "ws_id", "filters",
        ],
        flags: &["enabled"],
        needed: &[],
        may_be_name: false,
    },
    Kind {
        what: "filter chain",
        lists: &["filter_chains"],
        keys: &[
            "id", "name", "enabled", "filters", "tags", "service", "route", "created_at", "updated_at", "ws_id", "cache_key",
        ],
        flags: &["enabled"],
        needed: &[],
        may_be_name: false,
    },
    Kind {
        what: "consumer",
        lists: &["consumers"],
        keys: &[
            "id", "username", "username_lower", "custom_id", "type", "tags", "created_at", "updated_at", "ws_id", "groups",
            "plugins", "acls", "keyauth_credentials", "basicauth_credentials", "jwt_secrets", "hmacauth_credentials",
            "oauth2_credentials", "mtls_auth_credentials", "keyauth_enc_credentials",
        ],
        flags: &[],
        needed: &[],
        // In a group.
        may_be_name: true,
    },
    Kind {
        what: "consumer group",
        lists: &["consumer_groups"],
        keys: &["id", "name", "tags", "created_at", "updated_at", "ws_id", "consumers", "plugins"],
        flags: &[],
        needed: &[],
        may_be_name: false,
    },
    Kind {
        what: "group of an ACL",
        lists: &["acls"],
        keys: &["id", "group", "consumer", "tags", "created_at", "ws_id"],
        flags: &[],
        needed: &["group"],
        may_be_name: false,
    },
];

/// What else may stand at the top: entities that guard nothing by themselves, those of bundled plugins and of Kong Enterprise.
#[rustfmt::skip]
pub(super) const ROOT: [&str; 43] = [
    "upstreams", "targets", "certificates", "snis", "ca_certificates", "vaults", "keys", "key_sets", "partials", "workspaces",
    "tags", "parameters", "licenses", "custom_plugins", "cloned_plugins", "files", "admins", "rbac_roles", "rbac_users",
    "rbac_role_entities", "rbac_role_endpoints", "event_hooks", "consumer_group_consumers", "keyauth_credentials",
    "basicauth_credentials", "jwt_secrets", "hmacauth_credentials", "oauth2_credentials", "oauth2_tokens",
    "oauth2_authorization_codes", "mtls_auth_credentials", "keyauth_enc_credentials", "acme_storage", "sessions",
    "session_metadatas", "ratelimiting_metrics", "degraphql_routes", "graphql_ratelimiting_advanced_cost_decoration",
    "jwt_signer_jwks", "oic_issuers", "oic_jwks", "clustering_data_planes", "service_routes",
];

pub(super) fn known_list(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.lists.contains(&name))
}
