//! What must hold for any bytes. The fuzz targets run these; the tests replay the corpora with them (`tests/replay`).
//!
//! The property that matters most: **a message means the same however it is cut into reads**, and once
//! written out again it is read the same. A difference is a smuggling hole.

use std::time::Duration;

use tidegate_probes::ocsp::{self, Subject};
use tidegate_protocol::chunked::{ChunkedDecoder, Event};
use tidegate_protocol::http2::Pseudo;
use tidegate_protocol::proxy_protocol::{Decoder, ProxyHeader, Version};
use tidegate_protocol::{BodyLength, Head, RequestHead, RequestLimits, ResponseHead};

/// A request head read at once, in pieces, and written again.
pub(crate) fn request_head(data: &[u8]) {
    let limits = RequestLimits::default();
    let mut whole = RequestHead::default();
    let at_once = whole.parse(data, &mut 0, &limits);
    let mut pieces = RequestHead::default();
    let (mut tried, mut in_pieces) = (0, Ok(None));
    for end in ends(data) {
        in_pieces = pieces.parse(&data[..end], &mut tried, &limits);
        if !matches!(in_pieces, Ok(None)) {
            break;
        }
    }
    match (&at_once, &in_pieces) {
        // Reads in pieces look again only when the head may be complete: a refusal may come later, never not.
        (Err(_), Ok(None)) => return,
        _ => assert_eq!(at_once.as_ref().ok(), in_pieces.as_ref().ok(), "cut into reads"),
    }
    let Ok(Some(used)) = at_once else { return };
    assert!(used <= data.len(), "consumed more than there was");
    assert_eq!(fields(&whole.headers), fields(&pieces.headers), "fields differ when cut into reads");
    let body = tidegate_protocol::framing::request_body(&whole);
    let written = [
        whole.method.as_bytes(),
        b" ",
        whole.target(),
        b" ",
        whole.version.as_str().as_bytes(),
        b"\r\n",
        &written_fields(&whole.headers),
        b"\r\n",
    ]
    .concat();
    let mut again = RequestHead::default();
    let reread = again.parse(&written, &mut 0, &roomy());
    assert_eq!(reread, Ok(Some(written.len())), "written out: {:?}", String::from_utf8_lossy(&written));
    assert_eq!(
        (whole.target(), fields(&whole.headers)),
        (again.target(), fields(&again.headers)),
        "rewritten"
    );
    assert_eq!(body, tidegate_protocol::framing::request_body(&again), "framing changed by rewriting");
}

/// A response head, and that an unframed body can never be taken for a framed one.
pub(crate) fn response_head(data: &[u8]) {
    let mut head = ResponseHead::default();
    let Ok(Some(used)) = head.parse(data, 64 * 1024, 200) else { return };
    assert!(used <= data.len() && (100..=999).contains(&head.status), "status or length out of range");
    let shorter = ResponseHead::default().parse(&data[..used - 1], 64 * 1024, 200);
    assert!(matches!(shorter, Ok(None)), "complete before its last byte: {shorter:?}");
    let written = [b"HTTP/1.1 200 OK\r\n", written_fields(&head.headers).as_slice(), b"\r\n"].concat();
    let mut again = ResponseHead::default();
    assert_eq!(again.parse(&written, 128 * 1024, 200), Ok(Some(written.len())), "written out");
    assert_eq!(fields(&head.headers), fields(&again.headers), "rewritten");
    if head.status == 200 {
        let method = tidegate_protocol::Method::Get;
        let framing = tidegate_protocol::framing::response_body(&head, &method);
        assert_eq!(
            framing,
            tidegate_protocol::framing::response_body(&again, &method),
            "framing changed by rewriting"
        );
        assert_ne!(framing, Ok(BodyLength::Fixed(u64::MAX)), "length out of range");
    }
}

/// A chunked body: the data is the same whatever the reads, and survives being coded again.
pub(crate) fn chunked(data: &[u8]) {
    let at_once = decode(data, &[data.len()]);
    let in_pieces = decode(data, &ends(data).collect::<Vec<_>>());
    assert_eq!(at_once, in_pieces, "cut into reads");
    let Some((body, _)) = at_once else { return };
    let mut coded = Vec::new();
    for part in body.chunks(7) {
        tidegate_protocol::chunked::write_chunk(&mut coded, part);
    }
    tidegate_protocol::chunked::write_end(&mut coded, &Head::new());
    let length = coded.len();
    assert_eq!(decode(&coded, &[length]), Some((body, length)), "coded again");
}

/// Paths: normalising twice changes nothing more than normalising once, and never leaves a way out of the root.
pub(crate) fn uri(data: &[u8]) {
    let mut once = Vec::new();
    if tidegate_protocol::uri::normalize_path(data, &mut once).is_ok() && once.starts_with(b"/") {
        let climbs = once.split(|byte| *byte == b'/').any(|part| part == b"..");
        assert!(!climbs, "{:?} became {:?}", String::from_utf8_lossy(data), String::from_utf8_lossy(&once));
    }
    let mut encoded = Vec::new();
    tidegate_protocol::uri::encode_component(data, &mut encoded);
    assert_eq!(tidegate_protocol::uri::percent_decode(&encoded, false), data, "component coded and decoded");
    for (name, value) in tidegate_protocol::uri::query_pairs(data) {
        assert!(name.len() + value.map_or(0, <[u8]>::len) <= data.len(), "pair longer than the query");
    }
}

/// The header that balancers put in front: the same however it is cut, not a byte more, and the same once it is
/// written by the book.
pub(crate) fn proxy_header(data: &[u8]) {
    let at_once = announced(data, &[data.len()]);
    assert_eq!(at_once, announced(data, &ends(data).collect::<Vec<_>>()), "cut into reads");
    let Ok(Some((used, Some(found)))) = at_once else { return };
    assert!(used <= data.len(), "took more than there was");
    assert_eq!(found.client.is_ipv4(), found.server.is_ipv4(), "ends of two families");
    for version in [Version::V1, Version::V2] {
        let mut header = Vec::new();
        version.write(Some(found), &mut header);
        let again = Ok(Some((header.len(), Some(found.of_one_family()))));
        assert_eq!(announced(&header, &[header.len()]), again, "{header:?}");
    }
}

type Header = (usize, Option<ProxyHeader>);

/// The bytes that the header took and what it says; `None`: it is not complete.
fn announced(data: &[u8], ends: &[usize]) -> Result<Option<Header>, &'static str> {
    let (mut decoder, mut at) = (Decoder::default(), 0);
    for end in ends {
        let progress = decoder.push(&data[at..*end])?;
        at += progress.used;
        if let Some(found) = progress.header {
            return Ok(Some((at, found)));
        }
        assert_eq!(at, *end, "bytes left although the header is not complete");
    }
    Ok(None)
}

/// A head that came as HTTP/2 fields: what is let through is read from an HTTP/1 head as the same, with the same
/// framing. `data`: method, authority and path, then names and values, each ended by `0xff`.
pub(crate) fn http2_head(data: &[u8]) {
    let mut parts = data.split(|byte| *byte == 0xff);
    let mut part = || parts.next().unwrap_or_default();
    let (method, authority, path) = (part(), part(), part());
    let mut fields = Vec::new();
    while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
        fields.push((name, value));
    }
    let websocket = method == b"CONNECT websocket";
    let authority = Some(authority).filter(|authority| !authority.is_empty());
    let pseudo = Pseudo { method, authority, path, websocket };
    let mut head = RequestHead::default();
    let key = || "AAAAAAAAAAAAAAAAAAAAAA==".to_owned();
    if head.from_fields(pseudo, fields.iter().copied(), key, &RequestLimits::default()).is_err() {
        return;
    }
    // What the request path asks before it goes on.
    let (Ok(_), Ok(body)) = (head.host(), tidegate_protocol::framing::request_body(&head)) else { return };
    // A body whose length the client does not tell goes on in chunks, with the gateway's own word for it.
    let chunked = body == BodyLength::Chunked;
    assert!(
        head.headers.iter().all(|(name, _)| !name.eq_ignore_ascii_case(b"transfer-encoding")),
        "a coding"
    );
    let lines = [
        head.method.as_bytes(),
        b" ",
        head.target(),
        b" HTTP/1.1\r\n",
        &written_fields(&head.headers),
        if chunked { b"Transfer-Encoding: chunked\r\n" } else { b"" },
        b"\r\n",
    ]
    .concat();
    let mut again = RequestHead::default();
    assert_eq!(
        again.parse(&lines, &mut 0, &roomy()),
        Ok(Some(lines.len())),
        "written out: {:?}",
        String::from_utf8_lossy(&lines)
    );
    assert_eq!(
        (head.method.as_bytes(), head.target()),
        (again.method.as_bytes(), again.target()),
        "rewritten"
    );
    let mut expected = fields_in_small_letters(&head.headers);
    expected.extend(chunked.then(|| (b"transfer-encoding".to_vec(), b"chunked".to_vec())));
    assert_eq!(expected, fields_in_small_letters(&again.headers), "rewritten");
    assert_eq!(Ok(body), tidegate_protocol::framing::request_body(&again), "framing changed");
}

/// An OCSP answer: one that passes with its signature passes without, and says the same.
pub(crate) fn ocsp_answer(data: &[u8]) {
    const SUBJECT: Subject<'_> = Subject {
        certificate: include_bytes!("data/ocsp-certificate.der"),
        issuer: include_bytes!("data/ocsp-issuer.der"),
    };
    let now = Duration::from_secs(1_800_000_000);
    let unsigned = ocsp::verify_response(data, SUBJECT, now, true);
    if let Ok(signed) = ocsp::verify_response(data, SUBJECT, now, false) {
        assert_eq!(unsigned, Ok(signed), "without its signature");
    }
}

/// The body and the bytes it took, or None when it is bad or incomplete.
fn decode(data: &[u8], ends: &[usize]) -> Option<(Vec<u8>, usize)> {
    let (mut decoder, mut trailers) = (ChunkedDecoder::default(), Head::new());
    let (mut body, mut at) = (Vec::new(), 0);
    for end in ends {
        loop {
            match decoder.next(&data[at..*end], &mut trailers).ok()? {
                Event::NeedMore { skip } => {
                    at += skip;
                    break;
                }
                Event::Data { skip, length } => {
                    body.extend_from_slice(&data[at + skip..at + skip + length]);
                    at += skip + length;
                }
                Event::End { skip } => return Some((body, at + skip)),
            }
        }
    }
    None
}

/// Where reads end: every byte for short inputs, growing steps for long ones.
fn ends(data: &[u8]) -> impl Iterator<Item = usize> {
    let step = data.len() / 256 + 1;
    (1..data.len()).step_by(step).chain([data.len()])
}

fn roomy() -> RequestLimits {
    let limits = RequestLimits::default();
    // Rewriting may add fields (Host, Transfer-Encoding, the four of a WebSocket's handshake) and a reason's few bytes.
    RequestLimits { head_bytes: limits.head_bytes * 2, fields: limits.fields + 6, ..limits }
}

fn fields(head: &Head) -> Vec<(&[u8], &[u8])> {
    head.iter().collect()
}

fn fields_in_small_letters(head: &Head) -> Vec<(Vec<u8>, Vec<u8>)> {
    head.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.to_vec())).collect()
}

fn written_fields(head: &Head) -> Vec<u8> {
    let mut out = Vec::new();
    head.write_fields(&mut out, |_| true);
    out
}
