//! Rules about the sources that no compiler checks: who may depend on whom, how long a file may be.

mod adr;
mod circles;
mod claims;
mod functions;
mod picture;
mod profiles;
mod project;
pub(crate) mod reference;
mod translations;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tidegate_testkit::gateway::workspace_root;

/// Which workspace crates each crate may use: the architecture, as data. `tidegate`, the binary, may use all.
const MAY_USE: &[(&str, &[&str])] = &[
    ("protocol", &[]),
    ("backtrack", &[]),
    ("model", &["backtrack"]),
    ("telemetry", &[]),
    ("config", &["model"]),
    ("testkit", &[]),
    ("tls", &[]),
    ("routing", &["backtrack", "model"]),
    ("balancing", &["model"]),
    ("probes", &["clients", "model", "balancing", "telemetry", "tls"]),
    ("discovery", &["model", "clients", "telemetry", "protocol"]),
    ("plugin-api", &["protocol", "model", "routing", "balancing", "telemetry", "tls"]),
    ("clients", &["plugin-api", "protocol", "model", "telemetry", "tls"]),
    (
        "plugins",
        &[
            "plugin-api",
            "clients",
            "config",
            "backtrack",
            "protocol",
            "model",
            "routing",
            "balancing",
            "telemetry",
            "tls",
        ],
    ),
    ("compiler", &["backtrack", "model", "plugin-api", "routing", "balancing", "telemetry", "tls"]),
    ("proxy", &["protocol", "model", "plugin-api", "routing", "balancing", "telemetry", "compiler", "tls"]),
    ("store", &["model", "config", "telemetry", "tls"]),
    ("admin", &["model", "protocol", "store", "config", "telemetry"]),
    ("bench", &["protocol", "telemetry", "tls"]),
    ("import", &["backtrack", "config", "protocol"]),
    ("echo", &["protocol", "tls"]),
    ("profiler", &["telemetry"]),
    ("wasm", &["plugin-api", "clients", "protocol", "model", "telemetry"]),
];

const LONGEST_FILE_LINES: usize = 600;

#[test]
fn crates_use_only_what_the_architecture_allows() {
    let rules: BTreeMap<&str, &[&str]> = MAY_USE.iter().copied().collect();
    let mut wrong = Vec::new();
    for manifest in crate_folders().iter().map(|folder| folder.join("Cargo.toml")) {
        let Ok(text) = fs::read_to_string(&manifest) else { continue };
        let name =
            manifest.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or_default();
        if name == "tidegate" {
            continue;
        }
        let Some(allowed) = rules.get(name) else {
            wrong.push(format!("crate {name} is new: add it to MAY_USE and to ARCHITECTURE.md"));
            continue;
        };
        for used in dependencies(&text).filter(|used| is_member(used) && !allowed.contains(used)) {
            wrong.push(format!("crate {name} must not use {used}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn files_are_short_finished_and_named_by_the_rules() {
    let mut wrong = Vec::new();
    for file in sources() {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let name = file.strip_prefix(workspace_root()).unwrap_or(&file).display().to_string();
        let lines = text.lines().take_while(|line| line.trim() != "#[cfg(test)]").count();
        if lines > LONGEST_FILE_LINES {
            wrong.push(format!("{name}: {lines} lines; split it, {LONGEST_FILE_LINES} is the most"));
        }
        if file.file_name().is_some_and(|name| name == "mod.rs") {
            wrong.push(format!("{name}: name the file after its module, next to the folder"));
        }
        // The last is where `scripts/new-plugin` leaves something to the author.
        for unfinished in [concat!("todo", "!("), concat!("unimplemented", "!("), "TO WRITE"] {
            if text.contains(unfinished) {
                wrong.push(format!("{name}: contains {unfinished}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// ADR 40. The compiler notices a line without a file; a file without a line would be left out in silence.
#[test]
fn every_plugin_file_is_on_the_list_and_named_as_its_plugin() {
    let folder = workspace_root().join("crates/plugins/src");
    let list = fs::read_to_string(folder.join("lib.rs")).expect("the list");
    let groups = fs::read_dir(&folder).into_iter().flatten().flatten();
    let files = groups.flat_map(|group| fs::read_dir(group.path())).flatten().flatten();
    let mut wrong = Vec::new();
    for path in files.map(|entry| entry.path()).filter(|path| path.extension() == Some("rs".as_ref())) {
        let text = fs::read_to_string(&path).unwrap_or_default();
        let module = path.file_stem().unwrap_or_default().to_string_lossy();
        if !text.contains("pub static PLUGIN: PluginDef") {
            continue;
        }
        if !list.contains(&format!("    pub(crate) mod {module};\n")) {
            wrong.push(format!("{module} is not in crates/plugins/src/lib.rs"));
        }
        let name = module.replace('_', "-");
        if !text.contains(&format!("name: \"{name}\"")) {
            wrong.push(format!("{module} is not the module of a plugin {name}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// ADR 20: what makes a verifier of its own, or a handshake that explains nothing, belongs in crate `tls`.
#[test]
fn certificates_are_verified_in_one_place() {
    let own = [
        "with_root_certificates",
        "WebPkiServerVerifier",
        "WebPkiClientVerifier",
        "RootCertStore",
        "TlsConnector",
    ];
    let mut wrong = Vec::new();
    for file in sources().iter().filter(|file| !file.starts_with(workspace_root().join("crates/tls"))) {
        let text = fs::read_to_string(file).unwrap_or_default();
        for word in own.iter().filter(|word| text.contains(**word)) {
            wrong.push(format!("{}: {word}; use crate tls", file.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Translated phrases, and what the field writes instead.
const PHRASES: &[(&str, &str)] = &[
    ("anew", "again, over, re-"),
    ("in force", "in effect, takes effect, applied"),
    ("goodbye", "GOAWAY"),
    ("belongs into", "belongs in"),
    ("is no", "is not a"),
    ("are no", "are not"),
    ("was no", "was not a"),
    ("were no", "were not"),
    ("since the line before", "since the previous line"),
    ("in the place of", "in place of, instead of"),
    ("listen at", "listen on"),
    ("listens at", "listens on"),
    ("asks for no key", "requires no key"),
    ("goes round", "loops"),
    ("with small letters", "in lowercase"),
    ("with capital letters", "in uppercase"),
];
/// What may follow "is no", besides everything after "there".
const AFTER_NO: [&str; 5] = ["longer", "more", "less", "one", "different"];

#[test]
fn prose_is_that_of_the_field() {
    let mut wrong = Vec::new();
    for file in sources().into_iter().chain(pages()) {
        if file.ends_with("tests/e2e/tidy.rs") {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap_or_default();
        for (number, line) in text.lines().enumerate() {
            for (phrase, instead) in PHRASES.iter().filter(|(phrase, _)| is_said(line, phrase)) {
                let place = file.strip_prefix(workspace_root()).unwrap_or(&file).display();
                wrong.push(format!("{place}:{}: {phrase}; write {instead}", number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Words that messages do without: an operator cannot grep for "nobody".
const IN_MESSAGES: [(&str, &str); 10] = [
    ("nobody", "no client, no consumer, no request"),
    ("whoever", "the client, the operator"),
    ("somebody", "a client, an operator"),
    ("blanks", "spaces, whitespace"),
    ("told", "reported, logged"),
    ("tells", "reports, shows, records"),
    ("is there twice", "is duplicated, duplicate"),
    ("mended", "fixed, repaired"),
    ("cannot be told", "is unknown"),
    ("as it stands", "literally"),
];

#[test]
fn messages_name_who_is_meant() {
    let mut wrong = Vec::new();
    for file in
        sources().into_iter().filter(|file| !file.starts_with(workspace_root().join("crates/testkit")))
    {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let shipped = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        for (number, line) in shipped.lines().enumerate() {
            for (word, instead) in IN_MESSAGES {
                if texts(line).any(|text| {
                    text.trim_matches(|sign: char| !sign.is_alphabetic()) != word && is_said(text, word)
                }) {
                    let place = file.strip_prefix(workspace_root()).unwrap_or(&file).display();
                    wrong.push(format!("{place}:{}: {word}; write {instead}", number + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What a line of code has between quotes, and all of a line whose text goes on in the next one.
fn texts(line: &str) -> impl Iterator<Item = &str> {
    let line = if line.trim_start().starts_with("//") { "" } else { line };
    let goes_on = line.ends_with('\\') && !line.contains('"');
    line.split('"').skip(1).step_by(2).chain(goes_on.then_some(line))
}

/// Words that comments of sources do without; messages and names may need them.
const IN_COMMENTS: [(&str, &str); 4] = [
    ("nobody", "no caller, no client, none"),
    ("whoever", "the caller, the operator, what"),
    ("somebody", "a caller, an operator"),
    ("told", "reported, logged, given"),
];

#[test]
fn comments_name_who_is_meant() {
    let mut wrong = Vec::new();
    for file in sources() {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let comments = text.lines().enumerate().filter(|(_, line)| line.trim_start().starts_with("//"));
        for (number, line) in comments {
            for (word, instead) in IN_COMMENTS.iter().filter(|(word, _)| is_said(&line.to_lowercase(), word))
            {
                let place = file.strip_prefix(workspace_root()).unwrap_or(&file).display();
                wrong.push(format!("{place}:{}: {word}; write {instead}", number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn is_said(line: &str, phrase: &str) -> bool {
    line.match_indices(phrase).any(|(at, _)| {
        let (before, rest) = line.split_at(at);
        let after = rest.trim_start_matches(phrase);
        let is_word = !before.ends_with(char::is_alphanumeric) && !after.starts_with(char::is_alphanumeric);
        let next = after.trim_start().split(|sign: char| !sign.is_alphabetic()).next().unwrap_or_default();
        let is_negation = phrase.ends_with(" no");
        let is_allowed = AFTER_NO.contains(&next) || before.trim_end().to_lowercase().ends_with("there");
        is_word && !(is_negation && (next.is_empty() || is_allowed))
    })
}

/// The pages in English.
fn pages() -> Vec<PathBuf> {
    let root = workspace_root();
    let mut folders = vec![root.join("docs")];
    let mut found: Vec<_> =
        fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found.retain(|path| path.extension().is_some_and(|end| end == "md"));
    found
}

/// Names in the `[dependencies]` section.
fn dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    manifest
        .lines()
        .skip_while(|line| line.trim() != "[dependencies]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split(['.', '=', ' ']).next()?.strip_prefix("tidegate-"))
        .filter(|name| !name.is_empty() && !name.starts_with('#'))
}

fn is_member(name: &str) -> bool {
    workspace_root().join("crates").join(name).is_dir()
}

fn crate_folders() -> Vec<PathBuf> {
    let folders = fs::read_dir(workspace_root().join("crates")).expect("crates/ is readable");
    folders.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

fn sources() -> Vec<PathBuf> {
    crate_folders().iter().flat_map(|folder| rust_files(&folder.join("src"))).collect()
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut files = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}
