//! `tidegate bench --fail-if`: what a pipeline asks of a run, and the exit code that answers.

use serde_json::{Value, json};
use tidegate_testkit::{Behaviour, Step, Upstream};

use super::bench::{bench, url};

#[test]
fn a_condition_that_is_met_has_its_own_exit_code() {
    let upstream = Upstream::start();
    let check = |path: &str, conditions: &[&str], code: i32, said: &str| {
        let url = url(&upstream, path);
        let mut words = vec![url.as_str(), "-n", "20", "-c", "2"];
        words.extend(conditions.iter().flat_map(|condition| ["--fail-if", condition]));
        let run = bench(&words);
        assert_eq!(run.code, Some(code), "{conditions:?}: {}", run.err);
        assert!(run.err.contains(said) && run.out.contains("p99.9"), "{conditions:?}: {}", run.err);
        assert_eq!(run.err.is_empty(), said.is_empty(), "{conditions:?}: {}", run.err);
    };
    check("/delay/20", &["p50>20ms"], 4, "--fail-if 'p50>20ms': it was 2");
    check("/delay/20", &["p999>30s", "mean>=0.02s"], 4, "'mean>=0.02s'");
    check("/bytes/1", &["p99>30s", "max>30s", "rps<0.1", "errors>0.1%", "5xx>0", "2xx<100%"], 0, "");
    check("/bytes/1", &["rps>0.1"], 4, "'rps>0.1': it was ");
    check("/status/503", &["5xx>10%"], 4, "'5xx>10%': it was 100 %");
    check("/status/503", &["errors>19"], 4, "'errors>19': it was 20");
    // Who says how many errors are too many has said that fewer are none.
    check("/status/503", &["errors>20"], 0, "");
    check("/status/503", &["503>20"], 3, "20 answers had a status");
}

#[test]
fn verdicts_are_in_the_json() {
    let upstream = Upstream::start();
    let words = ["-n", "10", "-c", "1", "--style", "json", "--fail-if", "errors>0", "--fail-if", "200>9"];
    let run = bench(&[&[url(&upstream, "/bytes/1").as_str()][..], &words].concat());
    assert_eq!(run.code, Some(4), "{}", run.err);
    let found: Value = serde_json::from_str(&run.out).expect("JSON");
    let expected = json!([
        {"condition": "errors>0", "value": 0.0, "shown": "0", "failed": false},
        {"condition": "200>9", "value": 10.0, "shown": "10", "failed": true},
    ]);
    assert_eq!(found["verdicts"], expected);
}

/// With -R a condition is about what a user waits, as the report is.
#[test]
fn latency_is_corrected_in_the_open_model() {
    let turn = std::sync::atomic::AtomicUsize::new(0);
    let upstream = Upstream::with(move |request| {
        let Behaviour { read_body, mut steps } = tidegate_testkit::upstream::behaviour::by_path(request);
        if turn.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 10 {
            steps.insert(0, Step::Wait(std::time::Duration::from_millis(500)));
        }
        Behaviour { read_body, steps }
    });
    let url = url(&upstream, "/bytes/1");
    // One of 200 requests is slow; those that were due meanwhile waited as well.
    let run = bench(&[&url, "-R", "200", "-n", "200", "-c", "1", "--fail-if", "p90>100ms"]);
    assert_eq!(run.code, Some(4), "{} {}", run.out, run.err);
}

/// A closed loop does not ask while it waits; what it waited for when the run ended is still the slowest.
#[test]
fn a_request_that_is_never_answered_is_in_the_maximum() {
    let upstream = Upstream::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("urls");
    std::fs::write(&file, "/bytes/1\n/silent\n").expect("written");
    let file = file.display().to_string();
    let url = url(&upstream, "/");
    let words = [url.as_str(), "--urls-from", &file, "-d", "1s", "-c", "1", "-t", "1"];
    let run = bench(&[&words[..], &["--fail-if", "max>500ms"]].concat());
    assert_eq!(run.code, Some(4), "{} {}", run.out, run.err);
}

#[test]
fn a_bad_expression_is_refused_before_the_run() {
    let upstream = Upstream::start();
    let check = |condition: &str, reason: &str| {
        let run = bench(&[&url(&upstream, "/"), "-n", "1", "-c", "1", "--fail-if", condition]);
        assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{condition}");
        for part in [reason, &format!("--fail-if {condition:?}"), "such as p99>20ms"] {
            assert!(run.err.contains(part), "{condition}: no {part} in {}", run.err);
        }
    };
    check("p99", "expected > or <");
    check("p98>20ms", "unknown metric \"p98\"");
    check("p99>20", "needs us, ms or s");
    check("p99<20ms", "did you mean p99>20ms");
    check("errors>200%", "cannot exceed 100%");
    assert!(upstream.seen().is_empty() && upstream.connections() == 0);
}
