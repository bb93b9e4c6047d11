//! Lines of the error log that strangers cause, each with something of its own in it: so many a second, and what is left
//! out is counted.

use serde_json::json;
use tidegate_testkit::Gateway;
use tidegate_testkit::gateway::YAML_PROVIDER;

const REQUESTS: u64 = 1_500;
const TOLD: &str = " similar lines were omitted)";

/// Lines about failed requests, and how many the log says were left out.
fn count(log: &str) -> (u64, u64) {
    let (mut lines, mut left_out) = (0, 0);
    for line in log.lines().filter(|line| line.contains("\"GET /lost")) {
        match line.strip_suffix(TOLD).and_then(|line| line.rsplit_once('(')) {
            Some((_, number)) => left_out += number.parse::<u64>().expect("a number"),
            None => lines += 1,
        }
    }
    (lines, left_out)
}

#[test]
fn lines_that_differ_are_limited_and_counted() {
    let routes = json!({"routes": [{"id": "1", "uri": "/*", "upstream": {"nodes": {"127.0.0.1:1": 1}}}]});
    let config = YAML_PROVIDER.replace("  http: {enable_access_log: false}\n", "");
    let gateway = Gateway::start(&config, Some(&routes.to_string()));
    let mut client = gateway.client();
    let mut asked = 0;
    let mut ask = || {
        asked += 1;
        assert_eq!(client.get("h", &format!("/lost{asked}")).expect("an answer").status(), 502);
        asked
    };
    let begun = std::time::Instant::now();
    while ask() < REQUESTS {}
    // The first line of another second tells what the last one left out.
    let (asked, lines, left_out) = loop {
        let asked = ask();
        let (lines, left_out) = count(&gateway.error_log());
        if lines + left_out >= REQUESTS {
            break (asked, lines, left_out);
        }
        assert!(
            begun.elapsed() < tidegate_testkit::PATIENCE,
            "{lines} lines, {left_out} left out of {asked}"
        );
    };
    println!("{asked} failures: {lines} lines, {left_out} left out");
    assert!(lines + left_out <= asked, "{lines} lines, {left_out} left out of {asked}");
    let seconds = begun.elapsed().as_secs() + 2;
    assert!(lines <= 100 * seconds, "{lines} lines in {seconds} s");
    assert!(left_out > 0, "{lines} lines");
}
