//! An upstream that answers as a table says, with TLS or without.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;
use tidegate_testkit::Message;
use tidegate_testkit::message::{BodyEnd, Reader};

#[derive(Default)]
struct Shared {
    answers: Mutex<Vec<(String, String)>>,
    seen: Mutex<Vec<String>>,
    opened: AtomicUsize,
}

pub(super) struct Upstream {
    pub(super) address: SocketAddr,
    shared: Arc<Shared>,
}

impl Upstream {
    pub(super) fn start(tls: Option<Arc<ServerConfig>>) -> Upstream {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared::default());
        let accepting = shared.clone();
        thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                accepting.opened.fetch_add(1, Ordering::SeqCst);
                let (shared, tls) = (accepting.clone(), tls.clone());
                thread::spawn(move || {
                    let _ = socket.set_nodelay(true);
                    match tls.map(|config| ServerConnection::new(config).expect("a connection")) {
                        Some(secure) => serve_tls(secure, socket, &shared),
                        None => {
                            read_proxy_header(&socket, &shared);
                            serve(socket, &shared);
                        }
                    }
                });
            }
        });
        Upstream { address, shared }
    }

    pub(super) fn answer_with(&self, answers: &Value) {
        let text = |value: &Value| value.as_str().expect("an answer").to_owned();
        let answers = super::fields(answers).map(|(path, answer)| (path.clone(), text(answer)));
        *self.shared.answers.lock().unwrap_or_else(PoisonError::into_inner) = answers.collect();
    }

    pub(super) fn seen(&self) -> Vec<String> {
        self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn opened(&self) -> usize {
        self.shared.opened.load(Ordering::SeqCst)
    }

    pub(super) fn forget(&self) {
        self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

fn serve_tls(mut secure: ServerConnection, mut socket: TcpStream, shared: &Shared) {
    if secure.complete_io(&mut socket).is_ok() {
        let name = secure.server_name().unwrap_or("nobody");
        let certificate = if secure.peer_certificates().is_some() { "a" } else { "no" };
        let text = format!("TLS for {name}, with {certificate} certificate\r\n");
        shared.seen.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }
    serve(StreamOwned::new(secure, socket), shared);
}

/// A line of the PROXY protocol, if the connection begins with one.
fn read_proxy_header(mut socket: &TcpStream, shared: &Shared) {
    let mut start = [0; 6];
    if !socket.peek(&mut start).is_ok_and(|read| start[..read] == *b"PROXY ") {
        return;
    }
    let (mut line, mut byte) = (Vec::new(), [0]);
    while !line.ends_with(b"\n") && socket.read_exact(&mut byte).is_ok() {
        line.extend(byte);
    }
    let line = String::from_utf8_lossy(&line).into_owned();
    shared.seen.lock().unwrap_or_else(PoisonError::into_inner).push(line);
}

fn serve(stream: impl Read + Write, shared: &Shared) {
    let mut reader = Reader::new(stream);
    while let Ok(mut request) = reader.head() {
        if reader.body(&mut request, BodyEnd::None).is_err() {
            return;
        }
        let text = String::from_utf8_lossy(&request.head).into_owned() + &request.body_text();
        shared.seen.lock().unwrap_or_else(PoisonError::into_inner).push(text.clone());
        let answer = answer(&request, &text, shared);
        if answer.is_empty() || reader.stream.write_all(&answer).and_then(|()| reader.stream.flush()).is_err()
        {
            return;
        }
    }
}

/// Empty: the connection is closed without one.
fn answer(request: &Message, text: &str, shared: &Shared) -> Vec<u8> {
    let path = request.target().split('?').next().unwrap_or_default();
    let answers = shared.answers.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let of_path = answers.iter().find(|(known, _)| match known.strip_suffix('*') {
        Some(start) => path.starts_with(start),
        None => path == known,
    });
    let echo = || format!("200|Server: testkit||{text}");
    let asked = request.header("X-Answer").or(of_path.map(|(_, answer)| answer.as_str()));
    let mut said = asked.map_or_else(echo, str::to_owned);
    if let Some((time, rest)) = said.strip_prefix("wait=").and_then(|rest| rest.split_once('|')) {
        wait(Duration::from_millis(time.parse().expect("milliseconds")));
        said = rest.to_owned();
    }
    if said == "close" {
        return Vec::new();
    }
    let (head, body) = said.split_once("||").unwrap_or((&said, ""));
    let (status, lines) = head.split_once('|').unwrap_or((head, ""));
    let mut answer = format!("HTTP/1.1 {status} Status\r\n");
    lines.split('|').filter(|line| !line.is_empty()).for_each(|line| answer += &format!("{line}\r\n"));
    if !matches!(status, "204" | "304") {
        answer += &format!("Content-Length: {}\r\n", body.len());
    }
    answer += "\r\n";
    if request.method() != "HEAD" {
        answer += body;
    }
    answer.into_bytes()
}

/// What a table asks for, not a guess at when something is ready.
fn wait(time: Duration) {
    let until = Instant::now() + time;
    while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        thread::park_timeout(left);
    }
}
