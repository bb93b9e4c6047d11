//! All pages with blocks. Those of plugins have their examples run by `plugins::pages`; the rest of them is run here.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tidegate_testkit::gateway::workspace_root;

use super::block::{Block, Kind, Place, blocks};
use super::script;
use crate::plugins::pages::OF_STREAMS;

/// Pages that are typed at the same time.
const TYPISTS: usize = 3;

#[test]
fn blocks_do_what_the_pages_show() {
    run_all(pages(), false);
}

#[test]
#[ignore = "some blocks take a minute: loads, fleets"]
fn slow_blocks_do_what_the_pages_show() {
    let is_slow = |page: &String| {
        let text = fs::read_to_string(workspace_root().join(page)).unwrap_or_default();
        text.contains("<!-- slow -->\n")
    };
    run_all(pages().into_iter().filter(is_slow).collect(), true);
}

fn run_all(mut pages: Vec<String>, slow: bool) {
    if let Ok(wanted) = std::env::var("PAGES") {
        pages.retain(|page| wanted.split(',').any(|one| page.ends_with(&format!("{one}.md"))));
        assert!(!pages.is_empty(), "PAGES={wanted}: there is no such page");
    }
    let (left, wrong) = (Mutex::new(VecDeque::from(pages)), Mutex::new(Vec::new()));
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    std::thread::scope(|scope| {
        for _ in 0..TYPISTS {
            scope.spawn(|| {
                while let Some(page) = next() {
                    if let Err(reason) = run(&page, slow) {
                        wrong.lock().unwrap_or_else(PoisonError::into_inner).push(reason);
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Names, from the root.
fn pages() -> Vec<String> {
    let mut pages: Vec<String> =
        ["README.md", "CONTRIBUTING.md", "examples/README.md"].map(str::to_owned).into();
    let mut folders = vec![PathBuf::from("docs")];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(workspace_root().join(&folder)).expect("a folder of docs");
        for path in entries.flatten().map(|entry| folder.join(entry.file_name())) {
            let name = path.display().to_string();
            // Decisions have no blocks that readers type, and the reference is made and checked by `tidy::reference`.
            if path.is_dir() || workspace_root().join(&path).is_dir() {
                folders.extend((!["docs/adr", "docs/reference"].contains(&name.as_str())).then_some(path));
            } else if name.ends_with(".md") && !name.ends_with(".zh-CN.md") {
                pages.push(name);
            }
        }
    }
    pages
}

fn run(page: &str, slow: bool) -> Result<(), String> {
    let text = fs::read_to_string(workspace_root().join(page)).map_err(|error| format!("{page}: {error}"))?;
    let mut all = blocks(&text).map_err(|reason| format!("{page}, {reason}"))?;
    for block in &all {
        if let Kind::NotRun { reason } = &block.kind
            && let Some(file) = named(reason).find(|file| !workspace_root().join(file).exists())
        {
            return Err(format!("{page}:{}: there is no {file}", block.line));
        }
    }
    let plugin = page.strip_prefix("docs/plugins/").and_then(|file| file.strip_suffix(".md"));
    if plugin.is_some_and(|name| name != "README" && !OF_STREAMS.contains(&name)) {
        let example: Vec<&str> =
            all.iter().filter(|block| is_example(block)).map(|block| block.language.as_str()).collect();
        if example != ["sh", "console"] {
            return Err(format!(
                "{page}: the example has {example:?}, not one block of sh and one of console"
            ));
        }
        all.retain(|block| !is_example(block));
    }
    all.retain(|block| slow || !block.is_slow);
    type_out(page, &all)
}

/// The files of the repository that a reason names.
fn named(reason: &str) -> impl Iterator<Item = &str> {
    let files = reason.split([' ', ',', ';']).map(|word| word.split("::").next().unwrap_or(word));
    files.filter(|file| {
        ["tests/", "scripts/", "crates/", "deploy/"].iter().any(|folder| file.starts_with(folder))
    })
}

fn is_example(block: &Block) -> bool {
    block.heading == "Example"
}

fn type_out(page: &str, all: &[Block]) -> Result<(), String> {
    let place = |block: &Block| match &block.kind {
        Kind::Typed { place, .. } => *place,
        _ => Place::Same,
    };
    let own_folder = |block: &&Block| place(block) == Place::Same;
    let together: Vec<&Block> = all.iter().filter(own_folder).collect();
    let alone = all.iter().filter(|block| place(block) == Place::Empty).map(|block| vec![block]);
    for session in [together].into_iter().chain(alone) {
        if session.iter().all(|block| matches!(block.kind, Kind::NotRun { .. })) {
            continue;
        }
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let before = format!("export REPOSITORY='{}'", workspace_root().display());
        script::run(page, &session, &before, folder.path())?;
    }
    Ok(())
}

/// What `run` says about a page with this text.
fn verdict(text: &str) -> Result<(), String> {
    type_out("page", &blocks(text)?)
}

#[test]
fn broken_blocks_are_found() {
    let good = "```sh\necho one > a\ncat a\n#=> one\n```\n<!-- output\ncat a\n-->\n```\no...\n```\n";
    assert_eq!(verdict(good), Ok(()));
    for (text, reason) in [
        ("```sh\nfalse\n```\n", "page:1: a command fails"),
        ("```sh\ntrue\n```\n```sh\necho a\nfalse\necho b\n```\n", "page:4: a command fails, after\na"),
        ("```sh\necho one\n#=> two\n```\n", "page:1: has no line `two`"),
        ("```sh\necho a\n#=> b\nfalse\n```\n", "page:1: has no line `b`"),
        ("```sh\necho b\necho a\n#=> a\n#=> b\n```\n", "page:1: has no line `b`"),
        ("```sh\ntidegate echo\ncurl -s http://127.0.0.1:1980/status/404\n```\n", "page:1: a command fails"),
        (
            "<!-- meanwhile\ncurl http://127.0.0.1:1981/\n-->\n```sh\ntidegate echo\n```\n",
            "page:4: a command fails",
        ),
        ("```sh\ntidegate run --prefix /nonexistent\n```\n", "page:1: a command fails"),
        ("```console\n$ echo one\ntwo\n```\n", "page:1: has no line `two`"),
        ("```sh\necho one\n```\n<!-- output -->\n```\ntwo\n```\n", "page:1: has no line `two`"),
        ("<!-- output\necho '{\"a\": 1}'\n-->\n```json\n{\"a\": 2}\n```\n", "page:4: has no line"),
        (
            "<!-- file c.yaml\nloads c.yaml\n-->\n```yaml\napisix: {nodelisten: [80]}\n```\n",
            "page:4: a command fails",
        ),
        ("<!-- file c.yaml\nloads c.yaml\n-->\n```yaml\napisix: [\n```\n", "page:4: a command fails"),
        ("<!-- given\nfalse\n-->\n```sh\ntrue\n```\n", "page:4: a command fails"),
        ("```yaml\na: 1\n```\n", "line 1: a block of yaml: say"),
    ] {
        let found = verdict(text).expect_err(text);
        assert!(found.starts_with(reason), "{text}\n{found}");
    }
}

/// Both languages have the same blocks but for comments in them (`tidy::translations`), and the same marks.
#[test]
fn both_languages_are_typed_alike() {
    let mut wrong = Vec::new();
    for page in pages() {
        let read = |path: &Path| fs::read_to_string(workspace_root().join(path)).ok();
        let chinese = PathBuf::from(page.replace(".md", ".zh-CN.md"));
        let (Some(english), Some(chinese)) = (read(Path::new(&page)), read(&chinese)) else { continue };
        let marks = |text: &str| {
            let marks = |block: Block| (block.language, block.given, block.kind);
            blocks(text).map(|all| all.into_iter().map(marks).collect::<Vec<_>>())
        };
        if marks(&english) != marks(&chinese) {
            wrong.push(format!(
                "{page}: the comments before its blocks differ from those of the Chinese page"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
