//! The life of a client connection: idle without buffers, then a request, and again.

use std::{
    future::{Future, poll_fn},
    io,
    net::SocketAddr,
    os::fd::OwnedFd,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    rc::Rc,
    task::Poll,
    time::Duration,
};

use tidegate_plugin_api::connection::{ConnectionInfo, ProxyHeader, Rare, TlsFacts};
use tidegate_telemetry::error_log;
use tokio::net::TcpStream;

use crate::{
    boxed::boxed,
    buffer::Buffer,
    client::{Downstream, HeadError},
    handshake::{self, Alpn},
    http2, layer4,
    open::{Open, admit},
    plain, proxy_protocol, refusal, request, respond,
    settings::Listen,
    stall, stats,
    stream::Stream,
    worker::Worker,
};

/// The state after a run of requests.
enum After {
    /// Nothing received yet of a next one.
    Idle,
    Close,
    /// The client speaks HTTP/2.
    Http2,
}

pub(crate) fn spawn(worker: &'static Worker, stream: TcpStream, peer: SocketAddr, listen: &Listen) {
    if let Some(stream_listen) = listen.stream {
        return layer4::spawn(worker, stream, peer, listen, stream_listen);
    }
    let local = listen.local_address(&stream);
    let ends = Ends { peer, local, proxy_header: None };
    if listen.proxy_protocol {
        let task = accept_announced(worker, stream, ends, listen.tls, Open::new(worker));
        tokio::task::spawn_local(stall::watched(worker, "a connection", task));
        return;
    }
    let Some(admitted) = admit(worker, peer) else { return };
    let mut guard = Open::new(worker);
    guard.admitted = admitted;
    if listen.tls {
        let task = accept_tls(worker, stream, ends, guard);
        tokio::task::spawn_local(stall::watched(worker, "a TLS connection", task));
        return;
    }
    let client = Rc::new(Downstream::new(worker, Stream::Plain(stream), ends.facts(worker, None)));
    spawn_run(worker, "a connection", client, guard);
}

/// A task of its own: one that began with a handshake keeps the size of that for as long as it lives, which is 8 KB for each connection.
fn spawn_run(worker: &'static Worker, what: &'static str, client: Rc<Downstream>, guard: Open) {
    tokio::task::spawn_local(stall::watched(worker, what, run(client, guard)));
}

/// Takes a connection of the gateway to itself: see [`tidegate_plugin_api::inner`]. It does not count for `client_limits`: the outer
/// connection does.
pub(crate) fn spawn_inner(
    worker: &'static Worker,
    socket: std::os::unix::net::UnixStream,
    facts: ConnectionInfo,
) -> io::Result<()> {
    // A Unix socket; the request path treats it the same.
    let stream = TcpStream::from_std(std::net::TcpStream::from(OwnedFd::from(socket)))?;
    let facts = ConnectionInfo { id: worker.connection_id(), ..facts };
    let client = Rc::new(Downstream::new(worker, Stream::Plain(stream), facts));
    tokio::task::spawn_local(stall::watched(worker, "an inner connection", run(client, Open::new(worker))));
    Ok(())
}

/// The addresses of both ends.
struct Ends {
    peer: SocketAddr,
    local: SocketAddr,
    proxy_header: Option<ProxyHeader>,
}

impl Ends {
    fn facts(self, worker: &Worker, tls: Option<TlsFacts>) -> ConnectionInfo {
        ConnectionInfo {
            id: worker.connection_id(),
            peer: self.peer,
            local: self.local,
            tls: tls.map(Rc::new),
            requests: Default::default(),
            rare: Rare::announced(self.proxy_header),
        }
    }
}

/// A connection whose first bytes are a balancer's.
async fn accept_announced(
    worker: &'static Worker,
    mut stream: TcpStream,
    mut ends: Ends,
    tls: bool,
    mut guard: Open,
) {
    let limit = Duration::from_millis(worker.settings.client_header_timeout_ms);
    match tokio::time::timeout(limit, proxy_protocol::read(&mut stream)).await {
        Ok(Ok(proxy_header)) => ends.proxy_header = proxy_header,
        Ok(Err(error)) => {
            error_log::log(error_log::Level::Error, format_args!("{error}, client: {}", ends.peer));
            return;
        }
        Err(_) => return,
    }
    let Some(admitted) = admit(worker, believed_client(worker, &ends)) else { return };
    guard.admitted = admitted;
    if tls {
        return accept_tls(worker, stream, ends, guard).await;
    }
    let client = Rc::new(Downstream::new(worker, Stream::Plain(stream), ends.facts(worker, None)));
    spawn_run(worker, "a connection", client, guard);
}

/// Connections count for the announced client only where the peer is believed.
fn believed_client(worker: &Worker, ends: &Ends) -> SocketAddr {
    let proxy_header = ends.proxy_header.filter(|_| proxy_protocol::believes(worker, ends.peer));
    proxy_header.map_or(ends.peer, |proxy_header| proxy_header.client)
}

async fn accept_tls(worker: &'static Worker, stream: TcpStream, ends: Ends, guard: Open) {
    let limit = Duration::from_millis(worker.settings.handshake_timeout_ms);
    let client = believed_client(worker, &ends);
    let Some(place) = worker.settings.handshakes.enter(client.ip()) else { return };
    let accepting = async {
        match plain::begins_plainly(&stream).await {
            true => Err(stream),
            false => Ok(handshake::accept(worker, stream, Alpn::Offered).await),
        }
    };
    let accepted = tokio::select! {
        accepted = tokio::time::timeout(limit, accepting) => accepted,
        () = place.ended() => return,
    };
    drop(place);
    let Ok(accepted) = accepted else { return };
    let accepted = match accepted {
        Ok(accepted) => accepted,
        Err(stream) => {
            let client = Rc::new(Downstream::new(worker, Stream::Plain(stream), ends.facts(worker, None)));
            // Its future is big, and few connections come here.
            return Box::pin(plain::refuse(client)).await;
        }
    };
    match accepted {
        Ok((stream, tls)) => {
            let facts = ends.facts(worker, Some(tls));
            let http2 = facts.tls.as_ref().is_some_and(|tls| tls.alpn.as_deref() == Some(b"h2"));
            let stream = Stream::Tls(Box::new(stream.into()));
            if http2 {
                let serve = async move {
                    http2::serve(worker, stream, Buffer::default(), Rc::new(facts)).await;
                    drop(guard);
                };
                tokio::task::spawn_local(stall::watched(worker, "an HTTP/2 connection", serve));
                return;
            }
            let client = Rc::new(Downstream::new(worker, stream, facts));
            spawn_run(worker, "a TLS connection", client, guard);
        }
        Err(failed) => failed.log(ends.peer),
    }
}

async fn run(client: Rc<Downstream>, _guard: Open) {
    let worker = client.worker;
    poll_fn(|context| {
        client.timer.attach(context);
        Poll::Ready(())
    })
    .await;
    client.timer.set_idle(worker.settings.client_header_timeout_ms);
    // Bytes that came with the last handshake message are already decrypted: the socket does not show them.
    let mut waiting = !client.holds_received();
    loop {
        if waiting && !idle(&client).await {
            return;
        }
        waiting = true;
        // The future of a request is big; it exists only while there is one.
        let mut serving: Pin<Box<dyn Future<Output = After>>> = boxed(|| serve(client.clone()));
        let after =
            poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| serving.as_mut().poll(context))) {
                Ok(poll) => poll.map(Some),
                Err(_) => Poll::Ready(None),
            })
            .await;
        match after {
            Some(After::Idle) => client.timer.set_idle(worker.settings.keepalive_timeout_ms),
            Some(After::Close) => {
                drop(serving);
                return close(client).await;
            }
            Some(After::Http2) => {
                drop(serving);
                return speak_http2(client).await;
            }
            None => {
                drop(serving);
                stats::add(&worker.stats.panics, 1);
                error_log::log(
                    error_log::Level::Critical,
                    format_args!("a request from {} panicked; its connection is closed", client.facts.peer),
                );
                respond::after_panic(&client).await;
                return close(client).await;
            }
        }
    }
}

/// Closes so that the answer arrives. Boxed as the next.
fn close(client: Rc<Downstream>) -> Pin<Box<dyn Future<Output = ()>>> {
    Box::pin(async move {
        client.close().await;
    })
}

/// Boxed, so that idle connections do not carry the size of a state that few of them reach.
fn speak_http2(client: Rc<Downstream>) -> Pin<Box<dyn Future<Output = ()>>> {
    Box::pin(async move {
        let worker = client.worker;
        // Between two requests this is the only reference.
        if let Ok(client) = Rc::try_unwrap(client) {
            let (stream, early, facts) = client.into_stream();
            http2::serve(worker, stream, early, facts).await;
        }
    })
}

/// Waits for the first byte of a request; `false`: close.
async fn idle(client: &Downstream) -> bool {
    let worker = client.worker;
    stats::add(&worker.stats.idle, 1);
    let mut waited = false;
    let ready = poll_fn(|context| {
        if let Poll::Ready(ready) = client.poll_readable(context) {
            return Poll::Ready(ready);
        }
        waited = true;
        if worker.closing_idle.get() || client.timer.expired() { Poll::Ready(false) } else { Poll::Pending }
    })
    .await;
    if !waited {
        // What it reads in one piece is exactly one request, and the next is there: see `crate::turns`.
        tokio::task::yield_now().await;
    }
    stats::sub(&worker.stats.idle, 1);
    ready
}

/// Serves requests for as long as bytes of them are there.
async fn serve(client: Rc<Downstream>) -> After {
    let worker = client.worker;
    let mut turn = None;
    loop {
        let mut head = worker.request_head();
        match client.read_head(&mut head).await {
            Ok(()) => {}
            Err(HeadError::Gone) => {
                client.gone.set(true);
                worker.recycle_request_head(head);
                client.release_buffer();
                return After::Close;
            }
            Err(HeadError::Http2) => {
                worker.recycle_request_head(head);
                return After::Http2;
            }
            Err(HeadError::Refused(error)) => {
                let line = client.with_received(refusal::received_line);
                refusal::refuse(&client, head, line, error).await;
                return After::Close;
            }
        }
        if !request::handle(&client, head).await {
            client.release_buffer();
            return After::Close;
        }
        if !client.holds_received() && client.release_buffer() {
            return After::Idle;
        }
        client.timer.set(worker.settings.keepalive_timeout_ms);
        worker.turns.next(&mut turn).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn future_size<A, B, F: Future>(_: impl FnOnce(A, B) -> F) -> usize {
        size_of::<F>()
    }

    /// 10,000 idle connections hold this much each; a field more in the wrong struct shows up here.
    #[test]
    fn an_idle_connection_is_small() {
        let (client, facts, task) = (size_of::<Downstream>(), size_of::<ConnectionInfo>(), future_size(run));
        // With the two counts of an `Rc` these fit into classes of the allocator: 192 and 112 bytes.
        assert!(client <= 176, "client: {client} bytes");
        assert!(facts <= 96, "facts: {facts} bytes");
        assert!(task <= 128, "task: {task} bytes");
    }
}
