//! The way back from a damaged store: the copy of the last good configuration beside it, repair, backup and restore.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use serde_json::Value;
use tidegate_testkit::gateway::{EMBEDDED, Gateway, YAML_PROVIDER, binary, run_command};
use tidegate_testkit::process::Process;
use tidegate_testkit::{Client, eventually, eventually_within};

const OPEN: &str = r#"{"uri":"/x","plugins":{"mocking":{"response_example":"OPEN"}}}"#;
const GUARD: &str = r#"{"plugins":{"key-auth":{}}}"#;
/// The copy is never further behind.
const LONGEST_LAG: Duration = Duration::from_secs(10);

fn put(gateway: &Gateway, path: &str, body: &str) {
    let (code, answer) = gateway.admin("PUT", &format!("/apisix/admin/{path}"), body);
    assert!(code == 200 || code == 201, "{path}: {code} {answer}");
}

fn data(gateway: &Gateway, name: &str) -> PathBuf {
    gateway.prefix().join("data").join(name)
}

fn status(gateway: &Gateway) -> u16 {
    gateway.client().get("h", "/x").expect("an answer").status()
}

fn export(gateway: &Gateway) -> String {
    let (code, body) = gateway.admin("GET", "/apisix/admin/export", "");
    assert_eq!(code, 200, "{body}");
    body
}

fn store_state(gateway: &Gateway) -> Value {
    let mut client = Client::connect(gateway.control).expect("the control port");
    let answer = client.get("localhost", "/v1/store").expect("an answer").body_text();
    serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

/// `tidegate config ...`: exit code and what it printed.
fn config(gateway: &Gateway, words: &[&str]) -> (i32, String) {
    let mut command = Command::new(binary());
    let output = command.arg("config").args(words).arg("--prefix").arg(gateway.prefix()).output();
    let output = output.expect("tidegate runs");
    let printed = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    (output.status.code().expect("no signal"), printed)
}

/// Flips bits of pages in use until nothing of the file verifies.
fn damage(path: &Path, seed: usize) {
    let mut bytes = fs::read(path).expect("a store");
    for number in 0..400 {
        let place = (number * 7919 + seed * 104_729) % bytes.len();
        bytes[place] ^= 1 << ((number + seed) % 8);
    }
    fs::write(path, bytes).expect("written");
}

fn refused(gateway: &mut Gateway, flag: Option<&str>, words: &[&str]) {
    gateway.process = Process::start("tidegate", run_command(gateway.prefix()).args(flag));
    assert!(!gateway.process.wait_for_exit().success(), "{}", gateway.process.output());
    for word in words {
        gateway.process.wait_for_output(word);
    }
}

#[test]
fn a_damaged_store_is_served_from_its_copy() {
    let mut gateway = Gateway::start(EMBEDDED, None);
    put(&gateway, "routes/1", OPEN);
    put(&gateway, "global_rules/1", GUARD);
    assert_eq!(store_state(&gateway)["state"], "good");
    let whole = export(&gateway);
    gateway.process.stop();
    let (store, copy) = (data(&gateway, "tidegate.redb"), data(&gateway, "tidegate.last-good"));
    assert_eq!(fs::metadata(&copy).expect("a copy").permissions().mode() & 0o777, 0o600);
    let good = fs::read(&store).expect("a store");
    for seed in 0..4 {
        fs::write(&store, &good).expect("written");
        damage(&store, seed);
        let (starts, said) = gateway.verb("test");
        assert!(starts && said.contains("READ-ONLY"), "{said}");
        gateway.restart();
        assert_eq!(status(&gateway), 401, "the guard is gone");
        assert_eq!(export(&gateway), whole);
        for (method, path, body) in
            [("PUT", "routes/2", OPEN), ("DELETE", "global_rules/1", ""), ("POST", "transaction", "[]")]
        {
            let (code, answer) = gateway.admin(method, &format!("/apisix/admin/{path}"), body);
            assert!(
                path == "transaction" || (code == 503 && answer.contains("config repair")),
                "{code} {answer}"
            );
            assert!(code >= 400, "{method} {path}: {answer}");
        }
        gateway.process.wait_for_output("DAMAGED");
        gateway.wait_for_log("READ-ONLY");
        let log = gateway.error_log();
        assert!(log.lines().any(|line| line.contains("[error]") && line.contains("READ-ONLY")), "{log}");
        let state = store_state(&gateway);
        assert_eq!((&state["state"], &state["writes_behind"]), (&"last_good".into(), &0.into()), "{state}");
        let mut client = Client::connect(gateway.metrics).expect("the metrics port");
        let page = client.get("metrics", "/apisix/prometheus/metrics").expect("a page").body_text();
        assert!(page.contains("apisix_serves_last_good 1"), "{page}");
        gateway.process.stop();
    }
    // Repaired while it serves, and taken over without a lost request.
    gateway.restart();
    let (code, said) = config(&gateway, &["repair", "--dry-run"]);
    assert!(code == 0 && said.contains("everything that was acknowledged"), "{code} {said}");
    let (code, said) = config(&gateway, &["repair"]);
    assert!(code == 0 && said.contains("is repaired") && said.contains(".damaged-1"), "{code} {said}");
    assert!(data(&gateway, "tidegate.redb.damaged-1").exists());
    let (done, said) = gateway.verb("upgrade");
    assert!(done, "{said}");
    assert_eq!(export(&gateway), whole);
    put(&gateway, "routes/3", OPEN);
    assert_eq!(status(&gateway), 401);
    assert_eq!(store_state(&gateway)["state"], "good");
    let (code, said) = config(&gateway, &["repair"]);
    assert!(code == 1 && said.contains("in use"), "{code} {said}");
}

/// Nothing is open that a repair could overwrite.
#[test]
fn a_missing_store_is_repaired_while_its_copy_is_served() {
    let mut gateway = Gateway::start(EMBEDDED, None);
    put(&gateway, "routes/1", OPEN);
    put(&gateway, "global_rules/1", GUARD);
    let whole = export(&gateway);
    let store = data(&gateway, "tidegate.redb");
    // One that is removed while it serves is open still.
    fs::remove_file(&store).expect("removed");
    let (code, said) = config(&gateway, &["repair"]);
    assert!(code == 1 && said.contains("has it open; stop it first"), "{code} {said}");
    gateway.process.stop();
    gateway.restart();
    assert_eq!((status(&gateway), &store_state(&gateway)["state"]), (401, &"last_good".into()));
    let (code, said) = config(&gateway, &["repair"]);
    assert!(code == 0 && said.contains("is repaired"), "{code} {said}");
    let (done, said) = gateway.verb("upgrade");
    assert!(done, "{said}");
    assert_eq!((status(&gateway), &store_state(&gateway)["state"]), (401, &"good".into()));
    assert_eq!(export(&gateway), whole);
    put(&gateway, "routes/3", OPEN);
}

#[test]
fn a_copy_that_is_behind_is_served_on_demand_only() {
    let mut gateway = Gateway::start(EMBEDDED, None);
    put(&gateway, "routes/1", OPEN);
    gateway.process.stop();
    let (store, copy) = (data(&gateway, "tidegate.redb"), data(&gateway, "tidegate.last-good"));
    let older = fs::read(&copy).expect("a copy");
    gateway.restart();
    put(&gateway, "global_rules/1", GUARD);
    gateway.process.stop();
    let good = fs::read(&store).expect("a store");
    fs::write(&copy, &older).expect("written");
    damage(&store, 9);
    let words = ["it is 1 writes and ", " s behind", "--serve-last-good", "config repair", "may open what"];
    refused(&mut gateway, None, &words);
    let (starts, said) = gateway.verb("test");
    assert!(!starts && said.contains("--serve-last-good"), "{said}");
    // Whoever says so gets it, and is told.
    gateway.process = Process::start("tidegate", run_command(gateway.prefix()).arg("--serve-last-good"));
    gateway.process.wait_for_port(gateway.http);
    assert_eq!(status(&gateway), 200, "the copy has no guard");
    assert_eq!(store_state(&gateway)["writes_behind"], 1);
    gateway.process.wait_for_output("it is 1 writes");
    let file = gateway.prefix().join("backup");
    let (code, said) = config(&gateway, &["backup", file.to_str().expect("a path")]);
    assert!(code == 0 && said.contains("revision 1"), "{code} {said}");
    gateway.process.stop();
    // So does a repair.
    let before = fs::read(&store).expect("a store");
    let (code, said) = config(&gateway, &["repair"]);
    assert!(code == 2 && said.contains("it is 1 writes") && said.contains("--accept-loss"), "{code} {said}");
    assert_eq!(fs::read(&store).expect("a store"), before, "it was changed");
    let (code, said) = config(&gateway, &["repair", "--accept-loss"]);
    assert!(code == 0 && said.contains(".damaged-1"), "{code} {said}");
    gateway.restart();
    assert_eq!(status(&gateway), 200);
    put(&gateway, "global_rules/1", GUARD);
    gateway.process.stop();
    let (code, said) = config(&gateway, &["repair"]);
    assert!(code == 0 && said.contains("nothing to repair"), "{code} {said}");
    // The repaired store is ahead of what it took the place of.
    fs::write(&store, good).expect("written");
    gateway.restart();
    assert_eq!(status(&gateway), 401);
    gateway.process.wait_for_output("READ-ONLY");
}

#[test]
fn a_store_that_was_rolled_back_is_repaired_from_the_newest_there_is() {
    let mut gateway = Gateway::start(EMBEDDED, None);
    put(&gateway, "routes/1", OPEN);
    gateway.process.stop();
    let (store, copy) = (data(&gateway, "tidegate.redb"), data(&gateway, "tidegate.last-good"));
    let older = fs::read(&store).expect("a store");
    gateway.restart();
    put(&gateway, "global_rules/1", GUARD);
    gateway.process.stop();
    fs::write(&store, &older).expect("written");
    let (code, said) = config(&gateway, &["repair"]);
    assert!(code == 0 && said.contains("history and the checkpoints are lost"), "{code} {said}");
    gateway.restart();
    assert_eq!(status(&gateway), 401);
    gateway.process.stop();
    // Without a copy the older file is what there is, with its history.
    let newest = fs::read(&store).expect("a store");
    gateway.restart();
    put(&gateway, "routes/2", OPEN);
    gateway.process.stop();
    fs::write(&store, &newest).expect("written");
    fs::remove_file(&copy).expect("a copy");
    let (code, said) = config(&gateway, &["repair"]);
    assert!(code == 2 && said.contains("it is 1 writes behind"), "{code} {said}");
    let (code, said) = config(&gateway, &["repair", "--accept-loss"]);
    assert!(code == 0 && said.contains("its history stays"), "{code} {said}");
    gateway.restart();
    assert_eq!(status(&gateway), 401);
    assert_eq!(gateway.admin("GET", "/apisix/admin/routes/2", "").0, 404);
}

#[test]
fn a_damaged_copy_is_never_served() {
    let mut gateway = Gateway::start(EMBEDDED, None);
    put(&gateway, "routes/1", OPEN);
    put(&gateway, "global_rules/1", GUARD);
    gateway.process.stop();
    let (store, copy) = (data(&gateway, "tidegate.redb"), data(&gateway, "tidegate.last-good"));
    let (whole, good) = (fs::read(&store).expect("a store"), fs::read(&copy).expect("a copy"));
    let file = gateway.prefix().join("backup");
    let target = file.to_str().expect("a path");
    damage(&store, 3);
    for bit in [40, good.len() * 3, good.len() * 7, good.len() * 8 - 20] {
        let mut flipped = good.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        fs::write(&copy, &flipped).expect("written");
        let words = ["tidegate.last-good, is not served", "damaged"];
        refused(&mut gateway, None, &words);
        refused(&mut gateway, Some("--serve-last-good"), &words);
        let (code, said) = config(&gateway, &["repair", "--accept-loss"]);
        assert!(code == 1 && said.contains("Nothing can be recovered"), "{code} {said}");
        // Nor is it restored.
        let (code, said) = config(&gateway, &["restore", copy.to_str().expect("a path")]);
        assert!(code == 1 && said.contains("nothing was changed"), "{code} {said}");
    }
    let (code, said) = config(&gateway, &["backup", target]);
    assert!(code == 1 && said.contains("damaged") && !file.exists(), "{code} {said}");
    // A whole one of another gateway.
    let mut other = Gateway::start(EMBEDDED, None);
    put(&other, "routes/1", OPEN);
    other.process.stop();
    fs::copy(data(&other, "tidegate.last-good"), &copy).expect("copied");
    refused(&mut gateway, Some("--serve-last-good"), &["it belongs to another store"]);
    // With a good store it is kept aside, and another takes its place.
    fs::write(&store, whole).expect("written");
    gateway.restart();
    gateway.wait_for_log("tidegate.last-good.other-1");
    gateway.process.stop();
    damage(&store, 4);
    gateway.restart();
    assert_eq!(status(&gateway), 401);
}

/// Puts `/wN-K` for K from 0 on, until told to stop; how many were acknowledged.
fn write_on(gateway: &Gateway, writer: usize, ends: &AtomicBool, acknowledged: &AtomicU64) {
    for number in 0.. {
        if ends.load(SeqCst) {
            return;
        }
        let route =
            format!(r#"{{"uri":"/w{writer}-{number}","plugins":{{"mocking":{{"response_example":"x"}}}}}}"#);
        put(gateway, &format!("routes/w{writer}-{number}"), &route);
        acknowledged.store(number + 1, SeqCst);
    }
}

/// How many routes of each writer there are; panics where there is a gap.
fn written(gateway: &Gateway) -> BTreeMap<String, u64> {
    let (code, body) = gateway.admin("GET", "/apisix/admin/routes", "");
    assert_eq!(code, 200, "{body}");
    let body: Value = serde_json::from_str(&body).expect("JSON");
    let mut numbers: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for route in body["list"].as_array().expect("a list") {
        let id = route["value"]["id"].as_str().expect("an id");
        if let Some((writer, number)) = id.split_once('-') {
            numbers.entry(writer.to_owned()).or_default().push(number.parse().expect("a number"));
        }
    }
    numbers
        .into_iter()
        .map(|(writer, mut numbers)| {
            numbers.sort_unstable();
            assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "{writer} has gaps: {numbers:?}");
            (writer, numbers.len() as u64)
        })
        .collect()
}

/// `tidegate init` draws a keyring for each folder: that of the backup has to come along.
#[test]
fn a_restore_under_another_keyring_says_so() {
    let with_keyring = |key: &str| {
        EMBEDDED.replace("apisix:\n", &format!("apisix:\n  data_encryption: {{keyring: [{key}]}}\n"))
    };
    let mut gateway = Gateway::start(&with_keyring("abcdefghijklmnop"), None);
    put(&gateway, "consumers/jack", r#"{"username":"jack","plugins":{"key-auth":{"key":"the-key"}}}"#);
    put(&gateway, "routes/1", OPEN);
    let file = gateway.prefix().join("backup");
    let file = file.to_str().expect("a path");
    let (code, said) = config(&gateway, &["backup", file]);
    assert_eq!(code, 0, "{said}");
    gateway.process.stop();
    let (code, said) = config(&gateway, &["restore", file]);
    assert!(code == 0 && !said.contains("warning"), "{said}");
    let mut other = Gateway::start(&with_keyring("ponmlkjihgfedcba"), None);
    other.process.stop();
    let (code, said) = config(&other, &["restore", file]);
    assert!(code == 0 && said.contains("1 of the objects cannot be used"), "{said}");
    assert!(said.contains("consumers/jack") && said.contains("apisix.data_encryption.keyring"), "{said}");
}

#[test]
fn a_backup_under_writers_is_restored() {
    const SECRET: &str = "the-consumers-own-key";
    let mut gateway = Gateway::start(EMBEDDED, None);
    let consumer = format!(r#"{{"username":"jack","plugins":{{"key-auth":{{"key":"{SECRET}"}}}}}}"#);
    put(&gateway, "consumers/jack", &consumer);
    put(&gateway, "routes/1", r#"{"uri":"/x","plugins":{"key-auth":{},"mocking":{"response_example":"x"}}}"#);
    let files: Vec<PathBuf> = (0..3).map(|number| gateway.prefix().join(format!("backup{number}"))).collect();
    let (ends, counts) = (AtomicBool::new(false), [AtomicU64::new(0), AtomicU64::new(0)]);
    let copy = data(&gateway, "tidegate.last-good");
    let mut before = BTreeMap::new();
    std::thread::scope(|scope| {
        for (writer, count) in counts.iter().enumerate() {
            let (gateway, ends) = (&gateway, &ends);
            scope.spawn(move || write_on(gateway, writer, ends, count));
        }
        eventually("each writer writes", || counts.iter().all(|count| count.load(SeqCst) >= 5));
        before.extend(
            counts.iter().enumerate().map(|(writer, count)| (format!("w{writer}"), count.load(SeqCst))),
        );
        let (code, said) = config(&gateway, &["backup", files[0].to_str().expect("a path")]);
        assert_eq!(code, 0, "{said}");
        // The copy follows although there is no moment without writes.
        let wanted = format!("w0-{}\"", counts[0].load(SeqCst) - 1);
        eventually_within(LONGEST_LAG, "the copy follows", || {
            fs::read_to_string(&copy).is_ok_and(|text| text.contains(&wanted))
        });
        ends.store(true, SeqCst);
    });
    let (code, said) = config(&gateway, &["backup", files[1].to_str().expect("a path")]);
    assert_eq!(code, 0, "{said}");
    let whole = export(&gateway);
    for file in &files[..2] {
        assert_eq!(fs::metadata(file).expect("a backup").permissions().mode() & 0o777, 0o600);
        assert!(!fs::read_to_string(file).expect("a text").contains(SECRET), "a secret in the clear");
    }
    let name = |number: usize| files[number].to_str().expect("a path");
    let (code, said) = config(&gateway, &["restore", name(1)]);
    assert!(code == 1 && said.contains("stop it first"), "{code} {said}");
    put(&gateway, "global_rules/1", GUARD);
    gateway.process.stop();
    let (code, said) = config(&gateway, &["backup", name(2)]);
    assert!(code == 0 && said.contains("objects"), "without a gateway: {code} {said}");
    // What the writers had been told before the backup began is in it.
    let (code, said) = config(&gateway, &["restore", name(0)]);
    assert!(code == 0 && said.contains("kept: "), "{code} {said}");
    for kept in ["tidegate.redb.replaced-1", "tidegate.last-good.replaced-1"] {
        assert!(said.contains(kept) && data(&gateway, kept).exists(), "{kept}: {said}");
    }
    gateway.restart();
    let restored = written(&gateway);
    assert!(
        before.iter().all(|(writer, count)| restored.get(writer) >= Some(count)),
        "{restored:?} {before:?}"
    );
    gateway.process.stop();
    let (code, said) = config(&gateway, &["restore", name(1)]);
    assert_eq!(code, 0, "{said}");
    gateway.restart();
    assert_eq!(export(&gateway), whole);
    let answer = gateway.client().request(&format!("GET /x HTTP/1.1\r\nHost: h\r\napikey: {SECRET}\r\n\r\n"));
    assert_eq!(answer.expect("an answer").status(), 200, "the secret was not restored");
    assert_eq!(status(&gateway), 401);
    put(&gateway, "routes/more", OPEN);
    gateway.process.stop();
    // Of the file itself, before the first restore.
    let (code, said) = config(&gateway, &["restore", name(2)]);
    assert_eq!(code, 0, "{said}");
    gateway.restart();
    assert_eq!(gateway.admin("GET", "/apisix/admin/global_rules/1", "").0, 200);
    assert_eq!(gateway.admin("GET", "/apisix/admin/routes/more", "").0, 404);
}

#[test]
fn where_there_is_no_store_it_is_said() {
    let gateway = Gateway::start(
        YAML_PROVIDER,
        Some("routes:\n- uri: /x\n  plugins: {mocking: {response_example: x}}\n"),
    );
    let file = gateway.prefix().join("backup");
    let path = file.to_str().expect("a path");
    for words in [&["backup", path][..], &["restore", path], &["repair"]] {
        let (code, said) = config(&gateway, words);
        assert!(code == 1 && said.contains("apisix.yaml; copy that file"), "{words:?}: {code} {said}");
    }
    assert!(!file.exists());
}
