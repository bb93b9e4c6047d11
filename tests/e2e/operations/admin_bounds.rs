//! What strangers, and clients with a key, can take up at the Admin API and its siblings.

mod bodies;
mod connections;
pub(crate) mod descriptors;
mod siblings;
mod values;

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use tidegate_testkit::gateway::{ADMIN_KEY, EMBEDDED, Gateway};
use tidegate_testkit::{Client, PATIENCE};

const ROUTE: &str = r#"{"uri": "/a", "plugins": {"mocking": {"response_example": "fine"}}}"#;

/// config.yaml with these keys below `deployment.admin`, among them `limits: {...}`.
fn with(admin: &str) -> String {
    EMBEDDED.replace("  admin:\n", &format!("  admin:\n    {admin}\n"))
}

fn start(admin: &str) -> Gateway {
    let gateway = Gateway::start(&with(admin), None);
    wait_for(gateway.admin);
    gateway
}

fn wait_for(address: SocketAddr) {
    let answer = Client::connect(address).expect("connects").get("h", "/");
    assert!(answer.is_ok(), "{answer:?}");
}

/// Resident memory: the most there was since [`forget_peak`].
fn peak_kb(gateway: &Gateway) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", gateway.process.id())).expect("the process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse().expect("kilobytes")
}

/// From now on the peak is what there is.
fn forget_peak(gateway: &Gateway) -> u64 {
    fs::write(format!("/proc/{}/clear_refs", gateway.process.id()), "5").expect("the peak is forgotten");
    peak_kb(gateway)
}

/// The head of a request with a body of this length.
fn head(method: &str, path: &str, key: &str, length: usize, more: &str) -> String {
    let key = if key.is_empty() { String::new() } else { format!("X-API-KEY: {key}\r\n") };
    format!(
        "{method} /apisix/admin/{path} HTTP/1.1\r\nHost: h\r\n{key}{more}Content-Length: {length}\r\n\r\n"
    )
}

/// Sends a head and a body as programs do that look at the answer afterwards. Returns what came, and whether all could be
/// sent before.
fn upload(address: SocketAddr, head: &str, length: usize) -> (String, bool) {
    let mut stream = TcpStream::connect(address).expect("connects");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream.set_write_timeout(Some(PATIENCE)).expect("set");
    stream.write_all(head.as_bytes()).expect("the head is sent");
    let piece = vec![b'x'; 64 * 1024];
    let mut sent = 0;
    // The gateway may end it: its answer is there all the same.
    while sent < length && stream.write_all(&piece[..piece.len().min(length - sent)]).is_ok() {
        sent += piece.len();
    }
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    (String::from_utf8_lossy(&answer).into_owned(), sent >= length)
}

fn get(gateway: &Gateway, from: &str) -> Option<u16> {
    let mut client = Client::connect_from(from.parse().ok()?, gateway.admin).ok()?;
    ask(&mut client)
}

/// The status of a request with the key; the connection stays open.
fn ask(client: &mut Client) -> Option<u16> {
    let request = format!("GET /apisix/admin/routes HTTP/1.1\r\nHost: h\r\nX-API-KEY: {ADMIN_KEY}\r\n\r\n");
    client.request(&request).ok().map(|answer| answer.status())
}
