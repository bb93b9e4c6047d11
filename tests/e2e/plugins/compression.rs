//! Compression in steps: the whole body arrives, in all framings, and other requests are answered in between.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use brotli::DecompressorWriter;
use flate2::write::GzDecoder;
use tidegate_protocol::chunked::{ChunkedDecoder, Event};
use tidegate_testkit::gateway::{Gateway, YAML_PROVIDER};
use tidegate_testkit::upstream::{Behaviour, Step};
use tidegate_testkit::{Client, Message, Upstream};

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
    routes += &format!("- {{id: plain, uri: /*, priority: -1, {node}}}\n");
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

/// Bytes that a route's settings make of the same body.
#[test]
fn settings_show_in_what_is_made() {
    // A book whose pages repeat far apart, with letters of which some are of two bytes.
    let page = text(40_000).replace("gamma", "g\u{e4}mm\u{e4}");
    let upstream = upstream(page.repeat(4));
    let node = format!("upstream: {{type: roundrobin, nodes: {{\"{}\": 1}}}}", upstream.address);
    let plugins = [
        ("gzip-fast", "gzip: {types: \"*\", comp_level: 2}"),
        ("gzip-small", "gzip: {types: \"*\", comp_level: 9}"),
        ("br", "brotli: {types: \"*\"}"),
        ("br-font", "brotli: {types: \"*\", mode: 2}"),
        ("br-window", "brotli: {types: \"*\", lgwin: 12}"),
    ];
    let routes = plugins
        .map(|(name, plugin)| format!("- {{id: {name}, uri: /{name}, plugins: {{{plugin}}}, {node}}}\n"));
    let routes = format!("routes:\n{}plugins: [{{name: gzip}}, {{name: brotli}}]\n", routes.concat());
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes));
    let made = |name: &str| {
        let coding = if name.starts_with("br") { "br" } else { "gzip" };
        compressed(&gateway, &format!("/{name}"), coding).body
    };
    let sizes = plugins.map(|(name, _)| (name, made(name).len()));
    println!("{sizes:?}");
    assert!(made("gzip-fast").len() > made("gzip-small").len() + 100, "{sizes:?}");
    for name in ["br-font", "br-window"] {
        assert!(made(name) != made("br"), "{name}: {sizes:?}");
    }
}

/// The size of blocks shows in the memory that is set apart for them: there is none for a second compressor.
#[test]
fn large_blocks_leave_no_memory_for_others() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n\r\n";
    let upstream = Upstream::with(move |_| {
        let start = format!("{head}{}", "x".repeat(500));
        Behaviour { read_body: true, steps: vec![Step::Send(start.into_bytes())] }
    });
    let route = |name: &str, conf: &str| {
        format!(
            "- {{id: {name}, uri: /{name}, plugins: {{brotli: {{types: \"*\"{conf}}}}}, upstream: {{nodes: {{\"{}\": 1}}}}}}\n",
            upstream.address
        )
    };
    let routes = format!(
        "routes:\n{}{}plugins: [{{name: brotli}}]\n",
        route("large", ", lgblock: 24"),
        route("usual", "")
    );
    let config = YAML_PROVIDER.replace("apisix:\n", "apisix:\n  body_memory: {total: 256m}\n");
    let gateway = Gateway::start(&config, Some(&routes));
    let is_coded = |path: &str| {
        let mut client = gateway.client();
        let request = format!("GET /{path} HTTP/1.1\r\nHost: h\r\nAccept-Encoding: br\r\n\r\n");
        client.send(request.as_bytes()).expect("sends");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.extend(client.exactly(1).expect("a head"));
        }
        // Its body has not ended.
        (String::from_utf8_lossy(&head).contains("Content-Encoding: br\r\n"), client)
    };
    let (is_first_coded, _usual) = is_coded("usual");
    assert!(is_first_coded && is_coded("usual").0 && !is_coded("large").0);
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

/// Server-sent events: each leaves when it comes, compressed or not.
#[test]
fn events_do_not_wait_for_more() {
    const EVENTS: usize = 10;
    let start = Instant::now();
    let upstream = Upstream::with(move |_| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
        let mut steps = vec![Step::Send(head.into())];
        for _ in 0..EVENTS {
            steps.push(Step::Wait(Duration::from_millis(60)));
            steps.push(Upstream::answer(move |_| {
                let event = format!("data: {:09}\n\n", start.elapsed().as_micros());
                format!("{:x}\r\n{event}\r\n", event.len()).into_bytes()
            }));
        }
        steps.push(Step::Send(b"0\r\n\r\n".into()));
        Behaviour { read_body: true, steps }
    });
    let gateway = gateway(&upstream);
    for coding in ["identity", "gzip", "br"] {
        let mut late: Vec<Duration> = events(&gateway, coding, start);
        late.sort();
        // One that waits for the next is 60 ms late, each of them; what the machine does beside this test is not the
        // gateway's delay.
        let usual = late.get(EVENTS / 4).copied().unwrap_or_default();
        assert_eq!(late.len(), EVENTS, "{coding}: {late:?}");
        assert!(usual < Duration::from_millis(30), "{coding}: {late:?}");
    }
}

/// How long after it was sent each event could be read.
fn events(gateway: &Gateway, coding: &str, start: Instant) -> Vec<Duration> {
    let mut stream = std::net::TcpStream::connect(gateway.http).expect("connects");
    stream.set_read_timeout(Some(tidegate_testkit::PATIENCE)).expect("a limit");
    let request = format!("GET /events HTTP/1.1\r\nHost: h\r\nAccept-Encoding: {coding}\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sends");
    let mut decoder: Box<dyn Decoder> = match coding {
        "gzip" => Box::new(GzDecoder::new(Vec::new())),
        "br" => Box::new(DecompressorWriter::new(Vec::new(), 4096)),
        _ => Box::new(Vec::new()),
    };
    let (mut chunks, mut received, mut headed) = (ChunkedDecoder::default(), Vec::new(), false);
    let (mut seen, mut late) = (0, Vec::new());
    let mut piece = [0; 4096];
    loop {
        let count = stream.read(&mut piece).expect("the answer goes on");
        assert!(count > 0, "the answer ends too early");
        received.extend_from_slice(&piece[..count]);
        if !headed {
            let Some(end) = received.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
            let head = String::from_utf8_lossy(&received[..end]).into_owned();
            assert_eq!(head.contains("Content-Encoding: "), coding != "identity", "{head}");
            received.drain(..end + 4);
            headed = true;
        }
        let ended = loop {
            match chunks.next(&received, &mut tidegate_protocol::Head::new()).expect("chunks") {
                Event::NeedMore { skip } => {
                    received.drain(..skip);
                    break false;
                }
                Event::Data { skip, length } => {
                    decoder.write_all(&received[skip..skip + length]).expect("decodes");
                    decoder.flush().expect("decodes");
                    received.drain(..skip + length);
                }
                Event::End { .. } => break true,
            }
        };
        let text = String::from_utf8_lossy(decoder.output()).into_owned();
        for event in text.split_inclusive("\n\n").filter(|event| event.ends_with("\n\n")).skip(seen) {
            let sent = event.trim_start_matches("data: ").trim().parse().expect("a time");
            late.push(start.elapsed().saturating_sub(Duration::from_micros(sent)));
        }
        seen = late.len();
        if ended {
            return late;
        }
    }
}

trait Decoder: Write {
    fn output(&self) -> &[u8];
}

impl Decoder for Vec<u8> {
    fn output(&self) -> &[u8] {
        self
    }
}

impl Decoder for GzDecoder<Vec<u8>> {
    fn output(&self) -> &[u8] {
        self.get_ref()
    }
}

impl Decoder for DecompressorWriter<Vec<u8>> {
    fn output(&self) -> &[u8] {
        self.get_ref()
    }
}

/// With proxy-buffering gzip, too, sends what it has of an answer whose length is known.
#[test]
fn a_piece_of_a_known_length_goes_on_at_once() {
    let upstream = Upstream::with(|_| {
        let piece = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\nfirst piece";
        Behaviour { read_body: true, steps: vec![Step::Send(piece.to_vec()), Step::Silence] }
    });
    let route = format!(
        "routes: [{{id: 1, uri: /*, plugins: {{gzip: {{types: \"*\"}}, proxy-buffering: {{disable_proxy_buffering: true}}}}, \
         upstream: {{type: roundrobin, nodes: {{\"{}\": 1}}}}}}]\n",
        upstream.address
    );
    let gateway = Gateway::start(YAML_PROVIDER, Some(&route));
    let mut stream = std::net::TcpStream::connect(gateway.http).expect("connects");
    stream.set_read_timeout(Some(tidegate_testkit::PATIENCE)).expect("a limit");
    stream.write_all(b"GET / HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\n\r\n").expect("sends");
    let (mut received, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut piece).expect("the piece comes before the rest is there");
        assert!(count > 0, "the answer ends too early");
        received.extend_from_slice(&piece[..count]);
        // The head, and behind it chunks that begin with a gzip header.
        let Some(begin) = received.windows(3).position(|three| three == [0x1f, 0x8b, 8]) else { continue };
        let (mut chunks, mut decoder) = (ChunkedDecoder::default(), GzDecoder::new(Vec::new()));
        let head = received.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
        assert!(head < begin);
        let mut rest = received[head..].to_vec();
        while let Ok(Event::Data { skip, length }) = chunks.next(&rest, &mut tidegate_protocol::Head::new()) {
            decoder.write_all(&rest[skip..skip + length]).expect("decodes");
            rest.drain(..skip + length);
        }
        decoder.flush().expect("decodes");
        if decoder.get_ref() == b"first piece" {
            return;
        }
    }
}
