//! `tidegate bench` and when it asks for what: stages, arrivals, weights.

use serde_json::{Value, json};
use tidegate_testkit::{Upstream, free_port};

use super::bench::{bench, outcome, url};

/// Answers in each tenth of a second.
fn slots(found: &Value) -> Vec<f64> {
    let slots = found["series"]["slots"].as_array().expect("slots");
    slots.iter().map(|slot| slot["count"].as_f64().expect("a count")).collect()
}

#[test]
fn stages_ramp_in_a_line_from_nothing() {
    let upstream = Upstream::start();
    let url = url(&upstream, "/bytes/1");
    let words = [url.as_str(), "-c", "8", "-t", "2", "--stages", "2s:200,500ms:200"];
    let found = outcome(&words);
    assert_eq!(found["schedule"], "stages 2s:200,500ms:200");
    assert_eq!(found["rate"], 120.0);
    // 200 in the ramp, 100 after it.
    let requests = found["requests"].as_u64().expect("requests");
    assert!((297..=300).contains(&requests), "{requests}");
    let slots = slots(&found);
    let first: f64 = slots.iter().take(10).sum();
    // A quarter of the ramp's requests are due in its first half.
    assert!((40.0..60.0).contains(&first), "{slots:?}");
    assert!(bench(&words).out.contains("stages 2s:200,500ms:200 (open model)"));
    let found = outcome(&[&url, "-c", "2", "--stages", "0s:100,1s:100", "-n", "30"]);
    assert_eq!(found["requests"], 30);
}

/// What is due at the very end is not of the run, and what becomes due while the server is looked at neither.
#[test]
fn nothing_is_left_unsent_at_a_rate_that_is_kept() {
    let upstream = Upstream::start();
    let url = url(&upstream, "/bytes/1");
    let run = || outcome(&[&url, "-R", "200", "-c", "8", "-t", "1", "-d", "1s"])["unsent"].clone();
    // On a busy machine the load generator may get no CPU at the very end.
    let tries: Vec<Value> = (0..5).map(|_| run()).take_while(|unsent| *unsent != 0).collect();
    assert!(tries.len() < 5, "{tries:?}");
}

#[test]
fn stages_of_http_2() {
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], free_port()));
    let text = format!("listen {address} http2; location / {{ return 200 hello; }}");
    let _nginx = tidegate_testkit::servers::nginx(&text);
    let url = format!("http://{address}/");
    let found = outcome(&[&url, "--http2", "-c", "2", "-t", "1", "--stages", "0s:100,1s:100"]);
    let requests = found["requests"].as_u64().expect("requests");
    assert!((90..=100).contains(&requests), "{found}");
}

#[test]
fn poisson_arrivals_come_in_crowds_and_gaps() {
    let upstream = Upstream::start();
    let url = url(&upstream, "/bytes/1");
    let found = outcome(&[&url, "-c", "8", "-t", "1", "-R", "500", "-d", "3s", "--arrivals", "poisson"]);
    assert_eq!(found["schedule"], "500 requests/s, Poisson arrivals");
    let requests = found["requests"].as_f64().expect("requests");
    assert!((1350.0..1650.0).contains(&requests), "{requests}");
    let slots = slots(&found);
    let mean = requests / 30.0;
    let variance = slots.iter().take(30).map(|count| (count - mean).powi(2)).sum::<f64>() / 30.0;
    // That of a Poisson process is its mean, 50; at even distances it would be below 1.
    assert!(variance > 15.0, "{variance} of {slots:?}");
}

#[test]
fn rates_that_make_no_sense_are_refused() {
    let closed = format!("http://127.0.0.1:{}/", free_port());
    let check = |words: &[&str], reason: &str| {
        let run = bench(&[&[closed.as_str()], words].concat());
        assert_eq!((run.code, run.err.contains(reason)), (Some(2), true), "{words:?}: {}", run.err);
    };
    check(&["--stages", "10s"], "invalid stage \"10s\"");
    check(&["--stages", "10s:fast"], "invalid rate \"fast\"; expected TIME:RATE");
    check(&["--stages", "10x:5"], "expected a number");
    check(&["--stages", "10s:-5"], "0 or more");
    check(&["--stages", "10s:0"], "send no request");
    check(&["--stages", "0s:100"], "send no request");
    check(&["--stages", "10s:5", "-R", "5"], "cannot be used with");
    check(&["--stages", "10s:5", "-d", "5s"], "cannot be used with");
    check(&["--arrivals", "poisson"], "give -R or --stages");
}

#[test]
fn weights_say_how_often_a_line_is_asked() {
    let upstream = Upstream::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("urls");
    let name = file.display().to_string();
    let url = url(&upstream, "/");
    std::fs::write(&file, "weight=3 GET /a\nDELETE /b\nweight=2 /c\n").expect("written");
    let words = [url.as_str(), "--urls-from", &name, "-n", "60", "-c", "1", "-t", "1"];
    let found = outcome(&words);
    let counts: Vec<(&Value, &Value)> = found["by_url"]
        .as_array()
        .expect("URLs")
        .iter()
        .map(|one| (&one["request"], &one["latency"]["count"]))
        .collect();
    let expected = [json!("GET /a"), json!("DELETE /b"), json!("GET /c")];
    assert_eq!(counts, [(&expected[0], &json!(30)), (&expected[1], &json!(10)), (&expected[2], &json!(20))]);
    // Spread, not one after the other.
    let asked: Vec<String> = upstream.take().iter().map(|seen| seen.message.target().to_owned()).collect();
    assert_eq!(asked[..6], ["/a", "/c", "/a", "/b", "/c", "/a"]);
    let check = |line: &str, reason: &str| {
        std::fs::write(&file, format!("/x\n{line}\n")).expect("written");
        let run = bench(&words);
        assert!(run.code == Some(2) && run.err.contains(reason), "{line}: {}", run.err);
        assert!(run.err.contains(&format!("{name}:2: ")), "{line}: {}", run.err);
    };
    check("weight=0 /y", "not a whole number above 0");
    check("weight=many /y", "weight=many is not");
    check("weight=2", "a URL or path is missing");
}
