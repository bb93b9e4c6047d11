//! The limit of a request that is being sent: the node's `timeout.send` between two writes while bytes wait for the node,
//! the client's `client_body_timeout` while its body is waited for. Both use the one timer of the client.

use crate::client::Downstream;

/// The progress of sending: bytes taken from the client, and how many of them the node has taken, or a value that moves
/// with these.
pub(super) type Progress = (u64, usize);

pub(crate) struct SendLimit {
    send_ms: u64,
    /// The progress at which the node stopped taking bytes.
    blocked: Option<Progress>,
    /// The time that runs is the node's.
    is_for_node: bool,
}

impl SendLimit {
    /// Begins the node's time.
    pub(super) fn new(client: &Downstream, send_ms: u64) -> SendLimit {
        client.timer.set(send_ms);
        SendLimit { send_ms, blocked: None, is_for_node: true }
    }

    /// Sending has to wait: for the node, which has not taken all (`unsent`), or else for the client.
    pub(super) fn waits(&mut self, client: &Downstream, unsent: Option<Progress>) {
        match unsent {
            Some(_) if self.blocked != unsent => client.timer.set(self.send_ms),
            None if self.is_for_node => client.has_time_for_body(),
            _ => {}
        }
        self.blocked = unsent;
        self.is_for_node = unsent.is_some();
    }
}
