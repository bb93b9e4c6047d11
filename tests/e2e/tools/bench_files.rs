//! Reports of `tidegate bench` that programs read.

use std::collections::BTreeSet;

use serde_json::Value;
use tidegate_testkit::Upstream;

use super::bench::{bench, url};

#[test]
fn rows_lines_and_metrics_agree() {
    let upstream = Upstream::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let read = |path: &str| std::fs::read_to_string(path).expect("a report");
    let (csv, jsonl, metrics, urls) = (file("a.csv"), file("a.jsonl"), file("a.prom"), file("urls"));
    std::fs::write(&urls, "/bytes/1\n/status/503\n/delay/2?a=\"b\\c\n").expect("written");
    let words = ["--urls-from", &urls, "-n", "300", "-c", "1", "--fail-if", "5xx>5"];
    let files = ["--csv", &csv, "--jsonl", &jsonl, "--prometheus", &metrics];
    let run = bench(&[&[url(&upstream, "/").as_str()], &words[..], &files].concat());
    assert_eq!(run.code, Some(4), "{}", run.err);

    let text = read(&csv);
    let mut rows = text.lines();
    assert_eq!(rows.next(), Some("seconds,answers,errors,mean_us,p50_us,p99_us,max_us"));
    let rows: Vec<Vec<f64>> =
        rows.map(|row| row.split(',').map(|cell| cell.parse().expect("a number")).collect()).collect();
    assert!(rows.iter().all(|row| row.len() == 7), "{text}");
    assert_eq!(rows.iter().map(|row| row[1]).sum::<f64>(), 300.0);
    assert!(rows.windows(2).all(|pair| pair[1][0] > pair[0][0]), "{text}");

    let lines: Vec<Value> =
        read(&jsonl).lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    let of = |kind: &str| lines.iter().filter(|line| line["kind"] == kind).collect::<Vec<_>>();
    assert_eq!(of("slot").len(), rows.len());
    let count = |line: &Value| line["answers"].as_u64().expect("a count");
    assert_eq!(of("status").iter().map(|line| count(line)).collect::<Vec<_>>(), [200, 100]);
    assert_eq!(of("url").iter().map(|line| count(line)).collect::<Vec<_>>(), [100, 100, 100]);
    let whole = lines.last().expect("a last line");
    assert!(whole["kind"] == "run" && count(whole) == 300 && whole["bad_statuses"] == 100, "{whole}");

    let text = read(&metrics);
    let url = format!("url=\"http://{}/bytes/1\"", upstream.address);
    for line in [
        format!("tidegate_bench_requests{{{url},status=\"503\"}} 100"),
        format!("tidegate_bench_failures{{{url},kind=\"any\"}} 0"),
        format!("tidegate_bench_bad_statuses{{{url}}} 100"),
        format!("tidegate_bench_conditions_met{{{url}}} 1"),
        format!("tidegate_bench_latency_seconds_count{{{url}}} 300"),
        format!("tidegate_bench_status_latency_seconds_count{{{url},status=\"200\"}} 200"),
        format!(
            "tidegate_bench_request_latency_seconds_count{{{url},number=\"2\",request=\"GET \
             /delay/2?a=\\\"b\\\\c\"}} 100"
        ),
        "# TYPE tidegate_bench_latency_seconds summary".into(),
    ] {
        assert!(text.lines().any(|found| found == line), "no {line} in\n{text}");
    }
    // No series stands twice, and every one has a number.
    let mut seen = BTreeSet::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').expect("a series and its value");
        assert!(value.parse::<f64>().is_ok_and(f64::is_finite) && seen.insert(series), "{line}");
    }
}
