//! Trailers over HTTP/2: bounded and checked as over HTTP/1, however the body is read; those of answers, too.

use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::http2::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, GOAWAY, HEADERS, RST_STREAM, field,
    frame, request, status,
};
use tidegate_testkit::{Gateway, Http2Client, Upstream};

use crate::protocols::grpc_peer::{Caller, Server, runtime};

const PROTOCOL_ERROR: u32 = 1;

#[derive(Debug, PartialEq, Eq)]
enum Told {
    Status(Option<u16>),
    Reset(Option<u32>),
    Goodbye(u32),
}

fn gateway(upstream: &Upstream, server: &Server) -> Gateway {
    let (http, grpc) = (upstream.address, server.address);
    let routes = format!(
        "routes:\n- {{id: 1, uri: /echo, upstream: {{nodes: {{\"{http}\": 1}}}}}}\n\
         - {{id: 2, uri: /collected, plugins: {{request-validation: {{body_schema: {{type: object}}}}}}, \
         upstream: {{nodes: {{\"{http}\": 1}}}}}}\n\
         - {{id: 3, uri: /e.Echo/*, upstream: {{scheme: grpc, nodes: {{\"{grpc}\": 1}}}}}}\n"
    );
    Gateway::start(YAML_PROVIDER, Some(&routes))
}

/// What a POST with these trailers is told: of gRPC the end, since the head of its answer comes before.
fn post(gateway: &Gateway, path: &str, trailers: &[u8]) -> Told {
    let mut client = Http2Client::connect(gateway.http, &[]).expect("connects");
    let head = request("POST", path, &[("content-type", "application/json"), ("te", "trailers")]);
    let mut bytes = [frame(HEADERS, END_HEADERS, 1, &head), frame(DATA, 0, 1, b"{}")].concat();
    let mut pieces = trailers.chunks(16_000).peekable();
    let (mut kind, mut flags) = (HEADERS, END_STREAM);
    while let Some(piece) = pieces.next() {
        let last = if pieces.peek().is_none() { END_HEADERS } else { 0 };
        bytes.extend(frame(kind, flags | last, 1, piece));
        (kind, flags) = (CONTINUATION, 0);
    }
    client.send_raw(&bytes).expect("sends");
    loop {
        let frame = client.read().expect("a frame");
        match frame.kind {
            HEADERS
                if path.starts_with("/e.")
                    && frame.flags & END_STREAM == 0
                    && status(&frame) == Some(200) => {}
            HEADERS if path.starts_with("/e.") && status(&frame).is_none() => return Told::Status(Some(200)),
            HEADERS => return Told::Status(status(&frame)),
            RST_STREAM => return Told::Reset(frame.code()),
            GOAWAY => {
                let code = frame.payload.get(4..8).and_then(|code| code.try_into().ok());
                return Told::Goodbye(code.map_or(0, u32::from_be_bytes));
            }
            _ => {}
        }
    }
}

fn fields(count: usize, length: usize) -> Vec<u8> {
    (0..count).flat_map(|number| field(&format!("x-{number}"), &"v".repeat(length))).collect()
}

#[test]
fn those_of_requests_are_bounded_and_checked() {
    let (upstream, server) = (Upstream::start(), Server::start());
    let gateway = gateway(&upstream, &server);
    let told = [
        ("as many as may be", fields(64, 9), Told::Status(Some(200))),
        ("too many", fields(65, 9), Told::Status(Some(431))),
        ("too long together", fields(5, 4000), Told::Status(Some(431))),
        ("what h2 leaves out", fields(1, 70_000), Told::Goodbye(ENHANCE_YOUR_CALM)),
        ("blanks around a value", field("x-a", " b"), Told::Status(Some(400))),
        ("a field of connections", field("connection", "close"), Told::Reset(Some(PROTOCOL_ERROR))),
        ("upper case", field("X-A", "b"), Told::Goodbye(PROTOCOL_ERROR)),
    ];
    for path in ["/echo", "/collected", "/e.Echo/Unary"] {
        for (what, trailers, expected) in &told {
            let found = post(&gateway, path, trailers);
            // This server's answer has begun, and has trailers of its own with those that came.
            let broken = path.starts_with("/e.") && matches!(found, Told::Reset(_));
            assert!(found == *expected || broken, "{path}: {what}: {found:?}");
        }
    }
    assert_eq!(gateway.client().get("h", "/echo").expect("others are served").status(), 200);
}

/// A client must not take for whole what lacks its end.
#[test]
fn those_of_answers_are_bounded() {
    let (upstream, server) = (Upstream::start(), Server::start());
    let gateway = gateway(&upstream, &server);
    runtime().block_on(async {
        let caller = Caller::connect(gateway.http).await;
        let answer = caller.call("/e.Echo/Trailers60", &[b"x"], false).await;
        assert_eq!((answer.reset, answer.trailers.len()), (None, 62), "{answer:?}");
        let answer = caller.call("/e.Echo/Trailers70", &[b"x"], false).await;
        assert!(answer.reset.is_some(), "{answer:?}");
    });
    gateway.wait_for_log("upstream broke off its answer: trailers larger than the limit");
}
