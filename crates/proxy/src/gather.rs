//! The start of a request's body, taken before a node is chosen: as long as a slow client sends it, it holds no place
//! at a node and no connection to one. A body that is whole by then can be sent to another node if the first one fails.
//!
//! At most 16 KiB are held for a request, in memory that grows with what comes. The rest of a longer body streams to
//! the node.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    rc::Rc,
    task::{Context, Poll, ready},
};

use tidegate_plugin_api::{BodyError, BodyReader, Request, RequestBody, UpstreamHandle};
use tidegate_protocol::Head;

use crate::client::Downstream;

/// A body up to this size is gathered whole, also one of unknown length.
const WHOLE: usize = 16 * 1024;
/// How much of a body with a larger announced length: what a client that is not slow sends before it gets
/// anything from us.
const START: usize = 4 * 1024;

/// Whether there is something to wait for. gRPC talks both ways at once; `proxy-control` may ask for the same.
pub(crate) fn is_due(request: &Request, upstream: &UpstreamHandle) -> bool {
    matches!(request.body, RequestBody::Unread { .. })
        && !upstream.scheme.is_grpc()
        && !request.edits.unbuffered_body
}

pub(crate) async fn start_of_body(request: &mut Request, client: &Downstream) -> Result<(), BodyError> {
    let RequestBody::Unread { length, reader } = &request.body else { return Ok(()) };
    let wanted = match length {
        Some(length) if *length > WHOLE as u64 => START,
        _ => WHOLE,
    };
    client.timer.set(client.worker.settings.client_body_timeout_ms);
    let mut start = Vec::new();
    let mut waited = false;
    loop {
        let more = poll_fn(|context| {
            if waited && !client.timer.expired() {
                ready!(client.worker.slow_lane.poll_turn(context));
            }
            let more = reader.poll_data(context, &mut start);
            waited = more.is_pending();
            more
        });
        let more = more.await?;
        if request.body_limit.is_some_and(|limit| start.len() as u64 > limit) {
            return Err(BodyError::TooLarge);
        }
        if !more || client.body_ended() {
            request.body = RequestBody::Collected(start.into());
            break;
        }
        if start.len() >= wanted {
            let reader = Begun { start: start.into(), given: Cell::new(false), rest: reader.clone() };
            request.body = RequestBody::Unread { length: *length, reader: Rc::new(reader) };
            break;
        }
    }
    client.release_buffer();
    Ok(())
}

/// A body whose start is in memory. It can be restarted until more of it was taken.
struct Begun {
    /// Empty once the rest was begun.
    start: RefCell<Vec<u8>>,
    given: Cell<bool>,
    rest: Rc<dyn BodyReader>,
}

impl BodyReader for Begun {
    fn poll_data(&self, context: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<bool, BodyError>> {
        if !self.given.replace(true) {
            out.extend_from_slice(&self.start.borrow());
            return Poll::Ready(Ok(true));
        }
        let before = out.len();
        let more = ready!(self.rest.poll_data(context, out));
        if out.len() > before {
            self.start.take();
        }
        Poll::Ready(more)
    }

    fn holds(&self) {
        self.rest.holds();
    }

    fn visit_trailers(&self, visit: &mut dyn FnMut(&mut Head)) {
        self.rest.visit_trailers(visit);
    }

    fn rewind(&self) -> bool {
        if self.start.borrow().is_empty() {
            return false;
        }
        self.given.set(false);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    struct Pieces(RefCell<Vec<&'static str>>);

    impl BodyReader for Pieces {
        fn poll_data(&self, _: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<bool, BodyError>> {
            let piece = self.0.borrow_mut().pop();
            out.extend_from_slice(piece.unwrap_or_default().as_bytes());
            Poll::Ready(Ok(piece.is_some()))
        }

        fn rewind(&self) -> bool {
            false
        }
    }

    #[test]
    fn the_start_can_be_given_again_until_more_was_taken() {
        let rest = Rc::new(Pieces(RefCell::new(vec!["last", "middle"])));
        let body = Begun { start: RefCell::new(b"start".to_vec()), given: Cell::new(false), rest };
        let mut context = Context::from_waker(Waker::noop());
        let mut next = || {
            let mut out = Vec::new();
            let more =
                body.poll_data(&mut context, &mut out).map(|more| more == Ok(true)) == Poll::Ready(true);
            (String::from_utf8(out).expect("text"), more)
        };
        assert_eq!(next(), ("start".to_owned(), true));
        assert!(body.rewind());
        assert_eq!(next(), ("start".to_owned(), true));
        assert_eq!(next(), ("middle".to_owned(), true));
        assert!(!body.rewind());
        assert_eq!(next(), ("last".to_owned(), true));
        assert_eq!(next(), (String::new(), false));
    }
}
