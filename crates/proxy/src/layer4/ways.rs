//! Both ways of a session: bytes from the client to the node, and back.
//!
//! What comes in large pieces between two sockets without TLS goes through a pipe of the kernel (`splice.rs`), the rest is copied.
//! Where the route names a protocol, it sees all bytes (`calls.rs`).

use std::{
    io,
    task::{Context, Poll, ready},
};

use tidegate_plugin_api::{Session, stream_route::RouteProtocol};

use super::{calls::Calls, pipes::Pipes, splice::Spliced};
use crate::{
    relay::{Broken, Direction, LARGE_PIECE_BYTES, Moved, PIECE_BYTES},
    stream::Stream,
};

/// What became of the other way.
#[derive(Clone, Copy)]
enum Other {
    Open,
    Over,
    /// The side that this one reads from takes nothing more. The system has said why once, and then shows an end that is none.
    Failed,
}

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

    /// Ready: the end has been passed on, or nothing more can be.
    fn poll(
        &mut self,
        context: &mut Context<'_>,
        pipes: &Pipes,
        from: &mut Stream,
        to: &mut Stream,
        other: Other,
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
                |context, data| match (data, other) {
                    // It is closed at once.
                    (None, Other::Over) if to.is_plain() => Poll::Ready(Ok(0)),
                    (None, Other::Failed) => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
                    (data, _) => poll_write(to, context, data),
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
pub(super) struct Ways {
    up: Way,
    down: Way,
    pub(super) calls: Option<Box<Calls>>,
}

impl Ways {
    pub(super) fn new(protocol: Option<&RouteProtocol>, early: Vec<u8>) -> Ways {
        match protocol {
            Some(protocol) => Ways {
                up: Way::new(&[]),
                down: Way::new(&[]),
                calls: Some(Box::new(Calls::new(protocol, early))),
            },
            None => Ways { up: Way::new(&early), down: Way::new(&[]), calls: None },
        }
    }

    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
        pipes: &Pipes,
        client: &mut Stream,
        node: &mut Stream,
    ) -> [Poll<Result<(), Broken>>; 2] {
        let (up, down) = (&mut self.up, &mut self.down);
        let Some(calls) = self.calls.as_deref_mut() else {
            let other = if down.direction.is_over() { Other::Over } else { Other::Open };
            let first = up.poll(context, pipes, client, node, other);
            let other = match first {
                Poll::Ready(Err(_)) => Other::Failed,
                _ if up.direction.is_over() => Other::Over,
                _ => Other::Open,
            };
            return [first, down.poll(context, pipes, node, client, other)];
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
            |context, data| match data {
                None if matches!(first, Poll::Ready(Err(_))) => {
                    Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
                }
                data => poll_write(client, context, data),
            },
        );
        [first, second]
    }

    /// Bytes that were read and written so far.
    pub(super) fn bytes(&self) -> [u64; 4] {
        let (up, down) = (&self.up.direction, &self.down.direction);
        [up.taken, up.moved, down.taken, down.moved]
    }

    /// One side has ended, and the other one has not.
    pub(super) fn is_half(&self) -> bool {
        self.up.direction.is_over() != self.down.direction.is_over()
    }

    /// Whether bytes wait to be passed on. Those of a message that a protocol has not seen whole do not.
    pub(super) fn holds(&self) -> bool {
        let ways = [&self.up, &self.down];
        self.is_paused() || ways.iter().any(|way| !way.direction.is_empty() || !way.spliced.is_empty())
    }

    pub(super) fn is_paused(&self) -> bool {
        self.calls.as_ref().is_some_and(|calls| calls.is_paused())
    }

    pub(super) fn log_calls(&mut self, session: &mut Session, protocol: Option<&RouteProtocol>) {
        if let (Some(calls), Some(protocol)) = (self.calls.as_deref_mut(), protocol) {
            calls.log(session, protocol);
        }
    }
}

/// Whether the session is over. Where one side fails, the other is reset: what it got is not all.
pub(super) fn is_over(moved: [Poll<Result<(), Broken>>; 2], client: &mut Stream, node: &mut Stream) -> bool {
    let is = |way: Poll<Result<(), Broken>>, side| way == Poll::Ready(Err(side));
    let [up, down] = moved;
    let client_failed = is(up, Broken::Reading) || is(down, Broken::Writing);
    let node_failed = is(up, Broken::Writing) || is(down, Broken::Reading);
    if client_failed {
        node.reset_when_closed();
    }
    if node_failed {
        client.reset_when_closed();
    }
    client_failed || node_failed || up.is_ready() && down.is_ready()
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
            let moved = way.poll(context, pipes, &mut from, &mut to, Other::Open);
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
