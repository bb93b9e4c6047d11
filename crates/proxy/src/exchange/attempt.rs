//! One attempt: connect, send the request, read the head of the answer.

use std::{
    future::poll_fn,
    io,
    pin::pin,
    rc::Rc,
    task::{Context, Poll, ready},
    time::Instant,
};

use bytes::Buf;
use tidegate_balancing::retry;
use tidegate_plugin_api::{
    BodyError, Request, RequestBody, Source, UpstreamHandle, hops, outcome::Attempt, poll_clock,
    upstream::Peer,
};
use tidegate_protocol::{BodyLength, HeaderId, Method, chunked, connection::ConnectionOptions};

use super::{
    connect::{self, Connected},
    connection::{SendBody, UpstreamConnection},
    failure::{Failure, FailureKind, warn_of_tls},
    record::record,
    send_limit::{Progress, SendLimit},
};
use crate::{
    balancer,
    buffer::Buffer,
    client::Downstream,
    upstream_head::{BodyPlan, OutgoingHead},
};

/// Interim answers (1xx) of one request. Together they may be as long as one head.
pub(super) const MOST_INTERIM: u32 = 100;
pub(super) const TOO_MANY_INTERIM: &str = "upstream sent too many interim answers";

/// A body that was gathered is copied to leave with the head up to this length.
const WITH_HEAD_BYTES: usize = 64 << 10;

/// How much of a longer body is written before other tasks get their turn.
const TURN_BYTES: usize = 256 << 10;

/// An answer whose head has arrived; it is in `request.response`.
pub(super) struct Http1Response {
    pub length: BodyLength,
    /// The connection may be used again once the body is read.
    pub persists: bool,
    pub header_seconds: f64,
    pub upgraded: bool,
}

/// With an answer, its connection is in `connection`.
pub(super) async fn attempt(
    request: &mut Request,
    client: &Rc<Downstream>,
    peer: &Peer,
    connection: &mut Option<UpstreamConnection>,
) -> Result<Http1Response, Failure> {
    let first = try_once(request, client, peer, connection, false).await;
    match first {
        // The node may close an idle connection as it is taken; that does not count as a failure of the node.
        Err((failure, true))
            if failure.was_stale()
                && retry::is_repeatable(request.head.method.as_bytes())
                && !failure.body_consumed =>
        {
            try_once(request, client, peer, connection, true).await.map_err(|(failure, _)| failure)
        }
        other => other.map_err(|(failure, _)| failure),
    }
}

/// The flag with a failure: it happened on a connection that had been idle.
async fn try_once(
    request: &mut Request,
    client: &Rc<Downstream>,
    peer: &Peer,
    connection: &mut Option<UpstreamConnection>,
    fresh: bool,
) -> Result<Http1Response, (Failure, bool)> {
    let fail = |kind| (Failure { kind, request_sent: false, body_consumed: false }, false);
    let handle = &*peer.upstream;
    let Some(node) = peer.node() else { return Err(fail(FailureKind::Unresolved)) };
    let timeouts = balancer::timeouts(request, handle);
    let started = Instant::now();
    let began_ms = client.worker.deadlines.now_ms();
    let upgrade = wants_upgrade(request);
    if hops::may_return(request, node.address.as_slice()) {
        hops::mark(request, node.address.as_slice());
    }
    let mut out = client.worker.buffers.output();
    let head = OutgoingHead::new(request, handle, node, upgrade);
    head.write_http1(&mut out);
    let plan = head.body;
    let sni: Box<[u8]> = if handle.tls.is_some() { head.host.into() } else { Box::default() };
    let Connected { stream, uses, address } = match connect(client, handle, node, timeouts, &sni, fresh).await
    {
        Ok(connected) => connected,
        Err(kind) => {
            client.worker.buffers.give_back_output(out);
            note_failed(request, node, started, &kind);
            return Err(fail(kind));
        }
    };
    let body = body_to_send(request, plan, &mut out);
    let connect_seconds = (uses == 0).then(|| started.elapsed().as_secs_f64());
    let upstream = connection.insert(UpstreamConnection {
        stream,
        input: Buffer::default(),
        out,
        sent: 0,
        body,
        uses,
        server_name: sni,
        address,
        started,
        connect_seconds,
        response: client.worker.response_head(),
        interim: (0, 0),
    });
    match upstream.exchange_heads(request, client, timeouts).await {
        Ok(()) => finish_head(request, upstream, upgrade).map_err(|kind| {
            discard(connection, client);
            (Failure { kind, request_sent: true, body_consumed: true }, false)
        }),
        Err(kind) => {
            let failure =
                Failure { request_sent: upstream.sent > 0, body_consumed: !request.body.rewind(), kind };
            record(request, upstream, failure.kind.attempt_status(), None, None);
            let reused = upstream.uses > 0;
            if reused && failure.timed_out() && upstream.input.is_empty() {
                client.worker.pool.distrust(node.pool, began_ms);
                client.worker.own_pool.forget(client.facts.id);
            }
            discard(connection, client);
            Err((failure, reused))
        }
    }
}

/// The body that is still to be sent after the head; a short gathered body goes with the head.
fn body_to_send(request: &Request, plan: BodyPlan, out: &mut Vec<u8>) -> SendBody {
    match (&request.body, plan) {
        (RequestBody::Collected(bytes), _) if bytes.len() <= WITH_HEAD_BYTES => {
            out.extend_from_slice(bytes);
            SendBody::Done
        }
        (RequestBody::Collected(bytes), _) => SendBody::Collected(bytes.clone()),
        (_, BodyPlan::None) => SendBody::Done,
        (_, plan) => {
            SendBody::Streaming { chunked: plan == BodyPlan::Chunked, scratch: Vec::new(), consumed: 0 }
        }
    }
}

/// A connection to the node. Ends early if the client leaves.
async fn connect(
    client: &Downstream,
    handle: &UpstreamHandle,
    node: &tidegate_plugin_api::upstream::Node,
    timeouts: tidegate_plugin_api::upstream::Timeouts,
    sni: &[u8],
    fresh: bool,
) -> Result<Connected, FailureKind> {
    let mut connecting = pin!(connect::connect(client, handle, node, timeouts, sni, fresh));
    poll_fn(|context| match connecting.as_mut().poll(context) {
        Poll::Pending if client.poll_gone(context).is_ready() => {
            Poll::Ready(Err(FailureKind::Client(BodyError::Closed)))
        }
        other => other,
    })
    .await
}

/// Records an attempt that got no connection.
pub(crate) fn note_failed(
    request: &mut Request,
    node: &tidegate_plugin_api::upstream::Node,
    started: Instant,
    kind: &FailureKind,
) {
    let status = match kind.attempt_status() {
        abandoned @ Attempt::ABANDONED => abandoned,
        _ => 0,
    };
    if let Some(address) = node.address {
        request.outcome.attempts.push(Attempt {
            address,
            status,
            connect_seconds: None,
            header_seconds: None,
            response_seconds: started.elapsed().as_secs_f64(),
        });
    }
}

/// A protocol change is passed on only where the route allows it, and never HTTP/2's (request smuggling). Not with a
/// body either: both sides would have to guess where it ends and the tunnel begins.
fn wants_upgrade(request: &Request) -> bool {
    let allowed = request.route.as_ref().is_some_and(|route| route.enable_websocket);
    allowed
        && request.head.method == Method::Get
        && request.head.version >= tidegate_protocol::Version::Http11
        && matches!(request.body, RequestBody::Empty)
        && request.head.connection.upgrade
        && request
            .head
            .headers
            .known(HeaderId::Upgrade)
            .is_some_and(|protocol| protocol.eq_ignore_ascii_case(b"websocket"))
}

fn discard(connection: &mut Option<UpstreamConnection>, client: &Downstream) {
    if let Some(upstream) = connection.take() {
        upstream.discard(client);
    }
}

/// Moves the parsed head into `request.response` and judges its framing.
fn finish_head(
    request: &mut Request,
    upstream: &mut UpstreamConnection,
    upgrade: bool,
) -> Result<Http1Response, FailureKind> {
    let method = request.edits.method.as_ref().unwrap_or(&request.head.method);
    let head = &mut upstream.response;
    let upgraded = head.status == 101;
    if upgraded && !upgrade {
        return Err(FailureKind::Malformed("upstream switched protocols without being asked"));
    }
    if upgrade && !upgraded && head.status < 300 && request.head.version == tidegate_protocol::Version::Http2
    {
        // In HTTP/2, a 2xx would mean that the tunnel is open.
        return Err(FailureKind::Malformed("upstream did not switch protocols"));
    }
    let length = match tidegate_protocol::framing::response_body(head, method) {
        Ok(length) => length,
        Err(error) => return Err(FailureKind::Malformed(error.reason)),
    };
    if head.status == 400
        && upstream.server_name.is_empty()
        && tidegate_tls::wants_tls(upstream.input.filled())
    {
        warn_of_tls(upstream.address);
    }
    let options = ConnectionOptions::of(&head.headers);
    let persists = tidegate_protocol::framing::response_persists(head, options, length);
    // The head is there since the poll began.
    let header_seconds = poll_clock::now().saturating_duration_since(upstream.started).as_secs_f64();
    if options.nominates {
        tidegate_protocol::framing::remove_nominated(&mut head.headers);
    }
    let response = &mut request.response;
    response.clear();
    response.status = head.status;
    response.source = Source::Upstream;
    std::mem::swap(&mut response.reason, &mut head.reason);
    std::mem::swap(&mut response.headers, &mut head.headers);
    Ok(Http1Response { length, persists, header_seconds, upgraded })
}

impl UpstreamConnection {
    /// Sends the request and reads until a final head is there. An answer may come before all is sent.
    async fn exchange_heads(
        &mut self,
        request: &Request,
        client: &Rc<Downstream>,
        timeouts: tidegate_plugin_api::upstream::Timeouts,
    ) -> Result<(), FailureKind> {
        let max_head = client.worker.settings.max_response_head_bytes;
        let mut limit = SendLimit::new(client, timeouts.send_ms);
        let mut sending = true;
        let mut send_error = None;
        poll_fn(|context| {
            if sending {
                match self.poll_send(context, request) {
                    Poll::Pending => limit.waits(client, self.unsent()),
                    Poll::Ready(Ok(())) => {
                        sending = false;
                        client.worker.buffers.give_back_output(std::mem::take(&mut self.out));
                        client.timer.set(timeouts.read_ms);
                    }
                    Poll::Ready(Err(FailureKind::Send(error))) => {
                        // It may have answered before it stopped reading.
                        sending = false;
                        send_error = Some(error);
                        client.timer.set(timeouts.read_ms.min(1_000));
                    }
                    Poll::Ready(Err(other)) => return Poll::Ready(Err(other)),
                }
            }
            if client.poll_gone(context).is_ready() {
                return Poll::Ready(Err(FailureKind::Client(BodyError::Closed)));
            }
            match self.poll_head(context, max_head, client) {
                Poll::Ready(Err(kind)) => Poll::Ready(Err(match send_error.take() {
                    Some(error) => FailureKind::Send(error),
                    None => kind,
                })),
                Poll::Ready(Ok(())) => Poll::Ready(Ok(())),
                Poll::Pending if client.timer.expired() => {
                    // Waiting for the client's body is limited by the client's own time.
                    Poll::Ready(Err(if sending {
                        FailureKind::SendTimeout
                    } else {
                        FailureKind::ReadTimeout
                    }))
                }
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    /// `None`: the node has all that is here.
    fn unsent(&self) -> Option<Progress> {
        let waits = self.sent < self.out.len();
        match &self.body {
            SendBody::Streaming { consumed, .. } => waits.then_some((*consumed, self.sent)),
            SendBody::Collected(rest) => Some((rest.len() as u64, self.sent)),
            SendBody::Done => Some((0, self.sent)),
        }
    }

    /// Writes what is pending and fetches more of the body until all is out.
    pub(crate) fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        request: &Request,
    ) -> Poll<Result<(), FailureKind>> {
        loop {
            while let Some(rest) = self.out.get(self.sent..).filter(|rest| !rest.is_empty()) {
                match self.stream.poll_write(context, rest) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(0)) => {
                        return Poll::Ready(Err(FailureKind::Send(io::ErrorKind::WriteZero.into())));
                    }
                    Poll::Ready(Ok(count)) => self.sent += count,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(FailureKind::Send(error))),
                }
            }
            if matches!(self.body, SendBody::Collected(_)) {
                ready!(self.poll_send_collected(context))?;
                self.body = SendBody::Done;
            }
            let SendBody::Streaming { chunked, scratch, consumed } = &mut self.body else {
                return self.stream.poll_flush(context).map_err(FailureKind::Send);
            };
            let RequestBody::Unread { reader, .. } = &request.body else {
                self.body = SendBody::Done;
                continue;
            };
            scratch.clear();
            let more = match reader.poll_data(context, scratch) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(FailureKind::Client(error))),
                Poll::Ready(Ok(more)) => more,
            };
            // `sent` stays above zero so that a later failure knows that bytes went out.
            self.out.clear();
            self.out.push(0);
            self.sent = 1;
            *consumed += scratch.len() as u64;
            if request.body_limit.is_some_and(|limit| *consumed > limit) {
                return Poll::Ready(Err(FailureKind::Client(BodyError::TooLarge)));
            }
            if *chunked {
                chunked::write_chunk(&mut self.out, scratch);
            } else {
                self.out.extend_from_slice(scratch);
            }
            if !more {
                if *chunked {
                    chunked::write_end(&mut self.out, &tidegate_protocol::Head::new());
                }
                self.body = SendBody::Done;
            }
        }
    }

    fn poll_send_collected(&mut self, context: &mut Context<'_>) -> Poll<Result<(), FailureKind>> {
        let SendBody::Collected(rest) = &mut self.body else { return Poll::Ready(Ok(())) };
        let mut turn = TURN_BYTES;
        while !rest.is_empty() {
            if turn == 0 {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            let piece = rest.get(..turn).unwrap_or(rest);
            match ready!(self.stream.poll_write(context, piece)) {
                Ok(0) => return Poll::Ready(Err(FailureKind::Send(io::ErrorKind::WriteZero.into()))),
                Ok(count) => {
                    turn = turn.saturating_sub(count);
                    rest.advance(count);
                }
                Err(error) => return Poll::Ready(Err(FailureKind::Send(error))),
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_head(
        &mut self,
        context: &mut Context<'_>,
        max_head: usize,
        client: &Downstream,
    ) -> Poll<Result<(), FailureKind>> {
        if self.input.capacity() == 0 {
            // Takes a buffer only once there are bytes to read.
            if self.stream.poll_readable(context).is_pending() {
                return Poll::Pending;
            }
            self.input = client.worker.buffers.input();
        }
        loop {
            while !self.input.is_empty() {
                let parsed = self.response.parse(self.input.filled(), max_head, 200);
                match parsed {
                    Err(_)
                        if self.server_name.is_empty() && tidegate_tls::speaks_tls(self.input.filled()) =>
                    {
                        return Poll::Ready(Err(FailureKind::SpeaksTls(self.address)));
                    }
                    Err(error) => return Poll::Ready(Err(FailureKind::Malformed(error.reason))),
                    Ok(None) => break,
                    Ok(Some(used)) => {
                        self.input.consume(used);
                        // 100 was answered to the client already, 103 and others are not passed on.
                        if self.response.status >= 200 || self.response.status == 101 {
                            return Poll::Ready(Ok(()));
                        }
                        if let Err(error) =
                            tidegate_protocol::framing::response_body(&self.response, &Method::Get)
                        {
                            return Poll::Ready(Err(FailureKind::Malformed(error.reason)));
                        }
                        let (count, bytes) = &mut self.interim;
                        *count += 1;
                        *bytes += used;
                        if *count > MOST_INTERIM || *bytes > max_head {
                            return Poll::Ready(Err(FailureKind::Malformed(TOO_MANY_INTERIM)));
                        }
                    }
                }
            }
            let room = self.input.room(max_head);
            let count = room.len().min(client.room_with_head());
            match self.stream.poll_read(context, room.get_mut(..count).unwrap_or_default()) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(FailureKind::Closed)),
                Poll::Ready(Ok(count)) => self.input.received(count),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(FailureKind::Read(error))),
            }
        }
    }

    /// Whether the whole request has been sent. An answer may come earlier; another request on this connection would then be read
    /// as the rest of the body.
    pub(crate) fn request_is_sent(&self) -> bool {
        matches!(self.body, SendBody::Done) && self.sent >= self.out.len()
    }

    /// Gives the buffers back; the connection is closed.
    pub(crate) fn discard(self, client: &Downstream) {
        client.worker.buffers.give_back(self.input);
        client.worker.buffers.give_back_output(self.out);
        client.worker.recycle_response_head(self.response);
    }

    /// Gives the buffers back and keeps the connection for the next request.
    pub(crate) fn keep(
        self,
        client: &Downstream,
        handle: &UpstreamHandle,
        node: &tidegate_plugin_api::upstream::Node,
    ) {
        let worker = client.worker;
        let uses = self.uses + 1;
        let pool = handle.keepalive;
        if uses < pool.requests && self.input.is_empty() && pool.idle_timeout_ms > 0 {
            let now_ms = worker.deadlines.now_ms();
            let times_ms = (now_ms, now_ms + pool.idle_timeout_ms);
            let (place, stream) = ((node.pool, self.server_name), (self.stream, uses));
            match handle.proxy_protocol {
                None => worker.pool.put(place, stream, times_ms, pool.size),
                Some(_) => {
                    crate::pool::leaving::keep(worker, &client.facts, place, stream, times_ms, pool.size)
                }
            }
        }
        worker.buffers.give_back(self.input);
        worker.buffers.give_back_output(self.out);
        worker.recycle_response_head(self.response);
    }
}
