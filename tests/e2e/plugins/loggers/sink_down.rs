//! A receiver that is down for a minute, under load. A release build shows figures:
//! `TIDEGATE_BIN=target/release/tidegate cargo test --workspace --test e2e -- --ignored --nocapture sink_that_is_down`

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_testkit::gateway::{YAML_PROVIDER, binary};
use tidegate_testkit::usage::growth;
use tidegate_testkit::{Client, Gateway, eventually_within, free_port};

/// The bounds that are to hold.
const MOST_BYTES: u64 = 64 << 20;
const MINUTES: Duration = Duration::from_secs(180);

/// Counts the entries of the batches that it gets.
struct Sink {
    address: SocketAddr,
    is_down: Arc<AtomicBool>,
}

impl Sink {
    fn open(address: SocketAddr, entries: &Arc<AtomicU64>) -> Sink {
        let listener = TcpListener::bind(address).expect("the port");
        let is_down = Arc::new(AtomicBool::new(false));
        let sink = Sink { address, is_down: is_down.clone() };
        let entries = entries.clone();
        thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                if is_down.load(Ordering::SeqCst) {
                    break;
                }
                let (entries, is_down) = (entries.clone(), is_down.clone());
                thread::spawn(move || take(&socket, &entries, &is_down));
            }
        });
        sink
    }

    /// No batch is on its way.
    fn close(self) {
        self.is_down.store(true, Ordering::SeqCst);
        // So that it looks.
        let _ = TcpStream::connect(self.address);
    }
}

fn take(socket: &TcpStream, entries: &AtomicU64, is_down: &AtomicBool) -> Option<()> {
    let mut reader = BufReader::new(socket);
    loop {
        let (mut line, mut length) = (String::new(), 0);
        loop {
            line.clear();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let lower = line.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let batch: Value = serde_json::from_slice(&body).expect("a batch");
        entries.fetch_add(batch.as_array().map_or(1, Vec::len) as u64, Ordering::SeqCst);
        let mut writer = socket;
        writer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").ok()?;
        if is_down.load(Ordering::SeqCst) {
            return None;
        }
    }
}

/// The sum over the samples whose names begin so.
fn sum(gateway: &Gateway, start: &str) -> u64 {
    let mut client = Client::connect(gateway.metrics).expect("the metrics port accepts connections");
    let page = client.get("metrics", "/apisix/prometheus/metrics").expect("a page").body_text();
    let lines = page.lines().filter(|line| line.starts_with(start));
    let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    values.sum::<f64>() as u64
}

/// What `tidegate bench` finds at a rate.
fn load(gateway: &Gateway, rate: u32, seconds: u32) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let result = folder.path().join("result.json");
    let (rate, duration) = (rate.to_string(), format!("{seconds}s"));
    let mut bench = Command::new(binary());
    bench.args(["bench", "-q", "-c", "50", "-t", "1", "-R", &rate, "-d", &duration, "--json"]);
    let output = bench.arg(&result).arg(format!("http://{}/", gateway.http)).output().expect("bench runs");
    let text = std::fs::read_to_string(&result);
    let text = text.unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    serde_json::from_str(&text).expect("JSON")
}

fn percentile(found: &Value, wanted: f64) -> f64 {
    let pairs = found["latency"]["percentiles"].as_array().expect("percentiles");
    let pair = pairs.iter().find(|pair| pair[0].as_f64() == Some(wanted));
    pair.and_then(|pair| pair[1].as_f64()).expect("a percentile") / 1e3
}

#[test]
#[ignore = "two minutes, and its figures are those of a release build"]
fn a_sink_that_is_down_holds_nobody_up_and_costs_no_count() {
    let number = |variable: &str, default: u32| {
        std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
    };
    let (rate, seconds) = (number("TIDEGATE_SINK_RATE", 10_000), number("TIDEGATE_SINK_SECONDS", 60));
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let routes = json!({"routes": [{"id": "all", "uri": "/*", "plugins": {
        "mocking": {"response_example": "x"}, "prometheus": {},
        "http-logger": {"uri": format!("http://{address}/"), "batch_max_size": 1000, "inactive_timeout": 1,
            "buffer_duration": 1, "max_retry_count": 1000, "retry_delay": 1},
    }}]});
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes.to_string()));
    let entries = Arc::new(AtomicU64::new(0));
    let dropped = || sum(&gateway, "apisix_log_entries_dropped_total{plugin=\"http-logger\"");
    let served = || sum(&gateway, "apisix_http_status{");
    let delivered = || entries.load(Ordering::SeqCst);

    let sink = Sink::open(address, &entries);
    let up = load(&gateway, rate, 10);
    eventually_within(MINUTES, "all are delivered", || delivered() == served());
    assert_eq!(dropped(), 0);
    sink.close();

    let (down, grown) = growth(&gateway, || load(&gateway, rate, seconds));
    let waiting = sum(&gateway, "apisix_log_entries_waiting{plugin=\"http-logger\"}");
    let (before, lost) = (delivered(), dropped());
    let _sink = Sink::open(address, &entries);
    let took = eventually_within(MINUTES, "the rest is delivered", || delivered() + dropped() == served());
    println!(
        "{} requests in {seconds} s without a receiver: +{} MB, {lost} dropped, {waiting} waited, {} delivered within {took:?}",
        down["requests"],
        grown >> 20,
        delivered() - before,
    );
    let both = |wanted| (percentile(&up, wanted), percentile(&down, wanted));
    println!("with a receiver and without: p50 {:?} ms, p99 {:?} ms", both(50.0), both(99.0));
    assert_eq!(dropped(), lost, "what waited is delivered");
    assert!(delivered() > before && lost > 0);
    assert!(grown <= MOST_BYTES, "+{} MB", grown >> 20);
    assert_eq!(down["bad_statuses"], json!(0));
    // A machine that does not reach the rate does not reach it in either way.
    let per_second =
        |found: &Value, seconds: u32| found["requests"].as_f64().expect("a number") / f64::from(seconds);
    let (with, without) = (per_second(&up, 10), per_second(&down, seconds));
    assert!(without >= 0.9 * with, "{with} requests/s with a receiver, {without} without");
    let (with, without) = both(99.0);
    assert!(without <= 2.0 * with + 2.0, "p99 {with} ms with a receiver, {without} ms without");
}
