//! What is compiled for size, by the manifest of the workspace (docs/adr/0057).

use std::fs;

use tidegate_testkit::gateway::workspace_root;

use super::MAY_USE;

/// Requests pass through what these crates use, with two exceptions: callgrind counts no instruction of `model` for
/// them, and of `config` Lua templates use the reader of YAML, if they ask for it.
const OF_REQUESTS: [&str; 2] = ["proxy", "plugins"];
const EXCEPT: [&str; 2] = ["config", "model"];

/// The packages of the table, without `tidegate-`.
fn small(manifest: &str) -> Vec<&str> {
    let table = manifest.split("\n[profile.release.package]\n").nth(1).expect("a table of packages");
    let lines = table.lines().take_while(|line| !line.starts_with('['));
    lines.filter_map(|line| Some(line.split_once(" = ")?.0)).collect()
}

#[test]
fn what_requests_pass_through_is_compiled_for_speed() {
    let manifest = fs::read_to_string(workspace_root().join("Cargo.toml")).expect("Cargo.toml");
    let lock = fs::read_to_string(workspace_root().join("Cargo.lock")).expect("Cargo.lock");
    let small = small(&manifest);
    assert!(small.len() > 10 && small.is_sorted(), "{small:?}");
    for name in &small {
        assert!(lock.contains(&format!("name = \"{name}\"\n")), "no package {name}");
    }
    // The level of the last crate is that of the optimization at linking, of everything.
    assert!(!small.contains(&"tidegate"), "the whole program would be compiled for size");
    for of_requests in OF_REQUESTS {
        let (_, used) = MAY_USE.iter().find(|(name, _)| *name == of_requests).expect("a crate");
        for name in used.iter().chain([&of_requests]).filter(|name| !EXCEPT.contains(name)) {
            assert!(!small.contains(&format!("tidegate-{name}").as_str()), "requests pass through {name}");
        }
    }
}
