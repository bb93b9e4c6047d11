//! Damage to the store is never silent: what was acknowledged is served, from the store or read-only from the copy beside
//! it, or the start is refused and says why.
//!
//! `TIDEGATE_DAMAGES=1000` makes that many damages in place of [`DAMAGES`].

use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;

use tidegate_testkit::gateway::{EMBEDDED, Gateway};

const DAMAGES: usize = 40;
const ROUTES: usize = 30;
const PAGE: usize = 4096;
/// Where the header of the file, with both of its commit slots, ends.
const HEADER: usize = 320;

/// A gateway that was stopped, and what it held.
struct Subject {
    gateway: Gateway,
    database: PathBuf,
    /// Everything in `data/` after the stop.
    files: Vec<(PathBuf, Vec<u8>)>,
    state: String,
    export: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    Refused,
    /// Everything, read-only.
    LastGood,
    Whole,
}

impl Subject {
    /// The guard is the last change: falling back by one commit would open all routes.
    fn new(clean: bool) -> Self {
        let mut gateway = Gateway::start(EMBEDDED, None);
        for number in 0..ROUTES {
            let name = token(number);
            let route =
                format!(r#"{{"uri":"/x{number}","plugins":{{"mocking":{{"response_example":"{name}"}}}}}}"#);
            assert_eq!(gateway.admin("PUT", &format!("/apisix/admin/routes/{number}"), &route).0, 201);
        }
        assert_eq!(gateway.admin("PUT", "/apisix/admin/checkpoints/before", "").0, 201);
        let guard = r#"{"plugins":{"key-auth":{}}}"#;
        assert_eq!(gateway.admin("PUT", "/apisix/admin/global_rules/1", guard).0, 201);
        let (state, export) = (state(&gateway), export(&gateway));
        if clean {
            gateway.process.stop();
        } else {
            gateway.process.signal_kill();
            gateway.process.wait_for_exit();
        }
        let data = gateway.prefix().join("data");
        let entries = fs::read_dir(&data).expect("a folder").flatten().map(|entry| entry.path());
        let files = entries.filter(|path| path.is_file());
        let files = files.map(|path| (path.clone(), fs::read(&path).expect("a file"))).collect();
        Subject { database: data.join("tidegate.redb"), gateway, files, state, export }
    }

    fn good(&self) -> Vec<u8> {
        let database = self.files.iter().find(|(path, _)| *path == self.database);
        database.map(|(_, bytes)| bytes.clone()).expect("a store")
    }

    /// Starts with this database; panics where anything was lost in silence.
    fn start_with(&mut self, bytes: &[u8], what: &str) -> Outcome {
        for (path, good) in &self.files {
            fs::write(path, good).expect("written");
        }
        fs::write(&self.database, bytes).expect("written");
        self.gateway.restart_unready();
        loop {
            if let Some(status) = self.gateway.process.ended() {
                let name = self.database.to_str().expect("a path");
                self.gateway.process.wait_for_output(name);
                let said = self.gateway.process.output();
                assert!(!status.success() && said.contains("damaged"), "{what}: {said}");
                assert!(said.contains("backup") && !said.contains("panicked"), "{what}: {said}");
                return Outcome::Refused;
            }
            // The admin port opens a moment after the proxy port.
            if [self.gateway.http, self.gateway.admin].iter().all(|port| TcpStream::connect(port).is_ok()) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        let last_good = self.gateway.admin("GET", "/apisix/admin/history", "").0 == 501;
        let outcome = if last_good {
            assert!(export(&self.gateway) == self.export, "{what}: served another configuration");
            let (code, answer) = self.gateway.admin("DELETE", "/apisix/admin/global_rules/1", "");
            assert!(code == 503 && answer.contains("config repair"), "{what}: {code} {answer}");
            self.gateway.process.wait_for_output("READ-ONLY");
            Outcome::LastGood
        } else {
            assert!(state(&self.gateway) == self.state, "{what}: served another state");
            Outcome::Whole
        };
        self.gateway.process.signal_kill();
        self.gateway.process.wait_for_exit();
        outcome
    }
}

fn export(gateway: &Gateway) -> String {
    let (code, body) = gateway.admin("GET", "/apisix/admin/export", "");
    assert_eq!(code, 200, "{body}");
    body
}

/// Everything that was acknowledged.
fn state(gateway: &Gateway) -> String {
    ["export", "history", "history/1", "checkpoints"]
        .map(|name| {
            let (code, body) = gateway.admin("GET", &format!("/apisix/admin/{name}"), "");
            assert_eq!(code, 200, "{name}: {body}");
            body
        })
        .join("\n")
}

/// Stands in the objects and in the history, and nowhere else.
fn token(number: usize) -> String {
    format!("token-of-{number:04}-{}", "z".repeat(40 + number * 20))
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % bound
    }
}

fn occurrences(bytes: &[u8], text: &str) -> Vec<usize> {
    let text = text.as_bytes();
    (0..bytes.len()).filter(|at| bytes.get(*at..).is_some_and(|rest| rest.starts_with(text))).collect()
}

fn used_pages(bytes: &[u8]) -> Vec<usize> {
    let pages = bytes.chunks(PAGE).enumerate();
    pages.filter(|(_, page)| page.iter().any(|byte| *byte != 0)).map(|(index, _)| index * PAGE).collect()
}

fn zero(bytes: &mut [u8], page: usize) {
    let end = bytes.len().min(page + PAGE);
    bytes[page..end].fill(0);
}

/// A damage: what was done, and whether it touched what every start must read.
fn damage(kind: usize, bytes: &mut Vec<u8>, random: &mut Random) -> (String, bool) {
    let pages = used_pages(bytes);
    let name = token(random.below(ROUTES));
    let places = occurrences(bytes, &name[..14]);
    assert!(places.len() >= 2, "{name} is not in the file");
    match kind % 6 {
        0 => {
            let (offset, bit) = (random.below(name.len()), random.below(8));
            places.iter().for_each(|place| bytes[place + offset] ^= 1 << bit);
            (format!("bit {bit} of byte {offset} of {name}"), true)
        }
        1 => {
            places.iter().for_each(|place| zero(bytes, place / PAGE * PAGE));
            (format!("zeroed pages of {name}"), true)
        }
        2 => {
            let last = occurrences(bytes, "token-of-").pop().expect("a token");
            let length = random.below(last);
            bytes.truncate(length);
            (format!("cut to {length} bytes"), true)
        }
        3 => {
            let (byte, bit) = (random.below(HEADER), random.below(8));
            bytes[byte] ^= 1 << bit;
            (format!("bit {bit} of byte {byte} of the header"), false)
        }
        4 => {
            let bits: Vec<(usize, usize)> = (0..3)
                .map(|_| (pages[random.below(pages.len())] + random.below(PAGE), random.below(8)))
                .filter(|(byte, _)| *byte < bytes.len())
                .collect();
            bits.iter().for_each(|(byte, bit)| bytes[*byte] ^= 1 << bit);
            (format!("bits {bits:?}"), false)
        }
        _ => {
            let page = pages[random.below(pages.len())];
            zero(bytes, page);
            (format!("zeroed page at {page}"), false)
        }
    }
}

#[test]
fn no_damage_is_silent() {
    let count = std::env::var("TIDEGATE_DAMAGES").map_or(DAMAGES, |text| text.parse().expect("a number"));
    let mut random = Random(20_261_122);
    let (mut refused, mut last_good, mut whole) = (0, 0, 0);
    for clean in [true, false] {
        let mut subject = Subject::new(clean);
        let good = subject.good();
        assert_eq!(subject.start_with(&good, "undamaged"), Outcome::Whole);
        for kind in 0..count / 2 {
            let mut bytes = good.clone();
            let (what, touches) = damage(kind, &mut bytes, &mut random);
            match subject.start_with(&bytes, &what) {
                Outcome::Whole => {
                    assert!(!touches, "{what}: nothing was said (clean stop: {clean})");
                    whole += 1;
                }
                // After a clean stop the copy holds everything; after a kill the guard may not be in it yet.
                Outcome::Refused => {
                    assert!(!clean, "{what}: the copy was not served");
                    refused += 1;
                }
                Outcome::LastGood => last_good += 1,
            }
        }
    }
    println!("{last_good} damages: the copy was served; {refused} were refused; {whole} left everything");
    assert!(
        refused + last_good >= count / 2 && last_good >= count / 4,
        "{refused} and {last_good} of {count}"
    );
}

/// The lowest bit of byte 65 made the newest commit unreadable, and the one before it was served.
#[test]
fn a_rolled_back_store_is_refused() {
    let mut gateway = Gateway::start(EMBEDDED, None);
    let route = r#"{"uri":"/x","plugins":{"mocking":{"response_example":"OPEN"}}}"#;
    assert_eq!(gateway.admin("PUT", "/apisix/admin/routes/1", route).0, 201);
    let database = gateway.prefix().join("data/tidegate.redb");
    gateway.process.stop();
    let older = fs::read(&database).expect("a store");
    gateway.restart();
    let guard = r#"{"plugins":{"key-auth":{}}}"#;
    assert_eq!(gateway.admin("PUT", "/apisix/admin/global_rules/1", guard).0, 201);
    gateway.process.stop();
    let newest = fs::read(&database).expect("a store");
    // Else the copy is served.
    fs::remove_file(gateway.prefix().join("data/tidegate.last-good")).expect("a copy");
    let mut flipped = newest.clone();
    // In the header of the commit that counts: the lowest bit of byte 9 says which of both does.
    flipped[65 + 128 * usize::from(newest[9] & 1)] ^= 1;
    fs::write(&database, flipped).expect("written");
    let (good, said) = gateway.verb("test");
    assert!(!good && said.contains("is damaged"), "{said}");
    // An older copy is a rollback as well, only a larger one.
    fs::write(&database, older).expect("written");
    let (good, said) = gateway.verb("test");
    assert!(!good && said.contains("revision 1") && said.contains("revision 2"), "{said}");
    gateway.restart_unready();
    assert!(!gateway.process.wait_for_exit().success());
    for word in ["tidegate.redb", "holds revision 1", "records revision 2", "backup", "tidegate.created"] {
        gateway.process.wait_for_output(word);
    }
    // On purpose, as the message says.
    let marker = gateway.prefix().join("data/tidegate.created");
    fs::remove_file(&marker).expect("removed");
    gateway.restart();
    gateway.process.wait_for_output("is the newest state of this gateway");
    gateway.wait_for_log("is the newest state of this gateway");
    gateway.process.stop();
    fs::write(&database, newest).expect("written");
    gateway.restart();
    assert_eq!(gateway.client().get("h", "/x").expect("an answer").status(), 401);
}

#[test]
fn another_gateways_store_is_refused() {
    let (mut gateway, mut other) = (Gateway::start(EMBEDDED, None), Gateway::start(EMBEDDED, None));
    for gateway in [&mut gateway, &mut other] {
        gateway.process.stop();
    }
    let database = |gateway: &Gateway| gateway.prefix().join("data/tidegate.redb");
    fs::copy(database(&other), database(&gateway)).expect("copied");
    gateway.restart_unready();
    assert!(!gateway.process.wait_for_exit().success());
    for word in ["tidegate.redb is not the one", "tidegate.created", "put the right one back"] {
        gateway.process.wait_for_output(word);
    }
}

#[test]
fn a_marker_that_cannot_be_read_is_told() {
    let mut gateway = Gateway::start(EMBEDDED, None);
    gateway.process.stop();
    let marker = gateway.prefix().join("data/tidegate.created");
    let good = fs::read(&marker).expect("a marker");
    for damaged in [&[][..], &good[..100], &[&[0; 64], &good[64..]].concat()] {
        fs::write(&marker, damaged).expect("written");
        gateway.restart_unready();
        assert!(!gateway.process.wait_for_exit().success());
        gateway.process.wait_for_output("tidegate.created cannot be read");
    }
    fs::write(&marker, &good).expect("written");
    gateway.restart();
}

#[test]
fn a_new_store_is_told() {
    let mut gateway = Gateway::start(EMBEDDED, None);
    gateway.process.wait_for_output("store       new and empty");
    gateway.wait_for_log("a new, empty store was created");
    gateway.process.stop();
    fs::remove_file(gateway.prefix().join("logs/error.log")).expect("removed");
    gateway.restart();
    gateway.process.wait_for_output("admin API");
    gateway.process.stop();
    assert!(!gateway.process.output().contains("new and empty"), "{}", gateway.process.output());
    assert!(!gateway.error_log().contains("a new, empty store"), "{}", gateway.error_log());
    // The whole folder is lost: a start cannot know, and says what it did.
    fs::remove_dir_all(gateway.prefix().join("data")).expect("removed");
    gateway.restart();
    gateway.process.wait_for_output("store       new and empty");
    gateway.wait_for_log("a new, empty store was created");
}
