//! The plugins of the process, by name.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde_json::Value;
use tidegate_model::schema::Schema;

use crate::{LuaCompiler, PluginDef};

pub(super) struct Entry {
    pub(super) def: &'static PluginDef,
    pub(super) schema: Value,
    pub(super) consumer_schema: Option<Value>,
    pub(super) metadata_schema: Option<Value>,
    pub(super) checks: Checks,
}

/// Compiled on first use: most processes use a few of the plugins.
#[derive(Default)]
pub(super) struct Checks {
    pub(super) plugin: std::sync::OnceLock<Result<Schema, String>>,
    pub(super) consumer: std::sync::OnceLock<Result<Schema, String>>,
    pub(super) metadata: std::sync::OnceLock<Result<Schema, String>>,
}

/// The plugins enabled in config.yaml (`plugins`), with their compiled schemas.
pub struct Catalog {
    pub(super) entries: FxHashMap<&'static str, Entry>,
    /// By falling priority.
    pub(super) enabled: arc_swap::ArcSwap<Vec<&'static str>>,
    pub(super) lua: Option<Arc<dyn LuaCompiler>>,
    /// Plugins that this program was built without, and the feature that each needs.
    pub(super) missing: &'static [(&'static str, &'static str)],
}
