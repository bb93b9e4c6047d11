//! Pipes of the kernel, through which bytes go from one socket to another without being copied. A session has one while bytes
//! go through it; there are so many for all sessions, and those beyond copy.

use std::{
    cell::{Cell, RefCell},
    os::fd::OwnedFd,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use tidegate_plugin_api::descriptors;

/// Of the process.
const MOST_PIPES: usize = 128;

/// The most that waits in one.
pub(super) const PIPE_BYTES: usize = 256 * 1024;

/// Empty ones that a worker keeps.
const KEPT: usize = 8;

static OPEN: AtomicUsize = AtomicUsize::new(0);

/// A pipe. Its bytes are lost when it is dropped.
pub(super) struct Pipe {
    pub(super) out: OwnedFd,
    pub(super) into: OwnedFd,
    _counted: Counted,
}

struct Counted;

impl Counted {
    fn new() -> Option<Counted> {
        let before = OPEN.fetch_add(1, Relaxed);
        let counted = Counted;
        (before < MOST_PIPES).then_some(counted)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Relaxed);
    }
}

/// The pipes of one worker that no session uses.
#[derive(Default)]
pub(crate) struct Pipes {
    free: RefCell<Vec<Pipe>>,
    /// This system cannot do it.
    given_up: Cell<bool>,
}

impl Pipes {
    /// An empty pipe; `None`: all are in use, or descriptors run out.
    pub(super) fn take(&self) -> Option<Pipe> {
        if self.given_up.get() {
            return None;
        }
        self.free.borrow_mut().pop().or_else(open)
    }

    /// Takes an empty one back.
    pub(super) fn put(&self, pipe: Pipe) {
        let mut free = self.free.borrow_mut();
        if free.len() < KEPT {
            free.push(pipe);
        }
    }

    pub(super) fn give_up(&self) {
        self.given_up.set(true);
    }
}

fn open() -> Option<Pipe> {
    let counted = Counted::new()?;
    let (out, into) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()?;
    let pipe = Pipe {
        out: descriptors::spared(out).ok()?,
        into: descriptors::spared(into).ok()?,
        _counted: counted,
    };
    // Where the user has too many of them it stays small, and moves less at once.
    let _ = fcntl_setpipe_size(&pipe.into, PIPE_BYTES);
    Some(pipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipes_are_bounded_and_kept_in_part() {
        let pipes = Pipes::default();
        let mut taken: Vec<Pipe> = std::iter::from_fn(|| pipes.take()).collect();
        // Tests of other parts may hold some.
        assert!((1..=MOST_PIPES).contains(&taken.len()), "{}", taken.len());
        pipes.put(taken.pop().unwrap());
        assert!(pipes.take().is_some_and(|pipe| {
            pipes.put(pipe);
            true
        }));
        taken.into_iter().for_each(|pipe| pipes.put(pipe));
        assert_eq!(pipes.free.borrow().len(), KEPT);
        pipes.give_up();
        assert!(pipes.take().is_none());
    }
}
