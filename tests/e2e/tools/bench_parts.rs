//! `tidegate bench` tells latencies apart: by status, by URL, until the first byte.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_testkit::{Behaviour, Step, Upstream};

use super::bench::{bench, outcome, url};

/// Milliseconds.
fn p50(latency: &Value) -> f64 {
    let all = latency["percentiles"].as_array().unwrap_or_else(|| panic!("percentiles in {latency}"));
    all.iter().find(|pair| pair[0] == 50.0).and_then(|pair| pair[1].as_f64()).expect("p50") / 1000.0
}

fn list(lines: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("urls");
    std::fs::write(&file, lines).expect("written");
    let name = file.display().to_string();
    (folder, name)
}

#[test]
fn a_quick_refusal_does_not_hide_slow_answers() {
    let upstream = Upstream::start();
    let (_folder, file) = list("/status/429\n/delay/40\n/status/429\n");
    let url = url(&upstream, "/");
    let words = [url.as_str(), "--urls-from", &file, "-n", "60", "-c", "1"];
    let found = outcome(&words);
    let statuses: Vec<(u64, u64)> = found["by_status"]
        .as_array()
        .expect("statuses")
        .iter()
        .map(|one| (one["status"].as_u64().unwrap_or(0), one["latency"]["count"].as_u64().unwrap_or(0)))
        .collect();
    assert_eq!(statuses, [(200, 20), (429, 40)]);
    let (ok, refused) = (p50(&found["by_status"][0]["latency"]), p50(&found["by_status"][1]["latency"]));
    assert!(ok >= 40.0 && refused < 40.0, "200: {ok} ms, 429: {refused} ms");
    let urls = found["by_url"].as_array().expect("URLs");
    let names: Vec<&Value> = urls.iter().map(|one| &one["request"]).collect();
    assert_eq!(names, ["GET /status/429", "GET /delay/40", "GET /status/429"]);
    assert_eq!(urls[1]["statuses"], json!([[200, 20]]));
    assert_eq!(urls[2]["latency"]["count"], 20);
    assert!(p50(&urls[1]["latency"]) >= 39.0 && p50(&urls[0]["latency"]) < 40.0, "{urls:?}");
    let text = bench(&words).out;
    let row = |begin: &str| text.lines().any(|line| line.starts_with(begin));
    assert!(row("  by status ") && row("  429 ") && row("  200 ") && row("  by URL "), "{text}");
    // The slowest comes first.
    let order: Vec<&str> = ["/delay/40", "/status/429  (429: 20)"].into_iter().collect();
    assert!(text.find(order[0]) < text.find(order[1]) && text.contains(order[1]), "{text}");
}

#[test]
fn one_status_and_one_url_need_no_tables() {
    let upstream = Upstream::start();
    let run = bench(&[&url(&upstream, "/bytes/1"), "-n", "20", "-c", "1"]);
    assert!(!run.out.contains("by status") && !run.out.contains("by URL"), "{}", run.out);
    let found = outcome(&[&url(&upstream, "/status/404"), "-n", "20", "-c", "1"]);
    assert_eq!(found["by_status"].as_array().map(Vec::len), Some(1));
    assert_eq!((&found["by_status"][0]["status"], &found["by_url"]), (&json!(404), &json!([])));
}

/// Requests without an answer wait in the corrected latency; they have no status.
#[test]
fn unanswered_requests_belong_to_no_status() {
    let upstream = Upstream::start();
    let (_folder, file) = list("/bytes/1\n/silent\n");
    let url = url(&upstream, "/");
    let found = outcome(&[&url, "--urls-from", &file, "-R", "100", "-d", "500ms", "-c", "8", "-t", "1"]);
    assert!(found["unfinished"].as_u64() > Some(0), "{found}");
    assert_eq!(found["by_status"].as_array().map(Vec::len), Some(1));
    assert_eq!(found["by_status"][0]["latency"]["count"], found["requests"]);
}

#[test]
fn the_first_byte_comes_before_the_rest() {
    let upstream = Upstream::with(|request| {
        let mut steps = vec![Step::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n".to_vec())];
        if request.target() == "/late" {
            steps.push(Step::Wait(Duration::from_millis(50)));
        }
        steps.push(Step::Send(b"body".to_vec()));
        Behaviour { read_body: true, steps }
    });
    let (_folder, file) = list("/late\n/at-once\n/late\n");
    for more in [&["-c", "1"][..], &["-c", "16", "-t", "1"]] {
        let url = url(&upstream, "/");
        let found = outcome(&[&[url.as_str(), "--urls-from", &file, "-n", "96"], more].concat());
        assert_eq!(found["first_byte"]["count"], 96, "{more:?}");
        let (first, whole) = (p50(&found["first_byte"]), p50(&found["latency"]));
        assert!(first < 40.0 && whole >= 50.0, "{more:?}: first {first} ms, whole {whole} ms");
    }
}

#[test]
fn http_2_tells_the_same_apart() {
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], tidegate_testkit::free_port()));
    let text =
        format!("listen {address} http2; location / {{ return 200 hello; }} location /no {{ return 404; }}");
    let _nginx = tidegate_testkit::servers::nginx(&text);
    let (_folder, file) = list("weight=3 /yes\n/no\n");
    let url = format!("http://{address}/");
    let found = outcome(&[&url, "--urls-from", &file, "--http2", "-n", "400", "-c", "1", "-t", "1"]);
    let counts: Vec<(&Value, &Value)> = found["by_status"]
        .as_array()
        .expect("statuses")
        .iter()
        .map(|one| (&one["status"], &one["latency"]["count"]))
        .collect();
    assert_eq!(counts, [(&json!(200), &json!(300)), (&json!(404), &json!(100))]);
    assert_eq!(found["by_url"][0]["statuses"], json!([[200, 300]]));
    assert_eq!(found["by_url"][1]["statuses"], json!([[404, 100]]));
    assert_eq!(found["first_byte"]["count"], 400);
    assert!(p50(&found["first_byte"]) <= p50(&found["latency"]), "{found}");
}
