//! ldap-auth-advanced: how many connections to a directory are kept, for how long and for whom, and what a search may cost it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::{Client, Gateway, Upstream};

const BIND: u8 = 0x60;

#[derive(Default)]
struct Shared {
    opened: AtomicUsize,
    searches: Mutex<Vec<Vec<u8>>>,
    /// Binds wait until so many connections are open.
    awaited: AtomicUsize,
    arrived: (Mutex<()>, Condvar),
}

/// A directory that finds every user and accepts every password.
struct Directory {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Directory {
    fn start() -> Directory {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared::default());
        let accepting = shared.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                accepting.opened.fetch_add(1, SeqCst);
                drop(accepting.arrived.0.lock());
                accepting.arrived.1.notify_all();
                let shared = accepting.clone();
                std::thread::spawn(move || serve(stream, &shared));
            }
        });
        Directory { address, shared }
    }

    fn opened(&self) -> usize {
        self.shared.opened.load(SeqCst)
    }
}

/// Messages are short, and their numbers below 128.
fn serve(mut stream: TcpStream, shared: &Shared) {
    let mut message = [0; 4096];
    while let Ok(read @ 6..) = stream.read(&mut message) {
        let (number, operation) = (message[4], message[5]);
        let answer = if operation == BIND {
            let guard = shared.arrived.0.lock().expect("a lock");
            let few = |(): &mut ()| shared.opened.load(SeqCst) < shared.awaited.load(SeqCst);
            drop(shared.arrived.1.wait_while(guard, few));
            vec![0x30, 12, 2, 1, number, 0x61, 7, 0x0a, 1, 0, 4, 0, 4, 0]
        } else if operation == 0x63 {
            shared.searches.lock().expect("a lock").push(message[..read].to_vec());
            let entry = [0x30, 11, 2, 1, number, 0x64, 6, 4, 2, b'c', b'n', 0x30, 0];
            [&entry[..], &[0x30, 12, 2, 1, number, 0x65, 7, 0x0a, 1, 0, 4, 0, 4, 0]].concat()
        } else {
            return;
        };
        if stream.write_all(&answer).is_err() {
            return;
        }
    }
}

const CREDENTIALS: &[u8] = b"a:b";

fn send(client: &mut Client, route: &str) {
    let credentials = STANDARD.encode(CREDENTIALS);
    let text = format!("GET /{route} HTTP/1.1\r\nHost: h\r\nAuthorization: ldap {credentials}\r\n\r\n");
    client.send(text.as_bytes()).expect("it reads");
}

#[test]
fn connections_and_searches_as_configured() {
    let upstream = Upstream::start();
    let target = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    let directories: Vec<(&str, Directory)> =
        ["once", "named", "small", "idle"].map(|name| (name, Directory::start())).into();
    let at = |name: &str| &directories.iter().find(|(of, _)| *of == name).expect("a directory").1;
    let route = |name: &str, directory: &str, more: Value| {
        let mut conf = json!({"ldap_uri": at(directory).address.to_string(), "base_dn": "dc=x", "consumer_required": false});
        conf.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        json!({"id": name, "uri": format!("/{name}"), "plugins": {"ldap-auth-advanced": conf}, "upstream": target})
    };
    let pause = json!({"abort": {"http_status": 200}, "delay": {"duration": 1.2}});
    let objects = json!({"routes": [
        route("once", "once", json!({"keepalive": false, "size_limit": 7, "time_limit": 9})),
        route("named", "named", json!({"keepalive_pool_name": "mine"})),
        route("unnamed", "named", json!({})),
        route("small", "small", json!({"keepalive_pool_size": 1})),
        route("idle", "idle", json!({"keepalive_timeout": 1000})),
        {"id": "pause", "uri": "/pause", "plugins": {"fault-injection": pause}},
    ]});
    let gateway = Gateway::start(YAML_PROVIDER, Some(&objects.to_string()));
    let get = |route: &str| {
        let mut client = gateway.client();
        send(&mut client, route);
        assert_eq!(client.response().expect("an answer").status(), 200, "{route}: {}", gateway.error_log());
    };
    get("once");
    get("once");
    assert_eq!(at("once").opened(), 2);
    // Size limit, time limit, and both types and values.
    let limits = [2, 1, 7, 2, 1, 9, 1, 1, 0];
    let searches = at("once").shared.searches.lock().expect("a lock").clone();
    assert!(searches.iter().all(|search| search.windows(9).any(|part| part == limits)), "{searches:?}");

    get("named");
    get("unnamed");
    assert_eq!(at("named").opened(), 2, "each name has its own connections");
    get("named");
    get("unnamed");
    assert_eq!(at("named").opened(), 2);

    for opened in [2, 3] {
        at("small").shared.awaited.store(opened, SeqCst);
        let mut clients = [gateway.client(), gateway.client()];
        clients.iter_mut().for_each(|client| send(client, "small"));
        let is_served = |client: &mut Client| client.response().expect("an answer").status() == 200;
        assert!(clients.iter_mut().all(is_served));
        assert_eq!(at("small").opened(), opened, "one is kept");
    }

    get("idle");
    get("idle");
    assert_eq!(at("idle").opened(), 1);
    get("pause");
    get("idle");
    assert_eq!(at("idle").opened(), 2);
}
