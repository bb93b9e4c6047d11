//! A request as it is shown: its head, and as much of its body as there is room for.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Of a body; the rest is counted.
const MAX_SHOWN: usize = 1 << 20;
/// Of all bodies that are held at a time; beyond it they are counted.
const MAX_HELD: usize = 64 << 20;

static HELD: AtomicUsize = AtomicUsize::new(0);

/// What is held of a request, and its share of [`MAX_HELD`].
#[derive(Debug, Default)]
pub(crate) struct Shown {
    text: Vec<u8>,
    held: usize,
}

impl Shown {
    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    /// Whether there was room for a piece of a body.
    fn hold(&mut self, piece: &[u8]) -> bool {
        let more = |held: usize| Some(held + piece.len()).filter(|held| *held <= MAX_HELD);
        let is_held = HELD.fetch_update(Relaxed, Relaxed, more).is_ok();
        if is_held {
            self.held += piece.len();
            self.text.extend_from_slice(piece);
        }
        is_held
    }
}

impl AsRef<[u8]> for Shown {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        HELD.fetch_sub(self.held, Relaxed);
    }
}

#[derive(Debug, Default)]
pub(crate) struct Capture {
    shown: Shown,
    left_out: u64,
}

impl Capture {
    /// After the head, which ends with an empty line.
    pub(crate) fn new(head: Vec<u8>) -> Capture {
        Capture { shown: Shown { text: head, held: 0 }, left_out: 0 }
    }

    pub(crate) fn body(&mut self, piece: &[u8]) {
        let room = MAX_SHOWN.saturating_sub(self.shown.held);
        let (shown, rest) = piece.split_at(piece.len().min(room));
        // After a gap nothing more is shown.
        let is_shown = self.left_out == 0 && self.shown.hold(shown);
        let left_out = if is_shown { rest.len() } else { piece.len() };
        self.left_out = self.left_out.saturating_add(left_out as u64);
    }

    pub(crate) fn finish(mut self) -> Shown {
        if self.left_out > 0 {
            let note = format!("\n... and {} bytes more\n", self.left_out);
            self.shown.text.extend_from_slice(note.as_bytes());
        }
        self.shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test: what is held is counted for the whole process.
    #[test]
    fn long_bodies_are_counted_and_many_are_not_held() {
        let captured = || {
            let mut capture = Capture::new(b"GET / HTTP/1.1\n\n".to_vec());
            for _ in 0..17 {
                capture.body(&[b'x'; 65_536]);
            }
            capture.finish()
        };
        let text = captured();
        assert!(text.as_ref().ends_with(b"x\n... and 65536 bytes more\n"));
        assert!(text.len() < MAX_SHOWN + 64);
        let many: Vec<Shown> = (0..80).map(|_| captured()).collect();
        assert!(many.iter().map(Shown::len).sum::<usize>() <= MAX_HELD + 80 * 64);
        assert!(many.last().is_some_and(|last| last.as_ref().ends_with(b"\n... and 1114112 bytes more\n")));
        drop((text, many));
        assert_eq!(HELD.load(Relaxed), 0);
    }
}
