//! Compression in steps: the whole body arrives, in all framings, and other requests are answered in between.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use testkit::gateway::{Gateway, YAML_PROVIDER};
use testkit::upstream::{Behaviour, Step};
use testkit::{Client, Message, Upstream};

/// Text that a compressor has to work on, and that differs everywhere.
fn text(bytes: usize) -> String {
    let mut state = 88_172_645_463_325_252_u64;
    let mut text = String::with_capacity(bytes + 16);
    while text.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        text.push_str(["alpha", "beta", "gamma", "delta"][state as usize % 4]);
        text.push_str(&(state >> 50).to_string());
    }
    text.truncate(bytes);
    text
}

/// An upstream whose path says the framing.
fn upstream(body: String) -> Upstream {
    Upstream::with(move |request| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n";
        let steps = match request.target() {
            "/chunked" => {
                let pieces = body.as_bytes().chunks(50_000).map(|piece| {
                    let size = format!("{:x}\r\n", piece.len());
                    [size.as_bytes(), piece, b"\r\n"].concat()
                });
                let pieces: Vec<u8> = pieces.flatten().collect();
                let head = format!("{head}Transfer-Encoding: chunked\r\n\r\n");
                vec![Step::Send([head.as_bytes(), &pieces, b"0\r\n\r\n"].concat())]
            }
            "/close" => vec![Step::Send(format!("{head}\r\n{body}").into_bytes()), Step::Close],
            _ => vec![Step::Send(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes())],
        };
        Behaviour { read_body: true, steps }
    })
}

fn gateway(upstream: &Upstream) -> Gateway {
    let node = format!("upstream: {{type: roundrobin, nodes: {{\"{}\": 1}}}}", upstream.address);
    let mut routes =
        "routes:\n- {id: quick, uri: /quick, plugins: {mocking: {response_example: x}}}\n".to_owned();
    for (coding, plugin) in
        [("gzip", "gzip: {comp_level: 9, types: \"*\"}"), ("br", "brotli: {comp_level: 11, types: \"*\"}")]
    {
        routes += &format!(
            "- {{id: {coding}, uri: /*, vars: [[http_accept_encoding, \"==\", {coding}]], plugins: {{{plugin}}}, {node}}}\n"
        );
    }
    routes += "plugins: [{name: gzip}, {name: brotli}, {name: mocking}]\n";
    Gateway::start(YAML_PROVIDER, Some(&routes))
}

fn compressed(gateway: &Gateway, path: &str, coding: &str) -> Message {
    let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\nAccept-Encoding: {coding}\r\n\r\n");
    let answer = gateway.client().request(&request).expect("an answer");
    assert_eq!((answer.status(), answer.header("Content-Encoding")), (200, Some(coding)), "{path}");
    answer
}

/// What the program makes of standard input.
fn decoded(program: &str, input: &[u8]) -> Vec<u8> {
    let mut child = Command::new(program)
        .arg("-dc")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program} (scripts/install-deps.sh installs it): {error}"));
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || std::io::Write::write_all(&mut stdin, &input));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("written").expect("written");
    assert!(output.status.success(), "{program} does not accept the body");
    output.stdout
}

#[test]
fn bodies_compressed_in_steps_are_whole() {
    let body = text(200_000);
    let upstream = upstream(body.clone());
    let gateway = gateway(&upstream);
    for path in ["/length", "/chunked", "/close"] {
        for (coding, program) in [("gzip", "gzip"), ("br", "brotli")] {
            let answer = compressed(&gateway, path, coding);
            assert!(answer.body.len() < body.len() * 2 / 3, "{path} {coding}: {} bytes", answer.body.len());
            assert!(decoded(program, &answer.body) == body.as_bytes(), "{path} {coding}");
        }
    }
}

#[test]
fn others_are_answered_while_one_body_is_compressed() {
    let upstream = upstream(text(400_000));
    let gateway = gateway(&upstream);
    let mut other = Client::connect(gateway.http).expect("connects");
    assert_eq!(other.get("h", "/quick").expect("an answer").status(), 200);
    let started = Instant::now();
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| compressed(&gateway, "/length", "br"));
        let (mut asked, mut slowest) = (0, Duration::ZERO);
        while !slow.is_finished() {
            let sent = Instant::now();
            assert_eq!(other.get("h", "/quick").expect("an answer").status(), 200);
            slowest = slowest.max(sent.elapsed());
            asked += 1;
        }
        let took = started.elapsed();
        println!("{took:?} for the body, {asked} others meanwhile, slowest {slowest:?}");
        // One worker: without steps it would answer a handful, each after a buffer's worth of compression.
        assert!(asked > 50 && slowest < took / 5, "{asked} requests, slowest {slowest:?} of {took:?}");
        slow.join().expect("an answer");
    });
}
