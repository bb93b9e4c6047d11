//! Compressed response bodies in clear, for logs. Bounded: a small body may unfold into gigabytes.

use std::io::Read;

/// `None` for a coding that is not known here, or when not a byte of it can be read.
pub fn decompress(coding: &[u8], data: &[u8], limit: usize) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    match coding.to_ascii_lowercase().as_slice() {
        b"identity" => return Some(data.to_vec()),
        b"gzip" | b"x-gzip" => {
            // A body cut at the size limit gives what can be read of it.
            let _ = flate2::read::MultiGzDecoder::new(data).take(limit as u64).read_to_end(&mut out);
        }
        b"deflate" => {
            let _ = flate2::read::ZlibDecoder::new(data).take(limit as u64).read_to_end(&mut out);
        }
        b"br" => {
            let _ = brotli::Decompressor::new(data, 4096).take(limit as u64).read_to_end(&mut out);
        }
        _ => return None,
    }
    (!out.is_empty() || data.is_empty()).then_some(out)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::decompress;

    #[test]
    fn codings() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(b"hello hello").unwrap();
        let gzip = gzip.finish().unwrap();
        assert_eq!(decompress(b"gzip", &gzip, 100).as_deref(), Some(&b"hello hello"[..]));
        assert_eq!(decompress(b"gzip", &gzip, 5).as_deref(), Some(&b"hello"[..]));
        assert_eq!(decompress(b"zstd", &gzip, 5), None);
        assert_eq!(decompress(b"gzip", b"no gzip", 5), None);
    }
}
