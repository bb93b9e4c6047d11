//! The answer of an HTTP/1 node: its body as the writer takes it, and whether the connection is kept.

use std::{
    rc::Rc,
    task::{Context, Poll},
    time::Instant,
};

use tidegate_plugin_api::{BodyError, Request, upstream::Peer};
use tidegate_protocol::{
    BodyLength,
    chunked::{ChunkedDecoder, Event},
};
use tidegate_telemetry::error_log;

use super::{
    attempt::Http1Response,
    connection::{SendBody, UpstreamConnection},
    failure::FailureKind,
    record::record,
};
use crate::{
    answer::{
        body::{Body, End, Step},
        head::{self, ClientFraming},
        writer::{Frame, Writer},
    },
    balancer::{self, InFlight},
    buffer,
    client::Downstream,
    filters,
    persistence::client_persists,
    phases::RequestChains,
    respond, tunnel,
};

/// Decodes the upstream's framing.
enum Decoder {
    Fixed(u64),
    Chunked(Box<ChunkedDecoder>),
    UntilClose,
}

/// A body on an HTTP/1 connection.
struct Http1Body<'a> {
    upstream: &'a mut UpstreamConnection,
    decoder: Decoder,
    read_ms: u64,
    /// Decoded bytes at the start of the upstream's buffer that are not passed on yet, and whether the body ends with them.
    rest: usize,
    rest_ends: bool,
    /// Body filters took enough for one turn although there is more.
    resting: bool,
    /// More had to be read from the upstream after its head.
    waited: bool,
}

/// The two sides of an answer.
pub(crate) struct Parties<'a> {
    pub request: &'a mut Request,
    pub client: &'a Rc<Downstream>,
    pub chains: &'a RequestChains,
    pub peer: &'a Peer,
}

/// Sends the answer. Returns whether the client's connection can be reused.
pub(super) async fn deliver(
    parties: Parties<'_>,
    answer: Http1Response,
    connection: &mut Option<UpstreamConnection>,
    in_flight: InFlight,
) -> bool {
    let Parties { request, client, chains, peer } = parties;
    let Http1Response { length, persists, header_seconds, upgraded } = answer;
    let Some(upstream) = connection.as_mut() else { return false };
    // Header filters may ask how the upstream answered.
    record(request, upstream, request.response.status, Some(header_seconds), Some(header_seconds));
    if let Err(status) = filters::header_filter(request, client, chains) {
        drop(in_flight);
        keep_or_discard(connection.take(), client, peer, false);
        return Box::pin(respond::instead(request, client, status)).await;
    }
    let timeouts = balancer::timeouts(request, &peer.upstream);
    if upgraded {
        let started = upstream.started;
        if let Some(upstream) = connection.take() {
            tunnel::run(request, client, upstream, timeouts.read_ms).await;
        }
        complete(request, started);
        return false;
    }
    let framing = head::framing(request, length, false);
    // An answer that overtakes the request's body ends the connection after it: where the body stops is unknown.
    let keep = client_persists(request, client)
        && framing != ClientFraming::Close
        && matches!(upstream.body, SendBody::Done);
    let frame = Frame { framing, is_empty: length.is_empty(), keep };
    let mut body = Http1Body::new(upstream, length, timeouts.read_ms);
    let sent = Writer::begin(request, client, Some(chains), frame).run(&mut body).await;
    drop(in_flight);
    // A body that came with the head took no extra time.
    if body.waited {
        complete(request, body.upstream.started);
    }
    let is_reusable = sent.is_whole() && persists && body.upstream.request_is_sent();
    keep_or_discard(connection.take(), client, peer, is_reusable);
    respond::conclude(request, client, sent).await
}

/// Keeps the connection for the next request if it `may_go_on`.
fn keep_or_discard(
    connection: Option<UpstreamConnection>,
    client: &Downstream,
    peer: &Peer,
    may_go_on: bool,
) {
    let Some(upstream) = connection else { return };
    match peer.node() {
        Some(node) if may_go_on => upstream.keep(client, &peer.upstream, node),
        _ => upstream.discard(client),
    }
}

/// Records when the last byte of the answer arrived.
fn complete(request: &mut Request, started: Instant) {
    if let Some(attempt) = request.outcome.attempts.last_mut() {
        attempt.response_seconds = started.elapsed().as_secs_f64();
    }
}

impl Body for Http1Body<'_> {
    const FOLLOWS_CLIENT: bool = true;

    fn limit_ms(&self) -> Option<u64> {
        Some(self.read_ms)
    }

    fn start(&mut self, writer: &mut Writer<'_>) -> Result<(), End> {
        self.take_buffered(writer)
    }

    fn poll_piece(
        &mut self,
        context: &mut Context<'_>,
        writer: &mut Writer<'_>,
        room: usize,
    ) -> Result<Step, End> {
        if std::mem::take(&mut self.resting) {
            self.take_buffered(writer)?;
            return Ok(if self.resting { Step::Rests } else { Step::Moved });
        }
        match self.poll_upstream(context, writer, room)? {
            Poll::Ready(()) => Ok(Step::Moved),
            Poll::Pending => Ok(Step::WaitsForBody),
        }
    }

    fn is_sending(&self) -> bool {
        !self.upstream.request_is_sent()
    }

    fn poll_request(
        &mut self,
        context: &mut Context<'_>,
        request: &Request,
        _: &Downstream,
    ) -> Poll<Result<(), BodyError>> {
        self.upstream.poll_send(context, request).map(FailureKind::refuses)
    }

    /// Nothing is read until the client has taken something.
    fn stalls(&mut self, client: &Downstream) {
        let buffers = &client.worker.buffers;
        if self.upstream.input.is_empty() {
            buffers.give_back(std::mem::take(&mut self.upstream.input));
        }
        if self.upstream.request_is_sent() {
            self.upstream.sent = 0;
            buffers.give_back_output(std::mem::take(&mut self.upstream.out));
        }
    }
}

impl<'a> Http1Body<'a> {
    fn new(upstream: &'a mut UpstreamConnection, length: BodyLength, read_ms: u64) -> Http1Body<'a> {
        let decoder = match length {
            BodyLength::Fixed(length) => Decoder::Fixed(length),
            BodyLength::Chunked => Decoder::Chunked(Box::default()),
            BodyLength::UntilClose => Decoder::UntilClose,
        };
        Http1Body { upstream, decoder, read_ms, rest: 0, rest_ends: false, resting: false, waited: false }
    }

    /// A buffer for reads of this size: fewer and larger ones for a body that is known to be long.
    fn take_input(&mut self, room: usize, client: &Downstream) {
        let (input, buffers) = (&mut self.upstream.input, &client.worker.buffers);
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

    /// Reads once from the upstream, at most `most` bytes, and passes on what came.
    fn poll_upstream(
        &mut self,
        context: &mut Context<'_>,
        writer: &mut Writer<'_>,
        most: usize,
    ) -> Result<Poll<()>, End> {
        self.waited = true;
        // Bytes that body filters do not take in one step would wait here.
        let most = most.min(writer.step().max(buffer::SIZE));
        self.take_input(most, writer.client);
        let room = self.upstream.input.room(buffer::LARGE);
        let count = room.len().min(most);
        let room = room.get_mut(..count).unwrap_or_default();
        match self.upstream.stream.poll_read(context, room) {
            Poll::Pending => return Ok(Poll::Pending),
            Poll::Ready(Ok(0)) => self.upstream_closed(writer)?,
            Poll::Ready(Ok(count)) => {
                self.upstream.input.received(count);
                self.take_buffered(writer)?;
            }
            Poll::Ready(Err(error)) => return Err(self.broken(writer, &error.to_string())),
        }
        Ok(Poll::Ready(()))
    }

    fn upstream_closed(&mut self, writer: &mut Writer<'_>) -> Result<(), End> {
        match self.decoder {
            Decoder::UntilClose => writer.pass(&[], true),
            _ => Err(self.broken(writer, "upstream closed the connection before the end of its answer")),
        }
    }

    #[cold]
    fn broken(&self, writer: &Writer<'_>, reason: &str) -> End {
        let (client, upstream) = (writer.request.remote_addr, self.upstream.address);
        error_log::log(
            error_log::Level::Error,
            format_args!("{reason}, client: {client}, upstream: {upstream}"),
        );
        End::Broken(502)
    }

    /// Decodes what has been received and passes it on, as much as the body filters take in one step.
    fn take_buffered(&mut self, writer: &mut Writer<'_>) -> Result<(), End> {
        loop {
            if self.rest == 0 && !self.decode(writer)? {
                return Ok(());
            }
            let step = writer.step();
            let length = self.rest.min(step);
            self.rest -= length;
            let ends = self.rest_ends && self.rest == 0;
            writer.pass(self.upstream.input.filled().get(..length).unwrap_or_default(), ends)?;
            self.upstream.input.consume(length);
            if ends || length == 0 || self.upstream.input.is_empty() {
                return Ok(());
            }
            if length == step {
                self.resting = true;
                return Ok(());
            }
        }
    }

    /// Finds the next bytes of the body, or its end; `false`: more has to be received.
    fn decode(&mut self, writer: &mut Writer<'_>) -> Result<bool, End> {
        let input = self.upstream.input.filled();
        let (skip, length, ends) = match &mut self.decoder {
            Decoder::Fixed(left) => {
                let count = input.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= count as u64;
                (0, count, *left == 0)
            }
            Decoder::UntilClose => (0, input.len(), false),
            Decoder::Chunked(decoder) => match decoder.next(input, &mut writer.request.response.trailers) {
                Ok(Event::NeedMore { skip }) => {
                    self.upstream.input.consume(skip);
                    return Ok(false);
                }
                Ok(Event::Data { skip, length }) => (skip, length, false),
                Ok(Event::End { skip }) => (skip, 0, true),
                Err(error) => return Err(self.broken(writer, error.reason)),
            },
        };
        self.upstream.input.consume(skip);
        (self.rest, self.rest_ends) = (length, ends);
        Ok(true)
    }
}
