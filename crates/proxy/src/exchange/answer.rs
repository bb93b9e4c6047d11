//! The upstream's answer on its way to the client: head and first body bytes in one write, then piece by piece.

use std::{
    future::poll_fn,
    io,
    rc::Rc,
    task::{Context, Poll},
    time::Instant,
};

use tidegate_plugin_api::{BodyChunk, Request, snapshot::Peer};
use tidegate_protocol::{
    BodyLength, Head,
    chunked::{self, ChunkedDecoder, Event},
};
use tidegate_telemetry::error_log;

use super::{
    attempt::{Answer, SendBody, Upstream},
    record,
};
use crate::{
    answer::{
        head::{self, AnswerHead, ClientFraming},
        outgoing::Outgoing,
        remade::Remade,
    },
    balancer::{self, InFlight},
    buffer,
    client::Client,
    filters, http2,
    phases::{Chains, Passed},
    request::client_persists,
    respond, tunnel,
};

/// Decodes the upstream's framing.
enum Decoder {
    Fixed(u64),
    Chunked(Box<ChunkedDecoder>),
    UntilClose,
}

/// How the body ended.
#[derive(PartialEq, Eq)]
enum End {
    Complete,
    /// The upstream broke off, or was too slow.
    Upstream,
    Client,
    /// A body filter lets nothing of it through: the status of the page that takes its place.
    Refused(u16),
}

/// Why moving the body stopped.
enum Turn {
    Ended(End),
    /// Body filters have used their time; there is more.
    Rest,
    /// The body filter at this place has the whole body, and makes a new one.
    Remaking(usize),
}

impl End {
    /// The status of the page that is sent where nothing of the answer is out.
    pub(super) fn instead(&self) -> Option<u16> {
        match self {
            End::Refused(status) => Some(*status),
            End::Upstream => Some(502),
            End::Complete | End::Client => None,
        }
    }
}

struct Relay<'a> {
    request: &'a mut Request,
    client: &'a Client,
    chains: &'a Chains,
    upstream: &'a mut Upstream,
    decoder: Decoder,
    framing: ClientFraming,
    filtered: bool,
    trailers: Head,
    out: Outgoing,
    body_bytes: u64,
    ended: bool,
    /// Decoded bytes at the start of the upstream's buffer that the body filters have not seen, and whether the body
    /// ends with them.
    rest: usize,
    rest_ends: bool,
    /// Body filters had enough for one turn although there is more.
    resting: bool,
    remaking: Option<usize>,
    remade: Option<Box<Remade>>,
    /// The head at the start of `out` stays there until something of the body is: another answer may take its place.
    head_waits: bool,
    /// More had to be read from the upstream after its head.
    waited: bool,
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

/// Between whom an answer passes.
pub struct Parties<'a> {
    pub request: &'a mut Request,
    pub client: &'a Rc<Client>,
    pub chains: &'a Chains,
    pub peer: &'a Peer,
}

/// Sends the answer. Returns whether the client's connection may go on.
pub async fn deliver(
    parties: Parties<'_>,
    answer: Answer,
    connection: &mut Option<Upstream>,
    in_flight: InFlight,
) -> bool {
    let Parties { request, client, chains, peer } = parties;
    let Answer { length, persists, header_seconds, upgraded } = answer;
    let Some(upstream) = connection.as_mut() else { return false };
    // Header filters may ask how the upstream answered.
    record(request, upstream, request.response.status, Some(header_seconds), Some(header_seconds));
    if let Err(status) = filters::header_filter(request, client, chains) {
        drop(in_flight);
        settle(connection.take(), client, peer, false);
        return Box::pin(respond::instead(request, client, status)).await;
    }
    if upgraded {
        let timeouts = balancer::timeouts(request, &peer.upstream);
        let started = upstream.started;
        if let Some(upstream) = connection.take() {
            tunnel::run(request, client, upstream, timeouts.read_ms).await;
        }
        complete(request, started);
        return false;
    }
    let framing = head::framing(request, length);
    // An answer that overtakes the request's body ends the connection after it: where the body stops is unknown.
    let keep = client_persists(request, client)
        && framing != ClientFraming::Close
        && matches!(upstream.body, SendBody::Done);
    let head_waits = request.response.head_waits && framing != ClientFraming::Bodiless;
    let mut out = client.worker.buffers.output();
    let head_bytes = match client.is_http2() {
        true => {
            let last = matches!(framing, ClientFraming::Bodiless | ClientFraming::Length(0));
            if !head_waits {
                // A client that is gone shows when its body is sent.
                let _ = http2::reply::send_head(request, client, framing, last);
            }
            http2::reply::head_bytes(request)
        }
        false => {
            AnswerHead::new(request, client.worker, framing, keep).write_http1(&mut out);
            out.len() as u64
        }
    };
    let timeouts = balancer::timeouts(request, &peer.upstream);
    let filtered = chains.has_body_filter();
    let out = Outgoing::new(out, client);
    let mut relay = Relay {
        decoder: match length {
            BodyLength::Fixed(length) => Decoder::Fixed(length),
            BodyLength::Chunked => Decoder::Chunked(Box::default()),
            BodyLength::UntilClose => Decoder::UntilClose,
        },
        request,
        client,
        chains,
        upstream,
        framing,
        filtered,
        trailers: Head::new(),
        out,
        body_bytes: 0,
        ended: false,
        rest: 0,
        rest_ends: false,
        resting: false,
        remaking: None,
        remade: None,
        head_waits,
        waited: false,
        waits: Waits::default(),
    };
    client.answering.set(!head_waits);
    let end = relay.run(timeouts.read_ms).await;
    let Relay { out, body_bytes, waited, head_waits, .. } = relay;
    client.worker.buffers.give_back_output(out.bytes);
    drop(in_flight);
    if let Some(status) = end.instead().filter(|_| head_waits) {
        settle(connection.take(), client, peer, false);
        return Box::pin(respond::instead(request, client, status)).await;
    }
    request.outcome.body_bytes_sent = body_bytes;
    request.outcome.bytes_sent = body_bytes + head_bytes;
    // A body that came with the head took no time of its own.
    if waited {
        complete(request, upstream.started);
    }
    let whole = end == End::Complete;
    let is_sent = upstream.request_is_sent();
    settle(connection.take(), client, peer, whole && persists && is_sent);
    if end == End::Client {
        client.gone.set(true);
    }
    whole && keep
}

/// Keeps the connection for the next request if it `may_go_on`.
fn settle(connection: Option<Upstream>, client: &Client, peer: &Peer, may_go_on: bool) {
    let Some(upstream) = connection else { return };
    match peer.node() {
        Some(node) if may_go_on => upstream.keep(client, &peer.upstream, node),
        _ => upstream.discard(client),
    }
}

/// Writes down when the last byte of the answer had come.
fn complete(request: &mut Request, started: Instant) {
    if let Some(attempt) = request.outcome.attempts.last_mut() {
        attempt.response_seconds = started.elapsed().as_secs_f64();
    }
}

impl Relay<'_> {
    async fn run(&mut self, read_ms: u64) -> End {
        if let Err(end) = self.take_buffered() {
            // What was good goes out; the missing rest tells the client that the answer is cut.
            if !self.client.is_http2() && !self.head_waits {
                let _ = self.client.write(&self.out.bytes).await;
            }
            return end;
        }
        self.client.timer.set(read_ms);
        loop {
            match self.turn(read_ms).await {
                Turn::Ended(end) => return end,
                Turn::Rest => {}
                Turn::Remaking(maker) => match Box::pin(self.chains.whole_body(self.request, maker)).await {
                    Ok(body) => self.remade = Some(Box::new(Remade { body, from: maker + 1 })),
                    Err(status) => return End::Refused(status),
                },
            }
            // Other requests, and what has arrived for them, come before the next piece.
            tokio::task::yield_now().await;
            self.waits.upstream_sent = true;
        }
    }

    /// Moves the body until it ends, or until the body filters need a rest.
    async fn turn(&mut self, read_ms: u64) -> Turn {
        poll_fn(|context| {
            let mut sending = true;
            loop {
                if sending && let Poll::Ready(Err(())) = self.poll_request_body(context) {
                    sending = false;
                }
                let written = self.poll_out(context);
                if let Poll::Ready(Err(_)) = written {
                    return Poll::Ready(Turn::Ended(End::Client));
                }
                if self.ended && written.is_ready() {
                    match self.poll_end(context) {
                        Poll::Ready(Ok(())) => return Poll::Ready(Turn::Ended(End::Complete)),
                        Poll::Ready(Err(_)) => return Poll::Ready(Turn::Ended(End::Client)),
                        Poll::Pending => {
                            // Records that TLS holds back cannot be counted. But for the time limit, only a socket
                            // that took something wakes us.
                            self.waits.client_took = !self.client.timer.expired();
                            return self.wait(read_ms, true);
                        }
                    }
                }
                if self.client.poll_gone(context).is_ready() {
                    return Poll::Ready(Turn::Ended(End::Client));
                }
                if self.ended {
                    return self.wait(read_ms, true);
                }
                let room = match self.out.poll_room(context, self.client, self.head_waits) {
                    Poll::Ready(Ok(room)) => room,
                    Poll::Ready(Err(_)) => return Poll::Ready(Turn::Ended(End::Client)),
                    Poll::Pending => {
                        self.give_back_buffers();
                        return self.wait(read_ms, true);
                    }
                };
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
                    return match self.take_buffered() {
                        Err(end) => Poll::Ready(Turn::Ended(end)),
                        Ok(()) if self.resting => Poll::Ready(Turn::Rest),
                        Ok(()) => continue,
                    };
                }
                match self.poll_upstream(context, room) {
                    Poll::Ready(Ok(())) => self.waits.upstream_sent = true,
                    Poll::Ready(Err(end)) => return Poll::Ready(Turn::Ended(end)),
                    Poll::Pending => return self.wait(read_ms, written.is_pending()),
                }
            }
        })
        .await
    }

    fn poll_end(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.client.is_http2() {
            return Poll::Ready(http2::reply::end(self.client, &self.trailers));
        }
        self.client.poll_flush(context)
    }

    fn wait(&mut self, read_ms: u64, for_client: bool) -> Poll<Turn> {
        let waits = &mut self.waits;
        let moved = if for_client { waits.client_took } else { waits.upstream_sent };
        if moved || waits.for_client != for_client {
            *waits = Waits { for_client, ..Waits::default() };
            let send_ms = self.client.worker.settings.send_timeout_ms;
            self.client.timer.set(if for_client { send_ms } else { read_ms });
        } else if self.client.timer.expired() {
            return Poll::Ready(Turn::Ended(if for_client { End::Client } else { End::Upstream }));
        }
        Poll::Pending
    }

    /// Nothing is read until the client has taken something.
    fn give_back_buffers(&mut self) {
        let buffers = &self.client.worker.buffers;
        if self.upstream.input.is_empty() {
            buffers.give_back(std::mem::take(&mut self.upstream.input));
        }
        if self.upstream.request_is_sent() {
            self.upstream.sent = 0;
            buffers.give_back_output(std::mem::take(&mut self.upstream.out));
        }
    }

    /// A buffer for reads of this size: fewer and larger ones for a body that is known to be long.
    fn take_input(&mut self, room: usize) {
        let (input, buffers) = (&mut self.upstream.input, &self.client.worker.buffers);
        let long = matches!(self.decoder, Decoder::Fixed(left) if left > buffer::LARGE as u64);
        if !input.is_empty() {
            return;
        }
        if long && room > buffer::SIZE && input.capacity() < buffer::LARGE {
            buffers.give_back(std::mem::replace(input, buffers.large()));
        } else if input.capacity() == 0 {
            *input = buffers.input();
        }
    }

    /// The rest of a request body whose answer has begun.
    fn poll_request_body(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ()>> {
        if matches!(self.upstream.body, SendBody::Done) && self.upstream.sent >= self.upstream.out.len() {
            return Poll::Ready(Ok(()));
        }
        self.upstream.poll_send(context, self.request).map_err(|_| ())
    }

    fn poll_out(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.head_waits {
            return Poll::Ready(Ok(()));
        }
        let last = self.ended && self.trailers.is_empty();
        self.out.poll(context, self.client, last, &mut self.waits.client_took)
    }

    /// Reads once from the upstream, at most `most` bytes, and moves what came to `out`.
    fn poll_upstream(&mut self, context: &mut Context<'_>, most: usize) -> Poll<Result<(), End>> {
        self.waited = true;
        // What body filters do not take in one step would wait here.
        let step = if self.filtered { self.request.response.body_step().max(buffer::SIZE) } else { most };
        let most = most.min(step);
        self.take_input(most);
        let room = self.upstream.input.room(buffer::LARGE);
        let count = room.len().min(most);
        let room = room.get_mut(..count).unwrap_or_default();
        match self.upstream.stream.poll_read(context, room) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(0)) => Poll::Ready(self.upstream_closed()),
            Poll::Ready(Ok(count)) => {
                self.upstream.input.received(count);
                Poll::Ready(self.take_buffered())
            }
            Poll::Ready(Err(error)) => {
                self.broken(&error.to_string());
                Poll::Ready(Err(End::Upstream))
            }
        }
    }

    fn upstream_closed(&mut self) -> Result<(), End> {
        if matches!(self.decoder, Decoder::UntilClose) {
            return self.pass_on(0, true);
        }
        self.broken("upstream closed the connection before the end of its answer");
        Err(End::Upstream)
    }

    fn broken(&self, reason: &str) {
        error_log::log(
            error_log::Level::Error,
            format_args!(
                "{reason}, client: {}, upstream: {}",
                self.request.remote_addr, self.upstream.address
            ),
        );
    }

    /// Decodes what has been received and passes it on, as much as the body filters take in one step.
    fn take_buffered(&mut self) -> Result<(), End> {
        loop {
            if self.rest == 0 && !self.decode()? {
                return Ok(());
            }
            let step = if self.filtered { self.request.response.body_step() } else { usize::MAX };
            let length = self.rest.min(step);
            self.rest -= length;
            let ends = self.rest_ends && self.rest == 0;
            self.pass_on(length, ends)?;
            self.upstream.input.consume(length);
            if ends {
                return Ok(());
            }
            if length == 0 || self.upstream.input.is_empty() {
                return Ok(());
            }
            if length == step {
                self.resting = true;
                return Ok(());
            }
        }
    }

    /// Finds the next bytes of the body, or its end; `false`: more has to be received.
    fn decode(&mut self) -> Result<bool, End> {
        let input = self.upstream.input.filled();
        let (skip, length, ends) = match &mut self.decoder {
            Decoder::Fixed(left) => {
                let count = input.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= count as u64;
                (0, count, *left == 0)
            }
            Decoder::UntilClose => (0, input.len(), false),
            Decoder::Chunked(decoder) => match decoder.next(input, &mut self.trailers) {
                Ok(Event::NeedMore { skip }) => {
                    self.upstream.input.consume(skip);
                    return Ok(false);
                }
                Ok(Event::Data { skip, length }) => (skip, length, false),
                Ok(Event::End { skip }) => {
                    let response = &self.request.response;
                    self.trailers.retain(|name, _| {
                        tidegate_protocol::trailers::may_be_trailer(name) && response.passes_trailer(name)
                    });
                    (skip, 0, true)
                }
                Err(error) => {
                    self.broken(error.reason);
                    return Err(End::Upstream);
                }
            },
        };
        self.upstream.input.consume(skip);
        (self.rest, self.rest_ends) = (length, ends);
        Ok(true)
    }

    /// Frames `length` received bytes for the client, through the body filters if there are any.
    fn pass_on(&mut self, length: usize, last: bool) -> Result<(), End> {
        if self.filtered {
            let data = self.upstream.input.filled().get(..length).unwrap_or_default().to_vec();
            return self.filter(data, last, 0);
        }
        self.frame(None, length, last);
        Ok(())
    }

    /// Passes a piece through the filters from one on.
    fn filter(&mut self, data: Vec<u8>, last: bool, from: usize) -> Result<(), End> {
        let mut chunk = BodyChunk::new(data, last);
        match self.chains.body_filter(self.request, &mut chunk, from) {
            Passed::Through => self.frame(Some(&chunk.data), 0, last),
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

    fn frame(&mut self, filtered: Option<&[u8]>, length: usize, last: bool) {
        self.ended = last;
        let size = filtered.map_or(length, <[u8]>::len);
        if self.head_waits && (last || size > 0) {
            self.head_waits = false;
            self.client.answering.set(true);
            if self.client.is_http2() {
                let _ = http2::reply::send_head(self.request, self.client, self.framing, false);
            }
        }
        let data = filtered.unwrap_or_else(|| self.upstream.input.filled().get(..length).unwrap_or_default());
        match self.framing {
            ClientFraming::Bodiless => return,
            ClientFraming::Length(_) | ClientFraming::Close | ClientFraming::Frames => {
                self.out.bytes.extend_from_slice(data)
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
}
