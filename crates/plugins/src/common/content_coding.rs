//! Undoing content codings of response bodies that a plugin must read.

use std::io::Read;

/// Decodes `gzip`, `deflate` or `br`; at most `limit` bytes come out, more is cut.
pub fn decode(coding: &[u8], body: &[u8], limit: usize) -> Result<Vec<u8>, String> {
    let limit = limit as u64;
    let mut out = Vec::new();
    let result = match coding.trim_ascii().to_ascii_lowercase().as_slice() {
        b"gzip" | b"x-gzip" => flate2::read::MultiGzDecoder::new(body).take(limit).read_to_end(&mut out),
        b"deflate" => flate2::read::ZlibDecoder::new(body).take(limit).read_to_end(&mut out),
        b"br" => brotli::Decompressor::new(body, 4096).take(limit).read_to_end(&mut out),
        b"identity" => body.take(limit).read_to_end(&mut out),
        other => {
            let other = String::from_utf8_lossy(other);
            return Err(format!("unsupported compression encoding type: {other}"));
        }
    };
    result.map_err(|error| format!("cannot decode the {} body: {error}", String::from_utf8_lossy(coding)))?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn codings_are_undone_within_the_limit() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(b"hello world").unwrap();
        let gzip = gzip.finish().unwrap();
        assert_eq!(decode(b"gzip", &gzip, 100).unwrap(), b"hello world");
        assert_eq!(decode(b"GZIP", &gzip, 5).unwrap(), b"hello");
        assert!(decode(b"gzip", b"no", 5).is_err());
        assert!(decode(b"zstd", b"no", 5).unwrap_err().contains("zstd"));
        let mut brotli = brotli::CompressorWriter::new(Vec::new(), 4096, 5, 20);
        brotli.write_all(b"hello").unwrap();
        assert_eq!(decode(b"br", &brotli.into_inner(), 100).unwrap(), b"hello");
    }
}
