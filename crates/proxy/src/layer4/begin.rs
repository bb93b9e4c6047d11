//! What a client sends before its session is known: a PROXY header, a handshake, a server name. Bounded as unfinished
//! handshakes are.

use std::{future::poll_fn, io, net::SocketAddr, task::Poll, time::Duration};

use tidegate_plugin_api::{
    Session,
    certificates::ClientVerdict,
    connection::{ProxyHeader, TlsFacts},
    session::Transport,
    stream_route::StreamQuestion,
};
use tidegate_telemetry::error_log::{self, Level};
use tokio::net::TcpStream;

use super::{
    end,
    facts::facts,
    hello::{self, Hello},
};
use crate::{
    handshake::{self, Alpn},
    open::{Open, admit},
    proxy_protocol,
    stream::Stream,
    timers::Timer,
    worker::Worker,
};

/// The most that is read before a node is known, as nginx's `preread_buffer_size`.
const MOST_EARLY: usize = 16 << 10;

/// A connection that has been accepted.
pub(super) struct Arrival {
    pub peer: SocketAddr,
    pub local: SocketAddr,
    pub tls: bool,
    pub proxy_protocol: bool,
}

/// A session that may look for its route.
pub(super) struct Begun {
    pub client: Stream,
    pub session: Box<Session>,
    pub early: Vec<u8>,
    pub open: Open,
}

/// `None`: it was closed, and its line is written. Without one: there were too many connections.
pub(super) async fn begin(
    worker: &'static Worker,
    mut stream: TcpStream,
    arrival: Arrival,
    mut open: Open,
    timer: &Timer,
) -> Option<Begun> {
    let header = match arrival.proxy_protocol {
        true => read_header(worker, &mut stream, arrival.peer).await,
        false => Some(None),
    };
    let Some(header) = header else {
        log_failure(worker, &arrival, None, arrival.peer, 400);
        return None;
    };
    let client = believed_client(worker, arrival.peer, header);
    open.admitted = admit(worker, client)?;
    let begun = match arrival.tls {
        true => terminate(worker, stream, client).await,
        false => Some((Stream::Plain(stream), None)),
    };
    let Some((mut stream, tls)) = begun else {
        log_failure(worker, &arrival, header, client, 500);
        return None;
    };
    let terminated = tls.is_some();
    // A client without a name got the certificate of this one.
    let nameless = tls.as_ref().is_some_and(|tls| tls.server_name.is_none());
    let fallback = worker.settings.fallback_sni.as_deref().filter(|_| nameless);
    let facts = facts(worker, arrival.peer, arrival.local, header, tls);
    let upstreams = worker.snapshot().upstreams.clone();
    let mut session = Box::new(Session::new(facts, client, Transport::Tcp, worker.index, upstreams));
    session.server_name = fallback.map(Box::from);
    let mut early = Vec::new();
    if !terminated {
        let question = StreamQuestion { remote: client, local: arrival.local, server_name: None, terminated };
        if worker.snapshot().stream.looks_for_name(&question) {
            let found = look_for_name(worker, &mut stream, &mut early, timer, client).await;
            let Ok(name) = found else {
                session.log.bytes_received = early.len() as u64;
                end::end(worker, &mut session, None, 400);
                return None;
            };
            session.server_name = name;
        }
    }
    Some(Begun { client: stream, session, early, open })
}

/// The access log has a line of what ends before there is a session.
fn log_failure(
    worker: &Worker,
    arrival: &Arrival,
    header: Option<ProxyHeader>,
    client: SocketAddr,
    status: u16,
) {
    let facts = facts(worker, arrival.peer, arrival.local, header, None);
    let upstreams = worker.snapshot().upstreams.clone();
    let mut session = Session::new(facts, client, Transport::Tcp, worker.index, upstreams);
    end::end(worker, &mut session, None, status);
}

/// The outer `None`: the connection has no valid header.
async fn read_header(
    worker: &'static Worker,
    stream: &mut TcpStream,
    peer: SocketAddr,
) -> Option<Option<ProxyHeader>> {
    let place = worker.settings.handshakes.enter(peer.ip())?;
    let limit = Duration::from_millis(worker.settings.stream.preread_timeout_ms);
    let read = tokio::select! {
        read = tokio::time::timeout(limit, proxy_protocol::read(stream)) => read,
        () = place.ended() => return None,
    };
    match read {
        Ok(Ok(header)) => Some(header),
        Ok(Err(error)) => {
            error_log::log(Level::Error, format_args!("{error}, client: {peer}"));
            None
        }
        Err(_) => None,
    }
}

/// Only of peers that `nginx_config.stream.real_ip_from` has: else any client could claim any address.
fn believed_client(worker: &Worker, peer: SocketAddr, header: Option<ProxyHeader>) -> SocketAddr {
    let trusted = worker.settings.stream.real_ip.as_ref();
    let believes = trusted.is_some_and(|trusted| trusted.contains(peer.ip().to_canonical()));
    header.filter(|_| believes).map_or(peer, |header| header.client)
}

async fn terminate(
    worker: &'static Worker,
    stream: TcpStream,
    client: SocketAddr,
) -> Option<(Stream, Option<TlsFacts>)> {
    let place = worker.settings.handshakes.enter(client.ip())?;
    let limit = Duration::from_millis(worker.settings.handshake_timeout_ms);
    let accepted = tokio::select! {
        accepted = tokio::time::timeout(limit, handshake::accept(worker, stream, Alpn::None)) => accepted.ok()?,
        () = place.ended() => return None,
    };
    let (stream, tls) = accepted.map_err(|failed| failed.log(client)).ok()?;
    // What of a certificate the handshake cannot decide; there are no paths that could do without one.
    let asks = tls.server.as_ref().is_some_and(|server| server.client.is_some());
    if asks && tls.client_verdict != ClientVerdict::Success {
        let verdict = tls.client_verdict.text();
        error_log::log(
            Level::Error,
            format_args!("client certificate verification is not passed: {verdict}, client: {client}"),
        );
        return None;
    }
    Some((Stream::Tls(Box::new(stream.into())), Some(tls)))
}

struct NotFound;

/// [`NotFound`]: the client is gone, sent too little in its time, or what cannot be read.
async fn look_for_name(
    worker: &'static Worker,
    stream: &mut Stream,
    early: &mut Vec<u8>,
    timer: &Timer,
    client: SocketAddr,
) -> Result<Option<Box<str>>, NotFound> {
    let place = worker.settings.handshakes.enter(client.ip()).ok_or(NotFound)?;
    let reading = async {
        loop {
            match hello::read(early) {
                Hello::Name(name) => return Ok(Some(name)),
                Hello::Nameless => return Ok(None),
                Hello::Unreadable => {
                    error_log::log(Level::Error, format_args!("unreadable TLS handshake, client: {client}"));
                    return Err(NotFound);
                }
                Hello::Incomplete => {}
            }
            // Not where the buffer is full: the name may come later.
            if !matches!(read_more(worker, stream, early, timer).await, Ok(true)) {
                return Err(NotFound);
            }
        }
    };
    tokio::select! {
        found = reading => found,
        () = place.ended() => Err(NotFound),
    }
}

/// Reads what the client sends next; `false` at its end, when the buffer is full, or when the time is up.
pub(super) async fn read_more(
    worker: &'static Worker,
    stream: &mut Stream,
    early: &mut Vec<u8>,
    timer: &Timer,
) -> io::Result<bool> {
    let have = early.len();
    if have >= MOST_EARLY {
        return Ok(false);
    }
    if have == 0 {
        timer.set(worker.settings.stream.preread_timeout_ms);
    }
    early.resize(MOST_EARLY, 0);
    let room = early.get_mut(have..).unwrap_or_default();
    let read = poll_fn(|context| match stream.poll_read(context, room) {
        Poll::Pending if timer.expired() => Poll::Ready(Ok(0)),
        other => other,
    })
    .await;
    early.truncate(have + read.as_ref().ok().copied().unwrap_or(0));
    Ok(read? > 0)
}
