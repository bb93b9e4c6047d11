//! Lua inside configurations, as far as the compiler of snapshots needs to know. Crate `plugins` implements it.

use std::sync::Arc;

use crate::{FilterFunction, Plugin};

/// Compiles the Lua that configurations may contain. `None` in a build without Lua.
pub trait LuaCompiler: Send + Sync {
    /// Compiles `filter_func` of a route. The error is the message for its author.
    fn filter(&self, source: &str) -> Result<Arc<dyn FilterFunction>, String>;
    /// `_meta.pre_function` of a plugin with that configuration.
    fn pre_function(&self, source: &str, conf: &serde_json::Value) -> Result<Arc<dyn Plugin>, String>;
    /// A route's `script`.
    fn script(&self, source: &str) -> Result<Arc<dyn Plugin>, String>;
    /// Parts of a `script` that have no effect, as messages.
    fn script_remarks(&self, source: &str) -> Vec<String>;
}
