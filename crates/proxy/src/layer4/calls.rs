//! A session whose protocol is known: a message of the client goes on once it is whole, perhaps after a pause.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tidegate_plugin_api::{
    Session,
    protocol::{Call, Conversation, Progress},
    stream_route::RouteProtocol,
};
use tidegate_telemetry::error_log::{self, Level};
use tokio::time::Sleep;

/// The beginning of a longer message goes on before its end: no node acts on it.
const HELD_BYTES: usize = 64 * 1024;

pub(super) struct Calls {
    conversation: Box<dyn Conversation>,
    /// Of the client.
    held: Vec<u8>,
    /// How many of them the protocol has seen, and how many may go on.
    seen: usize,
    passed: usize,
    pause: Option<Pin<Box<Sleep>>>,
    over: Vec<Call>,
    has_ended: bool,
}

impl Calls {
    pub(super) fn new(protocol: &RouteProtocol, early: Vec<u8>) -> Calls {
        Calls {
            conversation: protocol.protocol.open(),
            held: early,
            seen: 0,
            passed: 0,
            pause: None,
            over: Vec::new(),
            has_ended: false,
        }
    }

    /// Reads what may go to the node.
    pub(super) fn poll_client(
        &mut self,
        context: &mut Context<'_>,
        room: &mut [u8],
        mut read: impl FnMut(&mut Context<'_>, &mut [u8]) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        loop {
            while self.pause.is_none() && self.seen < self.held.len() {
                self.read_fresh()?;
            }
            if self.passed > 0 {
                return Poll::Ready(Ok(self.pass(room)));
            }
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(context));
                (self.pause, self.passed) = (None, self.seen);
            } else if self.has_ended {
                return Poll::Ready(Ok(0));
            } else {
                let count = ready!(read(context, room))?;
                self.has_ended = count == 0;
                self.held.extend_from_slice(room.get(..count).unwrap_or_default());
            }
        }
    }

    /// Shows the protocol what it has not seen.
    fn read_fresh(&mut self) -> io::Result<()> {
        let fresh = self.held.get(self.seen..).unwrap_or_default();
        match self.conversation.client_sent(fresh, &mut self.over).map_err(refused)? {
            Progress::More => {
                self.seen = self.held.len();
                if self.seen - self.passed > HELD_BYTES {
                    self.passed = self.seen;
                }
            }
            // No message is empty.
            Progress::Whole(seen, pause) => {
                self.seen += seen.max(1);
                match pause.is_zero() {
                    true => self.passed = self.seen,
                    false => self.pause = Some(Box::pin(tokio::time::sleep(pause))),
                }
            }
        }
        Ok(())
    }

    fn pass(&mut self, room: &mut [u8]) -> usize {
        let count = self.passed.min(room.len()).min(self.held.len());
        if let (Some(to), Some(from)) = (room.get_mut(..count), self.held.get(..count)) {
            to.copy_from_slice(from);
        }
        self.held.drain(..count);
        (self.passed, self.seen) = (self.passed - count, self.seen - count);
        if self.held.is_empty() {
            // A session that waits for its client holds no memory.
            self.held = Vec::new();
        }
        count
    }

    /// Looks at bytes of the node that go to the client next.
    pub(super) fn answered(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.conversation.node_sent(bytes, &mut self.over).map_err(refused)
    }

    /// Whether a message waits for its time.
    pub(super) fn is_paused(&self) -> bool {
        self.pause.is_some()
    }

    /// Logs the calls that are over.
    pub(super) fn log(&mut self, session: &mut Session, protocol: &RouteProtocol) {
        for call in self.over.drain(..) {
            protocol.log(session, call);
        }
    }

    /// Ends those that are not. Returns how many bytes of the client have not gone on.
    pub(super) fn close(mut self, session: &mut Session, protocol: &RouteProtocol) -> u64 {
        self.over.extend(self.conversation.close());
        self.log(session, protocol);
        self.held.len() as u64
    }
}

fn refused(reason: String) -> io::Error {
    error_log::log(Level::Error, format_args!("{reason}"));
    io::ErrorKind::InvalidData.into()
}
