//! T1K, the protocol of SafeLine: frames of a tag, a length in four bytes, and as many bytes.

use std::{
    net::IpAddr,
    time::{SystemTime, UNIX_EPOCH},
};

use tidegate_plugin_api::{Request, RequestBody, host, reply::FINAL_STATUSES};
use tidegate_protocol::fields::is_token_byte;

use crate::common::uuid;

pub(super) const FRAME_HEAD: usize = 5;

const HEAD: u8 = 0x01;
const BODY: u8 = 0x02;
const EXTRA: u8 = 0x03;
const VERSION: u8 = 0x20;
const EXTRA_HEADER: u8 = 0x23;
const EXTRA_BODY: u8 = 0x24;

const FIRST: u8 = 0x40;
const LAST: u8 = 0x80;

const PROTOCOL: &[u8] = b"Proto:3\n";

/// One answer of the firewall.
pub(super) const MOST_ANSWERED: usize = 1 << 20;

/// What is asked, in frames.
pub(super) struct Question(pub Vec<u8>);

impl Question {
    pub(super) fn of(request: &Request, client: IpAddr, body_bytes: usize) -> Question {
        let mut frames = Vec::new();
        push(&mut frames, HEAD | FIRST, &head(request));
        if let RequestBody::Collected(body) = &request.body
            && !body.is_empty()
        {
            push(&mut frames, BODY, body.get(..body_bytes).unwrap_or(body));
        }
        push(&mut frames, EXTRA, &extra(request, client));
        push(&mut frames, VERSION | LAST, PROTOCOL);
        Question(frames)
    }
}

fn push(frames: &mut Vec<u8>, tag: u8, data: &[u8]) {
    frames.push(tag);
    frames.extend_from_slice(&u32::try_from(data.len()).unwrap_or(u32::MAX).to_le_bytes());
    frames.extend_from_slice(data);
}

/// The request's head as it came.
fn head(request: &Request) -> Vec<u8> {
    let mut out = request.head.method.as_bytes().to_vec();
    out.push(b' ');
    out.extend_from_slice(request.head.target());
    out.push(b' ');
    out.extend_from_slice(request.head.version.as_str().as_bytes());
    out.extend_from_slice(b"\r\n");
    for (name, value) in request.head.headers.iter() {
        out.extend_from_slice(name);
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    out
}

/// A byte that says what it is, and a line.
fn extra(request: &Request, client: IpAddr) -> Vec<u8> {
    let local = request.connection.local;
    let begun = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let begun = begun.saturating_sub(request.started.elapsed()).as_micros();
    let name = host().map_or("localhost", |host| &host.hostname);
    let lines: [(u8, String); 12] = [
        (0x01, String::new()),
        (0x11, request.remote_port.to_string()),
        (0x12, local.port().to_string()),
        (0x13, client.to_string()),
        (0x14, local.ip().to_canonical().to_string()),
        (0x15, "_".to_owned()),
        (0x16, if request.https { "https" } else { "http" }.to_owned()),
        (0x17, name.to_owned()),
        (0x18, uuid::v4().as_str().to_owned()),
        // No answers of upstreams are judged.
        (0x19, "n".to_owned()),
        (0x1a, "n".to_owned()),
        (0x1b, begun.to_string()),
    ];
    let mut out = Vec::new();
    for (key, line) in lines {
        out.push(key);
        out.extend_from_slice(line.as_bytes());
        out.push(b'\n');
    }
    out
}

/// A frame's beginning.
pub(super) struct FrameHead {
    pub tag: u8,
    pub is_first: bool,
    pub is_last: bool,
    pub length: usize,
}

impl FrameHead {
    pub(super) fn read([tag, length @ ..]: [u8; FRAME_HEAD]) -> FrameHead {
        FrameHead {
            tag: tag & !(FIRST | LAST),
            is_first: tag & FIRST != 0,
            is_last: tag & LAST != 0,
            length: usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX),
        }
    }
}

/// The verdict.
#[derive(Debug, PartialEq)]
pub(super) struct Said {
    pub is_blocked: bool,
    pub status: u16,
    pub event: String,
    /// Fields for the answer.
    pub headers: Vec<(String, String)>,
}

impl Said {
    /// Of an answer's frames, by their tags.
    pub(super) fn of(frames: &[(u8, Vec<u8>)]) -> Result<Said, String> {
        let text = |tag: u8| {
            let found = frames.iter().rev().find(|(other, _)| *other == tag);
            found.map(|(_, data)| String::from_utf8_lossy(data).into_owned())
        };
        let is_blocked = match text(HEAD).as_deref() {
            Some(".") => false,
            Some("?") => true,
            other => return Err(format!("unknown action from t1k server: {other:?}")),
        };
        let status = text(BODY).and_then(|status| status.parse().ok()).unwrap_or(403);
        Ok(Said {
            is_blocked,
            status: if FINAL_STATUSES.contains(&status) { status } else { 403 },
            event: text(EXTRA_BODY).and_then(|text| event(&text)).unwrap_or_default(),
            headers: text(EXTRA_HEADER).map(|text| fields(&text)).unwrap_or_default(),
        })
    }
}

/// `<!-- event_id: ID -->`, perhaps with a type.
fn event(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("<!-- event_id: ")?;
    let id: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
    (!id.is_empty()).then_some(id)
}

/// Lines of `Name:value`.
fn fields(text: &str) -> Vec<(String, String)> {
    let field = |line: &str| {
        let (name, value) = line.split_once(':')?;
        let is_sound =
            !name.is_empty() && name.bytes().all(is_token_byte) && !value.chars().any(char::is_control);
        is_sound.then(|| (name.to_owned(), value.trim().to_owned()))
    };
    text.lines().filter_map(field).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::test_request;

    #[test]
    fn what_is_asked() {
        let mut request = test_request::request("POST /a?b=1 HTTP/1.1\r\nHost: h\r\nX-A: 1\r\n\r\n");
        request.body = RequestBody::Collected("abcdef".into());
        let Question(frames) = Question::of(&request, IpAddr::from([192, 0, 2, 1]), 3);
        let head = b"POST /a?b=1 HTTP/1.1\r\nHost: h\r\nX-A: 1\r\n\r\n";
        let length = head.len() as u8;
        let expected = [&[0x41, length, 0, 0, 0][..], head, &[0x02, 3, 0, 0, 0], b"abc", &[0x03]].concat();
        assert!(frames.starts_with(&expected), "{frames:?}");
        assert!(frames.ends_with(b"\xa0\x08\0\0\0Proto:3\n"));
        let text = String::from_utf8_lossy(&frames);
        assert!(
            text.contains("\x01\n\x1140000\n\x129080\n\x13192.0.2.1\n\x14127.0.0.1\n\x15_\n\x16http\n"),
            "{text}"
        );
    }

    #[test]
    fn what_is_answered() {
        let frame = |tag: u8, data: &str| (tag, data.as_bytes().to_vec());
        let pass = Said::of(&[frame(HEAD, "."), frame(0x25, "{}")]).expect("a verdict");
        assert!(!pass.is_blocked);
        let blocked = [
            frame(HEAD, "?"),
            frame(BODY, "405"),
            frame(EXTRA_HEADER, "Set-Cookie:sl=1; Path=/\nBad Name: x\n"),
            frame(EXTRA_BODY, "<!-- event_id: b3c6 TYPE: A -->"),
        ];
        let expected = Said {
            is_blocked: true,
            status: 405,
            event: "b3c6".to_owned(),
            headers: vec![("Set-Cookie".to_owned(), "sl=1; Path=/".to_owned())],
        };
        assert_eq!(Said::of(&blocked), Ok(expected));
        assert!(Said::of(&[frame(HEAD, "!")]).is_err());
        assert!(Said::of(&[]).is_err());
    }
}
