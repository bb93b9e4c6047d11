//! After `101 Switching Protocols`: bytes both ways until one side is done (RFC 9110 section 7.8).

use std::{
    cell::RefCell,
    future::poll_fn,
    io,
    task::{Context, Poll},
};

use tidegate_plugin_api::Request;

use crate::{buffer::Buffer, client::Downstream, exchange::UpstreamConnection};

thread_local! {
    /// The buffer that all tunnels of the worker read into: an idle tunnel holds no memory.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; PIPE_BYTES]);
}

/// One direction: what was read and could not be written at once.
#[derive(Default)]
struct Pipe {
    data: Vec<u8>,
    start: usize,
    end: usize,
    /// The reading side has ended.
    closed: bool,
    /// The writing side has been shut down.
    shut: bool,
    moved: u64,
}

const PIPE_BYTES: usize = 16 * 1024;

impl Pipe {
    fn holding(early: &[u8]) -> Pipe {
        Pipe { data: early.to_vec(), end: early.len(), ..Pipe::default() }
    }
}

/// Sends the 101 head and relays until both directions have ended or nothing moved for `idle_ms`.
pub(crate) async fn run(
    request: &mut Request,
    client: &Downstream,
    mut upstream: UpstreamConnection,
    idle_ms: u64,
) {
    let Ok(head_bytes) = client.start_tunnel(request).await else {
        upstream.discard(client);
        return;
    };
    let mut up = Pipe::holding(&[]);
    // Frames that came with the upstream's head.
    let mut down = Pipe::holding(upstream.input.filled());
    upstream.input = Buffer::default();
    client.timer.set(idle_ms);
    poll_fn(|context| {
        let before = up.moved + down.moved;
        let first = poll_pipe(
            context,
            &mut up,
            |context, room| client.poll_raw(context, room),
            |context, data| match data {
                Some(data) => upstream.stream.poll_write(context, data),
                None => upstream.stream.poll_shutdown(context).map_ok(|()| 0),
            },
        );
        let second = {
            let stream = std::cell::RefCell::new(&mut upstream.stream);
            poll_pipe(
                context,
                &mut down,
                |context, room| stream.borrow_mut().poll_read(context, room),
                |context, data| match data {
                    Some(data) => client.poll_write(context, data),
                    None => client.poll_shutdown(context).map_ok(|()| 0),
                },
            )
        };
        if up.moved + down.moved != before {
            client.timer.set(idle_ms);
        }
        // TLS may hold back records that a socket did not take; they must not wait for the next ones.
        let flushed = [upstream.stream.poll_flush(context), client.poll_flush(context)];
        if flushed.iter().any(|flushed| matches!(flushed, Poll::Ready(Err(_)))) {
            return Poll::Ready(());
        }
        match (first, second) {
            (Poll::Ready(Err(_)), _) | (_, Poll::Ready(Err(_))) => Poll::Ready(()),
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => Poll::Ready(()),
            _ if client.timer.expired() => Poll::Ready(()),
            _ => Poll::Pending,
        }
    })
    .await;
    request.outcome.bytes_sent = head_bytes + down.moved;
    request.outcome.body_bytes_sent = down.moved;
    upstream.discard(client);
}

fn poll_pipe(
    context: &mut Context<'_>,
    pipe: &mut Pipe,
    mut read: impl FnMut(&mut Context<'_>, &mut [u8]) -> Poll<io::Result<usize>>,
    mut write: impl FnMut(&mut Context<'_>, Option<&[u8]>) -> Poll<io::Result<usize>>,
) -> Poll<io::Result<()>> {
    loop {
        while pipe.start < pipe.end {
            let data = pipe.data.get(pipe.start..pipe.end).unwrap_or_default();
            match write(context, Some(data)) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => {
                    pipe.start += count;
                    pipe.moved += count as u64;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            }
        }
        (pipe.data, pipe.start, pipe.end) = (Vec::new(), 0, 0);
        if pipe.closed {
            if !pipe.shut {
                match write(context, None) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(_)) => pipe.shut = true,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                }
            }
            return Poll::Ready(Ok(()));
        }
        let relayed = SCRATCH.with_borrow_mut(|scratch| match read(context, scratch) {
            Poll::Ready(Ok(0)) => {
                pipe.closed = true;
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Ok(count)) => {
                write_or_keep(context, pipe, scratch.get(..count).unwrap_or_default(), &mut write)
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        });
        match relayed {
            Poll::Ready(Ok(())) => {}
            other => return other,
        }
    }
}

/// Keeps the bytes that the writing side does not take.
fn write_or_keep(
    context: &mut Context<'_>,
    pipe: &mut Pipe,
    mut data: &[u8],
    write: &mut impl FnMut(&mut Context<'_>, Option<&[u8]>) -> Poll<io::Result<usize>>,
) -> Poll<io::Result<()>> {
    while !data.is_empty() {
        match write(context, Some(data)) {
            Poll::Pending => {
                (pipe.data, pipe.start, pipe.end) = (data.to_vec(), 0, data.len());
                return Poll::Pending;
            }
            Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            Poll::Ready(Ok(count)) => {
                data = data.get(count..).unwrap_or_default();
                pipe.moved += count as u64;
            }
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
        }
    }
    Poll::Ready(Ok(()))
}
