//! From one socket to another through a pipe: see splice(2).

use std::{
    io,
    task::{Context, Poll},
};

use rustix::{
    io::Errno,
    pipe::{SpliceFlags, splice},
};
use tokio::{io::Interest, net::TcpStream};

use super::pipes::{PIPE_BYTES, Pipe, Pipes};
use crate::relay::{Broken, Direction};

/// Less than that costs no more when it is copied.
const LITTLE_BYTES: usize = 8 * 1024;

/// After so much in one direction others have their turn.
const TURN_BYTES: u64 = 1024 * 1024;

/// The pipe of one direction.
#[derive(Default)]
pub(super) struct Spliced {
    pipe: Option<Pipe>,
    /// Bytes in the pipe; it holds [`PIPE_BYTES`] at most.
    held: u32,
}

impl Spliced {
    /// No bytes are in the pipe.
    pub(super) fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// Moves bytes while much comes at once. Ready: the rest, which may be the end alone, is better copied.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
        pipes: &Pipes,
        direction: &mut Direction,
        (from, to): (&TcpStream, &TcpStream),
    ) -> Poll<Result<(), Broken>> {
        let Some(pipe) = self.pipe.take().or_else(|| pipes.take()) else { return Poll::Ready(Ok(())) };
        let moved = self.poll_through(context, &pipe, direction, (from, to));
        match moved {
            Poll::Pending if self.held > 0 => self.pipe = Some(pipe),
            Poll::Ready(Err(Failure::Unable)) => pipes.give_up(),
            // Bytes may be in it.
            Poll::Ready(Err(Failure::Broken(_))) => {}
            Poll::Pending | Poll::Ready(Ok(())) => pipes.put(pipe),
        }
        match moved {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(Failure::Broken(side))) => Poll::Ready(Err(side)),
            Poll::Ready(Ok(()) | Err(Failure::Unable)) => Poll::Ready(Ok(())),
        }
    }

    /// With [`Failure::Unable`] the pipe is empty.
    fn poll_through(
        &mut self,
        context: &mut Context<'_>,
        pipe: &Pipe,
        direction: &mut Direction,
        (from, to): (&TcpStream, &TcpStream),
    ) -> Poll<Result<(), Failure>> {
        let before = direction.moved;
        let mut is_much = true;
        loop {
            while self.held > 0 {
                match poll_call(to, Interest::WRITABLE, context, || {
                    splice(
                        &pipe.out,
                        None,
                        to,
                        None,
                        self.held as usize,
                        SpliceFlags::MOVE | SpliceFlags::NONBLOCK,
                    )
                }) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(count @ 1..)) => {
                        self.held = self.held.saturating_sub(count as u32);
                        direction.moved += count as u64;
                    }
                    Poll::Ready(_) => return Poll::Ready(Err(Failure::Broken(Broken::Writing))),
                }
            }
            if direction.closed || !is_much {
                return Poll::Ready(Ok(()));
            }
            if direction.moved - before >= TURN_BYTES {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            // Into an empty pipe: what would block is the socket.
            match poll_call(from, Interest::READABLE, context, || {
                splice(from, None, &pipe.into, None, PIPE_BYTES, SpliceFlags::MOVE | SpliceFlags::NONBLOCK)
            }) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(count)) => {
                    direction.closed = count == 0;
                    direction.taken += count as u64;
                    self.held = count as u32;
                    is_much = count >= LITTLE_BYTES;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(Failure::of(&error))),
            }
        }
    }
}

enum Failure {
    Broken(Broken),
    /// The system refuses the call.
    Unable,
}

impl Failure {
    /// Of reading.
    fn of(error: &io::Error) -> Failure {
        match Errno::from_io_error(error) {
            Some(Errno::INVAL | Errno::NOSYS | Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP) => {
                Failure::Unable
            }
            _ => Failure::Broken(Broken::Reading),
        }
    }
}

/// One call on a socket that does not block, once it may do something.
fn poll_call(
    socket: &TcpStream,
    interest: Interest,
    context: &mut Context<'_>,
    call: impl Fn() -> Result<usize, Errno>,
) -> Poll<io::Result<usize>> {
    loop {
        let ready = match interest.is_writable() {
            true => socket.poll_write_ready(context),
            false => socket.poll_read_ready(context),
        };
        match ready {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) => {}
        }
        match socket.try_io(interest, || Ok(call()?)) {
            // The runtime has noted it.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return Poll::Ready(other),
        }
    }
}
