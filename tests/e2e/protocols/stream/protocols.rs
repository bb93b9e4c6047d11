//! Protocols on top of TCP: redis beside the real server, dubbo beside one that speaks it as far as it matters here.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream, UdpSocket},
    time::{Duration, Instant},
};

use tidegate_testkit::{Client, PATIENCE, eventually, servers};

use super::{Ports, connect, exchange, is_closed, read, serve, start};

/// A route of TCP with this protocol.
fn route(protocol: &str, node: SocketAddr) -> String {
    format!(
        "stream_routes:\n- {{id: r, server_port: @TCP@, protocol: {protocol}, upstream: {{nodes: {{\"{node}\": 1}}}}}}\n"
    )
}

fn command(texts: &[&str]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| format!("${}\r\n{text}\r\n", text.len())).collect();
    format!("*{}\r\n{}", texts.len(), texts.concat())
}

/// Sends a command; returns the answer, and how long it took.
fn ask(stream: &mut TcpStream, texts: &[&str], expected: &str) -> Duration {
    let began = Instant::now();
    stream.write_all(command(texts).as_bytes()).expect("sent");
    assert_eq!(read(stream, expected.len()), expected, "{texts:?}");
    began.elapsed()
}

fn metrics(ports: &Ports) -> String {
    let mut client = Client::connect(ports.gateway.metrics).expect("a connection");
    client.get("127.0.0.1", "/apisix/prometheus/metrics").expect("a page").body_text()
}

#[test]
fn redis_commands_wait_are_counted_and_logged() {
    let redis = servers::redis(&[]);
    let sink = UdpSocket::bind("127.0.0.1:0").expect("a port");
    sink.set_read_timeout(Some(PATIENCE)).expect("a limit");
    let port = sink.local_addr().expect("its address").port();
    let logger = format!(
        "{{name: syslog, filter: [[rpc_time, \">=\", 0.1]], conf: {{host: 127.0.0.1, port: {port}, sock_type: udp, batch_max_size: 1, \
         log_format: {{took: $rpc_time, line: $redis_cmd_line}}}}}}"
    );
    let protocol = format!(
        "{{name: redis, metric: {{enable: true}}, logger: [{logger}], conf: {{faults: [{{commands: [MGET], key: slow, delay: 0.2}}]}}}}"
    );
    let ports = start("", "", &route(&protocol, redis.address));
    let mut stream = connect(ports.tcp);
    ask(&mut stream, &["SET", "slow", "1"], "+OK\r\n");
    let fast = ask(&mut stream, &["mget", "other", "none"], "*2\r\n$-1\r\n$-1\r\n");
    let slow = ask(&mut stream, &["mget", "other", "slow"], "*2\r\n$-1\r\n$1\r\n1\r\n");
    assert!(slow >= Duration::from_millis(200) && fast < slow, "{fast:?} {slow:?}");
    let mut room = [0; 2048];
    let count = sink.recv(&mut room).expect("an entry");
    let text = String::from_utf8_lossy(&room[..count]).into_owned();
    for part in ["\"line\":\"mget other slow\"", "\"took\":\"0.2", "\"route_id\":\"r\""] {
        assert!(text.contains(part), "{text}");
    }
    let page = metrics(&ports);
    for line in [
        "apisix_redis_commands_total{route=\"r\",command=\"mget\"} 2",
        "apisix_redis_commands_total{route=\"r\",command=\"set\"} 1",
        "apisix_redis_commands_latency_seconds_bucket{route=\"r\",command=\"set\",le=\"0.1\"} 1",
        "apisix_redis_commands_latency_seconds_bucket{route=\"r\",command=\"mget\",le=\"+Inf\"} 2",
        "apisix_redis_commands_latency_seconds_count{route=\"r\",command=\"mget\"} 2",
    ] {
        assert!(page.lines().any(|found| found == line), "{line}\n{page}");
    }
}

#[test]
fn redis_pipelines_values_and_channels_pass_unchanged() {
    let redis = servers::redis(&[]);
    let ports = start("", "", &route("{name: redis}", redis.address));
    let value = "0123456789abcdef".repeat(20_000);
    let many: String = (0..2000).map(|at| command(&["INCRBY", "n", &at.to_string()])).collect();
    let commands = format!("{}{many}{}", command(&["SET", "big", &value]), command(&["GET", "big"]));
    let mut stream = connect(ports.tcp);
    let mut writing = stream.try_clone().expect("the same");
    let writer = std::thread::spawn(move || writing.write_all(commands.as_bytes()));
    assert_eq!(read(&mut stream, 5), "+OK\r\n");
    let mut sum = 0;
    for at in 0..2000 {
        sum += at;
        let expected = format!(":{sum}\r\n");
        assert_eq!(read(&mut stream, expected.len()), expected);
    }
    let expected = format!("${}\r\n{value}\r\n", value.len());
    assert!(read(&mut stream, expected.len()) == expected);
    writer.join().expect("a writer").expect("all sent");
    let mut listening = connect(ports.tcp);
    ask(&mut listening, &["SUBSCRIBE", "dog"], "*3\r\n$9\r\nsubscribe\r\n$3\r\ndog\r\n:1\r\n");
    ask(&mut stream, &["PUBLISH", "dog", "Hello"], ":1\r\n");
    let message = "*3\r\n$7\r\nmessage\r\n$3\r\ndog\r\n$5\r\nHello\r\n";
    assert_eq!(read(&mut listening, message.len()), message);
    // The client ends first, and gets what it asked for.
    assert_eq!(exchange(ports.tcp, &command(&["PING"])), "+PONG\r\n");
}

#[test]
fn what_is_no_command_reaches_no_node() {
    let (seen, sees) = std::sync::mpsc::channel();
    let node = serve(move |mut stream| {
        let mut got = Vec::new();
        let _ = stream.read_to_end(&mut got);
        let _ = seen.send(got);
    });
    let ports = start("", "", &route("{name: redis}", node));
    for text in ["*-1\r\n", "*1e9\r\n", "*2\r\n$3\r\nGET\r\n$-1\r\n", "PING\r\n"] {
        let mut stream = connect(ports.tcp);
        stream.write_all(text.as_bytes()).expect("sent");
        assert!(is_closed(&mut stream), "{text}");
        assert!(sees.recv_timeout(PATIENCE).expect("an end").is_empty(), "{text}");
    }
    ports.gateway.wait_for_log("failed to read request: invalid bulk length: -1");
}

fn message(flags: u8, id: u8, body: &[u8]) -> Vec<u8> {
    [&[0xda, 0xbb, flags, 20, 0, 0, 0, 0, 0, 0, 0, id, 0, 0, 0, body.len() as u8], body].concat()
}

#[test]
fn dubbo_messages_pass_and_calls_are_logged() {
    let node = serve(|mut stream| {
        let mut header = [0; 16];
        while stream.read_exact(&mut header).is_ok() {
            let mut body = vec![0; usize::from(header[15])];
            let _ = stream.read_exact(&mut body);
            if header[2] & 0x40 != 0 {
                let _ = stream.write_all(&message(header[2] & 0x3f, header[11], &body));
            }
        }
    });
    let sink = UdpSocket::bind("127.0.0.1:0").expect("a port");
    sink.set_read_timeout(Some(PATIENCE)).expect("a limit");
    let port = sink.local_addr().expect("its address").port();
    let protocol = format!(
        "{{name: dubbo, logger: [{{name: syslog, conf: {{host: 127.0.0.1, port: {port}, sock_type: udp, batch_max_size: 1, \
         log_format: {{took: $rpc_time}}}}}}]}}"
    );
    let ports = start("", "", &route(&protocol, node));
    let mut stream = connect(ports.tcp);
    for (sent, expected) in [
        (message(0xe2, 1, b""), message(0x22, 1, b"")),
        (message(0xc2, 2, b"hello"), message(0x02, 2, b"hello")),
    ] {
        // In two pieces.
        stream.write_all(&sent[..9]).expect("sent");
        stream.write_all(&sent[9..]).expect("sent");
        let mut got = vec![0; expected.len()];
        stream.read_exact(&mut got).expect("an answer");
        assert_eq!(got, expected);
    }
    let mut room = [0; 2048];
    let count = sink.recv(&mut room).expect("an entry of the call, none of the heartbeat");
    assert!(String::from_utf8_lossy(&room[..count]).contains("\"took\":\"0."));
    let mut wrong = connect(ports.tcp);
    wrong.write_all(&[0xda, 0xbc]).expect("sent");
    assert!(is_closed(&mut wrong));
    eventually("its reason", || ports.gateway.error_log().contains("unknown magic number: \"dabc\""));
}
