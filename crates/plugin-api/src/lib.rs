//! What a plugin is and what it may use.
//!
//! A plugin is one file: a [`PluginDef`] that names it, and a type with a method per phase. JSON is read once, when
//! the configuration is compiled; a request meets only typed fields. A plugin that does no I/O allocates nothing:
//! its phases answer [`Step::Next`].
//!
//! The types of a compiled configuration ([`Snapshot`] and below) live here too, because they are what a request
//! refers to; the code that builds them is crate `compiler`.

#![forbid(unsafe_code)]

pub mod answers;
pub mod aside;
pub mod body;
pub mod catalog;
pub mod certificates;
pub mod chain;
pub mod consumer;
pub mod definition;
pub mod descriptors;
pub mod disk;
pub mod document;
mod encoded_slash;
pub mod error_page;
pub mod extensions;
pub mod file_body;
pub mod gave_up;
pub mod hops;
pub mod host;
pub mod inner;
pub mod location;
pub mod lua;
pub mod memory;
pub mod multipart;
pub mod reply;
pub mod request;
pub mod reroute;
pub mod response;
pub mod snapshot;
pub mod step;
pub mod stop;
pub mod template;
pub mod uri_text;
pub mod variables;

pub use body::{BodyError, BodyReader, RequestBody};
pub use catalog::entries::Catalog;
pub use chain::{Chain, Instance};
pub use consumer::{AuthEntry, Consumer, ConsumerIndex};
pub use definition::{Api, BuildContext, MISFIT, Owner, Phases, Plugin, PluginDef, WholeBody, typed};
pub use encoded_slash::Slashes;
pub use extensions::Extensions;
pub use file_body::FileBody;
pub use host::{ConnectionCounts, Host, condition_body_bytes, host};
pub use location::Location;
pub use lua::LuaCompiler;
pub use reply::Reply;
pub use request::Request;
pub use response::{BodyChunk, Passage, Response, Source};
pub use snapshot::{Route, Snapshot, UpstreamHandle, WorkerSnapshot};
pub use step::{Step, Verdict};
pub use template::Template;
pub use tidegate_model::SchemaKind;
pub use variables::variable::Variable;
