//! `tidegate bench --sse`: events, the gaps between them, streams that end.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_testkit::{Behaviour, Gateway, Step, Upstream, gateway::YAML_PROVIDER};

use super::bench::{bench, outcome, url};

const GAP: Duration = Duration::from_millis(60);

fn chunk(text: &str) -> Step {
    Step::Send(format!("{:x}\r\n{text}\r\n", text.len()).into_bytes())
}

/// `/quiet` sends three events and is silent then; `/short` ends after two; `/cut` closes within the second; `/none` has
/// nothing but comments.
pub(super) fn server() -> Upstream {
    Upstream::with(|request| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n";
        let head = Step::Send(head.as_bytes().to_vec());
        let steps = match request.target() {
            "/quiet" => vec![
                head,
                chunk("data: 1\n\n: a comment\n\nda"),
                Step::Wait(GAP),
                chunk("ta: 2\r\n\r\n"),
                Step::Wait(GAP),
                chunk("id: 3\ndata: 3\n\n"),
                Step::Silence,
            ],
            "/short" => {
                vec![head, chunk("data: 1\n\ndata: 2\n\n"), Step::Send(b"0\r\n\r\n".to_vec()), Step::Close]
            }
            "/cut" => vec![head, chunk("data: 1\n\ndata: 2\n"), Step::Close],
            "/none" => vec![head, chunk(": ping\n\n"), Step::Silence],
            _ => vec![Step::Send(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi".to_vec(),
            )],
        };
        Behaviour { read_body: true, steps }
    })
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("a number and not {value}"))
}

/// What is seen of `/quiet` on two connections in 600 ms.
fn check_quiet(url: &str) {
    let found = outcome(&[url, "--sse", "-c", "2", "-d", "600ms"]);
    let events = &found["events"];
    let counts = ["count", "opened", "ended", "open"].map(|name| events[name].as_u64());
    assert_eq!(counts, [Some(6), Some(2), Some(0), Some(2)], "{events} {}", found["messages"]);
    // Two gaps of each stream; the first of them begins with the first event.
    assert_eq!(events["gaps"]["count"], 4);
    assert!(number(&events["gaps"]["min_us"]) >= 30_000.0, "{events}");
    // Silence until the end counts although no event ended it.
    assert!(number(&events["silence_ms"]) >= 300.0, "{events}");
    assert_eq!((&found["requests"], &found["failures"]), (&json!(2), &json!([])));
}

#[test]
fn gaps_and_the_silence_at_the_end_are_measured() {
    let server = server();
    check_quiet(&url(&server, "/quiet"));
    let seen = server.take();
    // The first is the look before the run's own, if it sent anything.
    assert!(seen.iter().all(|seen| seen.text().contains("\r\nAccept: text/event-stream\r\n")));
    let run = bench(&[&url(&server, "/quiet"), "--sse", "-c", "2", "-d", "600ms"]);
    assert_eq!(run.code, Some(0), "{} {}", run.out, run.err);
    let has = |line: &str| run.out.lines().any(|one| one.starts_with(line));
    assert!(run.out.contains(", streams held open, ") && has("  events      6 ("), "{}", run.out);
    assert!(has("  streams     2 began, 0 ended by the server, 2 open at the end"), "{}", run.out);
    assert!(has("  gaps        p50 ") && run.out.contains("ms (cut by the end of the run)\n"), "{}", run.out);
}

#[test]
fn every_report_has_the_gaps() {
    let server = server();
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let names = ["markdown", "html", "jsonl", "prometheus"];
    let flags: Vec<String> = names.iter().flat_map(|name| [format!("--{name}"), file(name)]).collect();
    let url = url(&server, "/quiet");
    let mut words = vec![url.as_str(), "--sse", "-c", "2", "-d", "600ms"];
    words.extend(flags.iter().map(String::as_str));
    assert_eq!(bench(&words).code, Some(0));
    let [markdown, html, lines, metrics] =
        names.map(|name| std::fs::read_to_string(file(name)).unwrap_or_default());
    assert!(markdown.contains("| gaps | p50 ") && html.contains("<th>gaps</th>"), "{markdown}");
    let gaps = lines.lines().find(|line| line.contains(r#""kind":"gaps""#)).unwrap_or_default();
    let gaps: Value = serde_json::from_str(gaps).unwrap_or_else(|error| panic!("{error}: {lines}"));
    assert_eq!((&gaps["events"], &gaps["answers"], &gaps["open"]), (&json!(6), &json!(4), &json!(2)));
    let has =
        |begin: &str, end: &str| metrics.lines().any(|line| line.starts_with(begin) && line.ends_with(end));
    assert!(has("tidegate_bench_events{", " 6") && has("tidegate_bench_event_gap_seconds_count{", " 4"));
    assert!(has("tidegate_bench_event_streams{", r#"state="open"} 2"#), "{metrics}");
}

#[test]
fn streams_are_held_over_http2_as_well() {
    let server = server();
    let upstream = format!("upstream: {{type: roundrobin, nodes: {{\"{}\": 1}}}}", server.address);
    let routes = format!("routes:\n- {{id: all, uri: /*, {upstream}}}\n");
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes));
    let (quiet, short) = (format!("http://{}/quiet", gateway.http), format!("http://{}/short", gateway.http));
    let found = outcome(&[&quiet, "--sse", "--http2", "-c", "2", "-d", "600ms"]);
    assert_eq!((&found["events"]["count"], &found["events"]["opened"]), (&json!(6), &json!(2)), "{found}");
    assert_eq!(
        (&found["protocol"], &found["failures"]),
        (&json!("HTTP/2"), &json!([])),
        "{}",
        found["messages"]
    );
    let found = outcome(&[&short, "--sse", "--http2", "-c", "1", "-d", "500ms"]);
    assert!(found["events"]["ended"].as_u64() > Some(1), "{}", found["events"]);
    assert_eq!(found["failures"], json!([]), "{}", found["messages"]);
}

#[test]
fn streams_pass_the_gateway() {
    let server = server();
    let upstream = format!("upstream: {{type: roundrobin, nodes: {{\"{}\": 1}}}}", server.address);
    let routes = format!("routes:\n- {{id: all, uri: /*, {upstream}}}\n");
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes));
    check_quiet(&format!("http://{}/quiet", gateway.http));
}

#[test]
fn streams_that_end_are_opened_again() {
    let server = server();
    let found = outcome(&[&url(&server, "/short"), "--sse", "-c", "1", "-d", "500ms"]);
    let [count, opened, ended] = ["count", "opened", "ended"].map(|name| found["events"][name].as_u64());
    assert!(opened > Some(2) && ended >= opened.map(|opened| opened - 1), "{}", found["events"]);
    assert!(count >= ended.map(|ended| ended * 2), "{}", found["events"]);
    assert_eq!(found["failures"], json!([]), "{}", found["messages"]);
    let run = bench(&[&url(&server, "/cut"), "--sse", "-c", "1", "-d", "300ms"]);
    assert_eq!(run.code, Some(3), "{}", run.out);
    assert!(run.out.contains("x closed early: before the body ended"), "{}", run.out);
}

#[test]
fn what_is_no_stream_of_events_is_told() {
    let server = server();
    let run = bench(&[&url(&server, "/page"), "--sse", "-c", "1", "-d", "200ms"]);
    assert_eq!(run.code, Some(1), "{}", run.out);
    assert!(run.err.contains("text/html instead of text/event-stream"), "{}", run.err);
    let run = bench(&[&url(&server, "/none"), "--sse", "-c", "1", "-d", "200ms"]);
    assert_eq!((run.code, run.err.contains("no event came")), (Some(1), true), "{}", run.err);
    let check = |words: &[&str], reason: &str| {
        let run = bench(&[&[url(&server, "/quiet").as_str(), "--sse"], words].concat());
        assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{words:?}: {}", run.err);
        assert!(run.err.contains(reason), "{words:?}: {}", run.err);
    };
    for words in [&["-n", "5"][..], &["-R", "5"], &["--grpc"], &["--no-keepalive"]] {
        check(words, "cannot be used with");
    }
    check(&["--style", "wrk"], "does not report streams");
    check(&["-m", "HEAD"], "has no events");
}
