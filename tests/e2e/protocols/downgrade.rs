//! Every request of [`crate::protocols::downgrade_cases`] in HTTP/2 through this gateway, nginx and haproxy, to an upstream that
//! speaks HTTP/1 and writes down each byte: see [`crate::protocols::differential`], which does the same with HTTP/1.

use std::net::SocketAddr;

use tidegate_testkit::Http2Client;
use tidegate_testkit::http2::{
    DATA, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, RST_STREAM, request, status,
};

use crate::protocols::downgrade_cases::{Case, Outlook, tables};
use crate::protocols::forwarding::{self, Outcome, Recorder};

/// What became of a stream.
#[derive(Clone, Debug, Default)]
struct Answer {
    status: Option<String>,
    ended: bool,
}

fn run(front: SocketAddr, recorder: &Recorder, case: &Case) -> Outcome {
    let mut client = Http2Client::connect(front, &[]).expect("connects");
    send(&mut client, case);
    // The next request on the connection: it must stay one. The proxy may have ended the connection already.
    let _ = client.get(3, "/sentinel");
    let answers = answers(&mut client);
    // Whatever is still on its way to the upstream is there once this is.
    let mut barrier = Http2Client::connect(front, &[]).expect("connects");
    barrier.get(1, "/barrier").expect("sends");
    barrier.wait_for(HEADERS).expect("answers");
    let statuses = answers.into_iter().map(|answer| answer.status.unwrap_or_else(|| "closed".to_owned()));
    Outcome::of(statuses.collect(), &recorder.take())
}

fn send(client: &mut Http2Client, case: &Case) {
    let flags = if case.body.is_none() { END_HEADERS | END_STREAM } else { END_HEADERS };
    let _ = client.send(HEADERS, flags, 1, &case.block());
    let Some(body) = case.body else { return };
    let last = case.trailers.is_empty();
    let _ = client.send(DATA, if last { END_STREAM } else { 0 }, 1, body.as_bytes());
    if !last {
        let block: Vec<u8> = case
            .trailers
            .iter()
            .flat_map(|(name, value)| tidegate_testkit::http2::field(name, value))
            .collect();
        let _ = client.send(HEADERS, END_HEADERS | END_STREAM, 1, &block);
    }
}

/// Of both streams, as far as the connection goes.
fn answers(client: &mut Http2Client) -> [Answer; 2] {
    let mut answers: [Answer; 2] = Default::default();
    while answers.iter().any(|answer| !answer.ended) {
        let Ok(frame) = client.read() else { break };
        let answer = match frame.stream {
            1 => &mut answers[0],
            3 => &mut answers[1],
            _ if frame.kind == GOAWAY && frame.code() != Some(0) => {
                answers.iter_mut().filter(|answer| answer.status.is_none()).for_each(|answer| {
                    answer.status = Some("closed".to_owned());
                });
                break;
            }
            _ => continue,
        };
        take(answer, &frame);
    }
    answers
}

fn take(answer: &mut Answer, frame: &Frame) {
    match frame.kind {
        HEADERS => {
            // Trailers are not another answer, and 1xx is none.
            let found = status(frame).filter(|&status| status >= 200).map(|status| status.to_string());
            answer.status = answer.status.take().or(found);
        }
        RST_STREAM => {
            answer.status.get_or_insert_with(|| "reset".to_owned());
            answer.ended = true;
        }
        _ => {}
    }
    answer.ended |= matches!(frame.kind, HEADERS | DATA) && frame.flags & END_STREAM != 0;
}

/// What is wrong with what this gateway did.
fn wrong(case: &Case, outcome: &Outcome) -> Option<String> {
    let own: Vec<&String> =
        outcome.requests.iter().filter(|request| !request.starts_with("GET /sentinel ")).collect();
    let answered = outcome.statuses.first().map(String::as_str);
    let raw = outcome.raw.to_ascii_lowercase();
    let (refused, served) = (case.outlook == Outlook::Refused, case.outlook == Outlook::Served);
    let why = if outcome.ambiguous || outcome.hidden || outcome.broken {
        "can be read in several ways"
    } else if refused && own.iter().any(|request| *request != "cut") {
        "was forwarded"
    } else if refused && answered == Some("200") {
        "was answered"
    } else if served && (answered != Some("200") || own.len() != 1) {
        "was not served"
    } else if served && !raw.contains(case.seen) {
        "did not become what it should"
    } else if served && raw.contains(case.unseen) {
        "kept what it should lose"
    } else {
        return None;
    };
    Some(format!("{} {why}: {:?} {:?}\n{:?}", case.name, outcome.statuses, outcome.requests, outcome.raw))
}

#[test]
fn nothing_from_http2_is_forwarded_that_can_be_read_two_ways() {
    let (names, cases): (Vec<_>, Vec<Vec<Case>>) = tables().into_iter().unzip();
    let names: Vec<(&str, Vec<&'static str>)> = names
        .into_iter()
        .zip(&cases)
        .map(|(name, cases)| (name, cases.iter().map(|case| case.name).collect()))
        .collect();
    let cases: Vec<Case> = cases.into_iter().flatten().collect();
    let proxies = [forwarding::tidegate(), forwarding::nginx("http2"), forwarding::haproxy("proto h2")];
    let outcomes = forwarding::run_everywhere(&proxies, &cases, run);
    let wrong: Vec<String> =
        cases.iter().zip(&outcomes[0]).filter_map(|(case, outcome)| wrong(case, outcome)).collect();
    forwarding::publish(&format!(
        "\n## Downgraded from HTTP/2\n\n\
         {} requests in HTTP/2 without TLS, each followed by an honest one on the same connection, to an upstream that \
         speaks HTTP/1\n(`tests/e2e/protocols/downgrade.rs`).\n\n{}\n\
         Each cell: what became of the request and of the honest one behind it (a status, `reset` for its stream, \
         `closed` for the\nconnection), and how many whole requests a strict upstream saw; the marks are those above, \
         `+` also for what a strict\nupstream refuses.\n{}",
        cases.len(),
        forwarding::summary(&proxies, &outcomes),
        forwarding::tables("###", &proxies, &names, &outcomes)
    ));
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// Only the test above uses it, and a block that is sent wrong would look refused.
#[test]
fn blocks_are_what_a_server_takes() {
    let block = request("GET", "/", &[]);
    let simple = tables().into_iter().flat_map(|(_, cases)| cases).find(|case| case.name == "simple");
    assert_eq!(simple.map(|case| case.block()), Some(block));
}
