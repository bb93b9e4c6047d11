//! Both ways of a session of TCP, until both have ended or nothing moved for the upstream's time.
//!
//! What comes in large pieces between two sockets without TLS goes through a pipe of the kernel (`splice.rs`), the rest is copied.
//! Where the route names a protocol, it sees all bytes (`calls.rs`).

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tidegate_plugin_api::{Session, stream_route::RouteProtocol};

use super::{
    calls::Calls,
    end,
    established::{Ends, Established},
    idle,
    pipes::Pipes,
    silence::{Due, Outcome},
    splice::Spliced,
};
use crate::{
    relay::{Broken, Direction, LARGE_PIECE_BYTES, Moved, PIECE_BYTES},
    sessions::{DRAINED_IDLE_MS, Listed},
    stream::Stream,
    worker::Worker,
};

/// A side that has ended has perhaps gone away, which is not known before something is sent to it. Where places run out, such sessions
/// make room.
const HALF_CLOSED_IDLE_MS: u64 = 60_000;

/// A direction between two streams.
struct Way {
    direction: Direction,
    spliced: Spliced,
    is_splicing: bool,
}

impl Way {
    fn new(early: &[u8]) -> Way {
        Way { direction: Direction::holding(early), spliced: Spliced::default(), is_splicing: false }
    }

    /// Ready: the end has been passed on, or nothing more can be. `is_last`: the other way has ended.
    fn poll(
        &mut self,
        context: &mut Context<'_>,
        pipes: &Pipes,
        from: &mut Stream,
        to: &mut Stream,
        is_last: bool,
    ) -> Poll<Result<(), Broken>> {
        let mut piece = if from.is_plain() && to.is_plain() { PIECE_BYTES } else { LARGE_PIECE_BYTES };
        loop {
            if self.is_splicing
                && let (Stream::Plain(from), Stream::Plain(to)) = (&*from, &*to)
            {
                let before = self.direction.taken;
                ready!(self.spliced.poll(context, pipes, &mut self.direction, (from, to)))?;
                if self.direction.taken == before {
                    // No pipe is left.
                    piece = LARGE_PIECE_BYTES;
                }
                self.is_splicing = false;
            }
            let moved = self.direction.poll_copy(
                context,
                piece,
                |context, room| poll_read(from, context, room),
                |context, data| match data {
                    // It is closed at once.
                    None if is_last && to.is_plain() => Poll::Ready(Ok(0)),
                    data => poll_write(to, context, data),
                },
            );
            match ready!(moved)? {
                Moved::All => return Poll::Ready(Ok(())),
                Moved::Much => self.is_splicing = piece == PIECE_BYTES,
            }
        }
    }
}

/// A peer that closes without taking leave of TLS first has ended, as for nginx.
fn poll_read(from: &mut Stream, context: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
    match from.poll_read(context, room) {
        Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => Poll::Ready(Ok(0)),
        other => other,
    }
}

/// Without data: the end.
fn poll_write(to: &mut Stream, context: &mut Context<'_>, data: Option<&[u8]>) -> Poll<io::Result<usize>> {
    match data {
        Some(data) => to.poll_write(context, data),
        None => to.poll_shutdown(context).map_ok(|()| 0),
    }
}

/// Both ways, and the protocol that looks at them.
struct Ways {
    up: Way,
    down: Way,
    calls: Option<Box<Calls>>,
}

impl Ways {
    fn new(protocol: Option<&RouteProtocol>, early: Vec<u8>) -> Ways {
        match protocol {
            Some(protocol) => Ways {
                up: Way::new(&[]),
                down: Way::new(&[]),
                calls: Some(Box::new(Calls::new(protocol, early))),
            },
            None => Ways { up: Way::new(&early), down: Way::new(&[]), calls: None },
        }
    }

    fn poll(
        &mut self,
        context: &mut Context<'_>,
        pipes: &Pipes,
        client: &mut Stream,
        node: &mut Stream,
    ) -> [Poll<Result<(), Broken>>; 2] {
        let (up, down) = (&mut self.up, &mut self.down);
        let Some(calls) = self.calls.as_deref_mut() else {
            let first = up.poll(context, pipes, client, node, down.direction.is_over());
            return [first, down.poll(context, pipes, node, client, up.direction.is_over())];
        };
        let first = up.direction.poll_all(
            context,
            |context, room| {
                calls.poll_client(context, room, |context, room| poll_read(client, context, room))
            },
            |context, data| poll_write(node, context, data),
        );
        let second = down.direction.poll_all(
            context,
            |context, room| {
                let count = ready!(poll_read(node, context, room))?;
                calls.answered(room.get(..count).unwrap_or_default())?;
                Poll::Ready(Ok(count))
            },
            |context, data| poll_write(client, context, data),
        );
        [first, second]
    }

    /// Bytes that were read and written so far.
    fn bytes(&self) -> [u64; 4] {
        let (up, down) = (&self.up.direction, &self.down.direction);
        [up.taken, up.moved, down.taken, down.moved]
    }

    /// One side has ended, and the other one has not.
    fn is_half(&self) -> bool {
        self.up.direction.is_over() != self.down.direction.is_over()
    }

    /// Nothing waits to be passed on, and no protocol looks at what comes.
    fn is_empty(&self) -> bool {
        let ways = [&self.up, &self.down];
        self.calls.is_none() && ways.iter().all(|way| way.direction.is_empty() && way.spliced.is_empty())
    }

    fn is_paused(&self) -> bool {
        self.calls.as_ref().is_some_and(|calls| calls.is_paused())
    }

    fn log_calls(&mut self, session: &mut Session, protocol: Option<&RouteProtocol>) {
        if let (Some(calls), Some(protocol)) = (self.calls.as_deref_mut(), protocol) {
            calls.log(session, protocol);
        }
    }
}

/// Whether the session is over. Where one side fails, the other is reset: what it got is not all.
fn is_over(moved: [Poll<Result<(), Broken>>; 2], client: &mut Stream, node: &mut Stream) -> bool {
    match moved {
        [Poll::Ready(Err(Broken::Reading)), _] | [_, Poll::Ready(Err(Broken::Writing))] => {
            node.reset_when_closed();
            true
        }
        [Poll::Ready(Err(Broken::Writing)), _] | [_, Poll::Ready(Err(Broken::Reading))] => {
            client.reset_when_closed();
            true
        }
        [first, second] => first.is_ready() && second.is_ready(),
    }
}

/// What a session waits with: a future of its own, since one that the compiler makes keeps a second copy of what it begins with.
pub(super) struct Relay {
    worker: &'static Worker,
    established: Box<Established>,
    listed: Listed,
    ways: Ways,
}

impl Relay {
    /// `early` is sent to the node first.
    pub(super) fn new(worker: &'static Worker, mut established: Box<Established>, early: Vec<u8>) -> Relay {
        let ways = Ways::new(established.route.protocol.as_ref(), early);
        let Established { silence, timer, .. } = &mut *established;
        silence.renew(worker.deadlines.now_ms(), timer);
        let listed = Listed::new(worker, &established.session);
        Relay { worker, established, listed, ways }
    }

    /// Moves what can be moved. Ready: the session is over.
    fn poll_ways(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Established { session, route, ends, silence, timer, .. } = &mut *self.established;
        let Ends::Open(client, node) = ends else { return Poll::Ready(()) };
        let now_ms = self.worker.deadlines.now_ms();
        let ways = &mut self.ways;
        let before = ways.bytes();
        let moved = ways.poll(context, &self.worker.pipes, client, node);
        if ways.bytes() != before {
            silence.renew(now_ms, timer);
            if session.log.first_byte_after.is_none() && ways.down.direction.taken > 0 {
                session.log.first_byte_after = Some(session.started.elapsed());
            }
        }
        ways.log_calls(session, route.protocol.as_ref());
        // TLS may hold back records that a socket did not take; they must not wait for the next ones.
        let flushed = [node.poll_flush(context), client.poll_flush(context)];
        let is_broken = flushed.iter().any(|flushed| matches!(flushed, Poll::Ready(Err(_))));
        if ways.is_half() && !silence.is_evictable() {
            silence.make_evictable(HALF_CLOSED_IDLE_MS, now_ms, timer);
        }
        match is_broken || is_over(moved, client, node) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    /// Ready: the session has been silent for too long.
    fn poll_silence(&mut self) -> Poll<()> {
        let Established { ends, silence, timer, .. } = &mut *self.established;
        let now_ms = self.worker.deadlines.now_ms();
        match silence.due(now_ms, timer) {
            Due::Nothing => return Poll::Pending,
            Due::End if !self.ways.is_paused() => return Poll::Ready(()),
            Due::End => return Poll::Pending,
            Due::Park => {}
        }
        let outcome = match self.ways.is_empty() {
            true => idle::park(self.worker, timer.slot(), ends),
            // What moves later counts as activity.
            false => Outcome::Unable,
        };
        silence.wait(outcome, now_ms, timer);
        match ends {
            Ends::Lost => Poll::Ready(()),
            Ends::Open(..) | Ends::Parked(_) => Poll::Pending,
        }
    }

    /// Whether the session is not parked, or no longer.
    fn is_awake(&mut self) -> bool {
        let Established { ends, silence, .. } = &mut *self.established;
        if !matches!(ends, Ends::Parked(_)) {
            return true;
        }
        let is_awake = idle::unpark(self.worker, ends);
        if is_awake {
            silence.end_parking();
        }
        is_awake
    }

    /// Logs what the session moved.
    fn end(&mut self) {
        let Established { session, route, .. } = &mut *self.established;
        let [received, sent_up, received_up, sent] = self.ways.bytes();
        let kept = match (self.ways.calls.take(), &route.protocol) {
            (Some(calls), Some(protocol)) => calls.close(session, protocol),
            _ => 0,
        };
        let log = &mut session.log;
        (log.bytes_received, log.upstream_bytes_sent) = (received + kept, sent_up);
        (log.upstream_bytes_received, log.bytes_sent) = (received_up, sent);
        end::end(self.worker, session, Some(route), 200);
    }
}

impl Future for Relay {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let relay = &mut *self;
        relay.listed.attach(context);
        if !relay.listed.is_closing() {
            let Established { silence, timer, .. } = &mut *relay.established;
            if relay.listed.is_draining() && silence.limit_ms() > DRAINED_IDLE_MS {
                silence.shorten(DRAINED_IDLE_MS, relay.worker.deadlines.now_ms(), timer);
            }
            if (!relay.is_awake() || relay.poll_ways(context).is_pending())
                && relay.poll_silence().is_pending()
            {
                return Poll::Pending;
            }
        }
        relay.end();
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
    };

    use super::*;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap());
        let (near, far) = tokio::join!(near, listener.accept());
        (near.unwrap(), far.unwrap().0)
    }

    /// Sends so many bytes through a way; returns what arrived, and whether a pipe was used.
    async fn through(pipes: &Pipes, sent: &[u8]) -> (Vec<u8>, bool) {
        let ((mut client, from), (mut node, to)) = (pair().await, pair().await);
        let (mut from, mut to) = (Stream::Plain(from), Stream::Plain(to));
        let mut way = Way::new(b"early");
        let mut was_spliced = false;
        let moving = poll_fn(|context| {
            let moved = way.poll(context, pipes, &mut from, &mut to, false);
            was_spliced |= way.is_splicing;
            moved
        });
        let writing = async {
            client.write_all(sent).await.unwrap();
            client.shutdown().await.unwrap();
        };
        let mut got = Vec::new();
        let (moved, (), read) = tokio::join!(moving, writing, node.read_to_end(&mut got));
        assert_eq!((moved, read.unwrap()), (Ok(()), sent.len() + 5));
        assert_eq!((way.direction.taken, way.direction.moved), (got.len() as u64, got.len() as u64));
        (got, was_spliced)
    }

    #[test]
    fn bytes_arrive_with_and_without_pipes() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (pipes, none) = (Pipes::default(), Pipes::default());
            none.give_up();
            let sent: Vec<u8> = (0..5_000_000u32).map(|at| (at / 251) as u8).collect();
            let expected = [b"early", &*sent].concat();
            let (got, was_spliced) = through(&pipes, &sent).await;
            assert!(got == expected && was_spliced);
            let (got, was_spliced) = through(&none, &sent).await;
            assert!(got == expected && !was_spliced);
            assert_eq!(through(&pipes, b" and little").await, (b"early and little".to_vec(), false));
        });
    }
}
