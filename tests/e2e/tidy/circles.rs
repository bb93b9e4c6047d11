//! Circles between the files of one crate: files that name each other's items, straight or through others.
//!
//! A path through a re-export leads to the file that defines the item. Declaring and re-exporting modules is not a use of
//! them, and methods are not followed: what counts is what a reader has to look up.

mod arrows;
mod components;
mod modules;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use self::modules::{FileId, Tree};

#[test]
fn files_of_a_crate_form_no_circles() {
    let mut wrong = String::new();
    for (name, root) in roots() {
        let (files, shown) = circles(&root);
        if files > 0 {
            _ = writeln!(wrong, "{name}: {files} files in circles:\n{shown}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// How many files stand in circles, and which name what of which.
fn circles(root: &Path) -> (usize, String) {
    let tree = Tree::read(root);
    let arrows = arrows::arrows(&tree);
    let folder = root.parent().unwrap_or(root);
    let place = |file: FileId| tree.files[file].strip_prefix(folder).unwrap_or(&tree.files[file]).display();
    let (mut files, mut shown) = (0, String::new());
    for circle in components::circles(&arrows) {
        files += circle.len();
        _ = writeln!(shown, "  a circle of {} files", circle.len());
        for from in &circle {
            for (to, names) in arrows[from].iter().filter(|(to, _)| circle.contains(to)) {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                _ = writeln!(shown, "    {} -> {}: {}", place(*from), place(*to), names.join(", "));
            }
        }
    }
    (files, shown)
}

/// Crates with the file that each begins with.
fn roots() -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    for folder in super::crate_folders() {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for root in ["src/lib.rs", "src/main.rs"].map(|file| folder.join(file)) {
            if root.is_file() {
                found.push((name.clone(), root));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn a_circle_through_a_reexport_is_found_and_tests_do_not_count() {
    let folder = tempfile::tempdir().expect("a folder for sources");
    let write =
        |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a source is written");
    write("lib.rs", "mod a;\nmod b;\nmod c;\npub use a::A;\npub use b::B;\n");
    write("a.rs", "use crate::b;\npub struct A(b::B);\n");
    write("b.rs", "pub struct B;\nfn of(_: &crate::A) {}\n");
    write("c.rs", "use crate::B;\npub fn c(_: B) {}\n#[cfg(test)]\nmod tests {\n    use crate::A;\n}\n");
    let (files, shown) = circles(&folder.path().join("lib.rs"));
    assert_eq!(files, 2, "{shown}");
    assert!(shown.contains("b.rs -> a.rs: crate::A"), "{shown}");

    write("b.rs", "pub struct B;\n#[cfg(test)]\nfn of(_: &crate::A) {}\n");
    assert_eq!(circles(&folder.path().join("lib.rs")).0, 0);
}

/// What only macros and attributes see counts as well.
#[test]
fn names_in_macros_and_attributes_count() {
    let folder = tempfile::tempdir().expect("a folder for sources");
    let write =
        |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a source is written");
    write("lib.rs", "mod a;\nmod b;\nfn text() {}\n");
    write("a.rs", "fn a() { println!(\"{}\", crate::b::B); }\nthread_local! { pub static A: u8 = 0; }\n");
    write(
        "b.rs",
        "pub const B: u8 = 1;\nstruct C {\n    #[serde(default = \"crate::a::A\")]\n    c: u8,\n}\n",
    );
    let (files, shown) = circles(&folder.path().join("lib.rs"));
    assert_eq!(files, 2, "{shown}");
}
