//! Which key of etcd holds which object: APISIX's layout, `PREFIX/routes/1`.

use tidegate_model::Kind;

/// What a key below the prefix is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EtcdKey<'a> {
    Object(Kind, &'a str),
    /// The list of plugins that are on, which the Admin API of APISIX keeps there.
    Plugins,
    /// Not configuration: placeholders of directories, counters, what nodes report of themselves.
    Other,
    /// Nothing this gateway knows.
    Unknown,
}

/// Written to `PREFIX/routes/` and its like by APISIX, whose readers want a first entry in each directory.
pub(crate) const PLACEHOLDER: &str = "init_dir";

/// The directories that get a placeholder.
pub(crate) const DIRECTORIES: [&str; 13] = [
    "upstreams",
    "plugins",
    "ssls",
    "stream_routes",
    "plugin_metadata",
    "routes",
    "services",
    "consumers",
    "global_rules",
    "protos",
    "plugin_configs",
    "consumer_groups",
    "secrets",
];

/// Keys below the prefix that are not configuration.
const OTHERS: [&str; 3] = ["gen_id", "data_plane", "discovery"];

/// The key written to get a new revision, from which ids are made.
pub(super) fn counter(prefix: &str) -> String {
    format!("{prefix}/gen_id")
}

pub(super) fn of(prefix: &str, kind: Kind, id: &str) -> String {
    format!("{prefix}/{}/{id}", kind.directory())
}

/// The range of everything below the prefix: from the first key to the one after the last.
pub(super) fn range(prefix: &str) -> (Vec<u8>, Vec<u8>) {
    // '0' follows '/'.
    (format!("{prefix}/").into_bytes(), format!("{prefix}0").into_bytes())
}

pub(super) fn place<'a>(prefix: &str, key: &'a [u8]) -> EtcdKey<'a> {
    let path = std::str::from_utf8(key).ok().and_then(|key| key.strip_prefix(prefix)?.strip_prefix('/'));
    let Some(path) = path else { return EtcdKey::Unknown };
    if path == "plugins" {
        return EtcdKey::Plugins;
    }
    let (directory, id) = path.split_once('/').unwrap_or((path, ""));
    if OTHERS.contains(&directory) {
        return EtcdKey::Other;
    }
    if id.is_empty() {
        return if DIRECTORIES.contains(&directory) { EtcdKey::Other } else { EtcdKey::Unknown };
    }
    let nested = |name: &str| id.split('/').nth(1) == Some(name) && id.split('/').count() == 3;
    match directory {
        "consumers" if nested("credentials") => EtcdKey::Object(Kind::Credential, id),
        "services" if nested("graphql_cost_decorations") => EtcdKey::Object(Kind::GraphqlCostDecoration, id),
        _ => kind_of(directory).map_or(EtcdKey::Unknown, |kind| EtcdKey::Object(kind, id)),
    }
}

fn kind_of(directory: &str) -> Option<Kind> {
    Kind::ALL.into_iter().find(|kind| {
        !matches!(kind, Kind::Credential | Kind::GraphqlCostDecoration) && kind.directory() == directory
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        for (key, expected) in [
            ("/apisix/routes/1", EtcdKey::Object(Kind::Route, "1")),
            ("/apisix/consumers/jack", EtcdKey::Object(Kind::Consumer, "jack")),
            ("/apisix/consumers/jack/credentials/a", EtcdKey::Object(Kind::Credential, "jack/credentials/a")),
            (
                "/apisix/services/1/graphql_cost_decorations/2",
                EtcdKey::Object(Kind::GraphqlCostDecoration, "1/graphql_cost_decorations/2"),
            ),
            ("/apisix/secrets/vault/1", EtcdKey::Object(Kind::Secret, "vault/1")),
            ("/apisix/plugin_metadata/http-logger", EtcdKey::Object(Kind::PluginMetadata, "http-logger")),
            ("/apisix/routes/", EtcdKey::Other),
            ("/apisix/plugins/", EtcdKey::Other),
            ("/apisix/plugins", EtcdKey::Plugins),
            ("/apisix/gen_id", EtcdKey::Other),
            ("/apisix/data_plane/server_info/1", EtcdKey::Other),
            ("/apisix/rotes/1", EtcdKey::Unknown),
            ("/other/routes/1", EtcdKey::Unknown),
        ] {
            assert_eq!(place("/apisix", key.as_bytes()), expected, "{key}");
        }
        assert_eq!(place("/a/b", b"/a/b/routes/1"), EtcdKey::Object(Kind::Route, "1"));
    }

    #[test]
    fn keys_lead_back_to_their_objects() {
        for kind in Kind::ALL {
            let id = match kind {
                Kind::Credential => "jack/credentials/1",
                Kind::GraphqlCostDecoration => "1/graphql_cost_decorations/1",
                Kind::Secret => "vault/1",
                _ => "1",
            };
            let key = of("/apisix", kind, id);
            assert_eq!(place("/apisix", key.as_bytes()), EtcdKey::Object(kind, id));
            let (first, end) = range("/apisix");
            assert!(key.as_bytes() >= first.as_slice() && key.as_bytes() < end.as_slice());
        }
    }
}
