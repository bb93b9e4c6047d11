//! Undoing content codings of response bodies that a plugin must read.

use std::io::{Cursor, Read};

use bytes::Bytes;

pub(crate) type Decoder = Box<dyn Read + Send>;

/// Reads what was encoded with `gzip`, `deflate` or `br`. The decoded size is not known in advance.
pub(crate) fn decoder(coding: &[u8], body: Bytes) -> Result<Decoder, String> {
    let body = Cursor::new(body);
    Ok(match coding.trim_ascii().to_ascii_lowercase().as_slice() {
        b"gzip" | b"x-gzip" => Box::new(flate2::read::MultiGzDecoder::new(body)),
        b"deflate" => Box::new(flate2::read::ZlibDecoder::new(body)),
        b"br" => Box::new(brotli::Decompressor::new(body, 4096)),
        b"identity" => Box::new(body),
        other => {
            let other = String::from_utf8_lossy(other);
            return Err(format!("unsupported compression encoding type: {other}"));
        }
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn decode(coding: &[u8], body: &[u8]) -> Result<Vec<u8>, String> {
        let mut out = Vec::new();
        let mut decoder = decoder(coding, Bytes::copy_from_slice(body))?;
        decoder.read_to_end(&mut out).map_err(|error| error.to_string())?;
        Ok(out)
    }

    #[test]
    fn codings_are_undone() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(b"hello world").unwrap();
        let gzip = gzip.finish().unwrap();
        assert_eq!(decode(b"gzip", &gzip).unwrap(), b"hello world");
        assert_eq!(decode(b" GZIP", &gzip).unwrap(), b"hello world");
        assert!(decode(b"gzip", b"no").is_err());
        assert!(decode(b"gzip", &gzip[..15]).is_err());
        assert!(decode(b"zstd", b"no").unwrap_err().contains("zstd"));
        let mut brotli = brotli::CompressorWriter::new(Vec::new(), 4096, 5, 20);
        brotli.write_all(b"hello").unwrap();
        assert_eq!(decode(b"br", &brotli.into_inner()).unwrap(), b"hello");
    }
}
