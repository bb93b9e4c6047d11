//! The way out of an answer, wherever its body comes from ([`body::Body`]) and whatever protocol the client speaks
//! (`client/answering.rs`): framing, body filters, the buffer toward the client, which side is waited for and how long, byte
//! counts, the end and its trailers. Nothing else writes the body of an answer to a request.
//!
//! Until its head is out, an error page can replace the answer, see [`Sent::page`].

pub(crate) mod body;
pub(crate) mod head;
mod outgoing;
mod remade;
pub(super) mod writer;

use std::{
    future::poll_fn,
    io,
    task::{Context, Poll},
};

use tidegate_plugin_api::{BodyChunk, BodyError, Request};
use tidegate_protocol::{chunked, trailers::may_be_trailer};
use tidegate_telemetry::error_log;

use crate::{
    client::Downstream,
    phases::{Passed, RequestChains},
};
use body::{Body, End, Step};
use head::{AnswerHead, ClientFraming};
use outgoing::Outgoing;
use remade::Remade;

use self::writer::{Frame, Waits, Writer};

/// Why moving the body stopped.
enum Turn {
    Ended(End),
    /// There is more at hand; others get their turn first.
    Rest,
    /// The body filter at this place makes a new body.
    Remaking(usize),
}

/// The outcome of sending an answer.
pub(crate) struct Sent {
    pub(crate) end: End,
    /// Nothing of it is out.
    is_held: bool,
    keep: bool,
}

impl Sent {
    pub(crate) fn is_whole(&self) -> bool {
        self.end == End::Complete
    }

    /// Whether the connection may carry another request.
    pub(crate) fn keeps(&self) -> bool {
        self.is_whole() && self.keep
    }

    /// The status of the page that replaces the answer.
    pub(crate) fn page(&self) -> Option<u16> {
        if self.is_held { self.end.page() } else { None }
    }
}

impl<'a> Writer<'a> {
    /// For an answer whose head is in `request.response`, past the header filters. The head leaves now, or with the body.
    #[inline]
    pub(crate) fn begin(
        request: &'a mut Request,
        client: &'a Downstream,
        chains: Option<&'a RequestChains>,
        frame: Frame,
    ) -> Writer<'a> {
        let filters = chains.filter(|chains| chains.filters_body(request));
        let head_waits = request.response.head_waits && frame.framing != ClientFraming::Bodiless;
        let mut writer = Writer {
            request,
            client,
            filters,
            frame,
            out: Outgoing::new(client),
            head_bytes: 0,
            body_bytes: 0,
            head_waits,
            ended: false,
            sending: false,
            remaking: None,
            remade: None,
            waits: Waits::default(),
        };
        if !head_waits {
            writer.send_head(writer.ends_with_head());
        }
        client.answering.set(!head_waits);
        writer
    }

    /// Sends the body, to its end or as far as possible.
    pub(crate) async fn run<B: Body>(&mut self, body: &mut B) -> Sent {
        let end = self.send(body).await;
        let outcome = &mut self.request.outcome;
        outcome.body_bytes_sent = self.body_bytes;
        outcome.bytes_sent = self.body_bytes + self.head_bytes;
        self.client.worker.buffers.give_back_output(std::mem::take(&mut self.out.bytes));
        if end == End::Client {
            self.client.gone.set(true);
        }
        Sent { end, is_held: self.head_waits, keep: self.frame.keep }
    }

    async fn send<B: Body>(&mut self, body: &mut B) -> End {
        if let Err(end) = body.start(self) {
            // The valid part is sent; the client sees from the missing end that the answer is cut.
            if !self.head_waits {
                let _ = self.client.write(&self.out.bytes).await;
            }
            return end;
        }
        self.sending = body.is_sending();
        if let Some(limit_ms) = body.limit_ms() {
            self.client.timer.set(limit_ms);
        }
        loop {
            match poll_fn(|context| self.poll_turn(context, body)).await {
                Turn::Ended(end) => return end,
                Turn::Rest => {}
                Turn::Remaking(maker) => {
                    // `remaking` is set by filters only.
                    let Some(filters) = self.filters else { return End::Broken(500) };
                    match Box::pin(filters.whole_body(self.request, maker)).await {
                        Ok(body) => self.remade = Some(Box::new(Remade { body, from: maker + 1 })),
                        Err(status) => return End::Refused(status),
                    }
                }
            }
            // Other requests, and what has arrived for them, come before the next piece.
            tokio::task::yield_now().await;
            self.waits.body_moved = true;
        }
    }

    /// Moves the body until it ends or rests.
    fn poll_turn<B: Body>(&mut self, context: &mut Context<'_>, body: &mut B) -> Poll<Turn> {
        loop {
            if self.sending && !self.sends_request(context, body) {
                return Poll::Ready(Turn::Ended(End::Client));
            }
            let written = self.poll_out(context, body.sends_itself());
            if let Poll::Ready(Err(_)) = written {
                return Poll::Ready(Turn::Ended(End::Client));
            }
            if written.is_ready() {
                body.was_taken();
                if self.ended {
                    return self.poll_end(context);
                }
            }
            if B::FOLLOWS_CLIENT && self.client.poll_gone(context).is_ready() {
                return Poll::Ready(Turn::Ended(End::Client));
            }
            if self.ended {
                return self.wait_for_client();
            }
            let room = match self.out.poll_room(context, self.client, self.head_waits) {
                Poll::Ready(Ok(room)) => room,
                Poll::Ready(Err(_)) => return Poll::Ready(Turn::Ended(End::Client)),
                Poll::Pending => {
                    body.stalls(self.client);
                    return self.wait_for_client();
                }
            };
            if let Some(turn) = self.remade_turn() {
                return Poll::Ready(turn);
            }
            match body.poll_piece(context, self, room) {
                Ok(Step::Moved) => self.waits.body_moved = true,
                Ok(Step::Rests) => return Poll::Ready(Turn::Rest),
                Ok(Step::WaitsForClient) => return self.wait_for_client(),
                Ok(Step::WaitsForBody) if written.is_pending() => return self.wait_for_client(),
                Ok(Step::WaitsForBody) => return self.wait_for_body(body.limit_ms()),
                Err(end) => return Poll::Ready(Turn::Ended(end)),
            }
        }
    }

    /// The rest of a request whose answer has begun; `false`: the client's body is refused.
    fn sends_request<B: Body>(&mut self, context: &mut Context<'_>, body: &mut B) -> bool {
        match body.poll_request(context, self.request, self.client) {
            Poll::Pending => true,
            Poll::Ready(Ok(())) => {
                self.sending = false;
                true
            }
            Poll::Ready(Err(error)) => {
                log_cut(self.request, error);
                false
            }
        }
    }

    fn poll_out(&mut self, context: &mut Context<'_>, more: bool) -> Poll<io::Result<()>> {
        if self.head_waits {
            return Poll::Ready(Ok(()));
        }
        let last = self.ended && self.request.response.trailers.is_empty();
        self.out.poll(context, self.client, outgoing::Follows { last, more }, &mut self.waits.client_took)
    }

    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<Turn> {
        match self.client.poll_end(context, &self.request.response.trailers) {
            Poll::Ready(Ok(())) => Poll::Ready(Turn::Ended(End::Complete)),
            Poll::Ready(Err(_)) => Poll::Ready(Turn::Ended(End::Client)),
            Poll::Pending => {
                // Records that TLS holds back cannot be counted. But for the time limit, only a socket that took something
                // wakes us.
                self.waits.client_took = !self.client.timer.expired();
                self.wait_for_client()
            }
        }
    }

    fn wait_for_client(&mut self) -> Poll<Turn> {
        if self.waits.client_took || !self.waits.for_client {
            self.waits = Waits { for_client: true, ..Waits::default() };
            self.client.timer.set(self.client.worker.settings.send_timeout_ms);
        } else if self.client.timer.expired() {
            return Poll::Ready(Turn::Ended(End::Client));
        }
        Poll::Pending
    }

    fn wait_for_body(&mut self, limit_ms: Option<u64>) -> Poll<Turn> {
        if self.waits.body_moved || self.waits.for_client {
            self.waits = Waits::default();
            if let Some(limit_ms) = limit_ms {
                self.client.timer.set(limit_ms);
            }
        } else if limit_ms.is_some() && self.client.timer.expired() {
            return Poll::Ready(Turn::Ended(End::Silent));
        }
        Poll::Pending
    }

    /// A body that filters rebuild is sent before more of the original is read.
    fn remade_turn(&mut self) -> Option<Turn> {
        if let Some(maker) = self.remaking.take() {
            return Some(Turn::Remaking(maker));
        }
        let remade = self.remade.as_mut()?;
        let (piece, last) = remade.next(self.request.response.body_step());
        let from = remade.from;
        if last {
            self.remade = None;
        }
        Some(match self.filter(piece, last, from) {
            Ok(()) => Turn::Rest,
            Err(end) => Turn::Ended(end),
        })
    }
}

/// The interface for bodies.
impl Writer<'_> {
    /// Takes a piece for the client, through the body filters if there are any.
    #[inline]
    pub(crate) fn pass(&mut self, data: &[u8], last: bool) -> Result<(), End> {
        if self.filters.is_some() {
            return self.filter(data.to_vec(), last, 0);
        }
        self.take(data, last);
        Ok(())
    }

    /// How much of so many bytes may be passed at once.
    pub(crate) fn step(&self) -> usize {
        if self.is_filtered() { self.request.response.body_step() } else { usize::MAX }
    }

    pub(crate) fn is_filtered(&self) -> bool {
        self.filters.is_some()
    }

    /// Whether nothing waits for the client. Then a body may send bytes itself, and reports them with
    /// [`Writer::count`].
    pub(crate) fn is_flushed(&self) -> bool {
        self.out.bytes.is_empty() && !self.head_waits
    }

    /// Whether bytes of the body can leave in one write with the head.
    pub(crate) fn holds_head(&self) -> bool {
        !self.out.bytes.is_empty()
    }

    /// The client has taken bytes of the body that were not passed.
    pub(crate) fn count(&mut self, bytes: usize) {
        self.body_bytes += bytes as u64;
        self.waits.client_took = true;
    }

    /// Whether the client takes something now, where flow control limits it (a window).
    pub(crate) fn client_takes(&mut self, context: &mut Context<'_>) -> bool {
        // An error shows when it is sent.
        let takes = self.client.poll_takes(context).is_ready();
        if !takes {
            self.out.rest(self.client);
        }
        takes
    }

    /// Counts bytes as held that may arrive although nothing is read.
    pub(crate) fn expect_window(&mut self, window: usize) {
        self.out.window = window;
    }

    pub(crate) fn head_waits(&self) -> bool {
        self.head_waits
    }

    /// Passes a piece through the filters from one on.
    fn filter(&mut self, data: Vec<u8>, last: bool, from: usize) -> Result<(), End> {
        let Some(filters) = self.filters else { return Ok(()) };
        let mut chunk = BodyChunk::new(data, last);
        match filters.body_filter(self.request, &mut chunk, from) {
            Passed::Through => self.take(&chunk.data, last),
            Passed::Waits(maker) => self.remaking = Some(maker),
            Passed::Refused(status) => return Err(End::Refused(status)),
        }
        Ok(())
    }

    /// Frames a piece.
    #[inline]
    fn take(&mut self, data: &[u8], last: bool) {
        if self.head_waits && (last || !data.is_empty()) {
            self.head_waits = false;
            self.client.answering.set(true);
            self.send_head(false);
        }
        if last {
            self.ended = true;
            self.out.window = 0;
            if !self.request.response.trailers.is_empty() {
                self.keep_trailers();
            }
        }
        match self.frame.framing {
            ClientFraming::Bodiless => return,
            ClientFraming::Length(_) | ClientFraming::Close | ClientFraming::Frames => {
                self.out.take(data, self.client);
            }
            ClientFraming::Chunked => {
                chunked::write_chunk(&mut self.out.bytes, data);
                if last {
                    chunked::write_end(&mut self.out.bytes, &self.request.response.trailers);
                }
            }
        }
        self.body_bytes += data.len() as u64;
    }

    /// The one place that decides which trailers of an answer reach the client.
    fn keep_trailers(&mut self) {
        let response = &mut self.request.response;
        let mut trailers = std::mem::take(&mut response.trailers);
        trailers.retain(|name, _| may_be_trailer(name) && response.passes_trailer(name));
        response.trailers = trailers;
    }

    /// Whether the head announces that nothing follows it.
    fn ends_with_head(&self) -> bool {
        let Frame { framing, is_empty, .. } = self.frame;
        // Filters may add to a body whose length is not announced.
        framing == ClientFraming::Bodiless
            || is_empty && (self.filters.is_none() || matches!(framing, ClientFraming::Length(_)))
    }

    fn send_head(&mut self, last: bool) {
        let Frame { framing, keep, .. } = self.frame;
        let head = AnswerHead::new(self.request, self.client.worker, framing, keep);
        self.head_bytes = self.client.send_head(&head, last, &mut self.out.bytes);
    }
}

/// Logs why an answer is cut that its client could still have received.
#[cold]
fn log_cut(request: &Request, error: BodyError) {
    if error == BodyError::Closed {
        return;
    }
    error_log::log(
        error_log::Level::Info,
        format_args!(
            "request body refused after its response began (status {}); the response ends, client: {}",
            error.status(),
            request.remote_addr
        ),
    );
}
