//! Three proxies (this gateway, nginx and haproxy), each in front of upstreams that write down every byte, and what
//! [`readings`] make of those bytes. The tables of requests are in [`crate::protocols::differential`] and [`crate::protocols::downgrade`].

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Read, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_testkit::gateway::{Gateway, YAML_PROVIDER, workspace_root};
use tidegate_testkit::message::{BodyEnd, Reader};
use tidegate_testkit::servers::{self, Server};
use tidegate_testkit::{Client, free_port};

use crate::protocols::readings;

/// Cases that run at the same time, each over its own ports.
const LANES: usize = 8;
/// How long a proxy waits for the rest of a request that never comes.
const LIMIT: &str = "400ms";

type Bytes = Arc<Mutex<BTreeMap<usize, Vec<u8>>>>;

/// Writes down what comes on each connection, and answers what it reads as requests.
pub(super) struct Recorder {
    address: SocketAddr,
    seen: Bytes,
}

/// A stream whose bytes are written down as they are read.
struct Recorded {
    stream: TcpStream,
    number: usize,
    seen: Bytes,
}

impl Read for Recorded {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let count = self.stream.read(room)?;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.entry(self.number).or_default().extend_from_slice(&room[..count]);
        Ok(count)
    }
}

impl Recorder {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let seen = Bytes::default();
        let shared = Arc::clone(&seen);
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().flatten().enumerate() {
                let seen = Arc::clone(&shared);
                std::thread::spawn(move || answer(Recorded { stream, number, seen }));
            }
        });
        Recorder { address, seen }
    }

    pub(super) fn take(&self) -> Vec<Vec<u8>> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *seen).into_values().collect()
    }
}

fn answer(recorded: Recorded) {
    let Ok(mut output) = recorded.stream.try_clone() else { return };
    let mut reader = Reader::new(recorded);
    while let Ok(mut message) = reader.head() {
        if reader.body(&mut message, BodyEnd::None).is_err() {
            break;
        }
        let body = if message.method() == "HEAD" { "" } else { "ok" };
        let text = format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{body}");
        if output.write_all(text.as_bytes()).is_err() {
            return;
        }
    }
    // What is not a request to this reader is still written down.
    let _ = reader.to_close();
}

/// A proxy with a recorder behind each of its ports.
pub(super) struct Proxy {
    pub name: &'static str,
    lanes: Vec<(SocketAddr, Recorder)>,
    _nginx: Option<Server>,
    _gateway: Option<Gateway>,
}

fn lanes() -> Vec<(SocketAddr, Recorder)> {
    (0..LANES).map(|_| (SocketAddr::from(([127, 0, 0, 1], free_port())), Recorder::start())).collect()
}

pub(super) fn tidegate() -> Proxy {
    let lanes = lanes();
    let mut listen = "{ip: 127.0.0.1, port: @HTTP@}".to_owned();
    let mut routes = "routes:\n".to_owned();
    for (number, (front, recorder)) in lanes.iter().enumerate() {
        let port = front.port();
        let _ = write!(listen, ", {{ip: 127.0.0.1, port: {port}}}");
        let _ = writeln!(
            routes,
            "- {{id: {number}, uri: \"/*\", vars: [[server_port, \"==\", \"{port}\"]], upstream: {{type: roundrobin, \
             nodes: {{\"{}\": 1}}}}}}",
            recorder.address
        );
    }
    let config = YAML_PROVIDER.replace("{ip: 127.0.0.1, port: @HTTP@}", &listen).replace(
        "enable_access_log: false",
        &format!(
            "enable_access_log: false, client_header_timeout: {LIMIT}, client_body_timeout: {LIMIT}, \
             keepalive_timeout: {LIMIT}"
        ),
    );
    let gateway = Gateway::start(&config, Some(&routes));
    Proxy { name: "tidegate", lanes, _nginx: None, _gateway: Some(gateway) }
}

/// `protocol` is what its ports speak: nothing for HTTP/1, or `http2`.
pub(super) fn nginx(protocol: &str) -> Proxy {
    let lanes = lanes();
    let mut text = "return 204; }\n".to_owned();
    for (number, (front, recorder)) in lanes.iter().enumerate() {
        let _ = writeln!(
            text,
            "upstream u{number} {{ server {}; keepalive 8; }}\n\
             server {{ listen {front} {protocol}; client_header_timeout {LIMIT}; client_body_timeout {LIMIT}; proxy_read_timeout 2s;\n\
             keepalive_timeout {LIMIT}; location / {{ proxy_pass http://u{number}; proxy_http_version 1.1;\n\
             proxy_set_header Connection \"\"; proxy_request_buffering off; }} }}",
            recorder.address
        );
    }
    let _ = write!(text, "server {{ listen 127.0.0.1:{}; return 204;", free_port());
    Proxy { name: "nginx", lanes, _nginx: Some(servers::nginx(&text)), _gateway: None }
}

/// `protocol`: nothing for HTTP/1, or `proto h2`.
pub(super) fn haproxy(protocol: &str) -> Proxy {
    let lanes = lanes();
    let mut text = format!(
        "defaults\n mode http\n timeout connect 2s\n timeout server 2s\n timeout client {LIMIT}\n \
         timeout http-request {LIMIT}\n timeout http-keep-alive {LIMIT}\n\
         frontend ready\n bind @ADDRESS@\n http-request return status 204\n"
    );
    for (number, (front, recorder)) in lanes.iter().enumerate() {
        let _ = writeln!(
            text,
            "listen lane{number}\n bind {front} {protocol}\n server upstream {}",
            recorder.address
        );
    }
    Proxy { name: "haproxy", lanes, _nginx: Some(servers::haproxy(&text)), _gateway: None }
}

/// What became of one case at one proxy.
pub(super) struct Outcome {
    /// Of the answers that the client got.
    pub statuses: Vec<String>,
    /// What the upstream understands when it is strict, over all connections.
    pub requests: Vec<String>,
    /// Some reading sees something else.
    pub ambiguous: bool,
    /// A request or a field that was hidden in the case reached the upstream as one.
    pub hidden: bool,
    /// The upstream got what a strict one refuses.
    pub broken: bool,
    pub raw: String,
}

impl Outcome {
    /// `streams`: what each connection to the upstream carried.
    pub(super) fn of(statuses: Vec<String>, streams: &[Vec<u8>]) -> Outcome {
        let strict: Vec<Vec<String>> =
            streams.iter().map(|stream| readings::Reading::default().requests(stream)).collect();
        let ambiguous = streams
            .iter()
            .zip(&strict)
            .any(|(stream, strict)| readings::all().any(|reading| reading.requests(stream) != *strict));
        let requests = strict.concat();
        let raw = String::from_utf8_lossy(&streams.concat()).into_owned();
        Outcome {
            hidden: requests.iter().any(|request| request.contains("/stolen")) || raw.contains("\nsmuggled:"),
            broken: requests.iter().any(|request| request == "refused"),
            requests: requests.into_iter().filter(|request| !request.starts_with("GET /barrier ")).collect(),
            statuses,
            ambiguous,
            raw,
        }
    }

    fn cell(&self) -> String {
        let marks = [(self.ambiguous, "*"), (self.hidden, "!")];
        let marks: String = marks.iter().filter(|(set, _)| *set).map(|(_, mark)| *mark).collect();
        let statuses = if self.statuses.is_empty() { "closed".to_owned() } else { self.statuses.join(" ") };
        let whole = self.requests.iter().filter(|request| request.contains(' ')).count();
        let cut = if whole < self.requests.len() { "+" } else { "" };
        format!(" {statuses}, {whole}{cut}{marks} |")
    }
}

/// Runs all cases at all proxies; for each proxy the outcomes in the order of the cases.
pub(super) fn run_everywhere<C: Sync>(
    proxies: &[Proxy],
    cases: &[C],
    run: impl Fn(SocketAddr, &Recorder, &C) -> Outcome + Sync,
) -> Vec<Vec<Outcome>> {
    let run = &run;
    std::thread::scope(|scope| {
        let running: Vec<_> =
            proxies.iter().map(|proxy| scope.spawn(move || run_all(proxy, cases, run))).collect();
        running.into_iter().map(|thread| thread.join().expect("all cases ran")).collect()
    })
}

fn run_all<C: Sync>(
    proxy: &Proxy,
    cases: &[C],
    run: &(impl Fn(SocketAddr, &Recorder, &C) -> Outcome + Sync),
) -> Vec<Outcome> {
    // A proxy is waited for at its first port; the others may open a moment later.
    for (front, _) in &proxy.lanes {
        Client::connect(*front).expect("listens");
    }
    let done: Mutex<BTreeMap<usize, Outcome>> = Mutex::default();
    std::thread::scope(|scope| {
        for (lane, (front, recorder)) in proxy.lanes.iter().enumerate() {
            let done = &done;
            scope.spawn(move || {
                for (at, case) in cases.iter().enumerate().skip(lane).step_by(LANES) {
                    let outcome = run(*front, recorder, case);
                    done.lock().unwrap_or_else(PoisonError::into_inner).insert(at, outcome);
                }
            });
        }
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
}

/// How often each thing happened, a row for each and a column for each proxy.
pub(super) fn summary(proxies: &[Proxy], outcomes: &[Vec<Outcome>]) -> String {
    let mut text = table_head(proxies);
    let mut row = |name: &str, what: &dyn Fn(&Outcome) -> bool| {
        let counts = outcomes.iter().map(|all| all.iter().filter(|outcome| what(outcome)).count());
        let counts: String = counts.map(|count| format!(" {count} |")).collect();
        let _ = writeln!(text, "| {name} |{counts}");
    };
    row("refused or unanswered", &|outcome| {
        outcome.statuses.first().is_none_or(|status| !status.starts_with('2'))
    });
    row("forwarded so that two readings differ", &|outcome| outcome.ambiguous);
    row("what was hidden was forwarded as one of its own", &|outcome| outcome.hidden);
    text
}

/// The tables themselves, a heading and a table for each. `heading`: its hashes.
pub(super) fn tables(
    heading: &str,
    proxies: &[Proxy],
    tables: &[(&str, Vec<&'static str>)],
    outcomes: &[Vec<Outcome>],
) -> String {
    let mut text = String::new();
    let mut at = 0;
    for (name, cases) in tables {
        let _ = write!(text, "\n{heading} {name}\n\n{}", table_head(proxies));
        for case in cases {
            let cells: String = outcomes.iter().map(|all| all[at].cell()).collect();
            let _ = writeln!(text, "| {} |{cells}", case.replace('|', "\\|"));
            at += 1;
        }
    }
    text
}

fn table_head(proxies: &[Proxy]) -> String {
    let names: Vec<&str> = proxies.iter().map(|proxy| proxy.name).collect();
    format!("| | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(names.len()))
}

/// Between the parts of docs/smuggling.md, each of which is a test's own.
const HTTP2_PART: &str = "\n## Downgraded from HTTP/2\n";

/// Shows a part and, with `UPDATE_TABLE=1`, writes it.
pub(super) fn publish(text: &str) {
    static WRITING: Mutex<()> = Mutex::new(());
    println!("{text}");
    if std::env::var_os("UPDATE_TABLE").is_none() {
        return;
    }
    let _writing = WRITING.lock();
    let file = workspace_root().join("docs/smuggling.md");
    let old = std::fs::read_to_string(&file).unwrap_or_default();
    let (first, second) = old.split_at(old.find(HTTP2_PART).unwrap_or(old.len()));
    let new = match text.starts_with(HTTP2_PART) {
        true => format!("{first}{text}"),
        false => format!("{text}{second}"),
    };
    std::fs::write(file, new).expect("docs/smuggling.md");
}
