//! The client's side of one HTTP/2 stream: body in, head, body and trailers out, with flow control both ways.
//!
//! Capacity in the peer's window is reserved before bytes are handed over, and capacity in ours is released only
//! when the bytes are taken: neither side can make the gateway hold more than a window.

use std::{
    cell::Cell,
    io,
    rc::Rc,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use h2::{Reason, RecvStream, SendStream, server::SendResponse};
use http::{HeaderMap, Response};
use tidegate_plugin_api::BodyError;

use super::sending::Sending;

pub(crate) struct Http2Stream {
    /// Until the head of the answer is out.
    respond: SendResponse<Bytes>,
    send: Option<SendStream<Bytes>>,
    receive: RecvStream,
    /// Received and not yet taken by a tunnel.
    rest: Bytes,
    /// END_STREAM is out.
    ended: bool,
    /// It ended with an error.
    is_reset: bool,
    place: StreamPermit,
    /// The round in which it last found no room.
    asked: u64,
}

/// A request of a connection for as long as it lives.
pub(crate) struct StreamPermit {
    sending: Rc<Sending>,
    index: u32,
    /// Its client is waited for.
    waits: bool,
}

impl StreamPermit {
    pub(crate) fn new(sending: Rc<Sending>) -> StreamPermit {
        let index = sending.places.begin();
        StreamPermit { sending, index, waits: false }
    }

    /// Counts memory that the request holds beyond the usual.
    pub(crate) fn weigh(&self, bytes: usize) {
        self.sending.places.weigh(self.index, bytes);
    }

    /// Records a wait for the client. A client that has left its answers for too long gets an error in place
    /// of more waiting.
    fn watch<T>(&mut self, context: &Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            if std::mem::take(&mut self.waits) {
                self.sending.places.flow(self.index);
            }
            return polled;
        }
        self.waits = true;
        match self.sending.places.wait(self.index, context) {
            true => Poll::Pending,
            false => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
        }
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.sending.places.end(self.index);
    }
}

impl Http2Stream {
    pub(crate) fn new(respond: SendResponse<Bytes>, receive: RecvStream, place: StreamPermit) -> Http2Stream {
        Http2Stream {
            respond,
            send: None,
            receive,
            rest: Bytes::new(),
            ended: false,
            is_reset: false,
            place,
            asked: 0,
        }
    }

    pub(crate) fn held_by_connection(&self) -> &Rc<Cell<usize>> {
        &self.place.sending.held
    }

    /// Counts bytes of the answer that are held until the client has taken them.
    pub(crate) fn weigh(&self, bytes: usize) {
        self.place.sending.places.weigh(self.place.index, bytes);
    }

    /// Ready when the client has room for something, without taking any of it.
    pub(crate) fn poll_takes(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.send.is_none() {
            return Poll::Ready(Ok(()));
        }
        let room = self.poll_room(context, 1);
        self.place.watch(context, room).map_ok(|_| ())
    }

    /// How many of so many bytes may be handed over, not less than one.
    fn poll_room(&mut self, context: &mut Context<'_>, wanted: usize) -> Poll<io::Result<usize>> {
        let Some(send) = &mut self.send else { return Poll::Ready(Err(io::ErrorKind::NotConnected.into())) };
        ready!(self.place.sending.poll_room(context, &mut self.asked));
        send.reserve_capacity(wanted);
        poll_capacity(send, context)
    }

    /// Nothing follows the head that came.
    pub(crate) fn has_no_body(&self) -> bool {
        self.receive.is_end_stream()
    }

    /// Ready once the client has cancelled the stream, or its connection is gone.
    pub(crate) fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.send {
            Some(_) if self.ended => Poll::Pending,
            Some(send) => send.poll_reset(context).map(|_| ()),
            None => self.respond.poll_reset(context).map(|_| ()),
        }
    }

    /// Appends a piece of the request's body; `false` at its end.
    pub(crate) fn poll_data(
        &mut self,
        context: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Result<bool, BodyError>> {
        match ready!(self.receive.poll_data(context)) {
            None => Poll::Ready(Ok(false)),
            Some(Ok(data)) => {
                out.extend_from_slice(&data);
                // Fails only for a stream that is gone, which the next read reports.
                let _ = self.receive.flow_control().release_capacity(data.len());
                Poll::Ready(Ok(true))
            }
            Some(Err(error)) if error.is_library() => {
                Poll::Ready(Err(BodyError::Malformed("broken HTTP/2 request body")))
            }
            Some(Err(_)) => Poll::Ready(Err(BodyError::Closed)),
        }
    }

    pub(crate) fn poll_trailers(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<HeaderMap>, BodyError>> {
        self.receive.poll_trailers(context).map_err(|_| BodyError::Closed)
    }

    /// `100 Continue`, for a client that waits with its body.
    pub(crate) fn send_continue(&mut self) -> Result<(), BodyError> {
        let mut head = Response::new(());
        *head.status_mut() = http::StatusCode::CONTINUE;
        self.respond.send_informational(head).map_err(|_| BodyError::Closed)
    }

    pub(crate) fn send_head(&mut self, head: Response<()>, last: bool) -> io::Result<()> {
        let send = self.respond.send_response(head, last).map_err(broken)?;
        self.send = Some(send);
        self.place.sending.places.answer(self.place.index);
        self.ended = last;
        Ok(())
    }

    /// Sends as much of `data` as the client has room for. With `last`, the end of the data ends the stream.
    pub(crate) fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        data: &[u8],
        last: bool,
    ) -> Poll<io::Result<usize>> {
        if self.ended {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if data.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let room = self.poll_room(context, data.len());
        let room = ready!(self.place.watch(context, room))?;
        let Some(send) = &mut self.send else { return Poll::Ready(Err(io::ErrorKind::NotConnected.into())) };
        let piece = data.get(..room).unwrap_or(data);
        let ends = last && piece.len() == data.len();
        send.send_data(Bytes::copy_from_slice(piece), ends).map_err(broken)?;
        self.place.sending.hand_over(piece.len());
        self.ended = ends;
        Poll::Ready(Ok(piece.len()))
    }

    /// Ends the stream after all data, if the last piece did not.
    pub(crate) fn end(&mut self, trailers: Option<HeaderMap>) -> io::Result<()> {
        let Some(send) = &mut self.send else { return Ok(()) };
        if std::mem::replace(&mut self.ended, true) {
            return Ok(());
        }
        match trailers {
            Some(trailers) => send.send_trailers(trailers).map_err(broken),
            None => send.send_data(Bytes::new(), true).map_err(broken),
        }
    }

    /// The answer cannot be finished: the client must not take it as complete.
    pub(crate) fn reset(&mut self, reason: Reason) {
        if self.ended {
            return;
        }
        self.ended = true;
        self.is_reset = true;
        match &mut self.send {
            Some(send) => send.send_reset(reason),
            None => self.respond.send_reset(reason),
        }
    }

    /// Whether the answer is complete and the client still sends.
    pub(crate) fn has_rest(&self) -> bool {
        self.ended && !self.is_reset && !self.receive.is_end_stream()
    }

    /// Reads and drops a piece of the request that the client still sends. `None`: it has ended.
    pub(crate) fn poll_drop(&mut self, context: &mut Context<'_>) -> Poll<Option<usize>> {
        let Some(Ok(data)) = ready!(self.receive.poll_data(context)) else { return Poll::Ready(None) };
        // As above.
        let _ = self.receive.flow_control().release_capacity(data.len());
        Poll::Ready(Some(data.len()))
    }

    /// Bytes of a tunnel; 0 at the end.
    pub(crate) fn poll_raw(&mut self, context: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        while self.rest.is_empty() {
            match ready!(self.receive.poll_data(context)) {
                None => return Poll::Ready(Ok(0)),
                Some(Ok(data)) => self.rest = data,
                Some(Err(error)) => return Poll::Ready(Err(broken(error))),
            }
        }
        let count = self.rest.len().min(room.len());
        self.rest.copy_to_slice(room.get_mut(..count).unwrap_or_default());
        // As above: a stream that is gone shows at the next read.
        let _ = self.receive.flow_control().release_capacity(count);
        Poll::Ready(Ok(count))
    }
}

/// How much of the requested capacity the client grants, at least one byte.
fn poll_capacity(send: &mut SendStream<Bytes>, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
    let mut room = send.capacity();
    while room == 0 {
        room = match ready!(send.poll_capacity(context)) {
            Some(Ok(room)) => room,
            Some(Err(error)) => return Poll::Ready(Err(broken(error))),
            None => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        };
    }
    Poll::Ready(Ok(room))
}

fn broken(error: h2::Error) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, error)
}
