//! What every part asks of objects: which one it is, and whether a plugin of it is disabled.

use std::sync::Arc;

use serde_json::Value;
use tidegate_model::Kind;

/// Names an object among all kinds.
pub type Key = (Kind, Arc<str>);

/// `_meta.disable`
pub(crate) fn is_disabled(conf: &Value) -> bool {
    conf.pointer("/_meta/disable") == Some(&Value::Bool(true))
}
