//! The Admin API, which changes the configuration, and the Control API, which shows the state of the gateway.
//!
//! Both are plain functions from a request to an answer over a [`tidegate_store::Store`]; sockets are in [`listener`] only, so
//! that the data plane's port can offer them, too. Paths, statuses, shapes and messages are those of APISIX 3.18.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod admin_api;
pub mod api;
mod arguments;
mod at_length;
mod audit;
mod caller;
mod compiled;
mod console;
pub mod control;
mod documents;
mod hosts;
pub mod listener;
mod message;
mod oidc;
pub mod openapi;
mod permission;
mod resource;
mod role;
mod sessions;
pub mod settings;
#[cfg(test)]
mod testing;

pub use admin_api::{AdminApi, Hooks, NoHooks, Parts, Progress, Standalone, StatsQuestion, TrafficQuestion};
pub use api::Entered;
pub use audit::Audit;
pub use compiled::{Compiled, NoCompiler, Remark};
pub use control::{
    ControlApi,
    inspect::{Inspect, NoProfile, ProfileForm},
    parts::{ControlHooks, ControlParts, HealthView, NoControlHooks, NoHealth, NodeHealth},
};
pub use hosts::Hosts;
pub use message::{Head as AdminHead, RequestBody, Response as AdminResponse};
pub use oidc::{Answered, ClaimRole, Claims, IdentityProvider, Login, Oidc};
pub use permission::{own_ports::OwnPorts, scope::Scope};
pub use role::Role;
pub use settings::{Access, AdminKey, AdminSettings, ApiVersion, Mode};
