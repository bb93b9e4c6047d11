//! Protocols on top of TCP, of which a stream route knows single calls (APISIX's xRPC).

use std::{sync::Arc, time::Duration};

use serde_json::Value;

/// A protocol of this program.
pub struct ProtocolDef {
    /// `protocol.name` of stream routes.
    pub name: &'static str,
    /// Of `protocol.conf`, which its schema has checked.
    pub build: fn(conf: &Value, route: &ProtocolRoute<'_>) -> Result<Arc<dyn Protocol>, String>,
}

/// What a protocol may know of its route.
pub struct ProtocolRoute<'a> {
    /// Its id.
    pub id: &'a Arc<str>,
    /// `protocol.metric.enable`, where plugin prometheus is on.
    pub counts: bool,
    /// Its calls are logged.
    pub logs: bool,
}

/// The protocol of a stream route. Shared by all workers.
pub trait Protocol: Send + Sync {
    /// For a session that begins.
    fn open(&self) -> Box<dyn Conversation>;
}

/// What the bytes of a client come to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
    /// They end within a message.
    More,
    /// So many of them end a message, which may go to the node after a pause.
    Whole(usize, Duration),
}

/// The calls of one session. Bytes are shown once, in their order, and go on unchanged. Errors end the session.
pub trait Conversation {
    /// Bytes of the client. Those behind the end of a message are shown again. `over` gets the calls that end with them.
    fn client_sent(&mut self, bytes: &[u8], over: &mut Vec<Call>) -> Result<Progress, String>;
    /// Bytes of the node, as above.
    fn node_sent(&mut self, bytes: &[u8], over: &mut Vec<Call>) -> Result<(), String>;
    /// The session ends: the calls without an answer.
    fn close(&mut self) -> Vec<Call>;
}

/// A call that is over.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// `$rpc_time`
    pub took: Duration,
    /// Other variables of it.
    pub variables: Vec<(&'static str, Vec<u8>)>,
}
