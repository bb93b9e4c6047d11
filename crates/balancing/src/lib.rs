//! Which node a request goes to: balancers, health state and the retry policy of one upstream.
//!
//! An [`Upstream`] is shared by all workers; its mutable state is in atomics. Probes, name resolution and
//! connections are not here: the `probes` crate and the proxy do the I/O and report outcomes.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod balancer;
pub mod crc32;
pub mod health;
mod node;
mod pool;
pub mod retry;
pub mod spec;

pub use health::{Checks, Health, HealthSignal, Source};
pub use node::Node;
pub use pool::Upstream;
pub use retry::RetryPolicy;
pub use spec::{Algorithm, HashOn, NodeSpec, PassHost, UpstreamSpec};
