//! What a newcomer needs: `make run` asks for nothing but a compiler, and what README.md shows after it works. All other
//! blocks are run by [`crate::pages`].

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use tidegate_testkit::gateway::{binary, workspace_root};

use crate::pages::block::{Kind, Place, blocks};
use crate::pages::script;

/// The checkout is a copy of what `make run` needs, and the binary is there already; a package manager is not to be
/// asked.
#[test]
fn the_readme_commands_work_after_make_run() {
    const README: &str = "README.md";
    let text = fs::read_to_string(workspace_root().join(README)).expect("a README");
    let mut all = blocks(&text).expect("blocks");
    all.retain(|block| matches!(block.kind, Kind::Typed { place: Place::Checkout, .. }));
    assert_eq!(all.len(), 1, "{README} has one block marked `after make run`");
    all.extend(blocks("```sh\ntest -z \"$(git status --porcelain)\"\n```\n").expect("a block"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let checkout = checkout(folder.path());
    let before = format!(
        "export CARGO_TARGET_DIR='{0}/target' PATH='{0}/bin':$PATH\n\
         coproc make run CARGO=true 2>&1\n\
         while read -r line <&\"${{COPROC[0]}}\"; do echo \"$line\"; [[ $line == 'Try it:' ]] && break; done",
        folder.path().display()
    );
    let all: Vec<_> = all.iter().collect();
    assert_eq!(script::run(README, &all, &before, &checkout), Ok(()));
    let asked = folder.path().join("asked");
    assert!(!asked.exists(), "make run called {}", fs::read_to_string(asked).unwrap_or_default());
}

/// Crates whose build scripts run protoc, and the packages that would bring it.
#[test]
fn building_needs_rust_a_c_compiler_and_make() {
    let root = workspace_root();
    let lock = fs::read_to_string(root.join("Cargo.lock")).expect("Cargo.lock");
    for name in
        ["prost-build", "tonic-prost-build", "protobuf-src", "protobuf-codegen", "bindgen", "openssl-sys"]
    {
        assert!(
            !lock.contains(&format!("name = \"{name}\"\n")),
            "{name} needs more than Rust and a C compiler"
        );
    }
    let plan = Command::new("make").args(["--dry-run", "run"]).current_dir(root).output().expect("make runs");
    let plan = String::from_utf8_lossy(&plan.stdout).into_owned();
    assert!(plan.contains("build --profile quick -p tidegate") && !plan.contains("install"), "{plan}");
}

/// What a compiler that is too old is refused by, and what rustup fetches.
#[test]
fn one_version_of_rust_is_named() {
    let named = |file: &str, key: &str| {
        let text = fs::read_to_string(workspace_root().join(file)).expect("a manifest");
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
        line.unwrap_or_else(|| panic!("{file} has no {key}")).trim_matches('"').to_owned()
    };
    assert_eq!(named("rust-toolchain.toml", "channel"), named("Cargo.toml", "rust-version"));
    for folder in fs::read_dir(workspace_root().join("crates")).expect("crates").flatten() {
        let text = fs::read_to_string(folder.path().join("Cargo.toml")).expect("a manifest");
        assert!(text.contains("\nrust-version.workspace = true\n"), "{}", folder.path().display());
    }
}

/// A git checkout with what `make run` uses, a target folder with the binary, and programs that note that root was
/// wanted.
fn checkout(folder: &Path) -> std::path::PathBuf {
    let checkout = folder.join("checkout");
    let built = folder.join("target/quick");
    let tools = folder.join("bin");
    for path in [&checkout, &built, &tools] {
        fs::create_dir_all(path).expect("a folder");
    }
    for name in ["Makefile", ".gitignore"] {
        fs::copy(workspace_root().join(name), checkout.join(name)).expect("a copy");
    }
    symlink(binary(), built.join("tidegate")).expect("a link");
    for name in ["sudo", "apt-get", "su", "doas"] {
        let tool = tools.join(name);
        let note = format!("#!/bin/sh\necho {name} \"$@\" >> {}\nexit 1\n", folder.join("asked").display());
        fs::write(&tool, note).expect("a program");
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).expect("may be run");
    }
    let git = "git init -q . && git add . && git -c user.name=t -c user.email=t@t commit -qm all";
    let made = Command::new("sh").args(["-c", git]).current_dir(&checkout).status().expect("git runs");
    assert!(made.success(), "git init");
    checkout
}
