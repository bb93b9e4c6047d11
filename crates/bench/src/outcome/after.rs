//! What is known only after the run.

use serde::{Deserialize, Serialize};

use crate::system::sockets::Sockets;

/// A moment with fewer connections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    pub connections: usize,
    pub seconds: f64,
    pub requests: u64,
    pub requests_per_second: f64,
    pub mean_us: f64,
}

/// What one connection saw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arm {
    /// `delayed` or `quick`
    pub acknowledgements: String,
    pub requests: u64,
    pub p50_us: f64,
    /// Requests in the range of delayed acknowledgements, and in that of retransmission timeouts.
    pub(crate) at_40_ms: u64,
    pub(crate) at_200_ms: u64,
    pub sockets: Sockets,
}

/// What a condition came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConditionResult {
    pub condition: String,
    /// In the unit of the condition: microseconds, percent, a number or a number a second.
    pub value: f64,
    /// The value as people read it.
    pub shown: String,
    pub failed: bool,
}
