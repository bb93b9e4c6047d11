//! The client's side of a connection: reading heads and bodies, writing answers, within time limits.

mod answering;
mod body;
mod closing;
mod gone;

use std::{
    cell::{Cell, RefCell, RefMut},
    fs::File,
    future::poll_fn,
    io,
    rc::Rc,
    task::{Context, Poll, ready},
};

use tidegate_plugin_api::{BodyError, BodyReader, connection::ConnectionInfo};
use tidegate_protocol::{
    BodyLength, Head, ParseError, RequestHead,
    chunked::{ChunkedDecoder, Event},
};

use crate::{
    buffer::Buffer,
    http2::{self, pool::window::Window, stream::Http2Stream},
    pace::{LeastRate, Pace},
    read_ahead,
    stream::Stream,
    timers::Timer,
    worker::Worker,
};

#[derive(Default)]
enum Framing {
    #[default]
    Ended,
    Fixed(u64),
    Chunked(Box<ChunkedDecoder>),
    /// Frames mark the end.
    Http2,
    /// Reading failed; the connection cannot be reused.
    Broken,
}

/// How far the current request's body has been read.
#[derive(Default)]
struct BodyState {
    framing: Framing,
    /// Made by the first chunked body.
    trailers: Option<Box<Head>>,
    /// The client waits for `100 Continue` before it sends.
    expects_continue: bool,
    received: u64,
    /// The received part is held in memory.
    held: bool,
    /// A reader has waited for more than what came with the head, so the body's time limit runs.
    waited: bool,
    pace: Pace,
}

pub(crate) struct Downstream {
    pub worker: &'static Worker,
    pub facts: Rc<ConnectionInfo>,
    pub timer: Timer,
    /// Bytes of an answer to the current request are out: an error can only close.
    pub answering: Cell<bool>,
    /// The client is gone: it can get no answer any more.
    pub gone: Cell<bool>,
    /// The client has said that no request follows the current one.
    pub said_last: Cell<bool>,
    stream: RefCell<Stream>,
    incoming: RefCell<Incoming>,
    taking: Pace,
}

/// What comes from the client. In one cell: an idle connection pays for each.
#[derive(Default)]
struct Incoming {
    input: Buffer,
    body: BodyState,
}

fn unreadable(error: ParseError) -> BodyError {
    if error.status == 431 { BodyError::LargeTrailers } else { BodyError::Malformed(error.reason) }
}

/// Why there is no request head.
pub(crate) enum HeadError {
    /// The client closed, or was idle for too long: there is nothing to answer.
    Gone,
    Refused(ParseError),
    /// The first bytes are those of HTTP/2.
    Http2,
}

/// The error once a successor has taken over: this process no longer has the newest configuration.
fn taken_over() -> ParseError {
    ParseError::with_status(503, "another process took over before the request began")
}

impl Downstream {
    pub(crate) fn new(worker: &'static Worker, stream: Stream, facts: ConnectionInfo) -> Downstream {
        Downstream::on(worker, stream, Rc::new(facts))
    }

    /// Each stream of an HTTP/2 connection is a separate client.
    pub(crate) fn for_stream(
        worker: &'static Worker,
        stream: Stream,
        facts: Rc<ConnectionInfo>,
    ) -> Downstream {
        Downstream::on(worker, stream, facts)
    }

    fn on(worker: &'static Worker, stream: Stream, facts: Rc<ConnectionInfo>) -> Downstream {
        Downstream {
            worker,
            facts,
            timer: Timer::new(&worker.deadlines),
            answering: Cell::new(false),
            gone: Cell::new(false),
            said_last: Cell::new(false),
            stream: RefCell::new(stream),
            incoming: RefCell::default(),
            taking: Pace::default(),
        }
    }

    /// Waits for bytes without holding a buffer; `false`: nothing more will come.
    pub(crate) fn poll_readable(&self, context: &mut Context<'_>) -> Poll<bool> {
        self.stream.borrow().poll_readable(context).map(|result| result.is_ok())
    }

    /// Whether bytes were received that the socket does not show any more: TLS decrypts more than was asked for.
    pub(crate) fn holds_received(&self) -> bool {
        self.stream.borrow_mut().holds_received()
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.stream.borrow().is_tls()
    }

    pub(crate) fn is_http2(&self) -> bool {
        self.stream.borrow().is_http2()
    }

    /// The parts with which the connection continues in another protocol.
    pub(crate) fn into_stream(self) -> (Stream, Buffer, Rc<ConnectionInfo>) {
        (self.stream.into_inner(), self.incoming.into_inner().input, self.facts)
    }

    pub(crate) fn http2(&self) -> Option<RefMut<'_, Http2Stream>> {
        RefMut::filter_map(self.stream.borrow_mut(), |stream| match stream {
            Stream::Http2(stream) => Some(stream.as_mut()),
            _ => None,
        })
        .ok()
    }

    /// Returns the buffer to the worker if nothing is in it.
    pub(crate) fn release_buffer(&self) -> bool {
        let input = &mut self.incoming.borrow_mut().input;
        if !input.is_empty() {
            return false;
        }
        self.worker.buffers.give_back(std::mem::take(input));
        true
    }

    pub(crate) fn has_input(&self) -> bool {
        !self.incoming.borrow().input.is_empty()
    }

    /// Reads more bytes, at most up to `limit` held; 0 at the end.
    fn poll_fill(&self, context: &mut Context<'_>, limit: usize) -> Poll<io::Result<usize>> {
        let input = &mut self.incoming.borrow_mut().input;
        if input.capacity() == 0 {
            *input = self.worker.buffers.input();
        }
        let room = input.room(limit);
        if room.is_empty() {
            return Poll::Ready(Err(io::ErrorKind::OutOfMemory.into()));
        }
        let count = ready!(self.stream.borrow_mut().poll_read(context, room))?;
        input.received(count);
        Poll::Ready(Ok(count))
    }

    /// The received bytes that could not be parsed as a head.
    pub(crate) fn with_received<R>(&self, look: impl FnOnce(&[u8]) -> R) -> R {
        look(self.incoming.borrow().input.filled())
    }

    pub(crate) fn head_bytes_held(&self) -> usize {
        self.incoming.borrow().input.len()
    }

    pub(crate) async fn read_head(&self, head: &mut RequestHead) -> Result<(), HeadError> {
        let limits = &self.worker.settings.reading.limits;
        let mut tried = 0;
        let mut begun = false;
        loop {
            {
                let input = &mut self.incoming.borrow_mut().input;
                if !input.is_empty() {
                    let parsed = head.parse(input.filled(), &mut tried, limits);
                    if let Some(used) = parsed.map_err(|error| self.refused(error, input.filled()))? {
                        // It was sent after another request, whose answer came too late: a successor has
                        // taken over.
                        if self.worker.outdated.get() {
                            return Err(HeadError::Refused(taken_over()));
                        }
                        input.consume(used);
                        self.timer.busy(self.worker.settings.client_header_timeout_ms);
                        return Ok(());
                    }
                    // Set once: a client that sends a byte now and then gets no more time than others.
                    if !std::mem::replace(&mut begun, true) {
                        self.timer.set(self.worker.settings.client_header_timeout_ms);
                    }
                }
            }
            let mut waited = false;
            let filled = poll_fn(|context| {
                let over = self.timer.expired() || self.worker.outdated.get();
                if begun && waited && !over {
                    ready!(self.worker.slow_lane.poll_turn(context));
                }
                let filled = self.poll_fill(context, limits.head_bytes + 4096);
                waited = filled.is_pending();
                match filled {
                    Poll::Pending if over => Poll::Ready(None),
                    other => other.map(Some),
                }
            });
            match filled.await {
                Some(Ok(0)) | Some(Err(_)) => return Err(HeadError::Gone),
                Some(Ok(_)) => {}
                None if self.has_input() && self.worker.outdated.get() => {
                    return Err(HeadError::Refused(taken_over()));
                }
                None if self.has_input() => {
                    return Err(HeadError::Refused(ParseError::with_status(
                        408,
                        "client sent its head too slowly",
                    )));
                }
                None => return Err(HeadError::Gone),
            }
        }
    }

    /// A head that is not HTTP/1 may be HTTP/2, at the start of a connection without TLS. (With TLS, ALPN
    /// decides.)
    fn refused(&self, error: ParseError, received: &[u8]) -> HeadError {
        let line = http2::frames::PREFACE.get(..16).unwrap_or_default();
        let first = self.facts.requests.get() == 0 && received.starts_with(line);
        if first && self.worker.settings.http2.is_some() && !self.is_tls() {
            HeadError::Http2
        } else {
            HeadError::Refused(error)
        }
    }

    /// Prepares for the body of the request whose head was just read.
    pub(crate) fn begin_body(&self, length: BodyLength, expects_continue: bool) {
        let body = &mut self.incoming.borrow_mut().body;
        body.framing = match length {
            BodyLength::Fixed(0) | BodyLength::UntilClose => Framing::Ended,
            _ if self.is_http2() => Framing::Http2,
            BodyLength::Fixed(length) => Framing::Fixed(length),
            BodyLength::Chunked => Framing::Chunked(Box::default()),
        };
        body.expects_continue = expects_continue;
        body.received = 0;
        body.held = false;
        body.waited = false;
        body.trailers = None;
        body.pace.reset();
        self.taking.reset();
    }

    /// The whole body, if it has already been received with the head.
    pub(crate) fn body_at_hand(&self) -> Option<Vec<u8>> {
        let Incoming { input, body } = &mut *self.incoming.borrow_mut();
        let Framing::Fixed(length) = body.framing else { return None };
        let bytes = input.filled().get(..usize::try_from(length).ok()?)?.to_vec();
        input.consume(bytes.len());
        body.framing = Framing::Ended;
        body.received = length;
        Some(bytes)
    }

    pub(crate) fn body_ended(&self) -> bool {
        matches!(self.incoming.borrow().body.framing, Framing::Ended)
    }

    /// A request whose head ended its stream has no body, whatever its fields say.
    pub(crate) fn head_ends_stream(&self) -> bool {
        matches!(&*self.stream.borrow(), Stream::Http2(stream) if stream.has_no_body())
    }

    pub(crate) fn body_received(&self) -> u64 {
        self.incoming.borrow().body.received
    }

    pub(crate) fn take_trailers(&self) -> Head {
        self.incoming.borrow_mut().body.trailers.take().map(|trailers| *trailers).unwrap_or_default()
    }

    pub(crate) fn expects_continue(&self) -> bool {
        self.incoming.borrow().body.expects_continue
    }

    /// Moves decoded body bytes from the buffer to `out`. `None`: more must be read first.
    fn decode(&self, out: &mut Vec<u8>) -> Result<Option<bool>, BodyError> {
        let Incoming { input, body } = &mut *self.incoming.borrow_mut();
        let before = out.len();
        loop {
            match &mut body.framing {
                Framing::Ended => return Ok(Some(out.len() > before)),
                Framing::Http2 => return Ok(None),
                Framing::Broken => return Err(BodyError::Closed),
                Framing::Fixed(left) => {
                    let count = input.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    if count == 0 {
                        return Ok((out.len() > before).then_some(true));
                    }
                    out.extend_from_slice(&input.filled()[..count]);
                    input.consume(count);
                    *left -= count as u64;
                    body.received += count as u64;
                    if *left == 0 {
                        body.framing = Framing::Ended;
                    }
                    return Ok(Some(true));
                }
                Framing::Chunked(decoder) => {
                    let event = decoder.next(input.filled(), body.trailers.get_or_insert_default());
                    match event.map_err(unreadable)? {
                        Event::NeedMore { skip } => {
                            input.consume(skip);
                            return Ok((out.len() > before).then_some(true));
                        }
                        Event::Data { skip, length } => {
                            input.consume(skip);
                            out.extend_from_slice(&input.filled()[..length]);
                            input.consume(length);
                            body.received += length as u64;
                        }
                        Event::End { skip } => {
                            input.consume(skip);
                            if let Some(trailers) = &mut body.trailers {
                                crate::clean_trailers::clean_trailers(self.worker, trailers);
                            }
                            body.framing = Framing::Ended;
                        }
                    }
                }
            }
        }
    }

    /// Sends `100 Continue` once the body is wanted.
    fn poll_continue(&self, context: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        if self.expects_continue() {
            let sent = ready!(self.poll_send_continue(context));
            self.incoming.borrow_mut().body.expects_continue = false;
            return Poll::Ready(sent);
        }
        Poll::Ready(Ok(()))
    }

    /// Sends all of `data`; `Err` when the client is gone or too slow.
    pub(crate) async fn write(&self, data: &[u8]) -> Result<(), ()> {
        let written = self.write_all(data).await;
        if written.is_err() {
            self.gone.set(true);
        }
        written
    }

    async fn write_all(&self, data: &[u8]) -> Result<(), ()> {
        self.timer.set(self.worker.settings.send_timeout_ms);
        let mut sent = 0;
        while sent < data.len() {
            let written = poll_fn(|context| {
                let rest = data.get(sent..).unwrap_or_default();
                match self.poll_send(context, rest, false) {
                    Poll::Pending if self.timer.expired() => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
                    other => other,
                }
            });
            match written.await {
                Ok(0) | Err(_) => return Err(()),
                Ok(count) => sent += count,
            }
            if sent < data.len() {
                self.timer.set(self.worker.settings.send_timeout_ms);
            }
        }
        if self.is_tls() {
            // Records that TLS holds back cannot be counted. But for the time limit, only a socket that took something
            // wakes us.
            poll_fn(|context| match self.stream.borrow_mut().poll_flush(context) {
                Poll::Pending if self.timer.expired() => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
                Poll::Pending => {
                    self.timer.set(self.worker.settings.send_timeout_ms);
                    Poll::Pending
                }
                other => other,
            })
            .await
            .map_err(|_| ())?;
        }
        Ok(())
    }

    /// Writes a part of an answer; a client that takes it too slowly is an error. With `last`, the end of the data
    /// ends the answer, where the protocol frames it.
    pub(crate) fn poll_send(
        &self,
        context: &mut Context<'_>,
        data: &[u8],
        last: bool,
    ) -> Poll<io::Result<usize>> {
        let written = self.poll_write_body(context, data, last);
        self.paced(written)
    }

    /// As [`Downstream::poll_send`], for data that [`Downstream::poll_send_file`] follows at once.
    pub(crate) fn poll_send_more(&self, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let written = self.stream.borrow_mut().poll_write_more(context, data);
        self.paced(written)
    }

    /// As [`Downstream::poll_send`], with bytes of a file; only where [`Downstream::sends_files`].
    pub(crate) fn poll_send_file(
        &self,
        context: &mut Context<'_>,
        file: &File,
        offset: u64,
        count: usize,
    ) -> Poll<io::Result<usize>> {
        let written = self.stream.borrow_mut().poll_send_file(context, file, offset, count);
        self.paced(written)
    }

    pub(crate) fn sends_files(&self) -> bool {
        self.stream.borrow().is_plain()
    }

    /// Ready when the client would take something: a stream whose window is closed takes nothing.
    pub(crate) fn poll_takes(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self.stream.borrow_mut() {
            Stream::Http2(stream) => stream.poll_takes(context),
            _ => Poll::Ready(Ok(())),
        }
    }

    /// How much of the body may be sent with the head of an answer: little where streams of the same
    /// connection take nothing.
    pub(crate) fn room_with_head(&self) -> usize {
        match &*self.stream.borrow() {
            Stream::Http2(stream) if stream.held_by_connection().get() > 0 => read_ahead::LEAST_BYTES,
            _ => usize::MAX,
        }
    }

    /// How much an HTTP/2 upstream may send of an answer before this client has taken any.
    pub(crate) fn upstream_window(&self) -> Window {
        let much = match &*self.stream.borrow() {
            Stream::Http2(stream) => stream.held_by_connection().get() > read_ahead::CONNECTION_BYTES / 2,
            _ => false,
        };
        if much || read_ahead::is_scarce() { Window::Small } else { Window::Full }
    }

    /// The memory that the answers of an HTTP/2 connection hold together.
    pub(crate) fn held_by_connection(&self) -> Option<Rc<Cell<usize>>> {
        match &*self.stream.borrow() {
            Stream::Http2(stream) => Some(stream.held_by_connection().clone()),
            _ => None,
        }
    }

    /// A client that takes an answer too slowly is an error.
    fn paced(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let now_ms = self.worker.deadlines.now_ms();
        match written {
            Poll::Pending => {
                self.taking.waits(now_ms);
                Poll::Pending
            }
            Poll::Ready(Ok(count)) if !self.taking.moves(count, now_ms, self.least_rate()) => {
                if read_ahead::is_spent() {
                    read_ahead::count_ended();
                }
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
            other => other,
        }
    }

    /// Where answers hold all the memory that they may, clients must take them at a least rate.
    fn least_rate(&self) -> LeastRate {
        let settings = &self.worker.settings;
        match read_ahead::is_spent() {
            true if settings.answer_rate.bytes_per_second < settings.held_body_rate.bytes_per_second => {
                settings.held_body_rate
            }
            _ => settings.answer_rate,
        }
    }

    pub(crate) fn poll_write(&self, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.stream.borrow_mut().poll_write(context, data)
    }

    fn poll_write_body(&self, context: &mut Context<'_>, data: &[u8], last: bool) -> Poll<io::Result<usize>> {
        match &mut *self.stream.borrow_mut() {
            Stream::Http2(stream) => stream.poll_write(context, data, last),
            other => other.poll_write(context, data),
        }
    }

    pub(crate) fn poll_flush(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.borrow_mut().poll_flush(context)
    }

    pub(crate) fn poll_shutdown(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.borrow_mut().poll_shutdown(context)
    }

    /// Raw bytes for a tunnel: what is buffered first.
    pub(crate) fn poll_raw(&self, context: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        let input = &mut self.incoming.borrow_mut().input;
        if !input.is_empty() {
            let count = input.len().min(room.len());
            room[..count].copy_from_slice(&input.filled()[..count]);
            input.consume(count);
            return Poll::Ready(Ok(count));
        }
        self.stream.borrow_mut().poll_read(context, room)
    }

    /// Reads and drops the rest of the body, up to `limit` bytes, so that the connection can be reused.
    pub(crate) async fn drain_body(&self, limit: usize) -> bool {
        if self.expects_continue() && !self.body_ended() {
            return false;
        }
        let mut dropped = 0;
        let mut scratch = Vec::new();
        let now_ms = || self.worker.deadlines.now_ms();
        let allowed_ms = self.worker.settings.client_body_timeout_ms.min(5_000);
        let until_ms = now_ms().saturating_add(allowed_ms);
        loop {
            // One limit for all pieces: the answer waits for this.
            if now_ms() > until_ms {
                return false;
            }
            self.timer.set(until_ms.saturating_sub(now_ms()));
            scratch.clear();
            match poll_fn(|context| self.poll_data(context, &mut scratch)).await {
                Ok(false) => return true,
                Ok(true) => dropped += scratch.len(),
                Err(_) => return false,
            }
            if dropped > limit {
                return false;
            }
        }
    }
}
