//! [RESP](https://redis.io/docs/latest/develop/reference/protocol-spec/), versions 2 and 3. Commands may be delayed by their names and
//! keys, are counted, and logged with the time to their answers. Inline commands are refused, as by APISIX.

mod calls;
mod commands;
mod faults;
pub(crate) mod metrics;
mod replies;
mod requests;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::Value;
use tidegate_plugin_api::protocol::{Call, Conversation, Progress, Protocol, ProtocolDef, ProtocolRoute};

use self::{
    calls::Calls,
    faults::Faults,
    replies::{Replies, Reply},
    requests::{Command, Requests},
};

pub(crate) static PROTOCOL: ProtocolDef = ProtocolDef { name: "redis", build };

struct Redis {
    faults: Arc<Faults>,
    route: Arc<str>,
    counts: bool,
    logs: bool,
}

fn build(conf: &Value, route: &ProtocolRoute<'_>) -> Result<Arc<dyn Protocol>, String> {
    let faults = Arc::new(Faults::new(conf)?);
    Ok(Arc::new(Redis { faults, route: route.id.clone(), counts: route.counts, logs: route.logs }))
}

impl Protocol for Redis {
    fn open(&self) -> Box<dyn Conversation> {
        Box::new(Talk {
            requests: Requests::new(self.faults.clone(), self.logs),
            replies: Replies::default(),
            calls: Calls::default(),
            is_subscribed: false,
            route: self.route.clone(),
            counts: self.counts,
            logs: self.logs,
        })
    }
}

struct Talk {
    requests: Requests,
    replies: Replies,
    calls: Calls,
    is_subscribed: bool,
    route: Arc<str>,
    counts: bool,
    logs: bool,
}

impl Conversation for Talk {
    fn client_sent(&mut self, bytes: &[u8], _: &mut Vec<Call>) -> Result<Progress, String> {
        let (seen, command) =
            self.requests.next(bytes).map_err(|reason| format!("failed to read request: {reason}"))?;
        let Some(command) = command else { return Ok(Progress::More) };
        self.is_subscribed |= matches!(&*command.name, b"subscribe" | b"psubscribe" | b"ssubscribe");
        let pause = command.pause;
        self.calls.begin(command);
        Ok(Progress::Whole(seen, pause))
    }

    fn node_sent(&mut self, mut bytes: &[u8], over: &mut Vec<Call>) -> Result<(), String> {
        while !bytes.is_empty() {
            let (seen, reply) =
                self.replies.next(bytes).map_err(|reason| format!("failed to handle upstream: {reason}"))?;
            bytes = bytes.get(seen..).unwrap_or_default();
            let Some(reply) = reply else { break };
            if let Some((command, began)) = self.answered(&reply) {
                self.end(command, began.elapsed(), over);
            }
        }
        Ok(())
    }

    fn close(&mut self) -> Vec<Call> {
        let mut over = Vec::new();
        while let Some(open) = self.calls.end_next() {
            if let Some((command, began)) = open {
                self.end(command, began.elapsed(), &mut over);
            }
        }
        over
    }
}

impl Talk {
    /// The call that a reply ends. Messages of channels end none, except the first one of a subscription.
    fn answered(&mut self, reply: &Reply) -> Option<(Command, Instant)> {
        let kind = reply.message_kind().filter(|_| self.is_subscribed || reply.is_push);
        let Some(kind) = kind else {
            return if reply.is_push { None } else { self.calls.end_next().flatten() };
        };
        let ends = kind.ends_with(b"unsubscribe") && reply.third == Some(0);
        self.is_subscribed &= !ends;
        match self.calls.next_name() == Some(kind) {
            true => self.calls.end_next().flatten(),
            false => None,
        }
    }

    fn end(&self, command: Command, took: Duration, over: &mut Vec<Call>) {
        if self.counts {
            metrics::count(&self.route, &command.name, took);
        }
        if self.logs {
            over.push(Call { took, variables: vec![("redis_cmd_line", command.line)] });
        }
    }
}

#[cfg(test)]
mod tests;
