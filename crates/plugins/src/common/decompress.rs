//! Compressed response bodies in clear, for logs. Bounded: a small body may unfold into gigabytes.

use std::io::Read;

/// What there is room for at first.
const FIRST: usize = 16 << 10;

/// The body takes more memory than there is for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRoom;

/// `None` for a coding that is not known here, or when not a byte of it can be read.
pub(crate) fn decompress(coding: &[u8], data: &[u8], limit: usize) -> Option<Vec<u8>> {
    decompress_within(coding, data, limit, &mut |_| true).ok().flatten()
}

/// Asks `grow` before it holds so many bytes.
pub(crate) fn decompress_within(
    coding: &[u8],
    data: &[u8],
    limit: usize,
    grow: &mut dyn FnMut(usize) -> bool,
) -> Result<Option<Vec<u8>>, NoRoom> {
    let mut reader: Box<dyn Read + '_> = match coding.to_ascii_lowercase().as_slice() {
        b"identity" => Box::new(data),
        b"gzip" | b"x-gzip" => Box::new(flate2::read::MultiGzDecoder::new(data)),
        b"deflate" => Box::new(flate2::read::ZlibDecoder::new(data)),
        b"br" => Box::new(brotli::Decompressor::new(data, 4096)),
        _ => return Ok(None),
    };
    let mut out = Vec::new();
    while out.len() < limit {
        let room = out.len().saturating_mul(2).max(FIRST).min(limit);
        if !grow(room) {
            return Err(NoRoom);
        }
        out.reserve_exact(room - out.len());
        // A body cut at the size limit gives what can be read of it.
        let read = (&mut reader).take((room - out.len()) as u64).read_to_end(&mut out);
        if read.is_err() || out.len() < room {
            break;
        }
    }
    Ok((!out.is_empty() || data.is_empty()).then_some(out))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::{NoRoom, decompress, decompress_within};

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(text).unwrap();
        gzip.finish().unwrap()
    }

    #[test]
    fn codings() {
        let gzip = gzip(b"hello hello");
        assert_eq!(decompress(b"gzip", &gzip, 100).as_deref(), Some(&b"hello hello"[..]));
        assert_eq!(decompress(b"gzip", &gzip, 5).as_deref(), Some(&b"hello"[..]));
        assert_eq!(decompress(b"zstd", &gzip, 5), None);
        assert_eq!(decompress(b"gzip", b"no gzip", 5), None);
    }

    #[test]
    fn room_is_asked_for_before_it_is_taken() {
        let bomb = gzip(&[b' '; 1_000_000]);
        let mut most = 0;
        let mut grow = |bytes: usize| {
            most = bytes;
            bytes <= 100_000
        };
        assert_eq!(decompress_within(b"gzip", &bomb, usize::MAX, &mut grow), Err(NoRoom));
        assert_eq!(most, 131_072);
        let mut all = |_: usize| true;
        let whole = decompress_within(b"gzip", &bomb, usize::MAX, &mut all).unwrap().unwrap();
        assert_eq!((whole.len(), whole.capacity()), (1_000_000, 1 << 20));
    }
}
