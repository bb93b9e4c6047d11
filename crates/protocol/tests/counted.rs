//! Work of the codec of which `perf/benches.py` counts the instructions: it runs these tests under callgrind with
//! TIDEGATE_ROUNDS rounds, and with twice as many. Without it they run a few rounds, and check what is parsed.

use std::hint::black_box;

use tidegate_protocol::{
    Head, RequestHead, RequestLimits, ResponseHead,
    chunked::{ChunkedDecoder, Event},
};

const CURL: &str =
    "GET /hello HTTP/1.1\r\nHost: 127.0.0.1:9080\r\nUser-Agent: curl/8.5.0\r\nAccept: */*\r\n\r\n";

const BROWSER: &str = "GET /products/17?color=blue HTTP/1.1\r\nHost: shop.example.com\r\nConnection: keep-alive\r\n\
    sec-ch-ua: \"Chromium\";v=\"130\"\r\nsec-ch-ua-mobile: ?0\r\nsec-ch-ua-platform: \"Linux\"\r\nUpgrade-Insecure-Requests: 1\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nSec-Fetch-Site: none\r\nSec-Fetch-Mode: navigate\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\nAccept-Language: en-US,en;q=0.9\r\nCookie: session=0123456789abcdef; theme=dark\r\n\r\n";

const RESPONSE: &str = "HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Thu, 26 Nov 2026 15:00:00 GMT\r\nContent-Type: text/plain\r\n\
    Content-Length: 6\r\nConnection: keep-alive\r\nETag: \"65a-6\"\r\nAccept-Ranges: bytes\r\n\r\n";

fn rounds() -> u64 {
    std::env::var("TIDEGATE_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(10)
}

fn parse(text: &str) -> RequestHead {
    let mut head = RequestHead::default();
    for _ in 0..rounds() {
        head.clear();
        let parsed = head.parse(black_box(text.as_bytes()), &mut 0, &RequestLimits::default());
        assert_eq!(parsed.ok().flatten(), Some(text.len()));
    }
    head
}

#[test]
fn a_request_of_curl() {
    assert_eq!(parse(CURL).headers.get("accept"), Some(&b"*/*"[..]));
}

#[test]
fn a_request_of_a_browser() {
    assert_eq!(parse(BROWSER).headers.len(), 13);
}

#[test]
fn a_response() {
    let mut head = ResponseHead::default();
    for _ in 0..rounds() {
        head.clear();
        let parsed = head.parse(black_box(RESPONSE.as_bytes()), 16_384, 100);
        assert_eq!(parsed.ok().flatten(), Some(RESPONSE.len()));
    }
    assert_eq!((head.status, head.headers.len()), (200, 7));
}

#[test]
fn a_chunked_body_of_sixteen_pieces() {
    let piece = format!("400\r\n{}\r\n", "x".repeat(1024));
    let body = format!("{}0\r\n\r\n", piece.repeat(16));
    for _ in 0..rounds() {
        let (mut decoder, mut trailers) = (ChunkedDecoder::default(), Head::new());
        let (mut rest, mut data) = (black_box(body.as_bytes()), 0);
        while !decoder.is_done() {
            let used = match decoder.next(rest, &mut trailers).expect("well-formed") {
                Event::NeedMore { .. } => panic!("it is whole"),
                Event::Data { skip, length } => {
                    data += length;
                    skip + length
                }
                Event::End { skip } => skip,
            };
            rest = &rest[used..];
        }
        assert_eq!((data, rest.len()), (16 * 1024, 0));
    }
}
