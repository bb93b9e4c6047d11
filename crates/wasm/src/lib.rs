//! Plugins in WebAssembly, which speak proxy-wasm 0.2.1 (<https://github.com/proxy-wasm/spec>).
//!
//! A module is compiled once, when the process starts ([`load`]). Each worker has instances of it (`runtime/pool.rs`), which hold the
//! contexts of the configurations and of the requests under way (`runtime/contexts.rs`). A callback runs in `runtime/instance.rs`,
//! with a limit on time and memory (`runtime/engine.rs`, `runtime/room.rs`); what a module may call is in `runtime/host`. Phases of
//! requests are in `runtime/plugin.rs`.
//!
//! Deliberately not there: gRPC calls, TCP streams, foreign functions, files and sockets of WASI.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

/// Whether this program runs modules, or refuses their configuration.
pub const IS_BUILT_IN: bool = cfg!(feature = "runtime");

#[cfg(not(feature = "runtime"))]
mod absent;
mod loaded;
#[cfg(feature = "runtime")]
mod runtime;
mod settings;

#[cfg(not(feature = "runtime"))]
pub use absent::{collect_metrics, load, unchanged};
pub use loaded::Loaded;
#[cfg(feature = "runtime")]
pub use runtime::{collect_metrics, load, unchanged};
pub use settings::{RequestPhase, WasmPlugin, WasmSettings};
