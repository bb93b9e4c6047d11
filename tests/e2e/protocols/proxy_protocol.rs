//! The PROXY protocol in front of HTTP and HTTPS; curl and haproxy are the balancers.

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use tidegate_testkit::gateway::{Gateway, YAML_PROVIDER};
use tidegate_testkit::{Client, PATIENCE, free_port, servers};

use crate::protocols::certs::{quoted, self_signed};

struct Ports {
    gateway: Gateway,
    http: SocketAddr,
    https: SocketAddr,
}

const SEEN: &str = "addr=$remote_addr:$remote_port announced=$proxy_protocol_addr:$proxy_protocol_port \
                    to=$proxy_protocol_server_addr:$proxy_protocol_server_port";

fn start(http: &str, apisix: &str) -> Ports {
    let (http_port, https_port, tls) = (free_port(), free_port(), free_port());
    let ports = format!(
        "proxy_protocol: {{listen_http_port: {http_port}, listen_https_port: {https_port}}}\n  {apisix}\n  \
         ssl: {{listen: [{{ip: 127.0.0.1, port: {tls}}}]}}"
    );
    let config = YAML_PROVIDER
        .replace("ssl: {enable: false}", &ports)
        .replace("enable_access_log: false", &format!("enable_access_log: false, {http}"));
    let pair = self_signed("a.test");
    let resources = format!(
        "routes:\n- {{id: 1, uri: \"/*\", plugins: {{mocking: {{response_example: \"{SEEN}\"}}}}}}\n\
         ssls:\n- {{id: 1, sni: a.test, cert: {}, key: {}}}\n",
        quoted(&pair.cert),
        quoted(&pair.key)
    );
    let gateway = Gateway::start(&config, Some(&resources));
    let local = |port| SocketAddr::from(([127, 0, 0, 1], port));
    Ports { gateway, http: local(http_port), https: local(https_port) }
}

const BELIEVE: &str = "real_ip_header: proxy_protocol, real_ip_from: [127.0.0.1]";

fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
    header.extend([command, family]);
    header.extend((rest.len() as u16).to_be_bytes());
    header.extend(rest);
    header
}

#[test]
fn headers_are_taken_off_and_believed_where_configured() {
    let v4 = [192, 0, 2, 1, 192, 0, 2, 2, 0x0f, 0xa0, 0, 80];
    let mut with_extension = v4.to_vec();
    with_extension.extend([0x04, 0, 3, 1, 2, 3]);
    let cases: &[(&[u8], &str)] = &[
        (b"PROXY TCP4 192.0.2.1 192.0.2.2 4000 80\r\n", "192.0.2.1:4000 to=192.0.2.2:80"),
        (b"PROXY TCP6 2001:db8::1 2001:db8::2 4000 80\r\n", "2001:db8::1:4000 to=2001:db8::2:80"),
        (&v2(0x21, 0x11, &v4), "192.0.2.1:4000 to=192.0.2.2:80"),
        (&v2(0x21, 0x11, &with_extension), "192.0.2.1:4000 to=192.0.2.2:80"),
        (b"PROXY UNKNOWN\r\n", ": to=:"),
        (&v2(0x20, 0x00, b""), ": to=:"),
    ];
    for (http, believed) in [(BELIEVE, true), ("real_ip_header: X-Real-IP", false)] {
        let ports = start(http, "");
        for (header, announced) in cases {
            // In one piece with the request, and byte by byte.
            for piece in [header.len().max(1), 1] {
                let mut client = Client::connect(ports.http).expect("connects");
                for part in header.chunks(piece) {
                    client.send(part).expect("sends");
                }
                let seen = client.get("h", "/").expect("answers").body_text();
                let label = format!("{:?}: {seen}", String::from_utf8_lossy(header));
                assert!(seen.contains(&format!("announced={announced}")), "{label}");
                let client_address = announced.split(' ').next().unwrap_or_default();
                let own = !believed || client_address == ":";
                let expected = if own { "addr=127.0.0.1:" } else { &format!("addr={client_address} ") };
                assert!(seen.starts_with(expected), "{label}");
                // Once for each connection, not for each request.
                assert_eq!(client.get("h", "/").expect("stays open").body_text(), seen);
            }
        }
    }
}

#[test]
fn what_is_no_header_is_refused() {
    let ports = start(&format!("{BELIEVE}, client_header_timeout: 500ms"), "");
    let mut long = b"PROXY UNKNOWN ".to_vec();
    long.extend([b'a'; 200]);
    long.extend(b"\r\n");
    let large = v2(0x21, 0x11, &[0; 5000]);
    let cases: &[&[u8]] = &[
        b"GET / HTTP/1.1\r\nHost: h\r\n\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.2 4000 80\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
        b"PROXY TCP4 192.0.2.999 192.0.2.2 4000 80\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
        &long,
        &large,
        &v2(0x31, 0x11, &[0; 12]),
        // Too little, and nothing more: ends with its time.
        b"PROXY TCP4 192.0",
        b"P",
        b"",
        &v2(0x21, 0x11, &[0; 12])[..20],
    ];
    for bytes in cases {
        let mut client = Client::connect(ports.http).expect("connects");
        client.send(bytes).expect("sends");
        let started = Instant::now();
        let answer = client.to_close();
        let label = String::from_utf8_lossy(bytes);
        assert!(answer.as_ref().map_or(true, Vec::is_empty), "{label:?} got {answer:?}");
        assert!(started.elapsed() < Duration::from_secs(8), "{label:?} held its connection");
    }
    // A port that is not for it takes the header for what it is: no HTTP.
    let mut client = ports.gateway.client();
    client.send(b"PROXY TCP4 192.0.2.1 192.0.2.2 4000 80\r\n\r\n").expect("sends");
    assert_eq!(client.response().expect("answers").status(), 400);
}

#[test]
fn real_balancers_are_understood() {
    let ports = start(BELIEVE, "");
    let curl = |arguments: &[&str]| {
        let output = Command::new("curl").args(["-sk", "--max-time", "10"]).args(arguments).output();
        String::from_utf8_lossy(&output.expect("curl runs").stdout).into_owned()
    };
    let resolve = format!("a.test:{}:127.0.0.1", ports.https.port());
    let seen = curl(&["--haproxy-protocol", &format!("http://{}/", ports.http)]);
    assert!(seen.contains("announced=127.0.0.1:"), "{seen}");
    let seen = curl(&[
        "--haproxy-protocol",
        "--resolve",
        &resolve,
        &format!("https://a.test:{}/", ports.https.port()),
    ]);
    assert!(seen.contains("announced=127.0.0.1:"), "{seen}");
    for version in ["send-proxy", "send-proxy-v2"] {
        let haproxy = servers::haproxy(&format!(
            "defaults\n mode tcp\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n\
             listen balancer\n bind @ADDRESS@\n server gateway {} {version}\n",
            ports.http
        ));
        let mut client = Client::connect_from("127.0.0.9:0".parse().expect("an address"), haproxy.address)
            .expect("connects");
        let seen = client.get("h", "/").expect("answers").body_text();
        assert!(seen.starts_with("addr=127.0.0.9:"), "{version}: {seen}");
        assert!(seen.contains(&format!("to={}", haproxy.address)), "{version}: {seen}");
    }
}

#[test]
fn addresses_count_as_announced() {
    let ports = start(BELIEVE, "client_limits: {connections_per_address: 1}");
    let open = |address: &str| -> Option<Client> {
        let mut client = Client::connect(ports.http).expect("connects");
        client.send(format!("PROXY TCP4 {address} 192.0.2.2 4000 80\r\n").as_bytes()).ok()?;
        client.get("h", "/").ok().map(|_| client)
    };
    let first = open("192.0.2.1");
    assert!(first.is_some());
    assert!(open("192.0.2.1").is_none());
    assert!(open("192.0.2.3").is_some(), "another client behind the same balancer");
    drop(first);
    let deadline = Instant::now() + PATIENCE;
    while open("192.0.2.1").is_none() {
        assert!(Instant::now() < deadline, "no room although it left");
    }
}
