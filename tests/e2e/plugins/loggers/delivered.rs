//! What a receiver takes arrives whole, and does not count as dropped.

use std::io::Read;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustls::{ServerConnection, StreamOwned};
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::{Gateway, eventually};

use super::tls_config;
use crate::plugins::side_loops::metric;

/// More than a window of 64 KB holds.
const REQUESTS: usize = 1000;

/// A TLS 1.3 server that sends session tickets and reads all that comes, of one connection after the other.
fn receiver() -> (u16, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (all, config) = (Arc::new(Mutex::new(Vec::new())), tls_config());
    let received = all.clone();
    thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            let connection = ServerConnection::new(config.clone()).expect("a connection");
            let mut stream = StreamOwned::new(connection, socket);
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut piece) {
                received.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&piece[..count]);
            }
        }
    });
    (port, all)
}

/// To close a socket on which tickets were not read resets the connection, and what is on its way is lost.
#[test]
fn a_batch_over_tls_is_larger_than_the_window() {
    for plugin in [
        "tcp-logger: {tls: true, ",
        "syslog: {tls: true, sock_type: tcp, ",
        "sls-logger: {project: p, logstore: l, access_key_id: i, access_key_secret: s, ssl_verify: false, ",
    ] {
        let (port, received) = receiver();
        let name = plugin.split(':').next().unwrap_or_default();
        let gateway = Gateway::start(
            YAML_PROVIDER,
            Some(&format!(
                "routes:\n- {{id: a, uri: /*, plugins: {{{plugin}host: 127.0.0.1, port: {port}, batch_max_size: {REQUESTS}, \
                 inactive_timeout: 5}}, mocking: {{response_example: x}}}}}}\n"
            )),
        );
        let mut client = gateway.client();
        for _ in 0..REQUESTS {
            assert_eq!(client.get("h", "/x").expect("a response").status(), 200);
        }
        let arrived = || {
            let received = received.lock().unwrap_or_else(PoisonError::into_inner);
            String::from_utf8_lossy(&received).matches("\"route_id\"").count()
        };
        eventually(format!("{name} delivers all, not {}", arrived()), || arrived() == REQUESTS);
        let dropped = format!("apisix_log_entries_dropped_total{{plugin=\"{name}\",reason=\"failed\"}}");
        assert_eq!(metric(&gateway, &dropped), 0.0, "{name}");
    }
}
