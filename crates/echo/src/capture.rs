//! A request as it is shown: its head, and as much of its body as there is room for.

/// Of a body; the rest is counted.
const MAX_SHOWN: usize = 1 << 20;

#[derive(Debug, Default)]
pub(crate) struct Capture {
    shown: Vec<u8>,
    body_room: usize,
    left_out: u64,
}

impl Capture {
    /// After the head, which ends with an empty line.
    pub(crate) fn new(head: Vec<u8>) -> Capture {
        Capture { shown: head, body_room: MAX_SHOWN, left_out: 0 }
    }

    pub(crate) fn body(&mut self, piece: &[u8]) {
        let (shown, rest) = piece.split_at(piece.len().min(self.body_room));
        self.shown.extend_from_slice(shown);
        self.body_room -= shown.len();
        self.left_out = self.left_out.saturating_add(rest.len() as u64);
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        if self.left_out > 0 {
            let note = format!("\n... and {} bytes more\n", self.left_out);
            self.shown.extend_from_slice(note.as_bytes());
        }
        self.shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_bodies_are_counted() {
        let mut capture = Capture::new(b"GET / HTTP/1.1\n\n".to_vec());
        for _ in 0..17 {
            capture.body(&[b'x'; 65_536]);
        }
        let text = capture.finish();
        assert!(text.ends_with(b"x\n... and 65536 bytes more\n"));
        assert!(text.len() < MAX_SHOWN + 64);
    }
}
