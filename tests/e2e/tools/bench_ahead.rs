//! `tidegate bench` with many connections sends a request before it reads the answer that it saw arrive. Whatever the
//! answers are, each is counted once, and none is lost.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use serde_json::json;
use tidegate_testkit::{Behaviour, Step, Upstream};

use super::bench::{outcome, url};

/// Small ones make a connection expect small ones; then something else comes.
#[test]
fn answers_of_changing_sizes_and_framings_are_all_counted() {
    let upstream = Upstream::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("urls");
    // Fewer than connections, so that each connection meets them in another order.
    let paths = [
        "/bytes/100",
        "/bytes/100",
        "/bytes/100",
        "/bytes/300000",
        "/bytes/100",
        "/chunked-pieces",
        "/bytes/99",
        "/hints",
        "/status/503",
        "HEAD /bytes/100",
        "/bytes/9000",
    ];
    std::fs::write(&file, paths.join("\n")).expect("written");
    let file = file.display().to_string();
    let words = ["--urls-from", &file, "-n", "2200", "-c", "20", "-t", "1", "--accept-status", "503"];
    let found = outcome(&[&[url(&upstream, "/").as_str()], &words[..]].concat());
    assert_eq!(found["requests"], 2200, "{found}");
    assert_eq!(found["failures"], json!([]), "{found}");
    assert_eq!(found["statuses"], json!([[200, 2000], [503, 200]]), "{found}");
    assert_eq!(upstream.seen().len(), 2200);
}

/// The last answer of a connection is as long as the others: what was sent after it is asked again elsewhere.
#[test]
fn an_answer_that_ends_the_connection_loses_no_request() {
    let turn = AtomicUsize::new(0);
    let upstream = Upstream::with(move |_| {
        let last = turn.fetch_add(1, SeqCst) % 10 == 9;
        let field = if last { "Connection: close" } else { "X-Keeping-it: yes" };
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n{field}\r\n\r\nok");
        let mut steps = vec![Step::Send(answer.into_bytes())];
        if last {
            steps.push(Step::Close);
        }
        Behaviour { read_body: true, steps }
    });
    let found = outcome(&[&url(&upstream, "/"), "-n", "3000", "-c", "16", "-t", "1"]);
    assert_eq!(found["requests"], 3000, "{found}");
    assert_eq!(found["failures"], json!([]), "{found}");
    assert_eq!(found["body_bytes"], 6000, "{found}");
}

/// A head that arrives alone, without its body for a while, is neither lost nor taken for an answer.
#[test]
fn answers_in_pieces_take_their_time() {
    let upstream = Upstream::with(|request| {
        let mut steps = vec![Step::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n".to_vec())];
        if request.target() == "/slow" {
            steps.push(Step::Wait(std::time::Duration::from_millis(20)));
        }
        steps.push(Step::Send(b"okay".to_vec()));
        Behaviour { read_body: true, steps }
    });
    for (path, least_us) in [("/", 0.0), ("/slow", 20_000.0)] {
        let found = outcome(&[&url(&upstream, path), "-n", "800", "-c", "16", "-t", "1"]);
        assert_eq!((&found["requests"], &found["failures"]), (&json!(800), &json!([])), "{found}");
        assert_eq!(found["body_bytes"], 3200, "{found}");
        assert!(found["latency"]["min_us"].as_f64().is_some_and(|least| least >= least_us), "{found}");
    }
}
