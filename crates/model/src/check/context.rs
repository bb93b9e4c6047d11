//! The questions that a check may ask.

use std::sync::Arc;

use serde_json::Value;

use crate::{Kind, PluginCatalog, schemas};

/// The questions that the check of a resource may ask about texts of other languages inside it.
pub trait Languages: Send + Sync {
    /// A `vars` expression; the error is the bare message (`invalid operator '='`).
    fn expression(&self, _vars: &Value) -> Result<(), String> {
        Ok(())
    }
    /// Lua source of a route's `filter_func` or `script`, or of a plugin's `_meta.pre_function`.
    fn lua(&self, _chunk: LuaChunk, _source: &str) -> Result<(), LuaFault> {
        Ok(())
    }
    /// A protobuf definition; the error is the parser's message.
    fn proto(&self, _content: &str) -> Result<(), String> {
        Ok(())
    }
}

/// Accepts every text.
pub struct AnyLanguage;

impl Languages for AnyLanguage {}

/// Where a text of Lua comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LuaChunk {
    /// `filter_func` of a route.
    FilterFunction,
    /// `script` of a route or service.
    Script,
    /// `_meta.pre_function` of a plugin.
    PreFunction,
}

/// Why a text of Lua is refused.
pub enum LuaFault {
    /// Does not load; Lua's message.
    Load(String),
    /// Loads, but is not a function (`filter_func`) or table (`script`).
    WrongKind,
}

/// The other resources, as the check sees them.
pub trait References {
    /// The object of that kind and id, as it is stored.
    fn get(&self, kind: Kind, id: &str) -> Option<Arc<Value>>;
    /// Visits all objects of a kind, with their ids.
    fn each(&self, kind: Kind, visit: &mut dyn FnMut(&str, &Value));
    /// Whether a message may name this object, which is not the one that is checked.
    fn may_name(&self, _kind: Kind, _id: &str, _value: &Value) -> bool {
        true
    }
}

/// No other resources.
pub struct NoReferences;

impl References for NoReferences {
    fn get(&self, _: Kind, _: &str) -> Option<Arc<Value>> {
        None
    }
    fn each(&self, _: Kind, _: &mut dyn FnMut(&str, &Value)) {}
}

/// The context of a check.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The HTTP plugins.
    pub plugins: &'a dyn PluginCatalog,
    /// The plugins of stream routes; `None`: stream mode is off.
    pub stream_plugins: Option<&'a dyn PluginCatalog>,
    /// Compiles what is not data: Lua.
    pub languages: &'a dyn Languages,
    /// The objects that this one may refer to.
    pub references: &'a dyn References,
    /// Set for whole configurations, whose parts may come in any order.
    pub skip_references: bool,
    /// The xRPC protocols that stream routes may name.
    pub protocols: &'a [String],
}

pub(super) fn check_schema(kind: Kind, conf: &mut Value) -> Result<(), String> {
    let Some(schema) = schemas::of_kind(kind) else { return Ok(()) };
    schema.check(conf).map_err(|error| format!("invalid configuration: {error}"))
}
