//! The answer of an HTTP/2 node: its body as the writer takes it, and the end of its stream.
//!
//! The upstream's window is reopened only when the client has taken the earlier bytes.

use std::{
    fmt::Display,
    rc::Rc,
    task::{Context, Poll},
};

use bytes::Bytes;
use h2::RecvStream;
use tidegate_plugin_api::{BodyError, Request, UpstreamHandle};
use tidegate_telemetry::error_log;

use super::{
    failure::FailureKind,
    http2::{Http2Response, Stream},
};
use crate::{
    answer::{
        body::{Body, End, Step},
        head::{self, ClientFraming},
        writer::{Frame, Writer},
    },
    balancer::{self, InFlight},
    client::Downstream,
    filters, http2,
    persistence::client_persists,
    phases::RequestChains,
    respond,
};

/// A body on a stream of an HTTP/2 connection.
struct Http2Body<'a> {
    stream: &'a mut Stream,
    receive: RecvStream,
    read_ms: u64,
    /// Received, and not passed on yet.
    rest: Bytes,
    /// Body filters took enough for now although there is more.
    resting: bool,
    /// Bytes of the upstream's window that are still taken.
    held: usize,
}

/// Sends the answer. Returns whether the client's connection can be reused.
pub(super) async fn deliver(
    request: &mut Request,
    client: &Rc<Downstream>,
    chains: &RequestChains,
    handle: &UpstreamHandle,
    answer: Http2Response,
    in_flight: InFlight,
) -> bool {
    let Http2Response { mut stream, receive, length, header_seconds } = answer;
    stream.record(request, request.response.status, Some(header_seconds));
    // Everything has arrived: a gRPC error without a body, with its status in the head.
    let is_empty = receive.is_end_stream();
    if let Err(status) = filters::header_filter(request, client, chains) {
        return Box::pin(respond::instead(request, client, status)).await;
    }
    let framing = head::framing(request, length, is_empty);
    let keep = client_persists(request, client) && framing != ClientFraming::Close && stream.body_is_sent();
    let read_ms = balancer::timeouts(request, handle).read_ms;
    let mut body =
        Http2Body { stream: &mut stream, receive, read_ms, rest: Bytes::new(), resting: false, held: 0 };
    let frame = Frame { framing, is_empty, keep };
    let sent = Writer::begin(request, client, Some(chains), frame).run(&mut body).await;
    drop(in_flight);
    if let Some(attempt) = request.outcome.attempts.last_mut() {
        attempt.response_seconds = stream.started.elapsed().as_secs_f64();
    }
    if !sent.is_whole() {
        stream.cancel();
    }
    if sent.end == End::Silent {
        stream.doubt();
    }
    respond::conclude(request, client, sent).await
}

impl Body for Http2Body<'_> {
    const FOLLOWS_CLIENT: bool = true;

    fn limit_ms(&self) -> Option<u64> {
        Some(self.read_ms)
    }

    fn start(&mut self, writer: &mut Writer<'_>) -> Result<(), End> {
        if !self.receive.is_end_stream() {
            writer.expect_window(self.stream.window());
        }
        Ok(())
    }

    fn poll_piece(
        &mut self,
        context: &mut Context<'_>,
        writer: &mut Writer<'_>,
        _: usize,
    ) -> Result<Step, End> {
        if std::mem::take(&mut self.resting) {
            return Ok(Step::Rests);
        }
        if self.rest.is_empty() {
            match self.poll_receive(context, writer)? {
                Poll::Pending => return Ok(Step::WaitsForBody),
                Poll::Ready(false) => {
                    writer.pass(&[], true)?;
                    return Ok(Step::Moved);
                }
                Poll::Ready(true) => {}
            }
        }
        // Received bytes stay unread until the client takes some of them, unless a filter must see them
        // first.
        let asks = !self.rest.is_empty() && !writer.is_filtered() && !writer.head_waits();
        if asks && !writer.client_takes(context) {
            return Ok(Step::WaitsForClient);
        }
        let step = writer.step();
        let length = self.rest.len().min(step);
        let piece = self.rest.split_to(length);
        let last = self.rest.is_empty() && self.receive.is_end_stream();
        writer.pass(&piece, last)?;
        self.resting = length == step && !last;
        Ok(Step::Moved)
    }

    fn is_sending(&self) -> bool {
        !self.stream.body_is_sent()
    }

    fn poll_request(
        &mut self,
        context: &mut Context<'_>,
        request: &Request,
        client: &Downstream,
    ) -> Poll<Result<(), BodyError>> {
        self.stream.poll_send(context, request, client).map(FailureKind::refuses)
    }

    /// The upstream may send as much again as the client has taken.
    fn was_taken(&mut self) {
        if self.held > 0 && self.rest.is_empty() {
            // Fails only for a stream that is gone.
            let _ = self.receive.flow_control().release_capacity(self.held);
            self.held = 0;
            self.stream.flows();
        }
    }
}

impl Http2Body<'_> {
    /// Takes one piece from the upstream; `false`: the body has ended, and its trailers are there.
    fn poll_receive(
        &mut self,
        context: &mut Context<'_>,
        writer: &mut Writer<'_>,
    ) -> Result<Poll<bool>, End> {
        match self.receive.poll_data(context) {
            Poll::Pending => return Ok(Poll::Pending),
            Poll::Ready(Some(Ok(data))) => {
                self.held += data.len();
                self.rest = data;
                return Ok(Poll::Ready(true));
            }
            Poll::Ready(Some(Err(error))) => return Err(broken(writer, &error)),
            Poll::Ready(None) => {}
        }
        match self.receive.poll_trailers(context) {
            Poll::Pending => return Ok(Poll::Pending),
            Poll::Ready(Err(error)) => return Err(broken(writer, &error)),
            Poll::Ready(Ok(None)) => {}
            Poll::Ready(Ok(Some(trailers))) => {
                let own = &mut writer.request.response.trailers;
                http2::head::add_trailers(own, &trailers).map_err(|error| broken(writer, &error.reason))?;
            }
        }
        Ok(Poll::Ready(false))
    }
}

#[cold]
fn broken(writer: &Writer<'_>, error: &dyn Display) -> End {
    error_log::log(
        error_log::Level::Error,
        format_args!("upstream broke off its answer: {error}, client: {}", writer.request.remote_addr),
    );
    End::Broken(502)
}
