//! The plugins of the process, by name.

use std::sync::{Arc, OnceLock};

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
    pub(super) plugin: OnceLock<Result<Schema, String>>,
    pub(super) consumer: OnceLock<Result<Schema, String>>,
    pub(super) metadata: OnceLock<Result<Schema, String>>,
}

/// The plugins enabled in config.yaml (`plugins`), with their compiled schemas.
pub struct Catalog {
    pub(super) entries: FxHashMap<&'static str, Entry>,
    /// Those that users wrote as files, over the others.
    pub(super) files: OnceLock<FxHashMap<&'static str, Entry>>,
    /// By falling priority.
    pub(super) enabled: arc_swap::ArcSwap<Vec<&'static str>>,
    /// Names of the list that no plugin has.
    pub(super) absent: arc_swap::ArcSwap<Vec<String>>,
    pub(super) lua: Option<Arc<dyn LuaCompiler>>,
    /// Plugins that this program was built without, and the feature that each needs.
    pub(super) missing: &'static [(&'static str, &'static str)],
    /// Whether a file of plugins that are not listed has this name.
    pub(super) unlisted: OnceLock<Box<dyn Fn(&str) -> bool + Send + Sync>>,
}
