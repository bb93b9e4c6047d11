//! A new process takes over from a running one, and nobody notices: no request, no WebSocket, no acknowledged write is
//! lost. `make upgrade-test` runs the first test longer, by `TIDEGATE_UPGRADES` and `TIDEGATE_RELOADS`.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::{
        fs::PermissionsExt,
        net::{UnixDatagram, UnixStream},
    },
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Instant,
};

use rustix::process::Signal;
use tidegate_testkit::eventually;
use tidegate_testkit::{
    Client, Gateway, Http2Client, PATIENCE, Seen, Upstream, Wrk,
    gateway::{ADMIN_KEY, EMBEDDED, YAML_PROVIDER, binary, run_command},
    http2::{DATA, END_HEADERS, HEADERS, REFUSED_STREAM, RST_STREAM, request},
    servers,
};

const TUNNEL: &str = "GET /upgrade HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                      Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

fn times(variable: &str, default: usize) -> usize {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

/// A gateway that was started from a file of its own, which a test may replace.
fn gateway_of_its_own_file(config: &str) -> (Gateway, PathBuf) {
    let mut file = PathBuf::new();
    let mut gateway = Gateway::start_by(config, None, |prefix| {
        file = prefix.join("tidegate");
        fs::copy(binary(), &file).expect("a copy of the binary");
        let mut command = Command::new(&file);
        command.arg("run").arg("--prefix").arg(prefix);
        command
    });
    gateway.process.wait_for_port(gateway.http);
    gateway.process.wait_for_port(gateway.admin);
    (gateway, file)
}

/// As a package manager does it: a new file under the old name.
fn replace(file: &Path, by: &Path) {
    let fresh = file.with_extension("new");
    fs::copy(by, &fresh).expect("a copy");
    fs::rename(fresh, file).expect("renamed");
}

fn upgrade(gateway: &Gateway, file: &Path) {
    let output = Command::new(file).arg("upgrade").arg("--prefix").arg(gateway.prefix()).output();
    let output = output.expect("tidegate runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn edit_config(gateway: &Gateway, from: &str, to: &str) {
    let path = gateway.prefix().join("conf/config.yaml");
    let text = fs::read_to_string(&path).expect("config.yaml");
    assert!(text.contains(from), "{from} is not in config.yaml");
    fs::write(path, text.replace(from, to)).expect("config.yaml written");
}

fn open_tunnel(gateway: &Gateway) -> Client {
    let mut client = gateway.client();
    let answer = client.request(TUNNEL).expect("answers");
    assert_eq!(answer.status(), 101, "{answer:?}");
    client
}

fn echoes(tunnel: &mut Client, text: &str) {
    tunnel.send(text.as_bytes()).expect("the tunnel takes bytes");
    assert_eq!(tunnel.exactly(text.len()).expect("the tunnel echoes"), text.as_bytes());
}

fn put_route(gateway: &Gateway, id: &str, body: &str) {
    let (status, answer) = gateway.admin("PUT", &format!("/apisix/admin/routes/{id}"), body);
    assert!(status < 300, "{status} {answer}");
}

/// Writes routes one after the other until told to stop; the numbers of those that were acknowledged.
fn write_routes(gateway: &Gateway, stop: Arc<AtomicBool>) -> thread::JoinHandle<Vec<usize>> {
    let address = gateway.admin;
    thread::spawn(move || {
        let mut acknowledged = Vec::new();
        for number in 0.. {
            if stop.load(Ordering::SeqCst) {
                break;
            }
            let body = format!(
                "{{\"uri\": \"/w{number}\", \"plugins\": {{\"mocking\": {{\"response_example\": \"w\"}}}}}}"
            );
            let mut client = Client::connect(address).expect("the Admin API accepts connections");
            let answer = client.request(&format!(
                "PUT /apisix/admin/routes/w{number} HTTP/1.1\r\nHost: admin\r\nX-API-KEY: {ADMIN_KEY}\r\n\
                 Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            ));
            match answer {
                Ok(answer) if answer.status() == 201 => acknowledged.push(number),
                Ok(answer) if answer.status() == 503 => assert_eq!(answer.header("retry-after"), Some("1")),
                Ok(answer) => panic!("unexpected answer to a write: {answer:?}"),
                Err(error) => panic!("no answer to write {number}: {error}"),
            }
        }
        acknowledged
    })
}

#[test]
fn upgrades_and_reloads_lose_nothing() {
    let (upgrades, reloads) = (times("TIDEGATE_UPGRADES", 2), times("TIDEGATE_RELOADS", 10));
    let (mut gateway, file) = gateway_of_its_own_file(EMBEDDED);
    let server = servers::nginx("location / { return 200 'hello'; }");
    let echo = Upstream::start();
    let node =
        |address| format!("\"upstream\": {{\"type\": \"roundrobin\", \"nodes\": {{\"{address}\": 1}}}}");
    put_route(&gateway, "1", &format!("{{\"uri\": \"/load\", {}}}", node(server.address)));
    let tunnels = format!("{{\"uri\": \"/upgrade\", \"enable_websocket\": true, {}}}", node(echo.address));
    put_route(&gateway, "2", &tunnels);

    let url = format!("http://{}/load", gateway.http);
    let kept_alive = Wrk::start(&url, 16, &[]);
    let one_by_one = Wrk::start(&url, 4, &["Connection: close"]);
    let stop = Arc::new(AtomicBool::new(false));
    let writer = write_routes(&gateway, stop.clone());
    let mut tunnels = vec![open_tunnel(&gateway)];
    for round in 0..upgrades {
        replace(&file, binary());
        let before = gateway.pid();
        upgrade(&gateway, &file);
        assert_ne!(gateway.pid(), before, "another process serves");
        tunnels.push(open_tunnel(&gateway));
        for tunnel in &mut tunnels {
            echoes(tunnel, &format!("after upgrade {round}"));
        }
    }
    for round in 0..reloads {
        // Every other one needs new workers; those between change nothing, or what a running process takes over.
        let before = gateway.pid();
        match round % 4 {
            0 => edit_config(&gateway, "worker_processes: 1", "worker_processes: 2"),
            1 => {
                edit_config(&gateway, "worker_processes: 2", "worker_processes: 2\n  error_log_level: error")
            }
            2 => {
                edit_config(&gateway, "worker_processes: 2\n  error_log_level: error", "worker_processes: 1")
            }
            _ => {}
        }
        let (done, text) = gateway.verb("reload");
        assert!(done, "{text}");
        assert_eq!(gateway.pid() != before, round % 2 == 0, "reload {round}: {text}");
        for tunnel in &mut tunnels {
            echoes(tunnel, &format!("after reload {round}"));
        }
    }
    let requests = kept_alive.stop_and_check();
    let connections = one_by_one.stop_and_check();
    assert!(requests > 100 && connections > 100, "{requests} and {connections} are not a load");
    stop.store(true, Ordering::SeqCst);
    let acknowledged = writer.join().expect("the writer ends");
    assert!(!acknowledged.is_empty());
    for number in &acknowledged {
        let (status, _) = gateway.admin("GET", &format!("/apisix/admin/routes/w{number}"), "");
        assert_eq!(status, 200, "route w{number} was acknowledged");
    }
    // The first process lives for its WebSocket, and no longer.
    echoes(&mut tunnels[0], "still there");
    drop(tunnels);
    assert!(gateway.process.wait_for_exit().success());
    println!(
        "{upgrades} upgrades, {reloads} reloads: {requests} requests kept alive, {connections} with a connection \
         each, {} writes, none lost",
        acknowledged.len()
    );
}

/// What the old process has accepted it answers: with the successor's address, so to speak.
#[test]
fn connections_to_the_admin_api_from_before_are_answered() {
    let (mut gateway, file) = gateway_of_its_own_file(EMBEDDED);
    let connect = || Client::connect(gateway.admin).expect("the Admin API accepts connections");
    let (mut silent, mut begun, mut idle) = (connect(), connect(), connect());
    let head = format!("GET /apisix/admin/routes HTTP/1.1\r\nHost: a\r\nX-API-KEY: {ADMIN_KEY}\r\n");
    begun.send(head.as_bytes()).expect("sent");
    assert_eq!(idle.request(&format!("{head}\r\n")).expect("an answer").status(), 200);
    upgrade(&gateway, &file);
    silent.send(head.as_bytes()).expect("sent");
    for (name, mut client) in [("silent", silent), ("begun", begun)] {
        client.send(b"\r\n").expect("sent");
        let answer = client.response().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((answer.status(), answer.header("retry-after")), (503, Some("1")), "{name}");
        assert_eq!(answer.header("connection"), Some("close"), "{name}");
    }
    assert_eq!(gateway.admin("GET", "/apisix/admin/routes", "").0, 200);
    drop(idle);
    assert!(gateway.process.wait_for_exit().success());
}

/// A head that was begun before is not kept for later: what was revoked meanwhile would still be let in.
#[test]
fn a_begun_head_does_not_outlive_its_configuration() {
    let (mut gateway, file) = gateway_of_its_own_file(EMBEDDED);
    put_route(&gateway, "1", r#"{"uri": "/a", "plugins": {"mocking": {"response_example": "a"}}}"#);
    let mut begun = gateway.client();
    begun.send(b"GET /a HTTP/1.1\r\nHost: a\r\n").expect("sent");
    upgrade(&gateway, &file);
    put_route(&gateway, "1", r#"{"uri": "/a", "plugins": {"key-auth": {}}}"#);
    let started = Instant::now();
    let answer = begun.response().expect("an answer");
    assert_eq!((answer.status(), answer.header("connection")), (503, Some("close")));
    assert!(started.elapsed().as_secs() < 20, "long before client_header_timeout");
    assert!(gateway.process.wait_for_exit().success());
}

/// A connection to the old process on which a request goes on that has begun before: the next ones on it are not judged by a
/// configuration that is over. The HTTP/2 client does not acknowledge that the connection ends.
#[test]
fn what_begins_behind_a_long_request_does_not_outlive_its_configuration() {
    let (mut gateway, file) = gateway_of_its_own_file(EMBEDDED);
    let node = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let upstream =
        format!("\"upstream\": {{\"nodes\": {{\"{}\": 1}}}}", node.local_addr().expect("an address"));
    put_route(&gateway, "1", r#"{"uri": "/a", "plugins": {"mocking": {"response_example": "a"}}}"#);
    put_route(&gateway, "2", &format!("{{\"uri\": \"/long\", {upstream}}}"));
    let mut idle = gateway.client();
    let mut pipelining = gateway.client();
    pipelining.send(b"GET /long HTTP/1.1\r\nHost: a\r\n\r\n").expect("sent");
    let mut answering = node.accept().expect("a connection").0;
    answering.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na").expect("sent");
    pipelining.exactly(12).expect("the start of an answer");
    let mut streams = Http2Client::connect(gateway.http, &[]).expect("connects");
    streams.send(HEADERS, END_HEADERS, 1, &request("POST", "/long", &[])).expect("sent");
    streams.send(DATA, 0, 1, b"begun").expect("sent");
    streams.get(3, "/a").expect("sent");
    assert_eq!(streams.wait_for(HEADERS).expect("an answer").stream, 3);
    upgrade(&gateway, &file);
    put_route(&gateway, "1", r#"{"uri": "/a", "plugins": {"key-auth": {}}}"#);
    assert_eq!(gateway.client().get("a", "/a").expect("an answer").status(), 401);
    pipelining.send(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n").expect("sent");
    // Idle connections are closed when time is up.
    assert!(idle.to_close().expect("an end").is_empty());
    for stream in [5, 7] {
        streams.get(stream, "/a").expect("sent");
        let refused = loop {
            let frame = streams.read().expect("a frame");
            if frame.stream == stream {
                break frame;
            }
        };
        assert_eq!((refused.kind, refused.code()), (RST_STREAM, Some(REFUSED_STREAM)));
    }
    answering.write_all(b"b").expect("sent");
    let rest = pipelining.to_close().expect("the rest");
    let rest = String::from_utf8_lossy(&rest);
    assert!(rest.contains("\r\n\r\nabHTTP/1.1 503 "), "{rest}");
    drop((streams, answering, node));
    assert!(gateway.process.wait_for_exit().success());
}

#[test]
fn a_successor_that_fails_changes_nothing() {
    let (gateway, file) = gateway_of_its_own_file(EMBEDDED);
    put_route(
        &gateway,
        "1",
        r#"{"uri": "/a", "plugins": {"mocking": {"content_type": "text/plain", "response_example": "a"}}}"#,
    );
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = listener.local_addr().expect("its address");
    let port = format!("port: {}}}]\n  ssl", gateway.http.port());
    let more = format!("port: {}}}, {{ip: 127.0.0.1, port: {}}}]\n  ssl", gateway.http.port(), taken.port());
    let pid = gateway.pid();
    let serves = |what: &str| {
        assert_eq!(gateway.pid(), pid, "{what}");
        assert_eq!(gateway.client().get("a.test", "/a").expect(what).body_text(), "a");
        // Its store is its own again.
        put_route(&gateway, "2", r#"{"uri": "/b", "plugins": {"mocking": {"response_example": "b"}}}"#);
    };

    // After it has the store: a port that it needs is taken.
    edit_config(&gateway, &port, &more);
    let (done, text) = gateway.verb("upgrade");
    assert!(!done && text.contains(&format!("cannot listen on {taken}")), "{text}");
    serves("a port is taken");
    drop(listener);
    edit_config(&gateway, &more, &port);

    // Before: config.yaml has a fault.
    edit_config(&gateway, "worker_processes: 1", "worker_processes: many");
    let (done, text) = gateway.verb("upgrade");
    assert!(!done && text.contains("worker_processes"), "{text}");
    serves("config.yaml has a fault");
    edit_config(&gateway, "worker_processes: many", "worker_processes: 1");

    // The defaults would listen elsewhere, and have neither keys nor guards.
    let config = gateway.prefix().join("conf/config.yaml");
    let written = fs::read_to_string(&config).expect("config.yaml");
    for text in ["", "# nothing yet\n", "null\n"] {
        fs::write(&config, text).expect("config.yaml written");
        let (done, said) = gateway.verb("upgrade");
        assert!(!done && said.contains("config.yaml is empty or missing"), "{text:?}: {said}");
    }
    fs::remove_file(&config).expect("removed");
    let (done, said) = gateway.verb("upgrade");
    assert!(!done && said.contains("config.yaml is empty or missing"), "{said}");
    fs::write(&config, written).expect("config.yaml written");
    serves("config.yaml is empty or missing");
    let other = gateway.prefix().join("conf/other.yaml");
    fs::copy(&config, &other).expect("copied");
    for verb in ["upgrade", "reload"] {
        let (done, said) = gateway.verb_with(&[verb, "-c", &other.display().to_string()]);
        assert!(!done && said.contains("the gateway reads "), "{verb}: {said}");
    }
    let (done, said) = gateway.verb_with(&["reload", "-c", &config.display().to_string()]);
    assert!(done, "{said}");

    // A program that is not a gateway, by the signal, which leaves only the log for an answer.
    replace(&file, Path::new("/bin/false"));
    gateway.process.signal(Signal::USR2);
    eventually("the new process ended before it served", || {
        gateway.error_log().contains("it ended (exit status: 1) before it was ready")
    });
    serves("another program");
    fs::remove_file(&file).expect("removed");
    gateway.process.signal(Signal::USR2);
    eventually("it has happened", || gateway.error_log().contains("cannot start"));
    serves("no program");
    // The program that runs is still at hand for a reload that needs a new process.
    edit_config(&gateway, "worker_processes: 1", "worker_processes: 2");
    let (done, text) = gateway.verb("reload");
    assert!(done, "{text}");
    assert_ne!(gateway.pid(), pid);
}

const MOCK: &str =
    "routes:\n- {id: 1, uri: /a, plugins: {mocking: {content_type: text/plain, response_example: a}}}\n";

#[test]
fn an_idle_connection_is_answered_once_more_and_addresses_come_and_go() {
    let mut gateway = Gateway::start(YAML_PROVIDER, Some(MOCK));
    let mut used = gateway.client();
    assert_eq!(used.get("a.test", "/a").expect("answers").status(), 200);
    let mut fresh = gateway.client();
    // The next process has one address more.
    let added = tidegate_testkit::free_port();
    let (one, two) = (
        format!("[{{ip: 127.0.0.1, port: {}}}]\n  ssl", gateway.http.port()),
        format!(
            "[{{ip: 127.0.0.1, port: {}}}, {{ip: 127.0.0.1, port: {added}}}]\n  ssl",
            gateway.http.port()
        ),
    );
    edit_config(&gateway, &one, &two);
    gateway.process.signal(Signal::HUP);
    let mut client = Client::connect(([127, 0, 0, 1], added).into()).expect("the new address is open");
    assert_eq!(client.get("a.test", "/a").expect("answers").status(), 200);
    eventually("it has happened", || gateway.pid() != i32::try_from(gateway.process.id()).ok());
    // Its worker learns a moment later that it drains.
    let last = loop {
        let answer = used.get("a.test", "/a").expect("the old process answers");
        assert_eq!(answer.status(), 200);
        if answer.header("connection").is_some() {
            break answer;
        }
    };
    let first = fresh.get("a.test", "/a").expect("the old process answers");
    for answer in [last, first] {
        assert_eq!((answer.status(), answer.header("connection")), (200, Some("close")));
    }
    assert!(gateway.process.wait_for_exit().success());
    // And back again: what the last one does not want is closed.
    edit_config(&gateway, &two, &one);
    let (done, text) = gateway.verb("reload");
    assert!(done, "{text}");
    drop(client);
    eventually("it has happened", || TcpStream::connect(("127.0.0.1", added)).is_err());
    assert_eq!(gateway.client().get("a.test", "/a").expect("answers").status(), 200);
    let (done, text) = gateway.verb("stop");
    assert!(done, "{text}");
}

/// Sends the head and half of a body, and the rest when it is told to.
fn halves() -> (std::net::SocketAddr, std::sync::mpsc::Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let (go, waiting) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let (mut node, _) = listener.accept().expect("a connection");
        let mut room = [0; 4096];
        let _ = node.read(&mut room);
        node.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nha").expect("half of it");
        let _ = waiting.recv();
        node.write_all(b"lf").expect("the rest");
        let _ = waiting.recv();
    });
    (address, go)
}

/// Its head could not announce the close any more: the connection stays for one request, like those that are idle.
#[test]
fn an_answer_under_way_does_not_end_its_connection() {
    let (node, go) = halves();
    let route =
        format!("- {{id: 2, uri: /half, upstream: {{type: roundrobin, nodes: {{\"{node}\": 1}}}}}}\n");
    let mut gateway = Gateway::start(YAML_PROVIDER, Some(&format!("{MOCK}{route}")));
    let (mut under_way, mut other) = (gateway.client(), gateway.client());
    under_way.send(b"GET /half HTTP/1.1\r\nHost: a.test\r\n\r\n").expect("sent");
    let begun = |client: &mut Client| {
        let mut seen = Vec::new();
        while !seen.ends_with(b"\r\n\r\nha") {
            seen.extend(client.exactly(1).expect("the first half"));
        }
        String::from_utf8_lossy(&seen).to_ascii_lowercase()
    };
    assert!(!begun(&mut under_way).contains("connection: close"));
    let (done, text) = gateway.verb("upgrade");
    assert!(done, "{text}");
    while other.get("a.test", "/a").expect("an answer").header("connection").is_none() {}
    go.send(()).expect("the node waits");
    assert_eq!(under_way.exactly(2).expect("the second half"), b"lf");
    let last = under_way.get("a.test", "/a").expect("the old process answers");
    assert_eq!((last.status(), last.header("connection")), (200, Some("close")));
    assert!(gateway.process.wait_for_exit().success());
    let (done, text) = gateway.verb("stop");
    assert!(done, "{text}");
}

#[test]
fn requests_under_way_finish() {
    let upstream = Upstream::start();
    let routes = format!(
        "routes:\n- {{id: 1, uri: \"/*\", upstream: {{type: roundrobin, nodes: {{\"{}\": 1}}}}}}\n",
        upstream.address
    );
    let mut gateway = Gateway::start(YAML_PROVIDER, Some(&routes));
    eventually("it has happened", || gateway.prefix().join("logs/tidegate.sock").exists());
    // A body half sent, an answer half made over HTTP/1.1 and over HTTP/2.
    let mut sending = gateway.client();
    sending.send(b"POST /echo HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\nhello").expect("sent");
    let mut waiting = gateway.client();
    waiting.send(b"GET /delay/3000 HTTP/1.1\r\nHost: a.test\r\n\r\n").expect("sent");
    let mut stream = Http2Client::connect(gateway.http, &[]).expect("connects");
    stream.get(1, "/delay/3000").expect("sent");
    let late = |seen: &Seen| seen.message.target() == "/delay/3000";
    eventually("it has happened", || upstream.seen().iter().filter(|seen| late(seen)).count() == 2);
    let (done, text) = gateway.verb("upgrade");
    assert!(done, "{text}");
    assert_eq!(
        gateway.client().get("a.test", "/bytes/3").expect("the new process answers").body_text(),
        "xxx"
    );
    sending.send(b"world").expect("sent");
    let answer = sending.response().expect("answered");
    assert!(answer.status() == 200 && answer.body_text().ends_with("helloworld"), "{answer:?}");
    assert_eq!(waiting.response().expect("answered").body_text(), "late");
    let body = stream.wait_for(DATA).expect("answered");
    assert_eq!(body.payload, b"late");
    drop((sending, waiting, stream));
    assert!(gateway.process.wait_for_exit().success());
}

#[test]
fn service_managers_are_told_who_serves() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a limit");
    let heard = || {
        let mut buffer = [0; 512];
        let length = socket.recv(&mut buffer).expect("a message");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    let echo = Upstream::start();
    let routes = format!(
        "routes:\n- {{id: 1, uri: /upgrade, enable_websocket: true, upstream: {{type: roundrobin, nodes: {{\"{}\": 1}}}}}}\n",
        echo.address
    );
    let config =
        YAML_PROVIDER.replace("worker_processes: 1", "worker_processes: 1\n  worker_shutdown_timeout: 1s");
    let mut gateway = Gateway::start_by(&config, Some(&routes), |prefix| {
        let mut command = run_command(prefix);
        command.env("NOTIFY_SOCKET", &path);
        command
    });
    assert_eq!(heard(), "READY=1\n");
    let old = gateway.process.id().to_string();
    let mut tunnel = open_tunnel(&gateway);
    let (done, text) = gateway.verb("upgrade");
    assert!(done, "{text}");
    let reloading = heard();
    assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
    let pid = gateway.pid().expect("a pid");
    assert_eq!(heard(), format!("MAINPID={pid}\nREADY=1\n"));
    let draining = gateway.prefix().join("logs/tidegate.pid.oldbin");
    assert_eq!(fs::read_to_string(&draining).expect("the pid of the old process").trim(), old);
    // It does not wait for WebSockets for ever.
    echoes(&mut tunnel, "still there");
    assert_eq!(tunnel.to_close().expect("closed"), b"");
    assert!(gateway.process.wait_for_exit().success());
    assert!(!draining.exists());
    let (done, text) = gateway.verb("quit");
    assert!(done, "{text}");
    assert_eq!(heard(), "STOPPING=1\n");
    // The pid file is empty once it has ended.
    eventually("it has happened", || gateway.pid().is_none());
}

#[test]
fn the_first_process_can_stay() {
    let mut gateway = Gateway::start_by(YAML_PROVIDER, Some(MOCK), |prefix| {
        let mut command = run_command(prefix);
        command.arg("--stay");
        command
    });
    gateway.process.wait_for_port(gateway.http);
    eventually("it has happened", || gateway.prefix().join("logs/tidegate.sock").exists());
    let first = gateway.pid();
    let (done, text) = gateway.verb("upgrade");
    assert!(done, "{text}");
    let second = gateway.pid();
    assert_ne!(second, first);
    // What its supervisor tells it is for whoever serves; that one's successor is found, too.
    gateway.process.signal(Signal::USR2);
    eventually("it has happened", || gateway.pid().is_some_and(|pid| Some(pid) != second));
    assert_ne!(gateway.pid(), first);
    assert_eq!(gateway.client().get("a.test", "/a").expect("answers").status(), 200);
    assert!(gateway.process.stop().success());
    assert_eq!(gateway.pid(), None);
    assert!(TcpStream::connect(gateway.http).is_err());
}

#[test]
fn a_configuration_that_lives_in_memory_is_handed_over() {
    let config = EMBEDDED.replace("config_provider: embedded", "config_provider: yaml");
    let mut gateway = Gateway::start_unready(&config, None);
    gateway.process.wait_for_port(gateway.admin);
    let body = r#"{"routes": [{"id": "1", "uri": "/a", "plugins": {"mocking": {"content_type": "text/plain", "response_example": "a"}}}]}"#;
    let mut client = Client::connect(gateway.admin).expect("connects");
    let answer = client.request(&format!(
        "PUT /apisix/admin/configs HTTP/1.1\r\nHost: admin\r\nX-API-KEY: {ADMIN_KEY}\r\nX-Digest: d1\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    ));
    assert_eq!(answer.expect("answers").status(), 202);
    assert_eq!(gateway.client().get("a.test", "/a").expect("answers").body_text(), "a");
    let before = gateway.admin("GET", "/apisix/admin/configs", "");
    let (done, text) = gateway.verb("upgrade");
    assert!(done, "{text}");
    assert_eq!(gateway.client().get("a.test", "/a").expect("answers").body_text(), "a");
    assert_eq!(gateway.admin("GET", "/apisix/admin/configs", ""), before);
}

/// What the gateway answers to a line on its command socket.
fn command(gateway: &Gateway, line: &str) -> String {
    let path = gateway.prefix().join("logs/tidegate.sock");
    let mut stream = UnixStream::connect(path).expect("connects");
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
    stream.write_all(line.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn commands_are_for_the_user_of_the_gateway_and_have_limits() {
    let gateway = Gateway::start(YAML_PROVIDER, Some(MOCK));
    let path = gateway.prefix().join("logs/tidegate.sock");
    eventually("it has happened", || path.exists());
    let mode = fs::metadata(&path).expect("the socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let answer = command(&gateway, "{\"command\": \"dance\"}\n");
    assert!(answer.starts_with("{\"failed\":\"unknown variant"), "{answer}");
    // A program that does nothing, and lets nobody else try meanwhile.
    let program = gateway.prefix().join("idle");
    fs::write(&program, "#!/bin/sh\nexec sleep 60\n").expect("a script");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
    let line = |seconds: u64| {
        let program = program.display();
        format!("{{\"command\": \"upgrade\", \"program\": \"{program}\", \"timeout_seconds\": {seconds}}}\n")
    };
    let pid = gateway.pid();
    let first = command(&gateway, &line(0));
    assert!(first.contains("it was not ready in time and was killed"), "{first}");
    thread::scope(|scope| {
        // Until the long one has begun, the short one is tried itself, and may be first.
        let long = scope.spawn(|| {
            let answers = std::iter::repeat_with(|| command(&gateway, &line(2)));
            answers.into_iter().find(|answer| !answer.contains("is about to take over")).unwrap_or_default()
        });
        eventually("it has happened", || command(&gateway, &line(0)).contains("is about to take over"));
        let answer = long.join().expect("answered");
        assert!(answer.contains("it was not ready in time"), "{answer}");
    });
    assert_eq!(gateway.pid(), pid);
    assert_eq!(gateway.client().get("a.test", "/a").expect("answers").status(), 200);
}
