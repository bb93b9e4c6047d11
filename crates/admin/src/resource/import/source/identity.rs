//! By what consumers and credentials are recognised, wherever it stands and whatever the object is called.

use std::collections::BTreeSet;

use serde_json::Value;
use tidegate_model::{Kind, check::recognised_by};

/// Of a consumer or credential: the key, name or key id of each plugin that authenticates. Holds secrets: not for messages.
pub(super) fn identities(kind: Kind, value: &Value) -> BTreeSet<String> {
    if !matches!(kind, Kind::Consumer | Kind::Credential) {
        return BTreeSet::new();
    }
    let plugins = value.get("plugins").and_then(Value::as_object).into_iter().flatten();
    let known = |(plugin, conf): (&String, &Value)| {
        let key = match recognised_by(plugin) {
            Some(field) => conf.get(field)?.as_str()?.to_owned(),
            // Of a plugin that users wrote, or with no field of its own: all of it.
            None if kind == Kind::Credential => {
                let mut conf = conf.clone();
                conf.sort_all_objects();
                conf.to_string()
            }
            None => return None,
        };
        Some(format!("{plugin}\n{key}"))
    };
    plugins.filter_map(known).collect()
}
