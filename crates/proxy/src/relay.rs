//! Bytes from one side to the other, for tunnels and for sessions of TCP.

use std::{
    cell::RefCell,
    io,
    task::{Context, Poll},
};

thread_local! {
    /// The buffer that all tunnels of the worker read into: an idle tunnel holds no memory.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; SESSION_BYTES]);
}

/// One direction: what was read and could not be written at once.
#[derive(Default)]
pub(crate) struct Pipe {
    data: Vec<u8>,
    start: usize,
    end: usize,
    /// The reading side has ended.
    closed: bool,
    /// The writing side has been shut down.
    shut: bool,
    /// The most that is read at once.
    piece: usize,
    pub(crate) moved: u64,
}

const PIPE_BYTES: usize = 16 * 1024;

/// Sessions may move much at once.
const SESSION_BYTES: usize = 64 * 1024;

impl Pipe {
    /// With bytes that go first.
    pub(crate) fn holding(early: &[u8]) -> Pipe {
        Pipe { data: early.to_vec(), end: early.len(), piece: PIPE_BYTES, ..Pipe::default() }
    }

    /// The same of a session of TCP.
    pub(crate) fn of_session(early: &[u8]) -> Pipe {
        Pipe { piece: SESSION_BYTES, ..Pipe::holding(early) }
    }
}

/// Moves what can be moved. Ready: the end has been passed on, or nothing more can be.
pub(crate) fn poll_pipe(
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
        let relayed = SCRATCH.with_borrow_mut(|scratch| {
            let room = scratch.get_mut(..pipe.piece).unwrap_or_default();
            match read(context, room) {
                Poll::Ready(Ok(0)) => {
                    pipe.closed = true;
                    Poll::Ready(Ok(()))
                }
                Poll::Ready(Ok(count)) => {
                    write_or_keep(context, pipe, scratch.get(..count).unwrap_or_default(), &mut write)
                }
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Pending => Poll::Pending,
            }
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
