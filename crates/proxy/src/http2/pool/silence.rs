//! Whether the peer of a connection is still there.
//!
//! A node that is cut off sends nothing, and the kernel takes minutes to notice. So when streams wait and nothing has
//! come for a while, a PING is sent. gRPC servers disconnect clients that ping often (three PINGs without an answer's
//! frame between them, each within five minutes of the one before): a second PING follows the first only after frames of
//! an answer, or after [`REPEAT_MS`].

use std::task::{Context, Poll};

use h2::{Ping, PingPong};

use crate::runtime::Runtime;

/// Without a byte although streams wait.
const QUIET_MS: u64 = 3_000;
/// For the answer to a PING, or anything else.
const PATIENCE_MS: u64 = 5_000;
/// A little more than the five minutes that gRPC servers ask for.
const REPEAT_MS: u64 = 310_000;

pub(super) struct Silence {
    worker: &'static Runtime,
    ping: Option<PingPong>,
    /// Since when streams wait, however many.
    waiting_ms: Option<u64>,
    /// When the PING left that has no answer yet.
    asked_ms: Option<u64>,
    /// When the last PING was answered.
    answered_ms: Option<u64>,
}

/// What the connection's task waits for, as far as silence goes.
pub(super) enum Wait {
    Nothing,
    /// Look again after so many milliseconds.
    Until(u64),
    /// A PING has to leave.
    Send,
    /// The peer is gone.
    Over,
}

impl Silence {
    pub(super) fn new(worker: &'static Runtime, ping: Option<PingPong>) -> Silence {
        Silence { worker, ping, waiting_ms: None, asked_ms: None, answered_ms: None }
    }

    /// `received_ms`: when the last byte came.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, waiting: bool, received_ms: u64) -> Wait {
        let now_ms = self.worker.deadlines.now_ms();
        let Some(ping) = &mut self.ping else { return Wait::Nothing };
        if let Some(asked_ms) = self.asked_ms {
            if let Poll::Ready(Ok(_)) = ping.poll_pong(context) {
                (self.asked_ms, self.answered_ms) = (None, Some(now_ms));
            } else {
                let since_ms = asked_ms.max(received_ms);
                let left_ms = (since_ms + PATIENCE_MS).saturating_sub(now_ms);
                return if left_ms > 0 { Wait::Until(left_ms) } else { Wait::Over };
            }
        }
        if !waiting {
            self.waiting_ms = None;
            return Wait::Nothing;
        }
        let since_ms = received_ms.max(*self.waiting_ms.get_or_insert(now_ms));
        let heard_since = |answered_ms: u64| received_ms > answered_ms;
        let quiet_ms = match self.answered_ms {
            Some(answered_ms) if !heard_since(answered_ms) => REPEAT_MS,
            _ => QUIET_MS,
        };
        let left_ms = (since_ms + quiet_ms).saturating_sub(now_ms);
        if left_ms > 0 {
            return Wait::Until(left_ms);
        }
        match ping.send_ping(Ping::opaque()) {
            Ok(()) => {
                self.asked_ms = Some(now_ms);
                Wait::Send
            }
            // The connection is ending.
            Err(_) => Wait::Nothing,
        }
    }
}
