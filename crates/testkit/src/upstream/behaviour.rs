//! What the upstream does for each path. The names say it; bodies are fixed so tests can compare them.

use std::{sync::Arc, time::Duration};

use crate::message::Message;

/// The behaviour named by the first part of the request's path; unknown names echo.
pub fn by_path(request: &Message) -> Behaviour {
    let path = request.target().split('?').next().unwrap_or_default();
    let mut parts = path.trim_start_matches('/').split('/');
    let name = parts.next().unwrap_or_default();
    let number: usize = parts.next().and_then(|part| part.parse().ok()).unwrap_or_default();
    let head_only = request.method() == "HEAD";
    let steps = match name {
        "status" => status(number, head_only),
        "bytes" => vec![ok(&"x".repeat(number), head_only)],
        "delay" => vec![Step::Wait(Duration::from_millis(number as u64)), ok("late", head_only)],
        "early" => return without_body(vec![raw(EARLY)]),
        "early-close" => return without_body(vec![raw(EARLY_CLOSE), Step::Close]),
        "continue" => return without_body(vec![raw(CONTINUE), Step::ReadBody, ok("continued", head_only)]),
        "upgrade" => return without_body(vec![raw(SWITCHING), Step::EchoTunnel]),
        "silent" => return without_body(vec![Step::Silence]),
        "head-bytes" => vec![large_head(number)],
        _ => match FIXED.iter().find(|(known, _)| *known == name) {
            Some((_, steps)) => steps().into_iter().collect(),
            None => vec![Step::Echo],
        },
    };
    Behaviour { read_body: true, steps }
}

const EARLY: &str = "HTTP/1.1 413 Too Large\r\nContent-Length: 5\r\n\r\nearly";
const EARLY_CLOSE: &str = "HTTP/1.1 413 Too Large\r\nContent-Length: 5\r\nConnection: close\r\n\r\nearly";
const CONTINUE: &str = "HTTP/1.1 100 Continue\r\n\r\n";
const SWITCHING: &str =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";

type Steps = fn() -> Vec<Step>;

/// Answers that do not depend on the request.
const FIXED: &[(&str, Steps)] = &[
    ("chunked", || vec![raw(&format!("{CHUNKED}6\r\nhello \r\n5\r\nworld\r\n0\r\n\r\n"))]),
    ("chunked-pieces", || {
        vec![raw(CHUNKED), raw("6\r\nhel"), raw("lo \r"), raw("\n5\r\nworld\r\n0\r\n"), raw("\r\n")]
    }),
    ("chunk-extension", || vec![raw(&format!("{CHUNKED}5;a=b\r\nhello\r\n0;last\r\n\r\n"))]),
    ("trailers", || vec![raw(&format!("{CHUNKED}5\r\nhello\r\n0\r\nX-Checksum: abc\r\n\r\n"))]),
    ("until-close", || vec![raw("HTTP/1.1 200 OK\r\n\r\nuntil close"), Step::Close]),
    ("http10", || vec![raw("HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nold"), Step::Close]),
    ("connection-close", || {
        vec![raw("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbye"), Step::Close]
    }),
    ("hop-by-hop", || {
        vec![raw(
            "HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Secret\r\nX-Secret: 1\r\nKeep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
        )]
    }),
    ("head-in-pieces", || {
        vec![raw("HTTP/1.1 20"), raw("0 OK\r\nContent-"), raw("Length: 2\r\n\r"), raw("\nok")]
    }),
    ("hints", || vec![raw("HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n"), ok("hinted", false)]),
    ("no-reason", || vec![raw("HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok")]),
    ("two-cookies", || {
        vec![raw("HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 2\r\n\r\nok")]
    }),
    ("upgrade-refused", || vec![raw("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")]),
    ("unasked-101", || vec![raw(SWITCHING), Step::Silence]),
    // Broken on purpose.
    ("close", || vec![Step::Close]),
    ("reset", || vec![Step::Reset]),
    ("close-mid-head", || vec![raw("HTTP/1.1 200 OK\r\nContent-Le"), Step::Close]),
    ("close-mid-body", || vec![raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n0123456789"), Step::Close]),
    ("reset-mid-body", || {
        vec![
            raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n0123456789"),
            Step::Wait(Duration::from_millis(20)),
            Step::Reset,
        ]
    }),
    ("close-mid-chunk", || vec![raw(&format!("{CHUNKED}64\r\nhello")), Step::Close]),
    ("no-last-chunk", || vec![raw(&format!("{CHUNKED}5\r\nhello\r\n")), Step::Close]),
    ("bad-chunk-size", || vec![raw(&format!("{CHUNKED}5\r\nhello\r\nxyz\r\n")), Step::Close]),
    ("both-lengths", || {
        vec![raw("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")]
    }),
    ("two-lengths", || vec![raw("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd")]),
    ("list-of-lengths", || vec![raw("HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\nhello")]),
    ("two-lengths-304", || {
        vec![raw("HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n")]
    }),
    ("two-lengths-204", || {
        vec![raw("HTTP/1.1 204 No Content\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n")]
    }),
    ("two-lengths-103", || {
        let hints = "HTTP/1.1 103 Early Hints\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n";
        vec![raw(hints), ok("hinted", false)]
    }),
    ("both-lengths-304", || {
        let both = "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n";
        vec![raw(&format!("HTTP/1.1 304 Not Modified\r\n{both}"))]
    }),
    // Some servers say this; what follows may be the end of chunks, or the next answer.
    ("coded-204", || vec![raw("HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")]),
    ("signed-length", || vec![raw("HTTP/1.1 200 OK\r\nContent-Length: +3\r\n\r\nabc")]),
    ("gzip-coding", || vec![raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nabc"), Step::Close]),
    ("bad-status-line", || vec![raw("HELLO WORLD\r\n\r\n"), Step::Close]),
    ("bad-status", || vec![raw("HTTP/1.1 2x0 OK\r\nContent-Length: 0\r\n\r\n"), Step::Close]),
    ("bare-lf", || vec![raw("HTTP/1.1 200 OK\nContent-Length: 2\n\nok"), Step::Close]),
    ("folded", || {
        vec![raw("HTTP/1.1 200 OK\r\nX-Long: a\r\n b\r\nContent-Length: 2\r\n\r\nok"), Step::Close]
    }),
    ("nul-in-header", || {
        vec![raw("HTTP/1.1 200 OK\r\nX-Nul: a\0b\r\nContent-Length: 2\r\n\r\nok"), Step::Close]
    }),
    ("space-before-colon", || {
        vec![raw("HTTP/1.1 200 OK\r\nX-Space : a\r\nContent-Length: 2\r\n\r\nok"), Step::Close]
    }),
    ("extra-bytes", || {
        vec![raw(
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen",
        )]
    }),
    ("two-answers", || {
        vec![raw(
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 404 Not Found\r\nContent-Length: 6\r\n\r\nstolen",
        )]
    }),
    ("answer-to-head-with-body", || vec![raw("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen")]),
    ("204-with-body", || vec![raw("HTTP/1.1 204 No Content\r\nContent-Length: 6\r\n\r\nstolen")]),
];

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

fn raw(text: &str) -> Step {
    Step::Send(text.as_bytes().to_vec())
}

fn ok(body: &str, head_only: bool) -> Step {
    let length = body.len();
    let body = if head_only { "" } else { body };
    raw(&format!(
        "HTTP/1.1 200 OK\r\nServer: testkit\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n{body}"
    ))
}

fn status(number: usize, head_only: bool) -> Vec<Step> {
    if matches!(number, 204 | 304) {
        return vec![raw(&format!("HTTP/1.1 {number} Test\r\n\r\n"))];
    }
    let body = format!("status {number}");
    let shown = if head_only { "" } else { body.as_str() };
    vec![raw(&format!("HTTP/1.1 {number} Test\r\nContent-Length: {}\r\n\r\n{shown}", body.len()))]
}

fn large_head(bytes: usize) -> Step {
    let filler = "y".repeat(bytes);
    raw(&format!("HTTP/1.1 200 OK\r\nX-Large: {filler}\r\nContent-Length: 2\r\n\r\nok"))
}

/// The request as it came, as the response's body.
pub(super) fn echo(request: &Message) -> Vec<u8> {
    let mut body = request.head.clone();
    body.extend_from_slice(&request.body);
    let mut answer = format!(
        "HTTP/1.1 200 OK\r\nServer: testkit\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    if request.method() != "HEAD" {
        answer.extend_from_slice(&body);
    }
    answer
}

fn without_body(steps: Vec<Step>) -> Behaviour {
    Behaviour { read_body: false, steps }
}

/// What to do with one request.
#[derive(Clone, Debug)]
pub struct Behaviour {
    /// Whether the body is read before the steps; else the steps come right after the head.
    pub read_body: bool,
    /// In order.
    pub steps: Vec<Step>,
}

/// One thing the upstream does.
#[derive(Clone, Debug)]
pub enum Step {
    /// Sends these bytes.
    Send(Vec<u8>),
    /// Answers 200 with the request, as far as it was read, as the body; only the head of that to HEAD.
    Echo,
    /// Sends what a function makes of the request, as far as it was read.
    Answer(Responder),
    /// Does nothing for this long.
    Wait(Duration),
    /// From now on small writes wait for the acknowledgement of earlier ones, as sockets do by default.
    Nagle,
    /// Reads the body now.
    ReadBody,
    /// Closes in an orderly way (FIN).
    Close,
    /// Closes with RST.
    Reset,
    /// Reads and ignores everything until the peer closes.
    Silence,
    /// Sends back whatever comes, until the peer closes.
    EchoTunnel,
}

/// See [`Step::Answer`].
#[derive(Clone)]
pub struct Responder(pub(super) Arc<dyn Fn(&Message) -> Vec<u8> + Send + Sync>);

#[cfg(test)]
mod tests {
    use crate::{Client, ReadError, Upstream};

    #[test]
    fn paths_choose_what_happens() {
        let upstream = Upstream::start();
        let get = |path: &str| {
            let mut client = Client::connect(upstream.address).expect("connects");
            client.get("h", path)
        };
        assert_eq!(get("/status/404").expect("answers").status(), 404);
        assert_eq!(get("/bytes/70000").expect("answers").body.len(), 70_000);
        assert_eq!(get("/chunked-pieces").expect("answers").body_text(), "hello world");
        assert_eq!(get("/trailers").expect("answers").trailers.len(), 1);
        assert_eq!(get("/until-close").expect("answers").body_text(), "until close");
        assert!(get("/echo").expect("answers").body_text().starts_with("GET /echo HTTP/1.1\r\nHost: h\r\n"));
        assert!(matches!(get("/close"), Err(ReadError::Closed)));
        assert!(matches!(get("/reset"), Err(ReadError::Closed)));
        assert!(matches!(get("/close-mid-body"), Err(ReadError::Cut(_))));
        assert!(matches!(get("/both-lengths"), Err(ReadError::Malformed(_))));
        let seen = upstream.take();
        assert_eq!(seen.len(), 10);
        assert_eq!(upstream.connections(), 10);
    }

    #[test]
    fn bodies_interim_answers_and_tunnels() {
        let upstream = Upstream::start();
        let mut client = Client::connect(upstream.address).expect("connects");
        let post = |path: &str| format!("POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n");
        client.send(post("/continue").as_bytes()).expect("sends");
        assert_eq!(client.response().expect("interim").status(), 100);
        client.send(b"abc").expect("sends");
        assert_eq!(client.response().expect("final").body_text(), "continued");
        assert_eq!(client.request(&post("/early")).expect("answers before the body").status(), 413);
        client.send(b"abc").expect("sends");
        assert_eq!(client.get("h", "/upgrade").expect("switches").status(), 101);
        client.send(b"ping").expect("sends");
        assert_eq!(client.exactly(4).expect("echoes"), b"ping");
        let seen = upstream.seen();
        assert_eq!(seen.iter().map(|seen| seen.message.body_text()).collect::<Vec<_>>(), ["abc", "abc", ""]);
    }
}
