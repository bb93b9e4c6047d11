//! The keys of config.yaml that are served: the effect of each, seen from outside.
//!
//! [`witnesses`] names the test that sees a key's effect; a key without one is a defect. What keys without effect make
//! the gateway say is in [`words`].

mod admin;
mod caches;
mod listening;
mod logs;
mod process;
mod protocols;
mod requests;
mod service_names;
mod telemetry;
mod witnesses;
mod words;

use serde_json::{Value, json};
use tidegate_config::keys;

/// A config.yaml of one worker that reads its routes from conf/apisix.yaml, with these keys set. `@HTTP@` and so on
/// become ports.
pub(super) fn standalone(set: &[(&str, Value)]) -> String {
    let base = json!({
        "apisix": {
            "node_listen": [{"ip": "127.0.0.1", "port": "@HTTP@"}],
            "ssl": {"enable": false},
            "enable_admin": false,
            "control": {"ip": "127.0.0.1", "port": "@CONTROL@"},
        },
        "nginx_config": {"worker_processes": 1, "http": {"enable_access_log": false}},
        "deployment": {"role": "data_plane", "role_data_plane": {"config_provider": "yaml"}},
        "plugin_attr": {"prometheus": {"export_addr": {"ip": "127.0.0.1", "port": "@METRICS@"}}},
    });
    with(base, set)
}

/// The same for the embedded store, with an Admin API and the key of [`tidegate_testkit::gateway::ADMIN_KEY`].
pub(super) fn embedded(set: &[(&str, Value)]) -> String {
    let base = json!({
        "apisix": {
            "node_listen": [{"ip": "127.0.0.1", "port": "@HTTP@"}],
            "ssl": {"enable": false},
            "control": {"ip": "127.0.0.1", "port": "@CONTROL@"},
        },
        "nginx_config": {"worker_processes": 1},
        "deployment": {
            "role": "traditional",
            "role_traditional": {"config_provider": "embedded"},
            "admin": {
                "admin_listen": {"ip": "127.0.0.1", "port": "@ADMIN@"},
                "admin_key": [{"name": "admin", "key": "test-admin-key", "role": "admin"}],
            },
        },
        "plugin_attr": {"prometheus": {"export_addr": {"ip": "127.0.0.1", "port": "@METRICS@"}}},
    });
    with(base, set)
}

/// JSON is YAML.
fn with(mut base: Value, set: &[(&str, Value)]) -> String {
    for (path, value) in set {
        keys::set(&mut base, path, value.clone());
    }
    base.to_string()
}
