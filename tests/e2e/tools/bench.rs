//! `tidegate bench` as users run it: what it sends, what it counts, what it prints, how it ends.

use std::io::Read;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tidegate_testkit::{Behaviour, PATIENCE, Step, Upstream, free_port, gateway, process::Process, servers};

pub(super) struct Run {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// `tidegate bench` with these words.
pub(super) fn bench(words: &[&str]) -> Run {
    let output = Command::new(gateway::binary()).arg("bench").args(words).stdin(Stdio::null()).output();
    let output = output.expect("tidegate bench runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Run { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
}

/// The outcome of a run as JSON.
pub(super) fn outcome(words: &[&str]) -> Value {
    let run = bench(&[words, &["--style", "json"]].concat());
    serde_json::from_str(&run.out).unwrap_or_else(|error| panic!("{error}: {} {}", run.out, run.err))
}

pub(super) fn url(upstream: &Upstream, path: &str) -> String {
    format!("http://{}{path}", upstream.address)
}

fn number(outcome: &Value, name: &str) -> u64 {
    outcome[name].as_u64().unwrap_or_else(|| panic!("{name} in {outcome}"))
}

#[test]
fn a_count_of_requests_is_sent_exactly() {
    let upstream = Upstream::start();
    let found = outcome(&[&url(&upstream, "/bytes/100"), "-n", "501", "-c", "7", "-t", "2"]);
    assert_eq!(number(&found, "requests"), 501);
    assert_eq!(number(&found, "body_bytes"), 50_100);
    assert_eq!(found["statuses"], serde_json::json!([[200, 501]]));
    assert_eq!(upstream.seen().len(), 501);
    // One connection more: the look before the run.
    assert_eq!(upstream.connections(), 8);
}

#[test]
fn headers_methods_bodies_and_templates() {
    let upstream = Upstream::start();
    let url = url(&upstream, "/echo/{{seq 5 6}}");
    let words = ["-n", "4", "-c", "1", "-m", "PUT", "-H", "X-Key: k{{seq}}", "--body", "n={{seq}}"];
    let run = bench(&[&[url.as_str()][..], &words].concat());
    assert_eq!(run.code, Some(0), "{}", run.err);
    let seen: Vec<String> = upstream.take().iter().map(tidegate_testkit::Seen::text).collect();
    assert!(seen[0].starts_with("PUT /echo/5 HTTP/1.1\r\nHost: "), "{}", seen[0]);
    assert!(seen[3].starts_with("PUT /echo/6 ") && seen[3].contains("\r\nX-Key: k3\r\n"), "{}", seen[3]);
    assert!(seen[3].ends_with("Content-Length: 3\r\n\r\nn=3"), "{}", seen[3]);
}

#[test]
fn lists_of_urls_are_asked_in_turn() {
    let upstream = Upstream::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("urls");
    std::fs::write(&file, "# a comment\n/a\nDELETE /b\n\n/c\n").expect("written");
    let run =
        bench(&[&url(&upstream, "/"), "--urls-from", &file.display().to_string(), "-n", "4", "-c", "1"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let asked: Vec<String> = upstream
        .take()
        .iter()
        .map(|seen| format!("{} {}", seen.message.method(), seen.message.target()))
        .collect();
    assert_eq!(asked, ["GET /a", "DELETE /b", "GET /c", "GET /a"]);
}

#[test]
fn all_forms_of_http_1() {
    let upstream = Upstream::start();
    let check = |path: &str, words: &[&str], connections: usize| {
        let before = upstream.connections();
        let found = outcome(&[&[url(&upstream, path).as_str(), "-n", "40", "-c", "2"], words].concat());
        assert_eq!(
            (number(&found, "requests"), &found["failures"]),
            (40, &serde_json::json!([])),
            "{words:?}"
        );
        assert_eq!(upstream.connections() - before - 1, connections, "{path} {words:?}");
    };
    check("/bytes/5", &["--no-keepalive"], 40);
    check("/bytes/5", &["--http1.0", "--no-keepalive"], 40);
    check("/bytes/5", &["--pipeline", "5"], 2);
    check("/chunked-pieces", &[], 2);
    check("/trailers", &["--pipeline", "3"], 2);
    check("/hints", &[], 2);
    check("/bytes/300000", &[], 2);
    check("/bytes/9", &["-m", "HEAD"], 2);
    check("/bytes/5", &["-R", "400"], 2);
    let found = outcome(&[&url(&upstream, "/until-close"), "-n", "40", "-c", "2"]);
    assert_eq!((number(&found, "requests"), &found["failures"]), (40, &serde_json::json!([])));
}

#[test]
fn failures_are_counted_named_and_shown_by_the_exit_code() {
    let upstream = Upstream::start();
    for (path, kind) in [
        ("/close", "closed early"),
        ("/reset", "closed early"),
        ("/close-mid-body", "closed early"),
        ("/bad-status-line", "malformed"),
        ("/both-lengths", "malformed"),
    ] {
        let run = bench(&[&url(&upstream, path), "-n", "10", "-c", "2", "--style", "json"]);
        let found: Value = serde_json::from_str(&run.out).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(found["failures"], serde_json::json!([[kind, 10]]), "{path}");
        assert_eq!(run.code, Some(1), "{path}: nothing was measured");
    }
    let run = bench(&[&url(&upstream, "/silent"), "-n", "2", "-c", "2", "--timeout", "300ms"]);
    assert!(run.out.contains("2 x no answer after 300ms"), "{}", run.out);
    let turn = std::sync::atomic::AtomicUsize::new(0);
    let partly = Upstream::with(move |request| {
        let turn = turn.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        if turn % 2 == 1 {
            return Behaviour { read_body: true, steps: vec![Step::Reset] };
        }
        tidegate_testkit::upstream::behaviour::by_path(request)
    });
    let run = bench(&[&url(&partly, "/bytes/1"), "-n", "10", "-c", "1"]);
    assert_eq!(run.code, Some(3), "{} {}", run.out, run.err);
    assert!(run.out.contains("failed      5") && run.err.contains("5 requests failed"), "{}", run.out);
    let run = bench(&[&url(&upstream, "/status/503"), "-n", "10", "-c", "1"]);
    assert!(run.code == Some(3) && run.out.contains("503: 10"), "{}", run.out);
    let run = bench(&[&url(&upstream, "/status/503"), "-n", "10", "-c", "1", "--accept-status", "429,503"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
}

#[test]
fn what_cannot_run_is_refused_with_a_reason() {
    let closed = format!("http://127.0.0.1:{}/", free_port());
    let check = |words: &[&str], code: i32, reason: &str| {
        let run = bench(words);
        assert_eq!((run.code, run.err.contains(reason)), (Some(code), true), "{words:?}: {}", run.err);
        assert_eq!(run.out, "", "{words:?}");
    };
    check(&[&closed], 1, "connection refused");
    check(&["http://no-such-host.invalid/"], 1, "cannot find the address");
    check(&[&closed, "-c", "0"], 2, "at least 1");
    check(&[&closed, "-c", "1", "-t", "2"], 2, "more threads than connections");
    check(&[&closed, "-d", "10x"], 2, "expected a number");
    check(&[&closed, "-R", "0"], 2, "-R");
    check(&[&closed, "-R", "-5"], 2, "-R must be a number of requests per second above 0");
    check(&[&closed, "--timeout", "0s"], 2, "--timeout must be more than 0");
    check(&[&closed, "--accept-status", "700"], 2, "700 is not in 100..=599");
    check(&[&closed, "--cacert", "/no/such/file"], 2, "--cacert is for https:// URLs");
    check(&[&closed, "-k"], 2, "-k is for https:// URLs");
    check(&[&closed, "--flamegraph-file", "x.svg"], 2, "--flamegraph <PID>");
    check(&[&closed, "--pipeline", "2", "--no-keepalive"], 2, "--no-keepalive");
    check(&[&closed, "-H", "nonsense"], 2, "'Name: value'");
    check(&["not-a-url"], 2, "http://");
    check(&["http://h/{{nope}}"], 1, "cannot find the address");
    check(&[&closed, "http://127.0.0.1:1/"], 2, "one server at a time");
    check(&[&closed, "--no-such-flag"], 2, "--no-such-flag");
}

#[test]
fn certificates_are_checked() {
    let server = tls_server();
    let url = format!("https://localhost:{}/", server.address.port());
    let run = bench(&[&url, "-n", "10", "-c", "2"]);
    assert_eq!(run.code, Some(1), "{}", run.err);
    assert!(run.err.contains("TLS with localhost") && run.err.contains("--cacert"), "{}", run.err);
    let authority = server.folder.path().join("certificate.pem").display().to_string();
    for trust in [&["--insecure"][..], &["--cacert", &authority]] {
        let found = outcome(&[&[url.as_str(), "-n", "50", "-c", "2"], trust].concat());
        assert_eq!(
            (number(&found, "requests"), &found["failures"]),
            (50, &serde_json::json!([])),
            "{trust:?}"
        );
        assert_eq!(found["tls_handshake"]["count"], 2);
    }
}

struct TlsServer {
    address: std::net::SocketAddr,
    folder: tempfile::TempDir,
    _server: servers::Server,
}

fn tls_server() -> TlsServer {
    let folder = tempfile::tempdir().expect("a folder");
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("a certificate");
    let write = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.display().to_string()
    };
    let certificate = write("certificate.pem", made.cert.pem());
    let key = write("key.pem", made.signing_key.serialize_pem());
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], free_port()));
    let server = servers::nginx(&format!(
        "listen {address} ssl http2; ssl_certificate {certificate}; ssl_certificate_key {key};\n\
         location / {{ return 200 hello; }}"
    ));
    TlsServer { address, folder, _server: server }
}

#[test]
fn every_style_has_the_lines_its_readers_look_for() {
    let upstream = Upstream::start();
    let url = url(&upstream, "/bytes/10");
    let check = |words: &[&str], lines: &[&str]| {
        let run = bench(&[&[url.as_str(), "-c", "1", "-n", "50"], words].concat());
        for line in lines {
            assert!(run.out.contains(line), "{words:?}: no {line:?} in\n{}", run.out);
        }
    };
    check(
        &["--style", "wrk"],
        &["  1 threads and 1 connections", "    Latency  ", "50 requests in ", "Requests/sec: "],
    );
    check(
        &["--style", "wrk2", "-R", "1000"],
        &["Detailed Percentile spectrum:", "Uncorrected Latency", "#[Mean    = ", " 99.900%"],
    );
    check(
        &["--style", "ab"],
        &[
            "Server Software:        testkit\n",
            "Document Length:        10 bytes\n",
            "Complete requests:      50\n",
            "HTML transferred:       500 bytes\n",
            "Keep-Alive requests:    50\n",
            " [#/sec] (mean)\n",
            " (longest request)\n",
        ],
    );
    check(&[], &["p99.99", "requests    50 "]);
}

#[test]
fn the_sequential_test_lists_slow_requests_and_sorts_the_rest() {
    let turn = std::sync::atomic::AtomicUsize::new(0);
    let upstream = Upstream::with(move |request| {
        let mut behaviour = tidegate_testkit::upstream::behaviour::by_path(request);
        if turn.fetch_add(1, std::sync::atomic::Ordering::SeqCst) % 100 == 50 {
            behaviour.steps.insert(0, Step::Wait(Duration::from_millis(120)));
        }
        behaviour
    });
    let run = bench(&[&url(&upstream, "/bytes/10"), "--style", "jitter", "-n", "300"]);
    let costs: Vec<u64> = run
        .out
        .lines()
        .filter_map(|line| line.strip_prefix("cost: ")?.strip_suffix("ms")?.parse().ok())
        .collect();
    assert_eq!(costs.iter().filter(|&&cost| cost >= 120).count(), 3, "{}", run.out);
    let buckets = ["0ms", "0~2ms", "2~5ms", "5~10ms", ">10ms"];
    let stats = run.out.split("Latency stats:\n").nth(1).expect("statistics");
    let sum: u64 = stats
        .lines()
        .zip(buckets)
        .map(|(line, name)| {
            let count = line.strip_prefix(&format!("{name}: ")).unwrap_or_else(|| panic!("{line}"));
            count.parse::<u64>().expect("a number")
        })
        .sum();
    assert_eq!(sum, 300);
}

#[test]
fn ctrl_c_prints_the_report() {
    let upstream = Upstream::start();
    let mut command = Command::new(gateway::binary());
    command.args(["bench", &url(&upstream, "/bytes/10"), "-d", "10m", "-c", "1"]);
    let mut process = Process::start("tidegate bench", &mut command);
    upstream.wait_for(20);
    let pressed = Instant::now();
    process.signal(rustix::process::Signal::INT);
    let status = process.wait_for_exit();
    assert_eq!(status.code(), Some(130));
    assert!(pressed.elapsed() < PATIENCE);
    process.wait_for_output("p99.9");
    assert!(process.output().contains("interrupted"), "{}", process.output());
}

/// Requests that were due while the server paused count with the time they waited: a closed loop hides them.
#[test]
fn a_pause_is_in_the_tail_of_an_open_model_run() {
    let started = std::sync::Mutex::new(None::<Instant>);
    let pause = move |request: &tidegate_testkit::Message| {
        let mut behaviour = tidegate_testkit::upstream::behaviour::by_path(request);
        let begun = *started.lock().expect("no panic").get_or_insert_with(Instant::now);
        // All requests that come in the pause are answered when it is over.
        let (from, until) = (Duration::from_millis(700), Duration::from_millis(900));
        let now = begun.elapsed();
        if now >= from && now < until {
            behaviour.steps.insert(0, Step::Wait(until - now));
        }
        behaviour
    };
    let upstream = Upstream::with(pause);
    let found = outcome(&[&url(&upstream, "/bytes/10"), "-R", "300", "-c", "4", "-t", "1", "-d", "2s"]);
    let at = |name: &str, percentile: f64| {
        let all = found[name]["percentiles"].as_array().expect("percentiles").clone();
        let of = |pair: &&Value| pair[0].as_f64() == Some(percentile);
        all.iter().find(of).and_then(|pair| pair[1].as_f64()).expect("that percentile") / 1000.0
    };
    // 60 of 600 requests were due in the pause; 4 connections were hit by it.
    assert!(at("corrected", 99.9) > 180.0, "p99.9 {} ms", at("corrected", 99.9));
    assert!(at("corrected", 95.0) > 70.0, "p95 {} ms", at("corrected", 95.0));
    assert!(at("latency", 95.0) < at("corrected", 95.0) / 2.0, "raw p95 {} ms", at("latency", 95.0));
}

#[test]
fn a_server_that_goes_away_ends_a_run_of_n() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = std::thread::spawn(move || {
        // The look before the run, then one connection; then nobody listens any more.
        let _first = listener.accept();
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut byte = [0];
        let _ = stream.read(&mut byte);
    });
    let run = bench(&[&format!("http://{address}/"), "-n", "5", "-c", "1", "--timeout", "2s"]);
    server.join().expect("no panic");
    assert_eq!(run.code, Some(1), "{} {}", run.out, run.err);
    assert!(run.err.contains("nothing was measured"), "{}", run.err);
}

/// nginx ends a connection of HTTP/2 after a thousand requests, in an orderly way: none is lost.
#[test]
fn http_2_in_the_clear_and_over_tls() {
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], free_port()));
    let _server = servers::nginx(&format!("listen {address} http2; location / {{ return 200 hello; }}"));
    let url = format!("http://{address}/{{{{seq}}}}");
    let found = outcome(&[&url, "--http2", "-n", "2500", "-c", "2", "-t", "1", "--pipeline", "8"]);
    assert_eq!((number(&found, "requests"), &found["failures"]), (2500, &serde_json::json!([])));
    assert_eq!(number(&found, "body_bytes"), 12_500);
    let found = outcome(&[&url, "--http2", "-R", "200", "-d", "1s", "-c", "2", "-t", "1"]);
    assert!((150..=201).contains(&number(&found, "requests")), "{}", found["requests"]);
    let server = tls_server();
    let url = format!("https://localhost:{}/", server.address.port());
    let found = outcome(&[&url, "--http2", "--insecure", "-n", "50", "-c", "2"]);
    assert_eq!((&found["protocol"], number(&found, "requests")), (&Value::from("HTTP/2"), 50));
    let upstream = Upstream::start();
    let refused = bench(&[&self::url(&upstream, "/"), "--http2", "-n", "5", "-c", "1"]);
    assert_eq!(refused.code, Some(1), "{}", refused.err);
}

#[test]
fn reports_are_written_and_runs_compared() {
    let upstream = Upstream::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (quick, slow) = (url(&upstream, "/bytes/1"), url(&upstream, "/delay/5"));
    let (first, html, markdown) = (file("first.json"), file("r.html"), file("r.md"));
    let words = ["-d", "1500ms", "-c", "2", "--json", &first, "--html", &html, "--markdown", &markdown];
    assert_eq!(bench(&[&[quick.as_str()][..], &words].concat()).code, Some(0));
    let second = file("second.json");
    assert_eq!(bench(&[&slow, "-d", "1500ms", "-c", "2", "--json", &second]).code, Some(0));
    let page = std::fs::read_to_string(&html).expect("the page");
    for part in ["<title>tidegate bench</title>", "uPlot", "const data = {", "id=\"spectrum\"", &quick] {
        assert!(page.contains(part), "no {part} in the page");
    }
    // Nothing is fetched from anywhere, and no place is left unfilled.
    assert!(!page.contains("src=\"http") && !page.contains("@DATA@") && !page.contains("@SUMMARY@"));
    assert!(std::fs::read_to_string(&markdown).expect("markdown").contains("| 99.9 |"));
    let same = bench(&["compare", &first, &first]).out;
    assert_eq!(same.matches("no difference").count(), 5, "{same}");
    let other = bench(&["compare", &first, &second]).out;
    assert!(other.contains("worse") && !other.contains("better"), "{other}");
    let wrong = bench(&["compare", &first, &html]);
    assert!(wrong.code == Some(2) && wrong.err.contains("not a result"), "{}", wrong.err);
}

#[test]
fn doctor_checks_the_machine_the_configuration_and_the_target() {
    let nginx = servers::nginx("location / { return 200 hello; }");
    let url = format!("http://{}/", nginx.address);
    let config = tidegate_testkit::gateway::workspace_root().join("conf/config.yaml").display().to_string();
    let run = bench(&["doctor", &url, "--upstream", &url, "-c", &config]);
    assert!(matches!(run.code, Some(0 | 3)), "{}", run.err);
    for name in ["open files", "conntrack", "local ports", "CPU steal", "access log", "gateway", "upstream"] {
        assert!(run.out.contains(&format!(" {name} ")), "no {name} in\n{}", run.out);
    }
    // Whatever is bad has a remedy below it.
    let lines: Vec<&str> = run.out.lines().collect();
    for pair in lines.windows(2).filter(|pair| pair[0].starts_with("BAD")) {
        assert!(pair[1].contains("-> "), "{pair:?}");
    }
    let held = bench(&["doctor", &url, "--connections", "200"]);
    assert_eq!(held.code, Some(0), "{} {}", held.out, held.err);
    assert!(held.out.contains("held 200 of 200") && held.out.contains(" per connection"), "{}", held.out);
}

#[test]
fn a_suite_starts_its_servers_and_prints_its_table() {
    let upstream = Upstream::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("suite.yaml");
    let text = "name: small\nabout: A test.\nseconds: 0.4\nwarmup_seconds: 0.1\nrepetitions: 2\nscenarios:\n\
        - {name: keyed, rate: 200, connections: 4, targets: [direct, tidegate, nginx, haproxy, nonesuch],\n\
        \x20  path: '/route/{{seq 0 1}}', headers: {apikey: 'key-{{seq 0 1}}'},\n\
        \x20  gateway: {routes: 2, consumers: 2, plugins: {key-auth: {}}},\n\
        \x20  background: {scrapes_per_second: 5, changes_per_second: 5}}\n";
    std::fs::write(&file, text).expect("written");
    let other = format!("other=http://{}/", upstream.address);
    let run = bench(&["suite", &file.display().to_string(), "--target", &other]);
    assert_eq!(run.code, Some(0), "{} {}", run.out, run.err);
    for target in ["direct", "tidegate", "nginx", "haproxy", "other"] {
        let row = run.out.lines().find(|line| line.starts_with(&format!("| keyed | {target} | ")));
        let row = row.unwrap_or_else(|| panic!("no {target} in\n{}", run.out));
        assert!(row.ends_with(" 0 |") && !row.contains("left out"), "{row}");
    }
    assert!(run.out.contains("| keyed | nonesuch | left out: unknown target"), "{}", run.out);
    let wrong = bench(&["suite", "/no/such/suite.yaml"]);
    assert!(wrong.code == Some(2) && wrong.err.contains("/no/such/suite.yaml"), "{}", wrong.err);
}

/// perf is optional: where it is missing or not permitted, that is said, after the report.
#[test]
fn flame_graphs_of_a_process_under_load() {
    let nginx = servers::nginx("location / { return 200 hello; }");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("flame.svg").display().to_string();
    let url = format!("http://{}/", nginx.address);
    let own = std::process::id().to_string();
    // This test waits for the run, so the process that is sampled is the one that has threads at work: itself.
    let busy = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let working = busy.clone();
    let worker = std::thread::spawn(move || {
        let mut sum = 0u64;
        while working.load(std::sync::atomic::Ordering::Relaxed) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
    });
    let run = bench(&[&url, "-d", "1s", "-c", "2", "--flamegraph", &own, "--flamegraph-file", &file]);
    busy.store(false, std::sync::atomic::Ordering::Relaxed);
    worker.join().expect("no panic");
    if run.code == Some(0) {
        let svg = std::fs::read_to_string(&file).expect("the graph");
        assert!(svg.starts_with("<svg ") && svg.contains(" samples"), "{svg}");
    } else {
        let said = run.err.contains("linux-perf") || run.err.contains("perf_event_paranoid");
        assert!(said, "{} {}", run.out, run.err);
        assert!(!servers::installed("perf") || run.out.contains("p99.9"), "{}", run.err);
    }
    let wrong = bench(&[&url, "-n", "1", "--flamegraph", "4194999"]);
    assert!(wrong.code == Some(2) && wrong.err.contains("no such process"), "{}", wrong.err);
}
