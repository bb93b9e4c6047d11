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
        "# Request smuggling: what is forwarded\n\n\
         {} requests, most of them attacks, each followed by an honest one on the same connection, went through \
         this gateway and through\nnginx and haproxy as Debian 12 ships them. The upstream wrote down every byte, and \
         64 ways to read them, strict and\nlenient, were compared. A test does this on every run \
         (`tests/e2e/protocols/differential.rs`). What came in HTTP/2 is in the second\npart.\n\n{}\n\
         Each cell: statuses that the client got, and how many whole requests a strict upstream saw. `+`: and the \
         beginning of one that\nwas broken off. `*`: a lenient upstream sees others. `!`: the request hidden in the \
         first one was forwarded as one of its own,\nbecause the proxy saw no body there. A 200 after a refusal, or a \
         second one, answers the honest request.\n{}",
        cases.len(),
        forwarding::summary(&proxies, &outcomes),
        forwarding::tables("##", &proxies, &names, &outcomes)
    ));
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
