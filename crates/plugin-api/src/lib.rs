//! What a plugin is and what it may use.
//!
//! A plugin is one file: a [`PluginDef`] that names it, and a type with a method per phase. JSON is read once, when
//! the configuration is compiled; a request meets only typed fields. A plugin that does no I/O allocates nothing:
//! its phases answer [`Step::Next`].
//!
//! A whole plugin, which refuses requests whose header `X-Team` is not the configured one:
//!
//! ```
//! use std::sync::Arc;
//!
//! use serde_json::{Value, json};
//! use tidegate_plugin_api::{BuildContext, Catalog, Phases, Plugin, PluginDef, Reply, Request, Step};
//!
//! static PLUGIN: PluginDef = PluginDef {
//!     name: "team-only",
//!     version: 0.1,
//!     priority: 2400,
//!     guards: true,
//!     schema: r#"{"type":"object","properties":{"team":{"type":"string","minLength":1}},"required":["team"]}"#,
//!     phases: Phases::ACCESS,
//!     build,
//!     ..PluginDef::DEFAULT
//! };
//!
//! struct TeamOnly {
//!     team: Vec<u8>,
//! }
//!
//! fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
//!     let team = conf["team"].as_str().ok_or("team is not a string")?;
//!     Ok(Arc::new(TeamOnly { team: team.into() }))
//! }
//!
//! impl Plugin for TeamOnly {
//!     fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
//!         match request.head.headers.get("x-team") {
//!             Some(team) if team == self.team => Step::Next,
//!             _ => Step::reply(Reply::json(403, &json!({"message": "another team's"}))),
//!         }
//!     }
//! }
//!
//! let catalog = Catalog::new(&[&PLUGIN], None)?;
//! assert!(catalog.def("team-only").is_some_and(|def| def.guards));
//! # Ok::<(), String>(())
//! ```
//!
//! The types of a compiled configuration ([`Snapshot`] and below) live here too, because they are what a request
//! refers to; the code that builds them is crate `compiler`.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod answers;
pub mod aside;
pub mod body;
pub mod catalog;
pub mod certificates;
pub mod chain;
pub mod connection;
mod consumer;
mod defaults;
pub mod definition;
pub mod descriptors;
pub mod disk;
pub mod document;
pub mod edits;
mod encoded_slash;
pub mod extensions;
pub mod file_body;
pub mod foresight;
pub mod gave_up;
pub mod graphql;
pub mod hops;
pub mod host;
pub mod inner;
pub mod location;
pub mod lua;
pub mod memory;
pub mod messages;
pub mod multipart;
pub mod outcome;
mod plugin_file;
pub mod poll_clock;
pub mod protocol;
pub mod remaking;
pub mod reply;
pub mod request;
pub mod reroute;
pub mod response;
pub mod route;
pub mod session;
pub mod sharded;
mod snapshot;
pub mod step;
pub mod stop;
pub mod stream_route;
pub mod table;
pub mod template;
mod types;
pub mod upstream;
pub mod uri_text;
pub mod variables;

pub use body::{BodyError, BodyReader, RequestBody};
pub use catalog::entries::Catalog;
pub use definition::{BuildContext, MISFIT, Owner, Phases, typed};
pub use encoded_slash::Slashes;
pub use extensions::Extensions;
pub use file_body::FileBody;
pub use foresight::{Foreseen, Foresight, Share, Why};
pub use host::{ConnectionCounts, Host, condition_body_bytes, host};
pub use location::Location;
pub use lua::LuaCompiler;
pub use reply::Reply;
pub use response::{BodyChunk, Passage, Response, Source};
pub use session::{Session, SessionVerdict, StreamPlugin};
pub use step::{Step, Verdict, WholeBody};
pub use template::Template;
pub use tidegate_model::SchemaKind;
pub use types::{
    Api, AuthEntry, Consumer, ConsumerIndex, ControlPath, FilterFunction, Handler, Instance, Plugin,
    PluginChain, PluginDef, PluginFile, Request, Route, Snapshot, WorkerSnapshot,
};
pub use upstream::UpstreamHandle;
pub use variables::variable::Variable;
