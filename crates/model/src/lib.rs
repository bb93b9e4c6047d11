//! The configuration objects of the gateway: the resources of APISIX 3.18, their schemas and their defaults.
//!
//! Nothing here performs I/O and nothing here runs per request.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod catalog;
pub mod check;
pub mod document;
pub mod encrypt;
pub mod endpoint;
pub mod header_text;
pub mod host;
pub mod idle;
pub mod json;
pub mod mask;
pub mod nearest;
pub mod object;
pub mod random;
pub mod remedy;
pub mod resources;
pub mod schema;
pub mod schemas;
mod secret;
pub mod strays;
mod typed;
pub mod units;
pub mod url;

pub use catalog::{PluginCatalog, SchemaKind};
pub use document::Document;
pub use object::{Fault, Kind, Object, Objects, Rejected};
pub use schema::rules::Schema;
pub use secret::{field_shown, secret_text};
pub use typed::typed;
