//! Both ways of a session of TCP, until both have ended or nothing moved for the upstream's time.
//!
//! What comes in large pieces between two sockets without TLS goes through a pipe of the kernel (`splice.rs`), the rest is copied.

use std::{
    future::poll_fn,
    io,
    pin::pin,
    task::{Context, Poll, ready},
};

use tidegate_plugin_api::Session;

use super::{pipes::Pipes, splice::Spliced};
use crate::{
    relay::{Broken, Direction, LARGE_PIECE_BYTES, Moved, PIECE_BYTES},
    sessions::{DRAINED_IDLE_MS, Listed},
    stream::Stream,
    timers::Timer,
    worker::Worker,
};

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
                    Some(data) => to.poll_write(context, data),
                    // It is closed at once.
                    None if is_last && to.is_plain() => Poll::Ready(Ok(0)),
                    None => to.poll_shutdown(context).map_ok(|()| 0),
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

/// The sides of a session.
pub(super) struct Sides<'a> {
    pub client: &'a mut Stream,
    pub node: &'a mut Stream,
    /// Sent to the node first.
    pub early: Vec<u8>,
    pub idle_ms: u64,
}

/// Where one side fails, the other is reset: what it got is not all.
pub(super) async fn relay(worker: &Worker, session: &mut Session, sides: Sides<'_>, timer: &Timer) {
    let Sides { client, node, early, mut idle_ms } = sides;
    let listed = Listed::new(session);
    let mut ordered = pin!(listed.order.given.notified());
    let (mut up, mut down) = (Way::new(&early), Way::new(&[]));
    drop(early);
    timer.set(idle_ms);
    let log = &mut session.log;
    let started = session.started;
    poll_fn(|context| {
        if ordered.as_mut().poll(context).is_ready() {
            ordered.set(listed.order.given.notified());
            // Polled, so that it wakes this task.
            let _ = ordered.as_mut().poll(context);
        }
        if listed.order.is_close() {
            return Poll::Ready(());
        }
        if listed.order.is_drain() && idle_ms > DRAINED_IDLE_MS {
            idle_ms = DRAINED_IDLE_MS;
            timer.set(idle_ms);
        }
        let bytes = |up: &Way, down: &Way| {
            [&up.direction, &down.direction].map(|direction| direction.taken + direction.moved)
        };
        let before = bytes(&up, &down);
        let first = up.poll(context, &worker.pipes, client, node, down.direction.is_over());
        let second = down.poll(context, &worker.pipes, node, client, up.direction.is_over());
        if bytes(&up, &down) != before {
            timer.set(idle_ms);
            if log.first_byte_after.is_none() && down.direction.taken > 0 {
                log.first_byte_after = Some(started.elapsed());
            }
        }
        // TLS may hold back records that a socket did not take; they must not wait for the next ones.
        let flushed = [node.poll_flush(context), client.poll_flush(context)];
        if flushed.iter().any(|flushed| matches!(flushed, Poll::Ready(Err(_)))) {
            return Poll::Ready(());
        }
        match (first, second) {
            (Poll::Ready(Err(Broken::Reading)), _) | (_, Poll::Ready(Err(Broken::Writing))) => {
                node.reset_when_closed();
                Poll::Ready(())
            }
            (Poll::Ready(Err(Broken::Writing)), _) | (_, Poll::Ready(Err(Broken::Reading))) => {
                client.reset_when_closed();
                Poll::Ready(())
            }
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => Poll::Ready(()),
            _ if timer.expired() => Poll::Ready(()),
            _ => Poll::Pending,
        }
    })
    .await;
    let (up, down) = (up.direction, down.direction);
    (log.bytes_received, log.upstream_bytes_sent) = (up.taken, up.moved);
    (log.upstream_bytes_received, log.bytes_sent) = (down.taken, down.moved);
}

#[cfg(test)]
mod tests {
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
