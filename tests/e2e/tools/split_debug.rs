//! `scripts/split-debug`, with a program whose stack trace names a line of its source.

use std::fs;
use std::path::Path;
use std::process::Command;

use tidegate_testkit::gateway::workspace_root;

const SOURCE: &str = "fn main() {\n    let empty: Option<u8> = None;\n    empty.unwrap();\n}\n";

fn split(program: &Path) -> (bool, String) {
    let mut command = Command::new(workspace_root().join("scripts/split-debug"));
    let output = command.arg(program).output().expect("the script runs");
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

fn trace(program: &Path) -> String {
    let output = Command::new(program).env("RUST_BACKTRACE", "1").output().expect("the program runs");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    // The panic's own message has its place, too.
    text.split_once("stack backtrace:").map_or_else(String::new, |(_, trace)| trace.to_owned())
}

#[test]
fn traces_name_lines_with_the_file_and_functions_without() {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, program) = (folder.path().join("lines.rs"), folder.path().join("lines"));
    fs::write(&source, SOURCE).expect("written");
    let mut rustc = Command::new("rustc");
    rustc.args(["--edition=2024", "-Cdebuginfo=line-tables-only", "-o"]).arg(&program).arg(&source);
    assert!(rustc.status().expect("rustc runs").success());
    let size = |path: &Path| fs::metadata(path).expect("a file").len();
    let whole = size(&program);
    // What cargo keeps of it in another folder is a hard link.
    let kept = folder.path().join("kept");
    fs::hard_link(&program, &kept).expect("a link");
    let (success, said) = split(&program);
    assert!(success && said.is_empty(), "{said}");
    let debug = folder.path().join("lines.debug");
    assert!(size(&program) < whole && debug.exists());
    assert_eq!(size(&kept), whole);
    let text = trace(&program);
    assert!(text.contains("lines.rs:3"), "{text}");
    // Once more changes nothing.
    let before = fs::read(&program).expect("the program");
    assert!(split(&program).0);
    assert_eq!(fs::read(&program).expect("the program"), before);
    fs::remove_file(&debug).expect("removed");
    let text = trace(&program);
    assert!(text.contains("lines::main") && !text.contains("lines.rs:3"), "{text}");
    assert!(!split(&folder.path().join("missing")).0);
}
