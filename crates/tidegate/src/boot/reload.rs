//! What a changed config.yaml asks for.

use serde_json::Value;

/// Keys that a running process takes over. All others are read when workers, listeners, plugins or the store start.
const LIVE: &[&str] = &["nginx_config.error_log_level"];

pub(super) fn is_live(key: &str) -> bool {
    LIVE.contains(&key)
}

/// Keys whose values differ, two levels deep: `apisix.node_listen`.
pub(super) fn changed_keys(old: &Value, new: &Value) -> Vec<String> {
    let mut changed = Vec::new();
    for key in keys(old, new) {
        let (old, new) = (old.get(&key).unwrap_or(&Value::Null), new.get(&key).unwrap_or(&Value::Null));
        if old == new {
            continue;
        }
        if !(old.is_object() && new.is_object()) {
            changed.push(key);
            continue;
        }
        let differ = |inner: &String| old.get(inner) != new.get(inner);
        changed.extend(keys(old, new).into_iter().filter(differ).map(|inner| format!("{key}.{inner}")));
    }
    changed
}

fn keys(old: &Value, new: &Value) -> Vec<String> {
    let names = [old, new].into_iter().filter_map(Value::as_object).flat_map(|map| map.keys().cloned());
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_that_differ() {
        let old =
            json!({"apisix": {"node_listen": [9080], "enable_http2": true}, "plugins": ["a"], "gone": 1});
        let new = json!({"apisix": {"node_listen": [9080, 9081], "enable_http2": true}, "plugins": ["b"], "nginx_config": {}});
        assert_eq!(changed_keys(&old, &new), ["apisix.node_listen", "gone", "nginx_config", "plugins"]);
        assert!(changed_keys(&old, &old).is_empty());
    }

    #[test]
    fn the_level_of_the_error_log_is_live() {
        let of = |level: &str| json!({"nginx_config": {"error_log_level": level, "worker_processes": 1}});
        let changed = changed_keys(&of("warn"), &of("info"));
        assert!(!changed.is_empty() && changed.iter().all(|key| is_live(key)), "{changed:?}");
    }
}
