//! From checked JSON to a typed configuration.

pub use tidegate_plugin_api::{MISFIT, typed};
