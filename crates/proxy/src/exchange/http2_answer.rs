//! The answer of an HTTP/2 upstream on its way to the client: head, pieces, trailers.
//!
//! The upstream gets room for more only when the client has taken what came before.

use std::{
    fmt::Display,
    future::poll_fn,
    io,
    rc::Rc,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use h2::RecvStream;
use tidegate_plugin_api::{BodyChunk, Request, UpstreamHandle};
use tidegate_protocol::{BodyLength, Head, chunked};
use tidegate_telemetry::error_log;

use super::{
    failure::FailureKind,
    http2::{Answer, Stream},
};
use crate::{
    answer::{
        head::{self, AnswerHead, ClientFraming},
        outgoing::Outgoing,
        remade::Remade,
    },
    balancer::{self, InFlight},
    client::Client,
    filters, http2,
    phases::{Chains, Passed},
    request::client_persists,
    respond,
};

#[derive(PartialEq, Eq)]
enum End {
    Complete,
    Upstream,
    /// The upstream let its time pass.
    Silent,
    Client,
    /// A body filter lets nothing of it through: the status of the page that takes its place.
    Refused(u16),
}

impl End {
    /// The status of the page that is sent where nothing of the answer is out.
    fn instead(&self) -> Option<u16> {
        match self {
            End::Refused(status) => Some(*status),
            End::Upstream => Some(502),
            End::Silent => Some(504),
            End::Complete | End::Client => None,
        }
    }
}

/// What a turn of the relay came to.
enum Turn {
    Ended(End),
    /// Body filters had enough for now although there is more.
    Rest,
    /// The body filter at this place has the whole body, and makes a new one.
    Remaking(usize),
}

struct Relay<'a> {
    request: &'a mut Request,
    client: &'a Client,
    chains: &'a Chains,
    stream: &'a mut Stream,
    receive: RecvStream,
    framing: ClientFraming,
    filtered: bool,
    trailers: Head,
    out: Outgoing,
    /// Received, and not yet seen by the body filters.
    rest: Bytes,
    resting: bool,
    remaking: Option<usize>,
    remade: Option<Box<Remade>>,
    /// The head stays here until something of the body can follow it: another answer may take its place.
    head_waits: bool,
    /// Bytes of the upstream's window that are still taken.
    held: usize,
    body_bytes: u64,
    ended: bool,
    waits: Waits,
}

/// Whose time runs: one limit at a time, that of whoever is waited for.
#[derive(Default)]
struct Waits {
    for_client: bool,
    /// Since the limit was set last.
    client_took: bool,
    upstream_sent: bool,
}

/// Sends the answer. Returns whether the client's connection may go on.
pub async fn deliver(
    request: &mut Request,
    client: &Rc<Client>,
    chains: &Chains,
    handle: &UpstreamHandle,
    answer: Answer,
    in_flight: InFlight,
) -> bool {
    let Answer { mut stream, receive, length, header_seconds } = answer;
    stream.record(request, request.response.status, Some(header_seconds));
    // All has come: gRPC's errors without a body, with their status in the head.
    let bare = receive.is_end_stream();
    let length = if bare && client.is_http2() { length } else { known(length, bare) };
    if let Err(status) = filters::header_filter(request, client, chains) {
        return Box::pin(respond::instead(request, client, status)).await;
    }
    let framing = head::framing(request, length);
    let keep = client_persists(request, client) && framing != ClientFraming::Close && stream.body_is_sent();
    let filtered = chains.has_body_filter();
    // Memory for the pieces of an HTTP/2 answer when the client takes some.
    let mut out = if client.is_http2() { Vec::new() } else { client.worker.buffers.output() };
    let head_waits = request.response.head_waits && framing != ClientFraming::Bodiless;
    let head_bytes = if client.is_http2() {
        let last = framing == ClientFraming::Bodiless || (bare && !filtered);
        if !head_waits {
            // A client that is gone shows when its body is sent.
            let _ = http2::reply::send_head(request, client, framing, last);
        }
        http2::reply::head_bytes(request)
    } else {
        AnswerHead::new(request, client.worker, framing, keep).write_http1(&mut out);
        out.len() as u64
    };
    client.answering.set(!head_waits);
    let timeouts = balancer::timeouts(request, handle);
    let mut out = Outgoing::new(out, client);
    if !bare {
        out.window = stream.window();
    }
    let mut relay = Relay {
        request,
        client,
        chains,
        stream: &mut stream,
        receive,
        framing,
        filtered,
        trailers: Head::new(),
        out,
        rest: Bytes::new(),
        resting: false,
        remaking: None,
        remade: None,
        head_waits,
        held: 0,
        body_bytes: 0,
        ended: false,
        waits: Waits::default(),
    };
    let end = relay.run(timeouts.read_ms).await;
    let Relay { out, body_bytes, head_waits, .. } = relay;
    client.worker.buffers.give_back_output(out.bytes);
    drop(in_flight);
    let instead = end.instead().filter(|_| head_waits);
    request.outcome.body_bytes_sent = body_bytes;
    request.outcome.bytes_sent = body_bytes + head_bytes;
    if let Some(attempt) = request.outcome.attempts.last_mut() {
        attempt.response_seconds = stream.started.elapsed().as_secs_f64();
    }
    let whole = end == End::Complete;
    if !whole {
        stream.cancel();
    }
    if end == End::Silent {
        stream.doubt();
    }
    if end == End::Client {
        client.gone.set(true);
    }
    match instead {
        Some(status) => respond::instead(request, client, status).await,
        None => whole && keep,
    }
}

/// An HTTP/1 client is told the length of what is known to be empty.
fn known(length: BodyLength, bare: bool) -> BodyLength {
    if bare && length == BodyLength::Chunked { BodyLength::EMPTY } else { length }
}

impl Relay<'_> {
    async fn run(&mut self, read_ms: u64) -> End {
        self.client.timer.set(read_ms);
        loop {
            match self.turn(read_ms).await {
                Turn::Ended(end) => return end,
                Turn::Rest => {}
                Turn::Remaking(maker) => match self.chains.whole_body(self.request, maker).await {
                    Ok(body) => self.remade = Some(Box::new(Remade { body, from: maker + 1 })),
                    Err(status) => return End::Refused(status),
                },
            }
            // Other requests, and what has arrived for them, come before the next piece.
            tokio::task::yield_now().await;
            self.client.timer.set(read_ms);
        }
    }

    /// Moves the body until it ends, or until the body filters need a rest.
    async fn turn(&mut self, read_ms: u64) -> Turn {
        let mut sending = true;
        poll_fn(|context| {
            loop {
                if sending {
                    match self.stream.poll_send(context, self.request, self.client) {
                        Poll::Ready(Err(FailureKind::Client(_))) => {
                            return Poll::Ready(Turn::Ended(End::Client));
                        }
                        // The upstream may answer without having read all.
                        Poll::Ready(_) => sending = false,
                        Poll::Pending => {}
                    }
                }
                let written = self.poll_out(context);
                if matches!(written, Poll::Ready(Err(_))) || self.client.poll_gone(context).is_ready() {
                    return Poll::Ready(Turn::Ended(End::Client));
                }
                if written.is_ready() {
                    self.give_room();
                    if self.ended {
                        match self.poll_end(context) {
                            Poll::Ready(Ok(())) => return Poll::Ready(Turn::Ended(End::Complete)),
                            Poll::Ready(Err(_)) => return Poll::Ready(Turn::Ended(End::Client)),
                            Poll::Pending => return self.wait(read_ms, true),
                        }
                    }
                }
                if self.ended {
                    return self.wait(read_ms, true);
                }
                match self.out.poll_room(context, self.client, self.head_waits) {
                    Poll::Ready(Ok(_)) => {}
                    Poll::Ready(Err(_)) => return Poll::Ready(Turn::Ended(End::Client)),
                    Poll::Pending => return self.wait(read_ms, true),
                }
                if let Some(maker) = self.remaking.take() {
                    return Poll::Ready(Turn::Remaking(maker));
                }
                if self.remade.is_some() {
                    return Poll::Ready(match self.pass_remade() {
                        Err(end) => Turn::Ended(end),
                        Ok(()) => Turn::Rest,
                    });
                }
                if std::mem::take(&mut self.resting) {
                    return Poll::Ready(Turn::Rest);
                }
                if self.poll_takes(context).is_pending() {
                    return self.wait(read_ms, true);
                }
                match self.poll_upstream(context) {
                    Poll::Ready(Ok(())) => self.waits.upstream_sent = true,
                    Poll::Ready(Err(end)) => return Poll::Ready(Turn::Ended(end)),
                    Poll::Pending => return self.wait(read_ms, written.is_pending()),
                }
            }
        })
        .await
    }

    fn wait(&mut self, read_ms: u64, for_client: bool) -> Poll<Turn> {
        let waits = &mut self.waits;
        let moved = if for_client { waits.client_took } else { waits.upstream_sent };
        if moved || waits.for_client != for_client {
            *waits = Waits { for_client, ..Waits::default() };
            let send_ms = self.client.worker.settings.send_timeout_ms;
            self.client.timer.set(if for_client { send_ms } else { read_ms });
        } else if self.client.timer.expired() {
            return Poll::Ready(Turn::Ended(if for_client { End::Client } else { End::Silent }));
        }
        Poll::Pending
    }

    /// What came stays as it is until the client takes some of it, where no filter has to see it first.
    fn poll_takes(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.rest.is_empty() || self.filtered || self.head_waits || !self.client.is_http2() {
            return Poll::Ready(());
        }
        // An error shows when it is sent.
        let takes = self.client.poll_takes(context).map(|_| ());
        if takes.is_pending() {
            self.out.rest(self.client);
        }
        takes
    }

    /// The upstream may send as much again as the client has taken.
    fn give_room(&mut self) {
        if self.held > 0 && self.rest.is_empty() {
            // Fails only for a stream that is gone.
            let _ = self.receive.flow_control().release_capacity(self.held);
            self.held = 0;
            self.stream.flows();
        }
    }

    /// Takes one piece from the upstream.
    fn poll_upstream(&mut self, context: &mut Context<'_>) -> Poll<Result<(), End>> {
        if !self.rest.is_empty() {
            return Poll::Ready(self.step());
        }
        let data = match ready!(self.receive.poll_data(context)) {
            Some(Ok(data)) => data,
            Some(Err(error)) => return Poll::Ready(Err(self.broken(&error))),
            None => {
                match ready!(self.receive.poll_trailers(context)) {
                    Err(error) => return Poll::Ready(Err(self.broken(&error))),
                    Ok(Some(trailers)) => {
                        let own = &mut self.request.response.trailers;
                        if let Err(error) = http2::head::add_trailers(own, &trailers) {
                            return Poll::Ready(Err(self.broken(&error.reason)));
                        }
                    }
                    Ok(None) => {}
                }
                return Poll::Ready(self.pass_on(&[], true));
            }
        };
        self.held += data.len();
        self.rest = data;
        // Whether the client takes it is asked first.
        if self.client.is_http2() && !self.filtered && !self.rest.is_empty() {
            return Poll::Ready(Ok(()));
        }
        Poll::Ready(self.step())
    }

    /// Passes on as much as the body filters take in one step.
    fn step(&mut self) -> Result<(), End> {
        let step = if self.filtered { self.request.response.body_step() } else { usize::MAX };
        let length = self.rest.len().min(step);
        let piece = self.rest.slice(..length);
        self.rest.advance(length);
        let last = self.rest.is_empty() && self.receive.is_end_stream();
        self.pass_on(&piece, last)?;
        self.resting = length == step && !last;
        Ok(())
    }

    fn broken(&self, error: &dyn Display) -> End {
        error_log::log(
            error_log::Level::Error,
            format_args!("upstream broke off its answer: {error}, client: {}", self.request.remote_addr),
        );
        End::Upstream
    }

    /// Frames a piece for the client, through the body filters if there are any.
    fn pass_on(&mut self, data: &[u8], last: bool) -> Result<(), End> {
        if self.filtered {
            return self.filter(data.to_vec(), last, 0);
        }
        self.frame(data, last);
        Ok(())
    }

    /// Passes a piece through the filters from one on.
    fn filter(&mut self, data: Vec<u8>, last: bool, from: usize) -> Result<(), End> {
        let mut chunk = BodyChunk::new(data, last);
        match self.chains.body_filter(self.request, &mut chunk, from) {
            Passed::Through => self.frame(&chunk.data, last),
            Passed::Waits(maker) => self.remaking = Some(maker),
            Passed::Refused(status) => return Err(End::Refused(status)),
        }
        Ok(())
    }

    /// The next piece of a body that a filter rebuilt.
    fn pass_remade(&mut self) -> Result<(), End> {
        let Some(remade) = &mut self.remade else { return Ok(()) };
        let (piece, last) = remade.next(self.request.response.body_step());
        let from = remade.from;
        if last {
            self.remade = None;
        }
        self.filter(piece, last, from)
    }

    fn frame(&mut self, data: &[u8], last: bool) {
        if self.head_waits && (last || !data.is_empty()) {
            self.head_waits = false;
            self.client.answering.set(true);
            if self.client.is_http2() {
                let _ = http2::reply::send_head(self.request, self.client, self.framing, false);
            }
        }
        if last {
            self.ended = true;
            self.out.window = 0;
            let trailers = std::mem::take(&mut self.request.response.trailers);
            for (name, value) in trailers.iter() {
                if tidegate_protocol::http2::is_allowed_trailer(name, value)
                    && self.request.response.passes_trailer(name)
                {
                    self.trailers.add(name, value);
                }
            }
        }
        match self.framing {
            ClientFraming::Bodiless => return,
            ClientFraming::Length(_) | ClientFraming::Close | ClientFraming::Frames => {
                self.out.take(data, self.client);
            }
            ClientFraming::Chunked => {
                chunked::write_chunk(&mut self.out.bytes, data);
                if last {
                    chunked::write_end(&mut self.out.bytes, &self.trailers);
                }
            }
        }
        self.body_bytes += data.len() as u64;
    }

    fn poll_out(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.head_waits {
            return Poll::Ready(Ok(()));
        }
        let last = self.ended && self.trailers.is_empty();
        self.out.poll(context, self.client, last, &mut self.waits.client_took)
    }

    fn poll_end(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.client.is_http2() {
            return Poll::Ready(http2::reply::end(self.client, &self.trailers));
        }
        self.client.poll_flush(context)
    }
}
