//! The id of this gateway: `apisix.id` of config.yaml, else what `conf/apisix.uid` holds, else one made at start.

use std::sync::OnceLock;

use tidegate_plugin_api::host;

use super::uuid;

pub(crate) fn get() -> &'static str {
    static ID: OnceLock<String> = OnceLock::new();
    ID.get_or_init(|| configured().or_else(stored).unwrap_or_else(|| uuid::v4().as_str().to_owned()))
}

fn configured() -> Option<String> {
    let id = host()?.settings.get("apisix")?.get("id")?;
    id.as_str().filter(|id| !id.is_empty()).map(str::to_owned)
}

fn stored() -> Option<String> {
    // A few bytes, once in the life of the process.
    let text = std::fs::read_to_string(host()?.prefix.join("conf/apisix.uid")).ok()?;
    Some(text.trim().to_owned()).filter(|id| !id.is_empty() && id.len() <= 256)
}
