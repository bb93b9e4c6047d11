//! Bytes from one side to the other, for tunnels and for sessions of TCP.

use std::{
    cell::RefCell,
    io,
    task::{Context, Poll},
};

thread_local! {
    /// The buffer that all tunnels of the worker read into: an idle tunnel holds no memory.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; LARGE_PIECE_BYTES]);
}

/// What tunnels read at once, and sessions that go on through a pipe where there is more.
pub(crate) const PIECE_BYTES: usize = 16 * 1024;

/// What other sessions read at once.
pub(crate) const LARGE_PIECE_BYTES: usize = 64 * 1024;

/// One direction.
#[derive(Default)]
pub(crate) struct Direction {
    /// What was read and could not be written at once. Apart, since most have none.
    waiting: Option<Box<Waiting>>,
    /// The reading side has ended.
    pub(crate) closed: bool,
    /// The writing side has been shut down.
    shut: bool,
    /// Bytes that were read.
    pub(crate) taken: u64,
    /// Bytes that were written.
    pub(crate) moved: u64,
}

struct Waiting {
    data: Vec<u8>,
    /// Written so far.
    start: usize,
}

impl Waiting {
    fn new(data: &[u8]) -> Option<Box<Waiting>> {
        (!data.is_empty()).then(|| Box::new(Waiting { data: data.to_vec(), start: 0 }))
    }

    fn rest(&self) -> &[u8] {
        self.data.get(self.start..).unwrap_or_default()
    }
}

/// Which side of a direction has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    Reading,
    Writing,
}

/// What was moved without waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// The end has been passed on.
    All,
    /// As much as is read at once, and nothing of it waits: there is probably more.
    Much,
}

impl Direction {
    /// With bytes that go first.
    pub(crate) fn holding(early: &[u8]) -> Direction {
        Direction { waiting: Waiting::new(early), taken: early.len() as u64, ..Direction::default() }
    }

    /// Whether nothing waits to be written.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_none()
    }

    /// Whether the end has been passed on.
    pub(crate) fn is_over(&self) -> bool {
        self.shut
    }

    /// Passes on what waits, and what comes, to the end.
    pub(crate) fn poll_all(
        &mut self,
        context: &mut Context<'_>,
        mut read: impl FnMut(&mut Context<'_>, &mut [u8]) -> Poll<io::Result<usize>>,
        mut write: impl FnMut(&mut Context<'_>, Option<&[u8]>) -> Poll<io::Result<usize>>,
    ) -> Poll<Result<(), Broken>> {
        loop {
            match self.poll_copy(context, PIECE_BYTES, &mut read, &mut write) {
                Poll::Ready(Ok(Moved::Much)) => {}
                other => return other.map_ok(drop),
            }
        }
    }

    /// Passes on what waits, then one piece after the other until one is as long as may be.
    pub(crate) fn poll_copy(
        &mut self,
        context: &mut Context<'_>,
        piece: usize,
        mut read: impl FnMut(&mut Context<'_>, &mut [u8]) -> Poll<io::Result<usize>>,
        mut write: impl FnMut(&mut Context<'_>, Option<&[u8]>) -> Poll<io::Result<usize>>,
    ) -> Poll<Result<Moved, Broken>> {
        loop {
            while let Some(waiting) = &mut self.waiting {
                match write(context, Some(waiting.rest())) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(count @ 1..)) => {
                        waiting.start += count;
                        self.moved += count as u64;
                    }
                    Poll::Ready(_) => return Poll::Ready(Err(Broken::Writing)),
                }
                if waiting.rest().is_empty() {
                    self.waiting = None;
                }
            }
            if self.closed {
                return self.poll_end(|| write(context, None));
            }
            let copied = SCRATCH.with_borrow_mut(|scratch| {
                match read(context, scratch.get_mut(..piece).unwrap_or_default()) {
                    Poll::Pending => Poll::Pending,
                    Poll::Ready(Err(_)) => Poll::Ready(Err(Broken::Reading)),
                    Poll::Ready(Ok(count)) => {
                        self.closed = count == 0;
                        self.taken += count as u64;
                        self.write_or_keep(context, scratch.get(..count).unwrap_or_default(), &mut write)
                    }
                }
            });
            match copied {
                Poll::Ready(Ok(count)) if count < piece => {}
                other => return other.map_ok(|_| Moved::Much),
            }
        }
    }

    /// Shuts the writing side down, once.
    fn poll_end(
        &mut self,
        shut_down: impl FnOnce() -> Poll<io::Result<usize>>,
    ) -> Poll<Result<Moved, Broken>> {
        if !self.shut {
            match shut_down() {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(_)) => self.shut = true,
                Poll::Ready(Err(_)) => return Poll::Ready(Err(Broken::Writing)),
            }
        }
        Poll::Ready(Ok(Moved::All))
    }

    /// Keeps the bytes that the writing side does not take. Returns how many there were.
    fn write_or_keep(
        &mut self,
        context: &mut Context<'_>,
        all: &[u8],
        write: &mut impl FnMut(&mut Context<'_>, Option<&[u8]>) -> Poll<io::Result<usize>>,
    ) -> Poll<Result<usize, Broken>> {
        let mut data = all;
        while !data.is_empty() {
            match write(context, Some(data)) {
                Poll::Pending => {
                    self.waiting = Waiting::new(data);
                    return Poll::Pending;
                }
                Poll::Ready(Ok(count @ 1..)) => {
                    data = data.get(count..).unwrap_or_default();
                    self.moved += count as u64;
                }
                Poll::Ready(_) => return Poll::Ready(Err(Broken::Writing)),
            }
        }
        Poll::Ready(Ok(all.len()))
    }
}
