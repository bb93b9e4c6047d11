//! Where the body of an answer comes from, as [`super::writer::Writer`] asks for it.

use std::task::{Context, Poll};

use tidegate_plugin_api::{BodyError, Request};

use super::writer::Writer;
use crate::client::Downstream;

/// A body. It passes pieces to the writer when the writer has room for them; it does not know the client's
/// protocol.
pub(crate) trait Body {
    /// The answer ends when the client leaves, or ends its side, although all of it could still be sent.
    const FOLLOWS_CLIENT: bool;

    /// How long the writer waits for a piece. `None`: the body has its own limit.
    fn limit_ms(&self) -> Option<u64>;

    /// Passes what is here already: it leaves with the head.
    fn start(&mut self, _writer: &mut Writer<'_>) -> Result<(), End> {
        Ok(())
    }

    /// Passes a piece of about `room` bytes, and the last one as the last.
    fn poll_piece(
        &mut self,
        context: &mut Context<'_>,
        writer: &mut Writer<'_>,
        room: usize,
    ) -> Result<Step, End>;

    /// Whether part of the request is still to be sent to the source of the body.
    fn is_sending(&self) -> bool {
        false
    }

    /// Sends more of the request. The error is the reason why the client's body is refused.
    fn poll_request(
        &mut self,
        _context: &mut Context<'_>,
        _request: &Request,
        _client: &Downstream,
    ) -> Poll<Result<(), BodyError>> {
        Poll::Ready(Ok(()))
    }

    /// The body sends its next bytes itself, as soon as the writer's are gone.
    fn sends_itself(&self) -> bool {
        false
    }

    /// The client has taken all that was passed.
    fn was_taken(&mut self) {}

    /// The client takes nothing for now: keeps no memory for what may come.
    fn stalls(&mut self, _client: &Downstream) {}
}

/// The result of asking for a piece.
pub(crate) enum Step {
    Moved,
    /// There is more at hand, but other tasks get their turn first.
    Rests,
    WaitsForBody,
    WaitsForClient,
}

/// How a body ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Complete,
    /// It is cut: the status of the page that replaces the answer where nothing of it is out.
    Broken(u16),
    /// As `Broken`, since nothing came in time.
    Silent,
    /// A body filter lets nothing of it through: the status of the page.
    Refused(u16),
    /// The client is gone, too slow, or its own body is refused.
    Client,
}

impl End {
    /// The status of the page that is sent where nothing of the answer is out.
    pub(crate) fn page(self) -> Option<u16> {
        match self {
            End::Broken(status) | End::Refused(status) => Some(status),
            End::Silent => Some(504),
            End::Complete | End::Client => None,
        }
    }
}
