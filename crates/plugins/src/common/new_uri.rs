//! `regex_uri` of plugins that make another URI: what of it is always empty.

use serde_json::Value;

use super::pattern_doubts::missing_group;

/// Messages for groups that a pattern does not have.
pub(crate) fn remarks(conf: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let pairs = conf.get("regex_uri").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for pair in pairs.chunks_exact(2) {
        if let [Value::String(pattern), Value::String(replacement)] = pair
            && let Some(missing) = missing_group(pattern, "", replacement)
        {
            found.push(format!("regex_uri: {missing}"));
        }
    }
    found
}
