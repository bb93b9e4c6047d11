//! Where a frame of HTTP/2 may be put between those that are written.

/// What a client sends first (RFC 9113 section 3.4).
const PREFACE_BYTES: usize = 24;
const HEAD_BYTES: usize = 9;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// Follows what a client writes, in pieces of any size.
pub(super) struct Frames {
    head: [u8; HEAD_BYTES],
    /// How much of `head` is there.
    held: usize,
    /// What is missing of the frame, or of the preface.
    missing: usize,
    /// A head was begun that further frames continue; nothing may come between (RFC 9113 section 4.3).
    continued: bool,
}

impl Frames {
    pub(super) fn of_client() -> Frames {
        Frames { head: [0; HEAD_BYTES], held: 0, missing: PREFACE_BYTES, continued: false }
    }

    /// Whether another frame may come next.
    pub(super) fn between(&self) -> bool {
        self.held == 0 && self.missing == 0 && !self.continued
    }

    pub(super) fn written(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.missing > 0 {
                let skipped = self.missing.min(bytes.len());
                self.missing -= skipped;
                bytes = bytes.get(skipped..).unwrap_or_default();
                continue;
            }
            let Some(room) = self.head.get_mut(self.held..) else { return };
            let taken = room.len().min(bytes.len());
            let (now, later) = bytes.split_at(taken);
            room.iter_mut().zip(now).for_each(|(place, byte)| *place = *byte);
            self.held += taken;
            bytes = later;
            if self.held == HEAD_BYTES {
                self.begin();
            }
        }
    }

    /// The head is whole.
    fn begin(&mut self) {
        let [high, middle, low, kind, flags, ..] = self.head;
        self.held = 0;
        self.missing = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        self.continued = matches!(kind, HEADERS | CONTINUATION) && flags & END_HEADERS == 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, length: u8) -> Vec<u8> {
        let mut frame = vec![0, 0, length, kind, flags, 0, 0, 0, 1];
        frame.extend(vec![7; usize::from(length)]);
        frame
    }

    #[test]
    fn a_frame_fits_between_whole_ones_only() {
        let mut written = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        let mut ends = vec![written.len()];
        // (type, flags, length, whether another frame may follow)
        let sent = [(4, 0, 6, true), (1, 4, 30, true), (0, 0, 9, true), (0, 1, 0, true), (1, 0, 12, false)];
        for (kind, flags, length, last) in sent.into_iter().chain([(9, 0, 3, false), (9, 4, 5, true)]) {
            written.extend(frame(kind, flags, length));
            if last {
                ends.push(written.len());
            }
        }
        for piece in [1, 2, 7, 9, 10, 24, 1000] {
            let (mut frames, mut done) = (Frames::of_client(), 0);
            assert!(!frames.between());
            for bytes in written.chunks(piece) {
                frames.written(bytes);
                done += bytes.len();
                assert_eq!(frames.between(), ends.contains(&done), "pieces of {piece}, after {done}");
            }
        }
    }
}
