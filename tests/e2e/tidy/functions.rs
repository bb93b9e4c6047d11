//! How long a function may be, and names that none has.

use std::fs;

use tidegate_testkit::gateway::workspace_root;

use super::sources;

const LONGEST_FUNCTION_LINES: usize = 70;

/// Functions that are one table: a `match` with one line per name, a literal with one line per field, cases of a test.
const TABLES: &[(&str, &str)] = &[
    ("bench/src/engine/gather.rs", "outcome"),
    ("model/src/idle/conditions.rs", "conditions_that_never_hold"),
    ("model/src/idle/vain.rs", "objects"),
    ("plugin-api/src/variables.rs", "named"),
    ("plugins/src/lua/pattern/tests.rs", "the_same_as_luajit_on_corners"),
];

/// Each was the name of several functions that did different things. A name says what is decided, read, logged or sent.
const VAGUE: [&str; 17] = [
    "go_on",
    "judge",
    "left_alone",
    "look",
    "note",
    "once",
    "ours",
    "point",
    "reach",
    "say",
    "says",
    "settle",
    "take_office",
    "tell",
    "told",
    "way",
    "wind_up",
];

#[test]
fn names_of_functions_say_what_they_do() {
    let mut wrong = Vec::new();
    for file in sources() {
        let text = fs::read_to_string(&file).unwrap_or_default();
        for name in text.lines().filter_map(function_name).filter(|name| VAGUE.contains(name)) {
            wrong.push(format!(
                "{}: {name} does not say what it does; name what it decides or does",
                file.display()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn functions_are_short() {
    let mut wrong = Vec::new();
    for file in sources() {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let place = file.strip_prefix(workspace_root().join("crates")).unwrap_or(&file).display().to_string();
        for (name, lines) in lengths(&text) {
            if lines > LONGEST_FUNCTION_LINES && !TABLES.contains(&(place.as_str(), name)) {
                wrong.push(format!(
                    "{place}: {name} has {lines} lines; split it, {LONGEST_FUNCTION_LINES} is the most"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn tables_are_there_and_long() {
    for (place, name) in TABLES {
        let text = fs::read_to_string(workspace_root().join("crates").join(place)).unwrap_or_default();
        let is_long = |(found, lines): (&str, usize)| found == *name && lines > LONGEST_FUNCTION_LINES;
        assert!(
            lengths(&text).into_iter().any(is_long),
            "{place}: {name} is gone or short; take it off the list"
        );
    }
}

/// Names of functions and the lines they take. The formatter puts the closing brace below the first word.
fn lengths(text: &str) -> Vec<(&str, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (begin, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let indent = line.len() - line.trim_start().len();
        let closes = |line: &&str| line.len() == indent + 1 && line.ends_with('}');
        let ends_at_once = line.ends_with('}') || line.ends_with(';');
        let length = match ends_at_once {
            true => 1,
            false => lines.iter().skip(begin).position(closes).map_or(1, |at| at + 1),
        };
        found.push((name, length));
    }
    found
}

fn function_name(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("fn ")?;
    let is_qualifier = |word: &str| {
        ["const", "async", "unsafe", "extern", "\"C\"", "pub", "super)", "pub(super)", "pub(crate)", "pub(in"]
            .contains(&word)
            || word.ends_with(')')
    };
    let name = rest.split(|sign: char| !sign.is_alphanumeric() && sign != '_').next()?;
    (before.split_whitespace().all(is_qualifier) && !name.is_empty()).then_some(name)
}
