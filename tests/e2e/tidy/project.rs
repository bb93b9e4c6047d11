//! Files of the project that no program reads: the change log has the form that readers know, and workflows run what exists.

use std::fs;

use tidegate_testkit::gateway::workspace_root;

/// <https://keepachangelog.com/en/1.1.0/>
const SECTIONS: [&str; 6] = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"];

fn read(file: &str) -> String {
    fs::read_to_string(workspace_root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

#[test]
fn the_change_log_has_known_sections_once_in_each_version() {
    let text = read("CHANGELOG.md");
    let mut versions = text.split("\n## [").skip(1).peekable();
    assert!(
        versions.peek().is_some_and(|first| first.starts_with("Unreleased]\n")),
        "the first is Unreleased"
    );
    for version in versions {
        let title = version.lines().next().unwrap_or_default();
        let sections: Vec<&str> = version.lines().filter_map(|line| line.strip_prefix("### ")).collect();
        for (at, section) in sections.iter().enumerate() {
            assert!(SECTIONS.contains(section), "[{title}: {section}; the sections are {SECTIONS:?}");
            assert!(!sections[..at].contains(section), "[{title} has {section} twice");
        }
    }
}

#[test]
fn workflows_run_targets_and_scripts_that_exist() {
    let makefile = read("Makefile");
    let folder = workspace_root().join(".github/workflows");
    let mut commands = 0;
    for path in fs::read_dir(folder).expect("workflows").flatten().map(|entry| entry.path()) {
        let text = fs::read_to_string(&path).expect("a workflow");
        for command in text.lines().filter_map(|line| line.trim().strip_prefix("- run: ")) {
            let mut words = command.split_whitespace();
            let wrong = match words.next() {
                Some("make") => {
                    let target = words.next().unwrap_or_default();
                    !makefile.contains(&format!("\n{target}:"))
                }
                Some(program) if program.starts_with("scripts/") || program.starts_with(".ci/") => {
                    !workspace_root().join(program).exists()
                }
                _ => continue,
            };
            commands += 1;
            assert!(!wrong, "{}: {command}", path.display());
        }
    }
    assert!(commands >= 5, "workflows run something");
}

/// What deny.toml allows is what the script without cargo-deny looks at.
#[test]
fn libraries_are_held_against_one_list() {
    let rules = read("deny.toml");
    for section in ["[licenses]", "[bans]", "[sources]", "[advisories]"] {
        assert!(rules.contains(section), "deny.toml has no {section}");
    }
    assert!(read("Makefile").contains("\n\tscripts/deny\n"), "make lint does not ask");
    assert!(read(".github/workflows/ci.yml").contains("check advisories bans licenses sources"));
}
