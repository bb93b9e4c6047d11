//! The README's first commands, run as a newcomer would.
//!
//! The README marks the block to run with the line `<!-- first run -->` before its ```` ```sh ````. It runs in
//! an empty folder with `tidegate` in the PATH; what it starts in the background ends with it. Lines that start
//! with `#=> ` tell what the command before them must print.

use std::fs;
use std::net::TcpListener;
use std::process::Command;

use testkit::gateway::{binary, workspace_root};

const MARK: &str = "<!-- first run -->";

#[test]
fn the_readme_commands_work() {
    let readme = fs::read_to_string(workspace_root().join("README.md")).expect("README.md");
    let blocks: Vec<&str> = readme.split(MARK).skip(1).filter_map(block).collect();
    assert!(!blocks.is_empty(), "README.md has no block marked {MARK}");
    // Newcomers get the default ports; so does this test, if they are free.
    if [9080, 9180].iter().any(|port| TcpListener::bind(("0.0.0.0", *port)).is_err()) {
        eprintln!("skipped: port 9080 or 9180 is taken on this machine");
        return;
    }
    for text in blocks {
        run(text);
    }
}

/// The commands of the block that follows a mark.
fn block(after: &str) -> Option<&str> {
    let (_, rest) = after.trim_start().strip_prefix("```")?.split_once('\n')?;
    rest.split_once("```").map(|(commands, _)| commands)
}

fn run(text: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let script = format!("set -eu\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{text}\n");
    let path = std::env::var("PATH").unwrap_or_default();
    let with_binary = format!("{}:{path}", binary().parent().expect("the binary is in a folder").display());
    let output = Command::new("bash")
        .arg("-c")
        .arg(&script)
        .current_dir(folder.path())
        .env("PATH", with_binary)
        .output()
        .expect("bash runs");
    let printed = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\nprinted:\n{printed}\n{complaint}");
    for wanted in text.lines().filter_map(|line| line.strip_prefix("#=> ")) {
        assert!(printed.contains(wanted), "{wanted:?} not printed:\n{printed}\n{complaint}");
    }
}
