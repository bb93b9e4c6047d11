//! A process that drains after an upgrade is in nobody's way: the gateway can be stopped, started and restored meanwhile, and
//! `stop` ends it, too.

use std::{
    fs,
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::mpsc::{Receiver, Sender, channel},
    thread,
};

use rustix::process::{Pid, Signal, kill_process};
use tidegate_testkit::{Client, Gateway, PATIENCE, eventually, free_port, gateway::EMBEDDED};

/// A node that says when it has its request, and answers when it is told to.
fn node() -> (SocketAddr, Receiver<()>, Sender<()>) {
    let node = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = node.local_addr().expect("an address");
    let (asked, is_asked) = channel();
    let (go, may_answer) = channel::<()>();
    thread::spawn(move || -> io::Result<()> {
        let (mut client, _) = node.accept()?;
        let _ = client.read(&mut [0; 4096])?;
        let _ = asked.send(());
        let _ = may_answer.recv();
        client.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate")
    });
    (address, is_asked, go)
}

/// A request is under way.
fn asked(config: &str) -> (Gateway, Client, Sender<()>) {
    let (address, is_asked, go) = node();
    let gateway = Gateway::start(config, None);
    let route = format!("{{\"uri\": \"/late\", \"upstream\": {{\"nodes\": {{\"{address}\": 1}}}}}}");
    let (status, answer) = gateway.admin("PUT", "/apisix/admin/routes/late", &route);
    assert_eq!(status, 201, "{answer}");
    let mut client = gateway.client();
    client.send(b"GET /late HTTP/1.1\r\nHost: a.test\r\n\r\n").expect("sent");
    is_asked.recv_timeout(PATIENCE).expect("the request is under way");
    (gateway, client, go)
}

/// The same, in a process that has handed over to another. The pids: of the one that drains and of the one that serves.
fn upgraded() -> (Gateway, Client, Sender<()>, (i32, i32)) {
    let (gateway, client, go) = asked(EMBEDDED);
    let drains = gateway.pid().expect("a pid");
    let (done, text) = gateway.verb("upgrade");
    assert!(done, "{text}");
    let serves = gateway.pid().expect("a pid");
    assert_ne!(serves, drains, "{text}");
    (gateway, client, go, (drains, serves))
}

fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).expect("a pid"), Signal::KILL).expect("killed");
}

fn is_gone(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with(['Z', 'X']))
}

#[test]
fn stop_ends_what_drains_as_well() {
    let (gateway, mut client, _go, (drains, serves)) = upgraded();
    let (done, text) = gateway.verb("stop");
    assert!(done, "{text}");
    assert!(text.contains(&format!("process {serves} stopped")), "{text}");
    assert!(text.contains(&format!("process {drains}, which finished requests from before")), "{text}");
    assert!(is_gone(drains) && is_gone(serves));
    assert!(client.response().is_err(), "at once");
    let (done, text) = gateway.verb("stop");
    assert!(!done && text.contains("not running: no process holds"), "{text}");
    let (done, text) = gateway.verb("start");
    assert!(done, "{text}");
    let (done, text) = gateway.verb("stop");
    assert!(done, "{text}");
}

#[test]
fn after_a_quit_it_finishes_beside_the_next_one() {
    let (gateway, mut client, go, (drains, serves)) = upgraded();
    let backup = gateway.prefix().join("backup");
    let (done, text) = gateway.verb_with(&["config", "backup", &backup.display().to_string()]);
    assert!(done, "{text}");
    let (done, text) = gateway.verb("quit");
    assert!(done, "{text}");
    eventually("the new process ends", || is_gone(serves));
    assert!(!is_gone(drains), "a request is under way");
    for verb in ["quit", "reload", "upgrade"] {
        let (done, text) = gateway.verb(verb);
        assert!(!done && text.contains(&format!("process {drains} only finishes requests")), "{text}");
        assert!(text.contains("`tidegate start`") && text.contains("`tidegate stop`"), "{text}");
    }
    let (_, text) = gateway.verb("doctor");
    assert!(text.contains(&format!("none serves; {drains} only finishes requests")), "{text}");
    let (done, text) = gateway.verb_with(&["config", "restore", &backup.display().to_string()]);
    assert!(done, "{text}");
    let (done, text) = gateway.verb("start");
    assert!(done, "{text}");
    let (_, text) = gateway.verb("doctor");
    assert!(text.contains(&format!("serves; {drains} finishes requests from before")), "{text}");
    go.send(()).expect("the node waits");
    assert_eq!(client.response().expect("the old process answers").body_text(), "late");
    eventually("the old process ends", || is_gone(drains));
    assert!(!gateway.prefix().join(format!("logs/tidegate.pid.draining-{drains}")).exists());
    let (done, text) = gateway.verb("stop");
    assert!(done, "{text}");
}

#[test]
fn a_crash_of_the_new_process_leaves_no_pid_behind() {
    let (gateway, mut client, go, (drains, serves)) = upgraded();
    kill(serves);
    eventually("it is gone", || is_gone(serves));
    let (done, text) = gateway.verb("start");
    assert!(done, "{text}");
    go.send(()).expect("the node waits");
    assert_eq!(client.response().expect("the old process answers").body_text(), "late");
    eventually("the old process ends", || is_gone(drains));
    let (done, text) = gateway.verb("stop");
    assert!(done, "{text}");
}

#[test]
fn what_drains_alone_can_be_stopped() {
    let (gateway, _client, _go, (drains, serves)) = upgraded();
    kill(serves);
    eventually("it is gone", || is_gone(serves));
    let (done, text) = gateway.verb("stop");
    assert!(done && text.contains(&format!("process {drains}")), "{text}");
    assert!(is_gone(drains));
}

/// A gateway that ends is not well: it accepts nobody, and who asks whether it serves is told so.
#[test]
fn what_ends_is_not_healthy() {
    let status = format!("apisix:\n  status: {{ip: 127.0.0.1, port: {}}}\n", free_port());
    for (config, asks) in [
        (EMBEDDED.to_owned(), "the Control API at"),
        (EMBEDDED.replacen("apisix:\n", &status, 1), "the status page at"),
    ] {
        let (mut gateway, mut client, go) = asked(&config);
        let get = |address: SocketAddr, path: &str| {
            Client::connect(address).expect("it listens").get("localhost", path).expect("an answer")
        };
        let (well, text) = gateway.verb("health");
        assert!(well, "{asks}: {text}");
        assert_eq!(get(gateway.control, "/v1/healthcheck").status(), 200);
        let (done, text) = gateway.verb("quit");
        assert!(done, "{text}");
        eventually("it accepts nobody", || TcpStream::connect(gateway.http).is_err());
        let (well, text) = gateway.verb("health");
        assert!(!well && text.contains("the gateway is ending and accepts no connections"), "{asks}: {text}");
        assert!(text.contains(asks), "{text}");
        let answer = get(gateway.control, "/v1/healthcheck");
        assert_eq!(answer.status(), 503, "{answer:?}");
        assert_eq!(get(gateway.control, "/v1/routes").status(), 200);
        let (done, text) = gateway.verb("start");
        assert!(!done && text.contains("After `tidegate quit` it runs until its last response"), "{text}");
        go.send(()).expect("the node waits");
        assert_eq!(client.response().expect("an answer").body_text(), "late");
        gateway.process.wait_for_exit();
        let (done, text) = gateway.verb("start");
        assert!(done, "{text}");
        let (done, text) = gateway.verb("stop");
        assert!(done, "{text}");
    }
}
