//! The watchdog: a worker that does not come back is named and replaced, and a process that has lost two is as well.
//!
//! What holds a worker here is a fault on purpose that only programs with `debug_assertions` have, see
//! `crates/proxy/src/fault.rs`; tests of a release build leave this module out.

mod ending;
mod successor;

use std::{
    fs::{self, File, OpenOptions},
    net::SocketAddr,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{CWD, FileType, Mode, OFlags, mknodat},
    process::Signal,
};
use tempfile::TempDir;
use tidegate_testkit::eventually;
use tidegate_testkit::{
    Client, Gateway, Http2Client, PATIENCE, Upstream,
    gateway::{YAML_PROVIDER, run_command},
};

/// One route that needs nothing, two that a worker can be held in.
const ROUTES: &str = r##"routes:
  - {id: quick, uri: /quick, plugins: {mocking: {response_status: 204, response_example: x}}}
  - id: first
    uri: /first
    plugins: {request-id: {}, mocking: {response_status: 204, response_example: x}}
  - id: second
    uri: /second
    plugins: {uri-blocker: {block_rules: ["xyz"]}, mocking: {response_status: 204, response_example: x}}
"##;

const FIRST: &str = "request-id";
const SECOND: &str = "uri-blocker";

/// Of one second until a worker is given up and what follows; a machine with a lot to do may take longer for the rest.
const SOON: Duration = Duration::from_secs(3);

/// A gateway whose workers can be held.
struct Held {
    gateway: Gateway,
    folder: TempDir,
}

/// A worker that waits in a plugin; dropping it lets it go on.
struct Hold {
    _pipe: File,
    client: Client,
    began: Instant,
}

impl Held {
    fn start(workers: usize, routes: &str, more: &[&str]) -> Held {
        let folder = tempfile::tempdir().expect("a folder");
        let config = YAML_PROVIDER.replace("worker_processes: 1", &format!("worker_processes: {workers}"));
        let mut gateway = Gateway::start_by(&config, Some(routes), |prefix| {
            let mut command = run_command(prefix);
            command.args(more).env("TIDEGATE_TEST_HOLD", folder.path());
            command
        });
        gateway.process.wait_for_port(gateway.http);
        Held { gateway, folder }
    }

    /// A request that holds its worker; returns when it does.
    fn hold(&self, path: &str, plugin: &str) -> Hold {
        let pipe = self.folder.path().join(plugin);
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a named pipe");
        let mut client = self.gateway.client();
        client.send(get(path).as_bytes()).expect("sent");
        let deadline = Instant::now() + PATIENCE;
        loop {
            // It can be opened as soon as somebody is about to read from it.
            let opened =
                OpenOptions::new().write(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(&pipe);
            if let Ok(opened) = opened {
                // The next request finds nothing to wait for.
                fs::remove_file(&pipe).expect("removed");
                return Hold { _pipe: opened, client, began: Instant::now() };
            }
            assert!(Instant::now() < deadline, "nobody is held at {path}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn is_stuck_in_log(&self) -> bool {
        self.gateway.error_log().contains("is stuck")
    }
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n")
}

/// Threads of a process with a name that begins so.
fn threads(process: u32, name: &str) -> usize {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|comm| comm.starts_with(name)).count()
}

fn page(gateway: &Gateway) -> String {
    let mut client = Client::connect(gateway.metrics).expect("the metrics port accepts connections");
    client.get("metrics", "/apisix/prometheus/metrics").expect("a page").body_text()
}

fn wait_for_metric(gateway: &Gateway, line: &str) {
    eventually(line, || page(gateway).lines().any(|found| found == line));
}

/// One connection after the other with a request each, until told to stop: how many were answered, and how many ended
/// without an answer, as those do that a worker has accepted when it is held.
fn connect_until(stop: &AtomicBool, address: SocketAddr) -> (usize, usize) {
    let (mut answered, mut cut) = (0, 0);
    while !stop.load(SeqCst) {
        let mut client = Client::connect(address).expect("a connection");
        match client.get("h", "/quick") {
            Ok(answer) if answer.status() == 204 => answered += 1,
            Ok(answer) => panic!("{answer:?}"),
            Err(_) => cut += 1,
        }
    }
    (answered, cut)
}

#[test]
fn another_worker_takes_the_place() {
    let held = Held::start(2, ROUTES, &[]);
    let (gateway, process) = (&held.gateway, held.gateway.process.id());
    let mut open: Vec<Client> = (0..16).map(|_| gateway.client()).collect();
    for client in &mut open {
        assert_eq!(client.get("h", "/quick").expect("an answer").status(), 204);
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let mut hold = held.hold("/first", FIRST);
        let others = scope.spawn(|| connect_until(&stop, gateway.http));
        // Some of them wait in the queue of the worker that is held.
        let mut waiting: Vec<Client> = (0..32).map(|_| gateway.client()).collect();
        for client in &mut waiting {
            client.send(get("/quick").as_bytes()).expect("sent");
        }
        for client in &mut waiting {
            assert_eq!(client.response().expect("an answer").status(), 204);
        }
        let took = hold.began.elapsed();
        assert!(took < SOON, "answered after {took:?}");
        println!("the queue of a stuck worker was answered after {took:?}");
        // Its own clients hear that there is nothing to wait for.
        assert!(hold.client.to_close().expect("the end").is_empty());
        let answered = open.iter_mut().filter_map(|client| client.get("h", "/quick").ok()).count();
        assert!((1..open.len()).contains(&answered), "{answered} of {} on the other worker", open.len());
        stop.store(true, SeqCst);
        let (others, cut) = others.join().expect("connections");
        assert!(others > 0 && cut == 0, "{others} answered, {cut} cut");

        gateway.wait_for_log("has been stuck for 1.");
        let log = gateway.error_log();
        let line = log.lines().find(|line| line.contains("has been stuck")).unwrap_or_default();
        assert!(line.contains("plugin request-id (rewrite), route: first"), "{line}");
        let worker = if line.contains("worker 0 ") { "0" } else { "1" };
        let series = format!(
            "apisix_worker_stuck_total{{worker=\"{worker}\",route=\"first\",plugin=\"request-id\"}} 1"
        );
        wait_for_metric(gateway, &series);
        wait_for_metric(gateway, "apisix_worker_stuck_threads 1");
        assert_eq!(threads(process, "worker-"), 3);
        drop(hold);
    });
    // It comes back, and ends.
    gateway.wait_for_log("has ended");
    assert_eq!(threads(process, "worker-"), 2);
    wait_for_metric(gateway, "apisix_worker_stuck_threads 0");
    assert_eq!(gateway.client().get("h", "/first").expect("an answer").status(), 204);
    assert_eq!(
        gateway.pid(),
        i32::try_from(process).ok(),
        "one stuck worker is not a reason for a new process"
    );
}

/// One that computes, and is the only one: whoever speaks to it hears the end, in any protocol.
#[test]
fn all_connections_of_a_stuck_worker_end() {
    let upstream = Upstream::start();
    let node = format!("upstream: {{type: roundrobin, nodes: {{\"{}\": 1}}}}", upstream.address);
    let held = Held::start(
        1,
        &format!("{ROUTES}  - {{id: tunnel, uri: /upgrade, enable_websocket: true, {node}}}\n"),
        &[],
    );
    let gateway = &held.gateway;
    let mut idle = gateway.client();
    assert_eq!(idle.get("h", "/quick").expect("an answer").status(), 204);
    let mut tunnel = gateway.client();
    let upgrade = "GET /upgrade HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    assert_eq!(tunnel.request(upgrade).expect("an answer").status(), 101);
    let mut http2 = Http2Client::connect(gateway.http, &[]).expect("a connection");
    http2.get(1, "/quick").expect("sent");
    http2.wait_for(tidegate_testkit::http2::HEADERS).expect("an answer");

    let computing = self::computing(held.folder.path(), FIRST);
    let mut client = gateway.client();
    client.send(get("/first").as_bytes()).expect("sent");
    assert!(client.to_close().expect("the end").is_empty());
    assert!(idle.to_close().expect("the end").is_empty());
    assert!(tunnel.to_close().expect("the end").is_empty());
    eventually("the end of the HTTP/2 connection", || http2.read().is_err());
    assert_eq!(gateway.client().get("h", "/quick").expect("an answer").status(), 204);
    gateway.wait_for_log("plugin request-id (rewrite), route: first");
    drop(computing);
    gateway.wait_for_log("has ended");
}

/// Whoever is about to run the plugin computes until this is dropped.
fn computing(folder: &Path, plugin: &str) -> impl Drop {
    struct File(std::path::PathBuf);
    impl Drop for File {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }
    let path = folder.join(plugin);
    fs::write(&path, "").expect("written");
    File(path)
}

/// A process that does not run holds up nobody for longer than it ran.
#[test]
fn a_stopped_process_is_not_stuck() {
    let held = Held::start(2, ROUTES, &[]);
    let (gateway, process) = (&held.gateway, held.gateway.process.id());
    let Hold { _pipe: pipe, mut client, .. } = held.hold("/first", FIRST);
    gateway.process.signal(Signal::STOP);
    thread::sleep(Duration::from_secs(3));
    gateway.process.signal(Signal::CONT);
    // Longer than the pause between two looks of the watchdog.
    assert!(client.stays_silent(Duration::from_millis(250)));
    drop(pipe);
    assert_eq!(client.response().expect("an answer").status(), 204);
    assert!(!held.is_stuck_in_log(), "{}", gateway.error_log());
    assert_eq!(threads(process, "worker-"), 2);
}
