//! What a worker has counted.

use super::tally::Tally;
use crate::system::sockets::Sockets;

/// The results of a thread.
#[derive(Debug)]
pub(crate) struct ThreadResult {
    pub tally: Tally,
    /// (answers, usual latency in nanoseconds) of each connection.
    pub connections: Vec<(u64, u64)>,
    /// What the system counted for those that were open at the end.
    pub sockets: Sockets,
    /// Connections that were never open.
    pub unopened: usize,
    /// CPU time of the thread during the run.
    pub(crate) cpu_ns: u64,
    /// Time that the thread was ready to run and had no CPU.
    pub(crate) waited_ns: u64,
    pub(crate) end_ns: u64,
    /// What the server calls itself.
    pub server: String,
}
