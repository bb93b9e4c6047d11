//! `apisix.http2`.

use super::Reader;

/// RFC 9113 section 6.9.1.
const LARGEST_WINDOW_BYTES: u64 = (1 << 31) - 1;
/// What every client may send before it knows of another limit.
const SMALLEST_WINDOW_BYTES: u64 = (1 << 16) - 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http2 {
    pub max_concurrent_streams: u32,
    pub stream_window_bytes: u32,
    pub connection_window_bytes: u32,
    /// Within ten seconds.
    pub max_resets: u32,
    /// Within ten seconds.
    pub max_control_frames: u32,
}

impl Http2 {
    pub fn read(reader: &Reader) -> Self {
        let number = |name: &str, default: u32| {
            let number = reader.unsigned(&format!("apisix.http2.{name}"));
            number.and_then(|number| u32::try_from(number).ok()).unwrap_or(default)
        };
        let window = |name: &str, default: u64, least: u64| {
            let bytes = reader.size(&format!("apisix.http2.{name}")).unwrap_or(default);
            bytes.clamp(least, LARGEST_WINDOW_BYTES) as u32
        };
        let stream_window_bytes = window("stream_window", 256 << 10, SMALLEST_WINDOW_BYTES);
        Self {
            max_concurrent_streams: number("max_concurrent_streams", 128),
            stream_window_bytes,
            connection_window_bytes: window("connection_window", 1 << 20, stream_window_bytes.into()),
            max_resets: number("max_resets", 200),
            max_control_frames: number("max_control_frames", 1000),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn windows_stay_within_what_the_protocol_allows() {
        let check = |stream: &str, connection: &str, expected: (u32, u32)| {
            let root =
                json!({"apisix": {"http2": {"stream_window": stream, "connection_window": connection}}});
            let read = Http2::read(&Reader::new(&root));
            assert_eq!(
                (read.stream_window_bytes, read.connection_window_bytes),
                expected,
                "{stream} {connection}"
            );
        };
        check("256k", "1m", (256 << 10, 1 << 20));
        check("1k", "1k", (65_535, 65_535));
        check("1m", "64k", (1 << 20, 1 << 20));
        check("3g", "3g", (2_147_483_647, 2_147_483_647));
    }
}
