//! The runtime: modules, their instances, and what they may call.

mod calls;
mod contexts;
mod current;
mod deadline;
mod engine;
mod filter;
mod held;
mod host;
mod hosted;
mod instance;
mod metrics;
mod module;
mod names;
mod plugin;
mod pool;
mod properties;
mod request;
mod room;
mod shared;
mod state;
mod stream;
mod timers;
mod wasm;

pub use metrics::collect as collect_metrics;
pub use plugin::{load, unchanged};
