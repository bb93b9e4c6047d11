//! Protocols on top of TCP, of which a stream route knows single calls (APISIX's xRPC).

use std::{sync::Arc, time::Duration};

use serde_json::Value;

use crate::{Session, stream_route::StreamInstance};

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

/// The protocol of a stream route, and what logs its calls.
pub struct RouteProtocol {
    /// What tells them.
    pub protocol: Arc<dyn Protocol>,
    /// Each with its `filter`.
    pub loggers: Vec<StreamInstance>,
}

impl RouteProtocol {
    /// Logs a call.
    pub fn log(&self, session: &mut Session, call: Call) {
        if self.loggers.is_empty() {
            return;
        }
        let before = session.variables.len();
        session.variables.push(("rpc_time".into(), format!("{:.3}", call.took.as_secs_f64()).into_bytes()));
        let named = call.variables.into_iter().map(|(name, value)| (Box::from(name), value));
        session.variables.extend(named);
        for logger in self.loggers.iter().filter(|logger| logger.applies(session)).collect::<Vec<_>>() {
            logger.plugin.log(session);
        }
        session.variables.truncate(before);
    }
}
