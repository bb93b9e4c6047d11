//! kill -9 in the middle of writes: nothing acknowledged may be missing afterwards.
//!
//! The test starts itself again as the writer: that process prints every revision after it is acknowledged,
//! and is killed after a random number of lines.

use std::{
    collections::HashMap,
    env,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
};

use serde_json::json;
use tidegate_model::Kind;
use tidegate_store::{Embedded, Operation, Store, embedded::Hooks};

/// `KILL_ROUNDS` asks for more.
const ROUNDS: usize = 40;
const PATH_VARIABLE: &str = "STORE_KILL_TEST_DATABASE";

#[test]
fn nothing_acknowledged_is_lost() {
    if let Ok(path) = env::var(PATH_VARIABLE) {
        write_until_killed(Path::new(&path));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let mut acknowledged: HashMap<String, u64> = HashMap::new();
    let mut seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().subsec_nanos();
    let rounds = env::var("KILL_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(ROUNDS);
    for round in 0..rounds {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let lines = 1 + (seed >> 16) as usize % 60;
        let round_acknowledged = run_writer(&path, lines);
        let store = Embedded::open(&path, Hooks::default()).unwrap();
        for (id, revision) in round_acknowledged {
            let (_, differences) = store
                .history()
                .and_then(|history| history.entry(revision, 0, 10).unwrap())
                .unwrap_or_else(|| panic!("round {round}: revision {revision} is not in the history"));
            assert_eq!(differences[0].id.as_ref(), id, "round {round}");
            acknowledged.insert(id, revision);
        }
        for (id, revision) in &acknowledged {
            let found = store.get(Kind::Route, id).map(|object| object.modified);
            // A later write of the same id may have been committed without its line being read.
            assert!(
                found >= Some(*revision),
                "round {round}: {id} was acknowledged at {revision}, found {found:?}"
            );
        }
    }
    assert!(acknowledged.len() >= 50);
}

/// Runs the writer, reads that many acknowledgements, kills it, and reads what it had printed until then.
fn run_writer(path: &Path, lines: usize) -> Vec<(String, u64)> {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "nothing_acknowledged_is_lost", "--nocapture"])
        .env(PATH_VARIABLE, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut acknowledged = Vec::new();
    let mut line = String::new();
    let mut killed = false;
    loop {
        line.clear();
        if output.read_line(&mut line).unwrap() == 0 {
            break;
        }
        if let Some((id, revision)) =
            line.strip_prefix("ack ").and_then(|rest| rest.trim_end().split_once(' '))
            && line.ends_with('\n')
        {
            acknowledged.push((id.to_owned(), revision.parse().unwrap()));
        }
        if acknowledged.len() >= lines && !killed {
            child.kill().unwrap();
            killed = true;
        }
    }
    child.wait().unwrap();
    assert!(killed, "the writer ended by itself after {} lines", acknowledged.len());
    acknowledged
}

/// Four threads, so that groups of several writes are hit as well.
fn write_until_killed(path: &Path) -> ! {
    let store = Arc::new(Embedded::open(path, Hooks::default()).unwrap());
    for thread in 0..4 {
        let store = store.clone();
        std::thread::spawn(move || {
            for number in 0_u64.. {
                let id = format!("{thread}-{}", number % 200);
                let value = json!({"uri": "/".repeat(1 + number as usize % 3000)});
                let operation = Operation::Put {
                    kind: Kind::Route,
                    id: id.as_str().into(),
                    value: Arc::new(value),
                    expected: None,
                    ttl_seconds: None,
                };
                let revision = store.write_blocking(vec![operation]).unwrap().revision;
                let mut out = std::io::stdout().lock();
                writeln!(out, "ack {id} {revision}").and_then(|()| out.flush()).unwrap();
            }
        });
    }
    loop {
        std::thread::park();
    }
}
