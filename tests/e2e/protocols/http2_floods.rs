//! HTTP/2 clients that cost more than they pay for: each is cut off, and others are served all the while.

use std::io;

use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::http2::{
    ACK, CANCEL, CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, GOAWAY, HEADERS, PING,
    PRIORITY, REFUSED_STREAM, RST_STREAM, SETTINGS, WINDOW_UPDATE, field, frame, request,
};
use tidegate_testkit::{Gateway, Http2Client, Upstream, eventually};

const INITIAL_WINDOW_SIZE: u16 = 4;

fn gateway(upstream: &Upstream) -> Gateway {
    let config = YAML_PROVIDER.replace(
        "http: {enable_access_log: false}",
        "http: {enable_access_log: false, send_timeout: 1s, keepalive_timeout: 1s}",
    );
    let routes = format!(
        "routes:\n- {{id: 1, uri: /*, upstream: {{type: roundrobin, nodes: {{\"{}\": 1}}}}}}\n",
        upstream.address
    );
    Gateway::start(&config, Some(&routes))
}

/// Sends until the gateway sends GOAWAY; the code it gives. A reset by the system may take the GOAWAY with it.
fn goaway_code(gateway: &Gateway, mut next: impl FnMut(usize) -> Vec<u8>) -> Option<u32> {
    let mut client = Http2Client::connect(gateway.http, &[]).expect("connects");
    let mut reader = client.try_clone().expect("a second handle");
    let reading = std::thread::spawn(move || reader.wait_for(GOAWAY).ok().and_then(|frame| frame.code()));
    for round in 0..100_000 {
        if client.send_raw(&next(round)).is_err() {
            break;
        }
        assert!(round < 99_999, "the flood goes on and on");
        if reading.is_finished() {
            break;
        }
    }
    drop(client);
    reading.join().expect("reads")
}

/// The log is written behind the gateway's back; looking again is the event.
fn wait_for_floods(gateway: &Gateway, count: usize) {
    eventually("the flood is logged", || gateway.error_log().matches("HTTP/2 flood: ").count() >= count);
}

fn check_others(gateway: &Gateway) {
    let answer = gateway.client().get("h", "/bytes/3").expect("others are served");
    assert_eq!((answer.status(), answer.body_text()), (200, "xxx".to_owned()));
}

fn stream(round: usize) -> u32 {
    2 * round as u32 + 1
}

#[test]
fn floods_of_small_frames_end_the_connection() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream);
    let ping = frame(PING, 0, 0, &[0; 8]).repeat(100);
    let settings = frame(SETTINGS, 0, 0, &[]).repeat(100);
    let priority = frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 1]).repeat(100);
    let update = frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]).repeat(1000);
    for (name, bytes) in [("ping", ping), ("settings", settings), ("priority", priority), ("update", update)]
    {
        let code = goaway_code(&gateway, |_| bytes.clone());
        assert!(matches!(code, None | Some(ENHANCE_YOUR_CALM)), "{name}: {code:?}");
        check_others(&gateway);
    }
    wait_for_floods(&gateway, 4);
}

/// No more are answered than the limit allows, however many come at once.
#[test]
fn a_burst_is_answered_as_far_as_the_limit() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream);
    for (kind, payload) in [(PING, &[0; 8][..]), (SETTINGS, &[])] {
        let mut client = Http2Client::connect(gateway.http, &[]).expect("connects");
        let mut reader = client.try_clone().expect("a second handle");
        let reading = std::thread::spawn(move || {
            let mut answers = 0;
            while let Ok(frame) = reader.read() {
                answers += usize::from(frame.kind == kind && frame.flags & ACK != 0);
                if frame.kind == GOAWAY {
                    assert_eq!(frame.code(), Some(ENHANCE_YOUR_CALM));
                    break;
                }
            }
            answers
        });
        // The connection may end while it is being sent.
        let _ = client.send_raw(&frame(kind, 0, 0, payload).repeat(20_000));
        let answers = reading.join().expect("reads");
        // The client's own SETTINGS and their acknowledgement count, and a second refills a hundred.
        assert!(answers <= 1200, "{kind}: {answers} answers");
    }
    wait_for_floods(&gateway, 2);
    check_others(&gateway);
}

#[test]
fn rapid_reset_ends_the_connection() {
    // CVE-2023-44487
    let upstream = Upstream::start();
    let gateway = gateway(&upstream);
    let code = goaway_code(&gateway, |round| {
        let mut bytes =
            frame(HEADERS, END_HEADERS | END_STREAM, stream(round), &request("GET", "/silent", &[]));
        bytes.extend(frame(RST_STREAM, 0, stream(round), &CANCEL.to_be_bytes()));
        bytes
    });
    assert!(matches!(code, None | Some(ENHANCE_YOUR_CALM)), "{code:?}");
    wait_for_floods(&gateway, 1);
    check_others(&gateway);
}

#[test]
fn streams_that_the_gateway_is_made_to_reset_end_the_connection() {
    // CVE-2025-8671, MadeYouReset: a window that grows past its largest size makes the server reset the stream.
    let upstream = Upstream::start();
    let gateway = gateway(&upstream);
    let code = goaway_code(&gateway, |round| {
        let mut bytes =
            frame(HEADERS, END_HEADERS | END_STREAM, stream(round), &request("GET", "/silent", &[]));
        bytes.extend(frame(WINDOW_UPDATE, 0, stream(round), &0x7fff_ffff_u32.to_be_bytes()));
        bytes
    });
    assert!(matches!(code, None | Some(ENHANCE_YOUR_CALM)), "{code:?}");
    wait_for_floods(&gateway, 1);
    check_others(&gateway);
}

#[test]
fn heads_without_an_end_end_the_connection() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream);
    // CONTINUATION flood: the list of fields grows past every limit.
    let code = goaway_code(&gateway, |round| match round {
        0 => frame(HEADERS, 0, 1, &request("GET", "/", &[])),
        _ => frame(CONTINUATION, 0, 1, &field("x", &"y".repeat(10_000))),
    });
    assert!(code.is_none() || code > Some(0), "{code:?}");
    // The same with frames that hold nothing.
    let code = goaway_code(&gateway, |round| match round {
        0 => frame(HEADERS, 0, 1, &request("GET", "/", &[])),
        _ => frame(CONTINUATION, 0, 1, &[]).repeat(100),
    });
    assert!(code.is_none() || code > Some(0), "{code:?}");
    check_others(&gateway);
    assert!(upstream.seen().iter().all(|seen| seen.message.target() == "/bytes/3"));
}

#[test]
fn a_header_bomb_is_not_unpacked() {
    // One large field goes into the table; each further byte stands for all of it.
    let upstream = Upstream::start();
    let gateway = gateway(&upstream);
    let mut client = Http2Client::connect(gateway.http, &[]).expect("connects");
    let mut block = request("GET", "/", &[]);
    let mut large = field("x-bomb", &"y".repeat(4000));
    // With indexing.
    large[0] = 0x40;
    block.extend(large);
    block.extend(vec![0x80 | 62; 12_000]);
    client.send(HEADERS, END_HEADERS | END_STREAM, 1, &block).expect("sends");
    // 431, or the connection's end: never the upstream.
    loop {
        match client.read() {
            Ok(frame) if frame.kind == HEADERS || frame.kind == RST_STREAM || frame.kind == GOAWAY => break,
            Ok(_) => {}
            Err(_) => break,
        }
    }
    check_others(&gateway);
    assert!(upstream.seen().iter().all(|seen| seen.message.target() == "/bytes/3"));
}

#[test]
fn streams_beyond_the_limit_are_refused() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream);
    let mut client = Http2Client::connect(gateway.http, &[]).expect("connects");
    // The limit binds who has acknowledged it.
    client.wait_for(SETTINGS).expect("settings");
    client.send(SETTINGS, ACK, 0, &[]).expect("acknowledges");
    for number in 0..129 {
        let block = request("POST", "/echo", &[]);
        client.send(HEADERS, END_HEADERS, stream(number), &block).expect("sends");
    }
    let refused = client.wait_for(RST_STREAM).expect("refuses one");
    assert_eq!((refused.stream, refused.code()), (stream(128), Some(REFUSED_STREAM)));
    // The others still work.
    client.send(DATA, END_STREAM, 1, b"hello").expect("sends");
    assert_eq!(client.wait_for(HEADERS).expect("answers").stream, 1);
}

#[test]
fn small_pieces_of_a_body_are_bounded() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream);
    let empty = frame(DATA, 0, 1, &[]).repeat(100);
    let code = goaway_code(&gateway, |round| match round {
        0 => frame(HEADERS, END_HEADERS, 1, &request("POST", "/echo", &[])),
        _ => empty.clone(),
    });
    assert!(code.is_none() || code > Some(0), "{code:?}");
    check_others(&gateway);
}

#[test]
fn a_client_that_gives_no_room_is_not_waited_for() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream);
    // No stream may send anything.
    let mut client = Http2Client::connect(gateway.http, &[(INITIAL_WINDOW_SIZE, 0)]).expect("connects");
    client.get(1, "/bytes/100000").expect("sends");
    let reset = client.wait_for(RST_STREAM).expect("gives up on the stream");
    assert_eq!(reset.stream, 1);
    // Then nothing happens on the connection, and it ends in an orderly way.
    assert_eq!(client.wait_for(GOAWAY).expect("sends GOAWAY").code(), Some(0));
    check_others(&gateway);
}

#[test]
fn a_client_that_reads_nothing_is_disconnected() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream);
    let window = [(INITIAL_WINDOW_SIZE, 0x7fff_ffff)];
    let mut client = Http2Client::connect(gateway.http, &window).expect("connects");
    client.send(WINDOW_UPDATE, 0, 0, &0x7fff_0000_u32.to_be_bytes()).expect("sends");
    for number in 0..20 {
        client.get(stream(number), "/bytes/5000000").expect("sends");
    }
    // More than the buffers of two sockets hold: once the gateway has waited long enough, what was sent ends early.
    // Nothing but a failing write tells a client that does not read.
    eventually("what was sent ends early", || {
        client.send(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes()).is_err()
    });
    let mut received = 0;
    let ended = loop {
        match client.read() {
            Ok(frame) => received += frame.payload.len(),
            Err(error) => break error.kind(),
        }
    };
    assert_ne!(ended, io::ErrorKind::WouldBlock, "the connection is still open");
    assert!(received < 100_000_000, "all of it came");
    check_others(&gateway);
}
