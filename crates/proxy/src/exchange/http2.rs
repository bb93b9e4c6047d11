//! An attempt over HTTP/2, for upstreams with scheme grpc and grpcs: a stream, the request on it, the head of the answer.
//!
//! A request that the node never began to work on (REFUSED_STREAM, or a GOAWAY that excludes the stream) may be sent
//! again, whatever the method.

use std::{
    future::{Future, poll_fn},
    io,
    pin::pin,
    rc::Rc,
    task::{Context, Poll, ready},
    time::Instant,
};

use bytes::Bytes;
use h2::{Reason, RecvStream, SendStream, client::ResponseFuture};
use http::{HeaderMap, Request as HttpRequest, header};
use tidegate_balancing::retry;
use tidegate_plugin_api::{
    BodyError, Request, RequestBody, Source, UpstreamHandle, hops,
    outcome::Attempt,
    upstream::{Node, Peer, Timeouts},
};
use tidegate_protocol::BodyLength;

use super::{
    attempt::{MOST_INTERIM, TOO_MANY_INTERIM, note_failed},
    connect::{self, Connected},
    failure::{Failure, FailureKind},
    send_limit::{Progress, SendLimit},
};
use crate::{
    balancer,
    boxed::boxed,
    claims,
    client::Downstream,
    http2::{
        head,
        pool::{self, Lease, Moment, Next, Opening, PoolKey, Waiting, Wanted},
    },
    read_ahead::Granted,
    upstream_head::OutgoingHead,
};

/// An answer whose head is in `request.response`.
pub(super) struct Http2Response {
    pub stream: Stream,
    pub receive: RecvStream,
    pub length: BodyLength,
    pub header_seconds: f64,
}

/// A stream to a node, and the part of the request that is still to be sent on it.
pub(super) struct Stream {
    lease: Lease,
    send: SendStream<Bytes>,
    body: Body,
    pub started: Instant,
    connect_seconds: Option<f64>,
    granted: Option<Granted>,
}

enum Body {
    Done,
    Collected(Bytes),
    /// Pieces come from the client's connection.
    Streaming(Piece),
}

#[derive(Default)]
struct Piece {
    data: Vec<u8>,
    sent: usize,
    /// Nothing follows `data`.
    last: bool,
    consumed: u64,
}

/// Tries a node; on a connection that turns out to be gone, once more on a newer one.
pub(super) async fn attempt(
    request: &mut Request,
    client: &Rc<Downstream>,
    peer: &Peer,
) -> Result<Http2Response, Failure> {
    let first = try_once(request, client, peer, None).await;
    match first {
        Err((failure, true))
            if !failure.request_sent
                || (retry::is_repeatable(request.head.method.as_bytes()) && !failure.body_consumed) =>
        {
            let after = client.worker.http2_pool.moment(client.worker);
            try_once(request, client, peer, Some(after)).await.map_err(|(failure, _)| failure)
        }
        other => other.map_err(|(failure, _)| failure),
    }
}

/// The flag with a failure: it happened on a connection that others have used before.
async fn try_once(
    request: &mut Request,
    client: &Rc<Downstream>,
    peer: &Peer,
    after: Option<Moment>,
) -> Result<Http2Response, (Failure, bool)> {
    let unsent = |kind| (Failure { kind, request_sent: false, body_consumed: false }, false);
    let handle = &*peer.upstream;
    let Some(node) = peer.node() else { return Err(unsent(FailureKind::Unresolved)) };
    let timeouts = balancer::timeouts(request, handle);
    let started = Instant::now();
    if hops::may_return(request, node.address.as_slice()) {
        hops::mark(request, node.address.as_slice());
    }
    let window = client.upstream_window();
    // Counted before it is used: many answers may begin at the same moment.
    let granted = Granted::new(window.bytes());
    let outgoing = OutgoingHead::new(request, handle, node, false);
    let server_name = if handle.tls.is_some() { outgoing.host } else { &[] };
    let wanted = Wanted { server_name, window, after };
    let lease = lease(client, handle, node, timeouts, &wanted).await;
    let message = head::request(&outgoing, handle.scheme.is_tls());
    let (lease, message) = match (lease, message) {
        (Ok(lease), Ok(message)) => (lease, message),
        (Err(kind), _) => {
            note_failed(request, node, started, &kind);
            return Err(unsent(kind));
        }
        (_, Err(error)) => {
            let kind = FailureKind::Malformed(error.reason);
            note_failed(request, node, started, &kind);
            return Err(unsent(kind));
        }
    };
    let connect_seconds = (lease.uses == 0).then(|| started.elapsed().as_secs_f64());
    let (response, mut stream) =
        match start(request, client, timeouts, lease, message, started, connect_seconds).await {
            Ok(begun) => begun,
            Err(kind) => {
                note_failed(request, node, started, &kind);
                return Err((Failure { kind, request_sent: false, body_consumed: false }, after.is_none()));
            }
        };
    stream.granted = Some(granted);
    exchange(request, client, timeouts, response, stream).await
}

/// A stream on a connection of the pool, or on a new one, for as long as the client waits.
async fn lease(
    client: &Downstream,
    handle: &UpstreamHandle,
    node: &Node,
    timeouts: Timeouts,
    wanted: &Wanted<'_>,
) -> Result<Lease, FailureKind> {
    let worker = client.worker;
    let own = handle.proxy_protocol.is_some();
    if own {
        crate::pool::leaving::close_at_end(worker, &client.facts);
    }
    let place = PoolKey { pool: node.pool, client: own.then_some(client.facts.id) };
    client.timer.set(timeouts.connect_ms);
    let mut waiting = None;
    loop {
        match worker.http2_pool.next(place, wanted) {
            Next::Use(lease) => return Ok(lease),
            Next::Wait(first) => wait(waiting.get_or_insert(first), client).await?,
            // Its future is big, and few requests open a connection.
            Next::Open(opening) => {
                return boxed(|| open(opening, client, handle, node, timeouts, wanted)).await;
            }
        }
    }
}

/// A stream on a new connection.
async fn open(
    opening: Opening,
    client: &Downstream,
    handle: &UpstreamHandle,
    node: &Node,
    timeouts: Timeouts,
    wanted: &Wanted<'_>,
) -> Result<Lease, FailureKind> {
    let mut connecting = pin!(connect::connect(client, handle, node, timeouts, wanted.server_name, true));
    let connected = poll_fn(|context| {
        still_there(client, context)?;
        connecting.as_mut().poll(context)
    });
    let Connected { stream, address, .. } = connected.await?;
    pool::establish(opening, client.worker, stream, address, wanted, handle.keepalive)
        .await
        .map_err(FailureKind::Connect)
}

/// Until there may be a stream.
async fn wait(waiting: &mut Waiting, client: &Downstream) -> Result<(), FailureKind> {
    let for_node = waiting.is_for_node();
    let waited = waiting.changed(|context| {
        still_there(client, context)?;
        match client.timer.expired() {
            false => Ok(()),
            true if for_node => Err(FailureKind::ConnectTimeout),
            true => Err(FailureKind::NoStream),
        }
    });
    waited.await
}

/// Checks that the client is still there: nothing is begun or waited for on behalf of one that has left.
fn still_there(client: &Downstream, context: &mut Context<'_>) -> Result<(), FailureKind> {
    match client.poll_gone(context) {
        Poll::Ready(()) => Err(FailureKind::Client(BodyError::Closed)),
        Poll::Pending => Ok(()),
    }
}

/// Opens the stream.
async fn start(
    request: &Request,
    client: &Downstream,
    timeouts: Timeouts,
    lease: Lease,
    message: HttpRequest<()>,
    started: Instant,
    connect_seconds: Option<f64>,
) -> Result<(ResponseFuture, Stream), FailureKind> {
    let mut sender = lease.sender();
    client.timer.set(timeouts.send_ms);
    let ready = poll_fn(|context| match sender.poll_ready(context) {
        Poll::Pending if client.timer.expired() => Poll::Ready(None),
        other => other.map(Some),
    });
    match ready.await {
        None => {
            lease.doubt();
            return Err(FailureKind::SendTimeout);
        }
        Some(Err(error)) => {
            lease.retire();
            return Err(FailureKind::Send(io::Error::other(error)));
        }
        Some(Ok(())) => {}
    }
    let body = match &request.body {
        RequestBody::Empty => Body::Done,
        RequestBody::Collected(bytes) if bytes.is_empty() => Body::Done,
        RequestBody::Collected(bytes) => Body::Collected(bytes.clone()),
        RequestBody::Unread { .. } => Body::Streaming(Piece::default()),
    };
    let sent = sender.send_request(message, matches!(body, Body::Done));
    let (response, send) = sent.map_err(|error| {
        lease.retire();
        FailureKind::Send(io::Error::other(error))
    })?;
    lease.added();
    Ok((response, Stream { lease, send, body, started, connect_seconds, granted: None }))
}

/// Sends the body and waits for the head of the answer, which may come before all is sent.
async fn exchange(
    request: &mut Request,
    client: &Downstream,
    timeouts: Timeouts,
    response: ResponseFuture,
    mut stream: Stream,
) -> Result<Http2Response, (Failure, bool)> {
    let mut response = pin!(response);
    let mut sending = true;
    let mut limit = SendLimit::new(client, timeouts.send_ms);
    let mut interim = 0;
    let received = poll_fn(|context| {
        if sending {
            match stream.poll_send(context, request, client) {
                Poll::Pending => limit.waits(client, stream.unsent()),
                Poll::Ready(Err(kind @ FailureKind::Client(_))) => return Poll::Ready(Err((kind, false))),
                // The answer has the reason why the stream broke.
                Poll::Ready(_) => {
                    sending = false;
                    client.timer.set(timeouts.read_ms);
                }
            }
        }
        if client.poll_gone(context).is_ready() {
            return Poll::Ready(Err((FailureKind::Client(BodyError::Closed), false)));
        }
        while let Poll::Ready(Some(Ok(_))) = response.poll_informational(context) {
            interim += 1;
            if interim > MOST_INTERIM {
                return Poll::Ready(Err((FailureKind::Malformed(TOO_MANY_INTERIM), false)));
            }
        }
        match response.as_mut().poll(context) {
            Poll::Ready(Ok(response)) => Poll::Ready(Ok(response)),
            Poll::Ready(Err(error)) => Poll::Ready(Err(broken(error))),
            Poll::Pending if client.timer.expired() => {
                let kind = if sending { FailureKind::SendTimeout } else { FailureKind::ReadTimeout };
                Poll::Ready(Err((kind, false)))
            }
            Poll::Pending => Poll::Pending,
        }
    })
    .await;
    match received {
        Ok(response) => match length(response.headers()) {
            Ok(length) => Ok(take_head(request, response, stream, length)),
            Err(reason) => {
                stream.record(request, 502, None);
                stream.cancel();
                let kind = FailureKind::Malformed(reason);
                Err((Failure { kind, request_sent: true, body_consumed: true }, false))
            }
        },
        Err((kind, never_begun)) => {
            let body_consumed = !request.body.rewind();
            let failure = Failure { request_sent: !never_begun || body_consumed, body_consumed, kind };
            stream.record(request, failure.kind.attempt_status(), None);
            // A request is not sent to a silent node a second time.
            let silent = failure.timed_out() || stream.lease.was_silent();
            let reused = stream.lease.uses > 0 && !silent;
            if never_begun {
                stream.lease.retire();
            } else if failure.timed_out() {
                stream.lease.doubt();
            }
            stream.cancel();
            Err((failure, reused || never_begun))
        }
    }
}

/// The flag: the node has not begun to work on the request.
fn broken(error: h2::Error) -> (FailureKind, bool) {
    let reason = error.reason();
    let never_begun = error.is_remote()
        && ((error.is_reset() && reason == Some(Reason::REFUSED_STREAM))
            || (error.is_go_away() && reason == Some(Reason::NO_ERROR)));
    let kind = match error.into_io() {
        Some(error) => FailureKind::Read(error),
        None => match reason {
            Some(reason) => FailureKind::Read(io::Error::other(format!("HTTP/2 {reason:?}"))),
            None => FailureKind::Closed,
        },
    };
    (kind, never_begun)
}

/// The body's length by the head. Several lengths are an error, even in an answer to HEAD.
fn length(headers: &HeaderMap) -> Result<BodyLength, &'static str> {
    let mut lengths = headers.get_all(header::CONTENT_LENGTH).iter();
    let Some(length) = lengths.next() else { return Ok(BodyLength::Chunked) };
    let number = length.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    match (lengths.next(), number.and_then(|text| text.parse().ok())) {
        (None, Some(length)) => Ok(BodyLength::Fixed(length)),
        (None, None) => Err("upstream sent an invalid Content-Length"),
        (Some(_), _) => Err("upstream sent several Content-Length fields"),
    }
}

/// Moves the head into `request.response`.
fn take_head(
    request: &mut Request,
    response: http::Response<RecvStream>,
    stream: Stream,
    length: BodyLength,
) -> Http2Response {
    let header_seconds = stream.started.elapsed().as_secs_f64();
    let (parts, receive) = response.into_parts();
    let to = &mut request.response;
    to.clear();
    to.status = parts.status.as_u16();
    to.source = Source::Upstream;
    head::add_fields(&mut to.headers, &parts.headers);
    Http2Response { stream, receive, length, header_seconds }
}

impl Stream {
    /// Records how the attempt went, for variables and metrics.
    pub(super) fn record(&self, request: &mut Request, status: u16, header_seconds: Option<f64>) {
        request.outcome.attempts.push(Attempt {
            address: self.lease.connection.address,
            status,
            connect_seconds: self.connect_seconds,
            header_seconds,
            response_seconds: header_seconds.unwrap_or_else(|| self.started.elapsed().as_secs_f64()),
        });
    }

    pub(crate) fn body_is_sent(&self) -> bool {
        matches!(self.body, Body::Done)
    }

    /// Bytes of the answer that the node may send before any is taken.
    pub(super) fn window(&self) -> usize {
        self.lease.connection.window.bytes() as usize
    }

    /// The client takes the answer: from now on the bytes that it does not take are counted.
    pub(crate) fn flows(&mut self) {
        self.granted = None;
    }

    /// The node did not answer in time.
    pub(super) fn doubt(&self) {
        self.lease.doubt();
    }

    /// Resets the stream: the rest of the exchange is not needed.
    pub(super) fn cancel(&mut self) {
        self.send.send_reset(Reason::CANCEL);
    }

    /// `None`: the node has all that is here.
    fn unsent(&self) -> Option<Progress> {
        match &self.body {
            Body::Streaming(piece) => {
                (piece.last || piece.sent < piece.data.len()).then_some((piece.consumed, piece.sent))
            }
            Body::Collected(rest) => Some((rest.len() as u64, 0)),
            Body::Done => Some((0, 0)),
        }
    }

    /// Sends what the node has room for and fetches more of the body until all is out, trailers too.
    pub(crate) fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        request: &Request,
        client: &Downstream,
    ) -> Poll<Result<(), FailureKind>> {
        loop {
            match &mut self.body {
                Body::Done => return Poll::Ready(Ok(())),
                Body::Collected(bytes) => {
                    let room = ready!(poll_room(&mut self.send, context, bytes.len()))?;
                    let piece = bytes.split_to(room);
                    let last = bytes.is_empty();
                    self.send.send_data(piece, last).map_err(unsent)?;
                    if last {
                        self.body = Body::Done;
                    }
                }
                Body::Streaming(piece) if piece.sent < piece.data.len() => {
                    let rest = piece.data.get(piece.sent..).unwrap_or_default();
                    let room = ready!(poll_room(&mut self.send, context, rest.len()))?;
                    let data = Bytes::copy_from_slice(rest.get(..room).unwrap_or(rest));
                    piece.sent += data.len();
                    let trailers =
                        if piece.last { head::trailers(&claims::trailers(request, client)) } else { None };
                    let all = piece.last && piece.sent == piece.data.len();
                    self.send.send_data(data, all && trailers.is_none()).map_err(unsent)?;
                    if all {
                        if let Some(trailers) = trailers {
                            self.send.send_trailers(trailers).map_err(unsent)?;
                        }
                        self.body = Body::Done;
                    }
                }
                Body::Streaming(piece) if piece.last => {
                    match head::trailers(&claims::trailers(request, client)) {
                        Some(trailers) => self.send.send_trailers(trailers).map_err(unsent)?,
                        None => self.send.send_data(Bytes::new(), true).map_err(unsent)?,
                    }
                    self.body = Body::Done;
                }
                Body::Streaming(piece) => ready!(piece.poll_fetch(context, request))?,
            }
        }
    }
}

impl Piece {
    /// Takes what the client has sent, and learns at once whether that was all: the end then needs no separate frame.
    fn poll_fetch(&mut self, context: &mut Context<'_>, request: &Request) -> Poll<Result<(), FailureKind>> {
        let RequestBody::Unread { reader, .. } = &request.body else {
            self.last = true;
            return Poll::Ready(Ok(()));
        };
        self.data.clear();
        self.sent = 0;
        while self.data.len() < crate::buffer::SIZE {
            match reader.poll_data(context, &mut self.data) {
                Poll::Ready(Ok(true)) => {}
                Poll::Ready(Ok(false)) => {
                    self.last = true;
                    break;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(FailureKind::Client(error))),
                Poll::Pending if self.data.is_empty() => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        self.consumed += self.data.len() as u64;
        if request.body_limit.is_some_and(|limit| self.consumed > limit) {
            return Poll::Ready(Err(FailureKind::Client(BodyError::TooLarge)));
        }
        Poll::Ready(Ok(()))
    }
}

/// Bytes that the node takes now, at least one.
fn poll_room(
    send: &mut SendStream<Bytes>,
    context: &mut Context<'_>,
    wanted: usize,
) -> Poll<Result<usize, FailureKind>> {
    send.reserve_capacity(wanted);
    let mut room = send.capacity();
    while room == 0 {
        room = match ready!(send.poll_capacity(context)) {
            Some(Ok(room)) => room,
            Some(Err(error)) => return Poll::Ready(Err(unsent(error))),
            None => return Poll::Ready(Err(FailureKind::Send(io::ErrorKind::BrokenPipe.into()))),
        };
    }
    Poll::Ready(Ok(room.min(wanted)))
}

fn unsent(error: h2::Error) -> FailureKind {
    FailureKind::Send(io::Error::other(error))
}
