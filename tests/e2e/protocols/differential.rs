//! Every request of the tables through this gateway, nginx and haproxy, to an upstream that writes down each byte.
//!
//! What this gateway forwards must mean the same to every [`readings::Reading`], and never hold a request that was
//! hidden in another. The peers are there to compare; what they do is shown, not judged. `UPDATE_TABLE=1` writes
//! docs/smuggling.md.

use std::net::SocketAddr;

use tidegate_testkit::Client;

use crate::protocols::case::Case;
use crate::protocols::forwarding::{self, Outcome, Recorder};
use crate::{protocols::chunks, protocols::malformed, protocols::smuggling, protocols::valid};

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
    let statuses = answers.split("HTTP/1.1 ").skip(1).filter_map(|answer| answer.get(..3).map(str::to_owned));
    Outcome::of(statuses.collect(), &recorder.take())
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

/// What the cases of a public tool say, played on 26 November 2026, and why some of them are answered in another way.
const HTTP11_PROBE: &str = "
## Http11Probe

Of the 215 cases of Http11Probe (commit 95bc6a9, played on 26 November 2026 in front of an upstream that takes everything) three fail, on nginx 25. They are
answered like this on purpose:

- A method of 100,000 letters is 501: RFC 9112 section 3 asks for it where a method is longer than any that is implemented. The tool expects 400.
- Bytes above 127 in a target (`/caf\u{e9}` in UTF-8, and the overlong `\\xc0\\xaf`) are forwarded as they came, as by nginx and APISIX. Old clients send
  UTF-8 and GBK unencoded. Routes and conditions compare bytes and decode nothing but `%`, and `%c0%af`, which no server can refuse, says the same to an
  upstream that would take it for a slash.

A backslash in a path is 400, unlike in nginx: servers that read URLs as browsers do take it for a slash, and `/open\\..\\guarded` passes the guards of
`/guarded`. `HTTP/1.2` is read as 1.1 (RFC 9110 section 2.5). An `Expect` other than `100-continue` is ignored and not forwarded.
";

#[test]
fn nothing_is_forwarded_that_can_be_read_two_ways() {
    let tables = tables();
    let cases: Vec<Case> = tables.iter().flat_map(|(_, cases)| cases.iter().cloned()).collect();
    assert!(cases.len() >= 200, "{} cases", cases.len());
    let proxies = [forwarding::tidegate(), forwarding::nginx(""), forwarding::haproxy("")];
    let outcomes = forwarding::run_everywhere(&proxies, &cases, run);
    let mut wrong = Vec::new();
    for (case, outcome) in cases.iter().zip(&outcomes[0]) {
        if outcome.ambiguous || outcome.hidden || outcome.broken {
            wrong.push(format!("{}: {:?}\n{:?}", case.name(), outcome.requests, outcome.raw));
        }
    }
    let names: Vec<(&str, Vec<&'static str>)> =
        tables.iter().map(|(name, cases)| (*name, cases.iter().map(Case::name).collect())).collect();
    forwarding::publish(&format!(
        "# Request smuggling: what is forwarded\n\n[中文](smuggling.zh-CN.md)\n\n\
         {} requests, most of them attacks, each followed by an honest one on the same connection, went through \
         this gateway and through\nnginx and haproxy as Debian 12 ships them. The upstream wrote down every byte, and \
         64 ways to read them, strict and\nlenient, were compared. A test does this on every run \
         (`tests/e2e/protocols/differential.rs`). What came in HTTP/2 is in the second\npart.\n\n{}\n\
         Each cell: statuses that the client got, and how many whole requests a strict upstream saw. `+`: and the \
         beginning of one that\nwas broken off. `*`: a lenient upstream sees others. `!`: the request hidden in the \
         first one was forwarded as one of its own,\nbecause the proxy saw no body there. A 200 after a refusal, or a \
         second one, answers the honest request.\n{HTTP11_PROBE}{}",
        cases.len(),
        forwarding::summary(&proxies, &outcomes),
        forwarding::tables("##", &proxies, &names, &outcomes)
    ));
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
