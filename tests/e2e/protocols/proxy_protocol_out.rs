//! The PROXY protocol toward upstreams (`proxy_protocol` of an upstream): nginx and haproxy are the upstreams that demand
//! it and say what they were told.

use std::fs;
use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use tidegate_testkit::gateway::{Gateway, YAML_PROVIDER};
use tidegate_testkit::servers::{self, Server};
use tidegate_testkit::{Behaviour, Client, PATIENCE, Step, Upstream, free_port};

use crate::protocols::certs::self_signed;
use crate::protocols::grpc_peer::{Caller, runtime};

/// What nginx was told, and on which of its connections.
const SEEN: &str = "return 200 \"$proxy_protocol_addr:$proxy_protocol_port to \
                    $proxy_protocol_server_addr:$proxy_protocol_server_port on $connection\";";

/// nginx behind ports that demand the header: HTTP, HTTPS, HTTP/2, HTTP/2 over TLS. Its own port takes none.
struct Nginx {
    server: Server,
    ports: [u16; 4],
    folder: tempfile::TempDir,
}

impl Nginx {
    fn start() -> Nginx {
        let folder = tempfile::tempdir().expect("a folder");
        let pair = self_signed("node.test");
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).expect("a file for nginx");
            path.display().to_string()
        };
        let (cert, key, log) =
            (file("cert.pem", &pair.cert), file("key.pem", &pair.key), file("health.log", ""));
        let ports = [free_port(), free_port(), free_port(), free_port()];
        let [http, https, grpc, grpcs] = ports;
        let server = servers::nginx(&format!(
            "listen 127.0.0.1:{http} proxy_protocol; listen 127.0.0.1:{https} proxy_protocol ssl;\n\
             listen 127.0.0.1:{grpc} proxy_protocol http2; listen 127.0.0.1:{grpcs} proxy_protocol ssl http2;\n\
             ssl_certificate {cert}; ssl_certificate_key {key}; keepalive_requests 100000;\n\
             location / {{ {SEEN} }}\n\
             location /status {{ stub_status; }}\n\
             location /health {{ access_log {log}; return 200 \"\"; }}\n"
        ));
        Nginx { server, ports, folder }
    }

    /// Connections that are open, but for the one that asks.
    fn open(&self) -> usize {
        let mut client = Client::connect(self.server.address).expect("connects");
        let text = client.get("h", "/status").expect("answers").body_text();
        let count = text.split_whitespace().nth(2).and_then(|word| word.parse::<usize>().ok());
        count.unwrap_or_else(|| panic!("no count in {text:?}")) - 1
    }

    /// Waits until so many connections are open.
    fn wait_for_open(&self, wanted: usize) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let open = self.open();
            if open == wanted {
                return;
            }
            assert!(Instant::now() < deadline, "{open} connections are open, not {wanted}");
            std::thread::yield_now();
        }
    }

    /// Lines about probes; those that were not HTTP to nginx are none with 200.
    fn probes(&self) -> String {
        fs::read_to_string(self.folder.path().join("health.log")).expect("the log")
    }
}

fn upstream(scheme: &str, port: u16, more: &str) -> String {
    format!("{{type: roundrobin, scheme: {scheme}, nodes: {{\"127.0.0.1:{port}\": 1}}, {more}}}")
}

/// A client of its own address, and what that is.
fn client_at(address: &str, to: SocketAddr) -> (Client, String) {
    let from = SocketAddr::new(address.parse().expect("an address"), 0);
    let client = Client::connect_from(from, to).expect("connects");
    let local = client.local().to_string();
    (client, local)
}

/// Who nginx says the client is, and the number of the connection.
fn seen(client: &mut Client, path: &str) -> (String, String) {
    let answer = client.get("node.test", path).expect("answers");
    let text = answer.body_text();
    assert_eq!(answer.status(), 200, "{path}: {text}");
    let (ends, connection) = text.rsplit_once(" on ").unwrap_or_else(|| panic!("{path}: {text}"));
    (ends.to_owned(), connection.to_owned())
}

#[test]
fn a_connection_belongs_to_one_client() {
    let nginx = Nginx::start();
    let [http, https, grpc, grpcs] = nginx.ports;
    let mut routes = String::new();
    let ways = [("http", http), ("https", https), ("grpc", grpc), ("grpcs", grpcs)];
    for (scheme, port) in ways {
        for version in ["v1", "v2"] {
            let node = upstream(scheme, port, &format!("proxy_protocol: {version}"));
            let id = format!("{scheme}-{version}");
            routes += &format!("- {{id: {id}, uri: /{id}, upstream: {node}}}\n");
        }
    }
    // The same node and scheme without a header is refused there, whoever has a connection open.
    routes += &format!("- {{id: bare, uri: /bare, upstream: {}}}\n", upstream("http", http, ""));
    let gateway = Gateway::start(YAML_PROVIDER, Some(&format!("routes:\n{routes}")));
    for (scheme, _) in ways {
        for version in ["v1", "v2"] {
            let path = format!("/{scheme}-{version}");
            let (mut one, one_is) = client_at("127.0.0.7", gateway.http);
            let (mut two, two_is) = client_at("127.0.0.8", gateway.http);
            let ends = |client: &str| format!("{client} to {}", gateway.http);
            let (first, of_one) = seen(&mut one, &path);
            assert_eq!(first, ends(&one_is), "{path}");
            // The connection of the first is idle now: nobody else gets it.
            let (second, of_two) = seen(&mut two, &path);
            assert_eq!(second, ends(&two_is), "{path}");
            assert_ne!(of_one, of_two, "{path}");
            for _ in 0..3 {
                assert_eq!(seen(&mut one, &path), (first.clone(), of_one.clone()), "{path}");
                assert_eq!(seen(&mut two, &path), (second.clone(), of_two.clone()), "{path}");
            }
            nginx.wait_for_open(2);
            // Another one with the address and port of the first is another client.
            drop(one);
            nginx.wait_for_open(1);
            assert_eq!(seen(&mut two, &path), (second, of_two), "{path}");
            drop(two);
            nginx.wait_for_open(0);
        }
    }
    let (mut one, one_is) = client_at("127.0.0.7", gateway.http);
    let (_, v1) = seen(&mut one, "/http-v1");
    let (ends, v2) = seen(&mut one, "/http-v2");
    assert!(ends.starts_with(&one_is) && v1 != v2, "{ends}");
    assert_eq!(one.get("node.test", "/bare").expect("answers").status(), 502);
}

#[test]
fn idle_connections_are_bounded() {
    let nginx = Nginx::start();
    let [http, _, grpc, _] = nginx.ports;
    let more = "proxy_protocol: v2, keepalive_pool: {size: 5, idle_timeout: 60, requests: 3}";
    let none = "proxy_protocol: v2, keepalive_pool: {size: 5, idle_timeout: 0, requests: 3}";
    let gateway = Gateway::start(
        YAML_PROVIDER,
        Some(&format!(
            "routes:\n- {{id: 1, uri: /http, upstream: {}}}\n- {{id: 2, uri: /grpc, upstream: {}}}\n\
             - {{id: 3, uri: /none, upstream: {}}}\n- {{id: 4, uri: /none-grpc, upstream: {}}}\n",
            upstream("http", http, more),
            upstream("grpc", grpc, more),
            upstream("http", http, none),
            upstream("grpc", grpc, none),
        )),
    );
    for path in ["/http", "/grpc"] {
        let mut clients: Vec<Client> = (0..20).map(|_| gateway.client()).collect();
        let first: Vec<_> = clients.iter_mut().map(|client| seen(client, path)).collect();
        nginx.wait_for_open(5);
        // Who was busy last has kept its own; whoever lost it gets a new one.
        assert_eq!(seen(&mut clients[19], path), first[19], "{path}");
        let again = seen(&mut clients[0], path);
        assert!(again.0 == first[0].0 && again.1 != first[0].1, "{path}: {again:?} {:?}", first[0]);
        nginx.wait_for_open(5);
        // Three requests to a connection.
        assert_eq!(seen(&mut clients[19], path).1, first[19].1, "{path}");
        assert_ne!(seen(&mut clients[19], path).1, first[19].1, "{path}");
        drop(clients);
        nginx.wait_for_open(0);
    }
    for path in ["/none", "/none-grpc"] {
        let mut client = gateway.client();
        let (one, two) = (seen(&mut client, path), seen(&mut client, path));
        assert!(one.0 == two.0 && one.1 != two.1, "{path}: {one:?} {two:?}");
        nginx.wait_for_open(0);
    }
}

/// Places are few, so that connections come and go all the time.
#[test]
fn many_clients_at_once_are_never_mixed_up() {
    let nginx = Nginx::start();
    let [http, _, grpc, _] = nginx.ports;
    let more = "proxy_protocol: v2, keepalive_pool: {size: 3, idle_timeout: 60, requests: 4}";
    let config = YAML_PROVIDER.replace("worker_processes: 1", "worker_processes: 2");
    let gateway = Gateway::start(
        &config,
        Some(&format!(
            "routes:\n- {{id: 1, uri: /http, upstream: {}}}\n- {{id: 2, uri: /grpc, upstream: {}}}\n",
            upstream("http", http, more),
            upstream("grpc", grpc, more),
        )),
    );
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let to = gateway.http;
            scope.spawn(move || {
                for round in 0..5 {
                    let mut clients: Vec<_> = (0..10).map(|_| client_at("127.0.0.1", to)).collect();
                    for request in 0..4 {
                        for (client, from) in &mut clients {
                            let path = if request % 2 == 0 { "/http" } else { "/grpc" };
                            assert_eq!(seen(client, path).0, format!("{from} to {to}"), "{round} {path}");
                        }
                    }
                }
            });
        }
    });
    nginx.wait_for_open(0);
}

#[test]
fn streams_of_one_client_share_a_connection() {
    let nginx = Nginx::start();
    let [http, _, grpc, _] = nginx.ports;
    let gateway = Gateway::start(
        YAML_PROVIDER,
        Some(&format!(
            "routes:\n- {{id: 1, uri: /http, upstream: {}}}\n- {{id: 2, uri: /grpc, upstream: {}}}\n",
            upstream("http", http, "proxy_protocol: v2"),
            upstream("grpc", grpc, "proxy_protocol: v2"),
        )),
    );
    let mut seen: Vec<std::collections::BTreeSet<String>> = Vec::new();
    runtime().block_on(async {
        for _ in 0..2 {
            let caller = Caller::connect(gateway.http).await;
            let calls: Vec<_> = (0..20)
                .map(|_| {
                    let caller = caller.clone();
                    tokio::spawn(async move { caller.call("/grpc", &[], false).await })
                })
                .collect();
            let mut texts = std::collections::BTreeSet::new();
            for call in calls {
                let answer = call.await.expect("ends");
                assert_eq!(answer.status, 200, "{answer:?}");
                texts.insert(String::from_utf8(answer.body).expect("text"));
            }
            seen.push(texts);
            // HTTP/1 takes one connection for each request at a time.
            let answer = caller.call("/http", &[], false).await;
            assert_eq!(answer.status, 200, "{answer:?}");
        }
    });
    assert!(seen.iter().all(|texts| texts.len() == 1), "one connection for each client: {seen:?}");
    assert_ne!(seen[0], seen[1]);
    nginx.wait_for_open(0);
}

#[test]
fn a_client_is_who_the_connection_came_from() {
    let nginx = Nginx::start();
    let routes = format!(
        "routes:\n- {{id: 1, uri: /*, upstream: {}}}\n",
        upstream("http", nginx.ports[0], "proxy_protocol: v1")
    );
    for (trusted, believed) in [("127.0.0.1", true), ("192.0.2.9", false)] {
        let port = free_port();
        let config = YAML_PROVIDER
            .replace("ssl:", &format!("proxy_protocol: {{listen_http_port: {port}}}\n  ssl:"))
            .replace(
                "enable_access_log: false",
                &format!(
                    "enable_access_log: false, real_ip_header: X-Forwarded-For, real_ip_from: [{trusted}]"
                ),
            );
        let mut gateway = Gateway::start(&config, Some(&routes));
        let balanced = SocketAddr::from(([127, 0, 0, 1], port));
        gateway.process.wait_for_port(balanced);
        for (header, announced) in [
            ("PROXY TCP4 192.0.2.1 192.0.2.2 4000 80\r\n", Some("192.0.2.1:4000 to 192.0.2.2:80")),
            (
                "PROXY TCP6 ::ffff:192.0.2.1 ::ffff:192.0.2.2 4000 80\r\n",
                Some("192.0.2.1:4000 to 192.0.2.2:80"),
            ),
            ("PROXY TCP6 2001:db8::1 2001:db8::2 4000 80\r\n", Some("2001:db8::1:4000 to 2001:db8::2:80")),
            ("PROXY UNKNOWN\r\n", None),
        ] {
            let (mut client, peer) = client_at("127.0.0.1", balanced);
            client.send(header.as_bytes()).expect("sends");
            let own = format!("{peer} to {balanced}");
            let expected = announced.filter(|_| believed).unwrap_or(&own);
            assert_eq!(seen(&mut client, "/").0, expected, "{header} believed: {believed}");
        }
        // What a request says of its client is about that request.
        let (mut client, peer) = client_at("127.0.0.1", gateway.http);
        let answer = client.request("GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 198.51.100.1\r\n\r\n");
        let text = answer.expect("answers").body_text();
        assert!(text.starts_with(&format!("{peer} to {} ", gateway.http)), "{text}");
    }
}

#[test]
fn clients_over_ipv6() {
    // Containers may have none at all; the bytes themselves are tested in `protocol`.
    if TcpListener::bind("[::1]:0").is_err() {
        eprintln!("no IPv6 here: not tested");
        return;
    }
    let nginx = Nginx::start();
    let to: SocketAddr = format!("[::1]:{}", free_port()).parse().expect("an address");
    let listen = format!("port: @HTTP@}}, {{ip: \"::1\", port: {}}}]", to.port());
    let [http, _, grpc, _] = nginx.ports;
    let routes = format!(
        "routes:\n- {{id: 1, uri: /v1, upstream: {}}}\n- {{id: 2, uri: /v2, upstream: {}}}\n",
        upstream("http", http, "proxy_protocol: v1"),
        upstream("grpc", grpc, "proxy_protocol: v2")
    );
    let mut gateway = Gateway::start(&YAML_PROVIDER.replace("port: @HTTP@}]", &listen), Some(&routes));
    gateway.process.wait_for_port(to);
    let (mut client, from) = client_at("::1", to);
    for path in ["/v1", "/v2"] {
        let ends = format!("{from} to {to}").replace(['[', ']'], "");
        assert_eq!(seen(&mut client, path).0, ends, "{}", gateway.error_log());
    }
}

#[test]
fn haproxy_reads_it_and_tunnels_pass() {
    // haproxy passes on no other answer to this key.
    let switching = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                      Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
    let behind = Upstream::with(|request| {
        let steps = match request.target() {
            "/upgrade" => vec![Step::Send(switching.to_vec()), Step::EchoTunnel],
            _ => vec![Step::Echo],
        };
        Behaviour { read_body: false, steps }
    });
    let haproxy = |option: &str| {
        servers::haproxy(&format!(
            "defaults\n mode http\n timeout connect 5s\n timeout client 20s\n timeout server 20s\n\
             frontend f\n bind @ADDRESS@ {option}\n http-request set-header X-Told %[src]:%[src_port]-%[dst]:%[dst_port]\n \
             default_backend b\nbackend b\n server s {}\n",
            behind.address
        ))
    };
    let demanding = haproxy("accept-proxy");
    for version in ["v1", "v2"] {
        let gateway = Gateway::start(
            YAML_PROVIDER,
            Some(&format!(
                "routes:\n- {{id: 1, uri: /*, enable_websocket: true, upstream: {}}}\n",
                upstream("http", demanding.address.port(), &format!("proxy_protocol: {version}"))
            )),
        );
        let (mut client, from) = client_at("127.0.0.9", gateway.http);
        let told = format!("{from}-{}", gateway.http);
        for path in ["/one", "/two"] {
            assert_eq!(client.get("h", path).expect("answers").status(), 200, "{version} {path}");
        }
        let upgrade = "GET /upgrade HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                       Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        assert_eq!(client.request(upgrade).expect("answers").status(), 101, "{version}");
        client.send(b"through the tunnel").expect("sends");
        assert_eq!(client.exactly(18).expect("comes back"), b"through the tunnel");
        // A tunnel on a connection of its own.
        let (mut fresh, fresh_from) = client_at("127.0.0.9", gateway.http);
        assert_eq!(fresh.request(upgrade).expect("answers").status(), 101, "{version}");
        let requests = behind.take();
        let saw: Vec<_> = requests.iter().filter_map(|seen| seen.message.header("x-told")).collect();
        let fresh_told = format!("{fresh_from}-{}", gateway.http);
        assert_eq!(saw, [&*told, &*told, &*told, &*fresh_told], "{version}");
    }
}

/// Reads a request and closes; what it read comes over the channel.
fn closing_node() -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let (send, heads) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (Ok(mut stream), mut head) = (stream, Vec::new()) else { continue };
            let mut piece = [0; 1024];
            while !head.ends_with(b"\r\n\r\n") {
                match stream.read(&mut piece) {
                    Ok(count) if count > 0 => head.extend_from_slice(&piece[..count]),
                    _ => break,
                }
            }
            if send.send(String::from_utf8_lossy(&head).into_owned()).is_err() {
                return;
            }
        }
    });
    (address, heads)
}

#[test]
fn every_node_that_is_tried_gets_a_header() {
    let nginx = Nginx::start();
    let (closing, heads) = closing_node();
    let dead = free_port();
    let gateway = Gateway::start(
        YAML_PROVIDER,
        Some(&format!(
            "routes:\n- {{id: 1, uri: /*, upstream: {{type: roundrobin, proxy_protocol: v1, nodes: \
             {{\"127.0.0.1:{}\": 1, \"{}\": 1, \"127.0.0.1:{dead}\": 1}}}}}}\n",
            nginx.ports[0], closing
        )),
    );
    for _ in 0..6 {
        let (mut client, from) = client_at("127.0.0.5", gateway.http);
        assert_eq!(seen(&mut client, "/").0, format!("{from} to {}", gateway.http));
    }
    let tried: Vec<String> = heads.try_iter().collect();
    assert!(!tried.is_empty(), "the node that closes had its turn");
    for head in tried {
        assert!(
            head.starts_with("PROXY TCP4 127.0.0.5 127.0.0.1 ") && head.contains("\r\nGET / HTTP/1.1\r\n"),
            "{head}"
        );
    }
}

#[test]
fn probes_speak_for_themselves() {
    for version in ["v1", "v2"] {
        let nginx = Nginx::start();
        let [http, https, ..] = nginx.ports;
        let check = |kind: &str, more: &str| {
            format!(
                "proxy_protocol: {version}, checks: {{active: {{type: {kind}, http_path: /health/{kind}{}, {more} \
                 https_verify_certificate: false, healthy: {{interval: 1, successes: 1}}, \
                 unhealthy: {{interval: 1, tcp_failures: 1, http_failures: 1, timeouts: 1}}}}}}",
                more.len()
            )
        };
        let other = format!("port: {},", nginx.server.address.port());
        let gateway = Gateway::start(
            YAML_PROVIDER,
            Some(&format!(
                "routes:\n- {{id: 1, uri: /http, upstream: {}}}\n- {{id: 2, uri: /https, upstream: {}}}\n\
                 - {{id: 3, uri: /other, upstream: {}}}\n",
                upstream("http", http, &check("http", "")),
                upstream("https", https, &check("https", "")),
                upstream("http", http, &check("http", &other)),
            )),
        );
        let mut client = gateway.client();
        let paths = ["/http", "/https", "/other"];
        paths.iter().for_each(|path| drop(seen(&mut client, path)));
        // nginx closes a connection without its header before it looks for a request.
        let wanted = ["/health/http0 ", "/health/https0 ", &format!("/health/http{} ", other.len())];
        let deadline = Instant::now() + PATIENCE;
        while !wanted.iter().all(|path| nginx.probes().matches(path).count() >= 2) {
            assert!(Instant::now() < deadline, "{version}: {}", nginx.probes());
            std::thread::yield_now();
        }
        paths.iter().for_each(|path| drop(seen(&mut client, path)));
        assert!(nginx.probes().lines().all(|line| line.contains("\" 200 ")), "{}", nginx.probes());
        let log = gateway.error_log();
        assert!(!log.contains("unhealthy"), "{version}: {log}");
    }
}
