//! Counting frames a client sends, for floods that crate `h2` answers one by one but does not limit.
//!
//! | flood | bounded by |
//! |---|---|
//! | rapid reset (CVE-2023-44487) | RST_STREAM counted here, and the number of requests at work (`http2.rs`) |
//! | MadeYouReset (CVE-2025-8671) | `h2`: streams it had to reset itself |
//! | PING, SETTINGS, PRIORITY | counted here |
//! | WINDOW_UPDATE and frames of unknown type | their bytes against useful ones, here |
//! | CONTINUATION, header bombs | `h2`: size of the header list |
//! | trailers that `h2` leaves fields out of | bytes of their frames, here; what is not left out in `wire::http2` |
//! | empty and tiny DATA | `h2`: budget of small frames |
//!
//! A bucket holds what ten seconds allow and fills again evenly, so that a burst is not a flood.

use crate::settings::Http2;

const HEADER_BYTES: usize = 9;
const PREFACE_BYTES: u32 = 24;
const WINDOW_MS: u64 = 10_000;
/// Bytes without use that every connection may send.
const FREE_BYTES: u64 = 1 << 20;
/// Bytes of the frames of one trailer section. From one that is larger than [`LIST_BYTES`] when it is unpacked, `h2` leaves fields
/// out silently. A section that seems small because of that lacks one of 45 KiB at least, which takes 28 KiB on the wire: it does
/// not fit the client's dynamic table (4 KiB), and five bits encode eight at best.
const TRAILER_BYTES: u64 = 24 * 1024;
/// The least size of header lists that `h2` is set to.
pub(crate) const LIST_BYTES: usize = 64 * 1024;

/// Follows the frames in received bytes, however they are cut.
pub(crate) struct FrameWatch {
    header: [u8; HEADER_BYTES],
    have: usize,
    /// Bytes until the next frame header.
    skip: u32,
    resets: Bucket,
    control: Bucket,
    useless_bytes: u64,
    useful_bytes: u64,
    /// The latest stream that the client has opened.
    latest: u32,
    /// Bytes of the trailers that are on their way.
    trailers: Option<u64>,
    flood: Option<&'static str>,
}

impl FrameWatch {
    pub(crate) fn new(limits: &Http2) -> FrameWatch {
        FrameWatch {
            header: [0; HEADER_BYTES],
            have: 0,
            skip: PREFACE_BYTES,
            resets: Bucket::new(limits.max_resets),
            control: Bucket::new(limits.max_control_frames),
            useless_bytes: 0,
            useful_bytes: 0,
            latest: 0,
            trailers: None,
            flood: None,
        }
    }

    /// The kind of flood, once the client exceeds its limit.
    pub(crate) fn flood(&self) -> Option<&'static str> {
        self.flood
    }

    /// Bytes sent to the client: they are what WINDOW_UPDATE frames are for.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.useful_bytes += bytes as u64;
    }

    /// Returns how many of the bytes stand before the frame that makes a flood: `h2` would answer those behind it.
    pub(crate) fn received(&mut self, all: &[u8], now_ms: u64) -> usize {
        let mut bytes = all;
        loop {
            let skipped = bytes.len().min(self.skip as usize);
            self.skip -= skipped as u32;
            bytes = bytes.get(skipped..).unwrap_or_default();
            if bytes.is_empty() {
                return all.len();
            }
            // Of a header that began in earlier bytes, nothing stands before.
            let before = if self.have == 0 { all.len() - bytes.len() } else { 0 };
            let wanted = (HEADER_BYTES - self.have).min(bytes.len());
            let (part, rest) = bytes.split_at(wanted);
            if let Some(room) = self.header.get_mut(self.have..self.have + wanted) {
                room.copy_from_slice(part);
            }
            self.have += wanted;
            bytes = rest;
            if self.have < HEADER_BYTES {
                return all.len();
            }
            self.have = 0;
            self.frame(now_ms);
            if self.flood.is_some() {
                return before;
            }
        }
    }

    fn frame(&mut self, now_ms: u64) {
        let [high, middle, low, kind, ..] = self.header;
        self.skip = u32::from_be_bytes([0, high, middle, low]);
        let bytes = u64::from(self.skip) + HEADER_BYTES as u64;
        match kind {
            // DATA, HEADERS, CONTINUATION
            0 | 1 | 9 => {
                self.useful_bytes += bytes;
                self.fields(kind);
            }
            3 => {
                if !self.resets.take(now_ms) {
                    self.flood = Some("too many RST_STREAM frames");
                }
            }
            // PRIORITY, SETTINGS, PING
            2 | 4 | 6 => {
                if !self.control.take(now_ms) {
                    self.flood = Some("too many PING, SETTINGS or PRIORITY frames");
                }
            }
            _ => self.useless_bytes += bytes,
        }
        if self.useless_bytes > FREE_BYTES + self.useful_bytes {
            self.flood = Some("too many useless frames");
        }
    }
}

impl FrameWatch {
    /// HEADERS on a stream that is already open are trailers.
    fn fields(&mut self, kind: u8) {
        let [.., a, b, c, d] = self.header;
        let stream = u32::from_be_bytes([a & 0x7f, b, c, d]);
        let length = u64::from(self.skip);
        self.trailers = match kind {
            1 if stream > self.latest => {
                self.latest = stream;
                None
            }
            1 => Some(length),
            9 => self.trailers.map(|before| before + length),
            _ => None,
        };
        if self.trailers.is_some_and(|bytes| bytes > TRAILER_BYTES) {
            self.flood = Some("trailers larger than the limit");
        }
    }
}

/// Allows a number of frames per ten seconds.
struct Bucket {
    size: u64,
    left: u64,
    filled_ms: u64,
}

impl Bucket {
    fn new(size: u32) -> Bucket {
        Bucket { size: u64::from(size), left: u64::from(size), filled_ms: 0 }
    }

    fn take(&mut self, now_ms: u64) -> bool {
        let earned = now_ms.saturating_sub(self.filled_ms).saturating_mul(self.size) / WINDOW_MS;
        if earned > 0 {
            self.left = (self.left + earned).min(self.size);
            self.filled_ms = now_ms;
        }
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                true
            }
            None => false,
        }
    }
}

/// The first bytes of a client that speaks HTTP/2 without having asked.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, payload: usize) -> Vec<u8> {
        let mut bytes = (payload as u32).to_be_bytes()[1..].to_vec();
        bytes.extend([kind, 0, 0, 0, 0, 1]);
        bytes.resize(HEADER_BYTES + payload, 0xff);
        bytes
    }

    /// How many frames of a kind may be sent at once, cut into pieces of `cut` bytes.
    fn allowed(kind: u8, payload: usize, cut: usize) -> usize {
        let limits = Http2 { max_resets: 5, max_control_frames: 7, ..Http2::default() };
        let mut watch = FrameWatch::new(&limits);
        watch.received(&[b'x'; PREFACE_BYTES as usize], 0);
        for count in 0..200_000 {
            for piece in frame(kind, payload).chunks(cut) {
                watch.received(piece, 0);
            }
            if watch.flood().is_some() {
                return count;
            }
        }
        usize::MAX
    }

    #[test]
    fn floods_are_noticed_however_bytes_are_cut() {
        for cut in [1, 2, 9, 10, 1000] {
            assert_eq!(allowed(3, 4, cut), 5, "resets, pieces of {cut}");
            assert_eq!(allowed(6, 8, cut), 7, "pings, pieces of {cut}");
            assert_eq!(allowed(4, 0, cut), 7, "settings, pieces of {cut}");
        }
        assert_eq!(allowed(0, 16_384, 4096), usize::MAX, "data");
        assert_eq!(allowed(1, 30, 4096), usize::MAX, "headers");
        assert_eq!(allowed(9, 16_384, 4096), usize::MAX, "the fields of a head go on");
        assert_eq!(allowed(8, 4, 4096), (1 << 20) / 13, "window updates");
    }

    #[test]
    fn what_stands_behind_a_flood_is_cut_off() {
        let limits = Http2 { max_control_frames: 7, ..Http2::default() };
        let one = frame(6, 8).len();
        for cut in [one * 20, one * 3, 10] {
            let mut watch = FrameWatch::new(&limits);
            watch.received(&[b'x'; PREFACE_BYTES as usize], 0);
            let all = frame(6, 8).repeat(20);
            let mut passed = 0;
            for piece in all.chunks(cut) {
                passed += watch.received(piece, 0);
                if watch.flood().is_some() {
                    break;
                }
            }
            // A piece of a header may have been passed on already; no frame is complete with it.
            assert!((one * 7..one * 8).contains(&passed), "{cut}: {passed}");
        }
    }

    #[test]
    fn trailers_are_bounded_by_their_frames() {
        let mut watch = FrameWatch::new(&Http2::default());
        watch.received(&[b'x'; PREFACE_BYTES as usize], 0);
        for (kind, payload, flood) in
            [(1, 60_000, false), (1, 16_384, false), (9, 8_192, false), (9, 1, true)]
        {
            watch.received(&frame(kind, payload), 0);
            assert_eq!(watch.flood().is_some(), flood, "{kind} {payload}");
        }
    }

    #[test]
    fn a_bucket_fills_again() {
        let mut bucket = Bucket::new(10);
        let taken = |bucket: &mut Bucket, now_ms| (0..20).filter(|_| bucket.take(now_ms)).count();
        assert_eq!(taken(&mut bucket, 0), 10);
        assert_eq!(taken(&mut bucket, 1_000), 1);
        assert_eq!(taken(&mut bucket, 100_000), 10);
    }
}
