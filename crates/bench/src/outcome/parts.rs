//! Latencies of a run apart from each other.

use serde::{Deserialize, Serialize};

use super::latency::Latency;

/// Answers with one status.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ByStatus {
    /// 0 stands for the statuses beyond the first 32.
    pub status: u16,
    /// Corrected in a run at a rate.
    pub latency: Latency,
}

/// Answers to one request of several.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ByUrl {
    /// Method and path as they were given; `others` for those beyond the first 100.
    pub request: String,
    /// (status, how many).
    pub statuses: Vec<(u16, u64)>,
    /// Corrected in a run at a rate; in steps of 1 %.
    pub latency: Latency,
}
