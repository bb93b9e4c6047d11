//! Every request of the tables through this gateway, nginx and haproxy, to an upstream that writes down each byte.
//!
//! What this gateway forwards must mean the same to every [`readings::Reading`], and never hold a request that was
//! hidden in another. The peers are there to compare; what they do is shown, not judged. `UPDATE_TABLE=1` writes
//! docs/smuggling.md.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Read, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use testkit::gateway::{Gateway, YAML_PROVIDER, workspace_root};
use testkit::message::{BodyEnd, Reader};
use testkit::servers::{self, Server};
use testkit::{Client, free_port};

use crate::case::Case;
use crate::{chunks, malformed, readings, smuggling, valid};

/// Cases that run at the same time, each over its own ports.
const LANES: usize = 8;
/// How long a proxy waits for the rest of a request that never comes.
const LIMIT: &str = "400ms";

type Bytes = Arc<Mutex<BTreeMap<usize, Vec<u8>>>>;

/// Writes down what comes on each connection, and answers what it reads as requests.
struct Recorder {
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

    fn take(&self) -> Vec<Vec<u8>> {
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
    // What is no request to this reader is still written down.
    let _ = reader.to_close();
}

/// A proxy with a recorder behind each of its ports.
struct Proxy {
    name: &'static str,
    lanes: Vec<(SocketAddr, Recorder)>,
    _nginx: Option<Server>,
    _gateway: Option<Gateway>,
}

fn lanes() -> Vec<(SocketAddr, Recorder)> {
    (0..LANES).map(|_| (SocketAddr::from(([127, 0, 0, 1], free_port())), Recorder::start())).collect()
}

fn tidegate() -> Proxy {
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

fn nginx() -> Proxy {
    let lanes = lanes();
    let mut text = "return 204; }\n".to_owned();
    for (number, (front, recorder)) in lanes.iter().enumerate() {
        let _ = writeln!(
            text,
            "upstream u{number} {{ server {}; keepalive 8; }}\n\
             server {{ listen {front}; client_header_timeout {LIMIT}; client_body_timeout {LIMIT};\n\
             keepalive_timeout {LIMIT}; location / {{ proxy_pass http://u{number}; proxy_http_version 1.1;\n\
             proxy_set_header Connection \"\"; proxy_request_buffering off; }} }}",
            recorder.address
        );
    }
    let _ = write!(text, "server {{ listen 127.0.0.1:{}; return 204;", free_port());
    Proxy { name: "nginx", lanes, _nginx: Some(servers::nginx(&text)), _gateway: None }
}

fn haproxy() -> Proxy {
    let lanes = lanes();
    let mut text = format!(
        "defaults\n mode http\n timeout connect 2s\n timeout server 2s\n timeout client {LIMIT}\n \
         timeout http-request {LIMIT}\n timeout http-keep-alive {LIMIT}\n\
         frontend ready\n bind @ADDRESS@\n http-request return status 204\n"
    );
    for (number, (front, recorder)) in lanes.iter().enumerate() {
        let _ = writeln!(text, "listen lane{number}\n bind {front}\n server upstream {}", recorder.address);
    }
    Proxy { name: "haproxy", lanes, _nginx: Some(servers::haproxy(&text)), _gateway: None }
}

/// What became of one case at one proxy.
struct Outcome {
    /// Of the answers that the client got.
    statuses: Vec<String>,
    /// What the upstream understands when it is strict, over all connections.
    requests: Vec<String>,
    /// Some reading sees something else.
    ambiguous: bool,
    raw: String,
}

const SENTINEL: &str = "GET /sentinel HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
const BARRIER: &str = "GET /barrier HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

fn run(front: SocketAddr, recorder: &Recorder, case: &Case) -> Outcome {
    let mut client = Client::connect(front).expect("connects");
    client.send(case.bytes()).expect("sends");
    // The next request of somebody who shares the connection: it must stay one.
    client.send(SENTINEL.as_bytes()).expect("sends");
    let answers = String::from_utf8_lossy(&client.to_close().unwrap_or_default()).into_owned();
    // Whatever is still on its way to the upstream is there once this is.
    let mut barrier = Client::connect(front).expect("connects");
    barrier.send(BARRIER.as_bytes()).expect("sends");
    let _ = barrier.to_close();
    let streams = recorder.take();
    let strict: Vec<Vec<String>> =
        streams.iter().map(|stream| readings::Reading::default().requests(stream)).collect();
    let ambiguous = streams
        .iter()
        .zip(&strict)
        .any(|(stream, strict)| readings::all().any(|reading| reading.requests(stream) != *strict));
    let requests = strict.concat();
    Outcome {
        statuses: answers
            .split("HTTP/1.1 ")
            .skip(1)
            .filter_map(|answer| answer.get(..3).map(str::to_owned))
            .collect(),
        requests: requests.into_iter().filter(|request| !request.starts_with("GET /barrier ")).collect(),
        ambiguous,
        raw: String::from_utf8_lossy(&streams.concat()).into_owned(),
    }
}

fn run_all(proxy: &Proxy, cases: &[Case]) -> Vec<Outcome> {
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

fn tables() -> Vec<(&'static str, Vec<Case>)> {
    vec![
        ("Content-Length", smuggling::content_length_cases()),
        ("Transfer-Encoding", smuggling::transfer_encoding_cases()),
        ("Connection names framing", smuggling::framing_cannot_be_nominated_away_cases()),
        ("chunks, right", chunks::accepted_cases()),
        ("chunk sizes", chunks::refused_sizes_cases()),
        ("line ends of chunks", chunks::refused_line_ends_cases()),
        ("request lines", malformed::request_lines_cases()),
        ("line ends", malformed::line_ends_cases()),
        ("fields", malformed::fields_cases()),
        ("hosts", malformed::hosts_cases()),
        ("plain requests", valid::plain_requests_cases()),
        ("bodies", valid::bodies_cases()),
        ("versions and persistence", valid::versions_and_persistence_cases()),
        ("targets", valid::targets_cases()),
        ("headers between hops", valid::headers_between_hops_cases()),
    ]
}

#[test]
fn nothing_is_forwarded_that_can_be_read_two_ways() {
    let tables = tables();
    let cases: Vec<Case> = tables.iter().flat_map(|(_, cases)| cases.iter().cloned()).collect();
    assert!(cases.len() >= 200, "{} cases", cases.len());
    let proxies = [tidegate(), nginx(), haproxy()];
    let outcomes: Vec<Vec<Outcome>> = std::thread::scope(|scope| {
        let running: Vec<_> = proxies.iter().map(|proxy| scope.spawn(|| run_all(proxy, &cases))).collect();
        running.into_iter().map(|thread| thread.join().expect("all cases ran")).collect()
    });
    let mut wrong = Vec::new();
    for (case, outcome) in cases.iter().zip(&outcomes[0]) {
        let hidden = outcome.requests.iter().any(|request| request.contains("/stolen"));
        let broken = outcome.requests.iter().any(|request| request == "refused");
        if outcome.ambiguous || hidden || broken {
            wrong.push(format!("{}: {:?}\n{:?}", case.name(), outcome.requests, outcome.raw));
        }
    }
    let names: Vec<&str> = proxies.iter().map(|proxy| proxy.name).collect();
    let table = render(&tables, &names, &outcomes);
    if std::env::var_os("UPDATE_TABLE").is_some() {
        std::fs::write(workspace_root().join("docs/smuggling.md"), &table).expect("docs/smuggling.md");
    }
    println!("{table}");
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

fn render(tables: &[(&str, Vec<Case>)], names: &[&str], outcomes: &[Vec<Outcome>]) -> String {
    let total: usize = tables.iter().map(|(_, cases)| cases.len()).sum();
    let mut text = format!(
        "# Request smuggling: what is forwarded\n\n\
         {total} requests, most of them attacks, each followed by an honest one on the same connection, went through \
         this gateway and through\nnginx and haproxy as Debian 12 ships them. The upstream wrote down every byte, and \
         64 ways to read them, strict and\nlenient, were compared. A test does this on every run \
         (`tests/e2e/differential.rs`).\n\n| | {} |\n|---|{}\n",
        names.join(" | "),
        "---|".repeat(names.len())
    );
    let count = |what: &dyn Fn(&Outcome) -> bool| -> String {
        outcomes
            .iter()
            .map(|all| format!(" {} |", all.iter().filter(|outcome| what(outcome)).count()))
            .collect()
    };
    let stolen = |outcome: &Outcome| outcome.requests.iter().any(|request| request.contains("/stolen"));
    let refused = |outcome: &Outcome| outcome.statuses.first().is_none_or(|status| !status.starts_with('2'));
    let _ = writeln!(text, "| refused or unanswered |{}", count(&refused));
    let _ =
        writeln!(text, "| forwarded so that two readings differ |{}", count(&|outcome| outcome.ambiguous));
    let _ = writeln!(text, "| the hidden request was forwarded as one |{}", count(&stolen));
    let _ = write!(
        text,
        "\nEach cell: statuses that the client got, and how many whole requests a strict upstream saw. `+`: and the beginning \
         of one that\nwas broken off. `*`: a lenient upstream sees others. `!`: the request hidden in the first one was forwarded as \
         one of its own,\nbecause the proxy saw no body there. A 200 after a refusal, or a second one, answers the honest request.\n"
    );
    let mut at = 0;
    for (name, cases) in tables {
        let _ =
            write!(text, "\n## {name}\n\n| | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(names.len()));
        for case in cases {
            let cells: String = outcomes
                .iter()
                .map(|all| {
                    let outcome = &all[at];
                    let statuses = outcome.statuses.join(" ");
                    let marks = [(outcome.ambiguous, "*"), (stolen(outcome), "!")];
                    let marks: String = marks.iter().filter(|(set, _)| *set).map(|(_, mark)| *mark).collect();
                    let statuses = if statuses.is_empty() { "closed".to_owned() } else { statuses };
                    let whole = outcome.requests.iter().filter(|request| request.contains(' ')).count();
                    let cut = if whole < outcome.requests.len() { "+" } else { "" };
                    format!(" {statuses}, {whole}{cut}{marks} |")
                })
                .collect();
            let _ = writeln!(text, "| {} |{cells}", case.name().replace('|', "\\|"));
            at += 1;
        }
    }
    text
}
