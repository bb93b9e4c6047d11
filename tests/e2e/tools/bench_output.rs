//! `tidegate bench` and what it writes to: files, pipes that close, narrow terminals.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use tidegate_testkit::{Upstream, gateway};

use super::bench::{bench, outcome, url};

#[test]
fn a_report_that_cannot_be_written_costs_no_run() {
    let upstream = Upstream::start();
    let url = url(&upstream, "/bytes/1");
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("missing/report").display().to_string();
    for flag in ["--json", "--markdown", "--html", "--csv", "--jsonl", "--prometheus"] {
        let run = bench(&[&url, "-n", "1", "-c", "1", flag, &missing]);
        assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{flag}: {}", run.err);
        assert!(run.err.contains(&format!("{flag} {missing}: No such file")), "{}", run.err);
    }
    let place = folder.path().display().to_string();
    let run = bench(&[&url, "-n", "1", "-c", "1", "--json", &place]);
    assert!(run.code == Some(2) && run.err.contains("directory"), "{}", run.err);
    let same = folder.path().join("same").display().to_string();
    let run = bench(&[&url, "-n", "1", "-c", "1", "--json", &same, "--html", &same]);
    assert!(run.code == Some(2) && run.err.contains("--json and --html both write"), "{}", run.err);
    let suite = folder.path().join("suite.yaml");
    fs::write(&suite, "name: small\nabout: A test.\nscenarios:\n- {name: one, targets: [direct]}\n")
        .expect("written");
    let run = bench(&["suite", &suite.display().to_string(), "-o", &missing]);
    assert!(run.code == Some(2) && run.err.contains(&format!("--output {missing}: ")), "{}", run.err);
    assert_eq!(upstream.connections(), 0);
    // A run that comes to nothing leaves what was there, and nothing new.
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    fs::write(&old, "what was there").expect("written");
    let closed = format!("http://127.0.0.1:{}/", tidegate_testkit::free_port());
    let (json, html) = (old.display().to_string(), new.display().to_string());
    assert_eq!(bench(&[&closed, "-n", "1", "-c", "1", "--json", &json, "--html", &html]).code, Some(1));
    assert_eq!(fs::read_to_string(&old).expect("still there"), "what was there");
    assert!(!new.exists());
    // A longer file of before leaves nothing behind.
    fs::write(&old, "x".repeat(1 << 20)).expect("written");
    assert_eq!(bench(&[&url, "-n", "1", "-c", "1", "--json", &json]).code, Some(0));
    let text = fs::read_to_string(&old).expect("the report");
    assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{text}");
}

#[test]
fn of_a_flag_given_twice_the_last_counts() {
    let upstream = Upstream::start();
    let url = url(&upstream, "/bytes/1");
    let found = outcome(&[&url, "-n", "500", "-c", "9", "-n", "5", "-c", "1", "-q", "-q"]);
    assert_eq!((found["requests"].as_u64(), found["connections"].as_u64()), (Some(5), Some(1)));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let upstream = Upstream::start();
    let url = url(&upstream, "/bytes/1");
    for words in [vec![url.as_str(), "-n", "5", "-c", "1"], vec!["--help-templates"]] {
        let mut command = Command::new(gateway::binary());
        command.arg("bench").args(&words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("tidegate bench starts");
        drop(child.stdout.take());
        let ended = child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!((ended.status.code(), said.as_str()), (Some(0), ""), "{words:?}");
    }
    let full = File::options().write(true).open("/dev/full").expect("/dev/full");
    let mut command = Command::new(gateway::binary());
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("report");
    command.args(["bench", &url, "-n", "5", "-c", "1", "--json"]).arg(&json);
    command.stdin(Stdio::null()).stdout(full);
    let ended = command.output().expect("it ends");
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot write to standard output"), "{said}");
    // The report that has room is written.
    assert!(fs::read_to_string(&json).is_ok_and(|text| text.starts_with('{')));
}

#[test]
fn the_progress_line_fits_40_columns() {
    let upstream = Upstream::start();
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&master).expect("granted");
    unlockpt(&master).expect("unlocked");
    let name = ptsname(&master, Vec::new()).expect("a name").into_string().expect("text");
    let terminal: OwnedFd = File::options().read(true).write(true).open(&name).expect("opened").into();
    let mut command = Command::new(gateway::binary());
    command.args(["bench", &url(&upstream, "/status/503"), "-d", "1500ms", "-c", "2"]);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(terminal)
        .spawn()
        .expect("tidegate bench starts");
    // The last copy of the terminal's own side: reading ends when the child does.
    drop(command);
    let mut shown = Vec::new();
    // Linux reports the end as an input/output error.
    let _ = File::from(master).read_to_end(&mut shown);
    let _ = child.wait();
    let shown = String::from_utf8_lossy(&shown).into_owned();
    let lines: Vec<&str> = shown.split("\r\u{1b}[2K").filter(|line| line.contains("/s, ")).collect();
    assert!(!lines.is_empty(), "{shown:?}");
    for line in lines {
        assert!(line.len() < 40 && line.contains("p99 ") && line.contains(" s left"), "{line:?}");
    }
}
