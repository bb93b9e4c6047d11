//! Internal parsers, as the fuzz targets call them.

use tidegate_plugin_api::document::Allowance;

use crate::{lua::Template, transformation::body_transformer};

/// Whether a text is a document of XML that takes at most so many bytes.
pub fn xml(text: &str, bytes: usize) -> bool {
    body_transformer::is_xml(text, &Allowance::new(bytes))
}

/// Whether a text is a template of Lua.
pub fn template(text: &str) -> bool {
    Template::new(text).is_ok()
}
