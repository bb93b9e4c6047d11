//! The README's first commands, run as a newcomer would, in English and in Chinese.
//!
//! A line before a ```` ```sh ```` block says where it runs: `<!-- first run -->` in an empty folder with `tidegate` in
//! the PATH, `<!-- after make run -->` in a checkout where `make run` is serving. What starts in the background ends with
//! the block. `<!-- run -->` stands before the blocks of a guide, which are run as one. Lines that start with `#=> ` tell what the command before them must print.
//!
//! Newcomers get the default ports. So do these tests, in a network of their own where the system allows it.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use tidegate_testkit::gateway::{binary, workspace_root};

const FIRST_RUN: &str = "<!-- first run -->";
const AFTER_MAKE_RUN: &str = "<!-- after make run -->";
/// Of a guide whose blocks are typed one after the other.
const RUN: &str = "<!-- run -->";

#[test]
fn the_readme_commands_work() {
    for readme in ["README.md", "README.zh-CN.md"] {
        for block in blocks(readme, FIRST_RUN) {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let script = format!("trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{block}\n");
            check(readme, &block, &script, folder.path());
        }
    }
}

/// The checkout is a copy of what `make run` needs, and the binary is there already; a package manager is not to be
/// asked.
#[test]
fn the_readme_commands_work_after_make_run() {
    for readme in ["README.md", "README.zh-CN.md"] {
        for block in blocks(readme, AFTER_MAKE_RUN) {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let checkout = checkout(folder.path());
            let script = format!(
                "coproc make run CARGO=true 2>&1\n\
                 while read -r line <&\"${{COPROC[0]}}\"; do echo \"$line\"; [[ $line == 'Try it:' ]] && break; done\n\
                 trap 'kill $(cat run/logs/tidegate.pid)' EXIT\n{block}\n\
                 test -z \"$(git status --porcelain)\"\n"
            );
            check(readme, &block, &script, &checkout);
            let asked = folder.path().join("asked");
            assert!(!asked.exists(), "make run called {}", fs::read_to_string(asked).unwrap_or_default());
        }
    }
}

#[test]
fn the_first_fifteen_minutes_work() {
    for page in ["docs/getting-started.md", "docs/getting-started.zh-CN.md"] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let blocks = blocks(page, RUN).join("\n");
        let script = format!("trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{blocks}\n");
        check(page, &blocks, &script, folder.path());
    }
}

#[test]
fn both_languages_show_the_same_commands() {
    for mark in [FIRST_RUN, AFTER_MAKE_RUN] {
        assert_eq!(blocks("README.md", mark), blocks("README.zh-CN.md", mark), "{mark}");
    }
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

/// The commands of the blocks that follow a mark.
fn blocks(readme: &str, mark: &str) -> Vec<String> {
    let text = fs::read_to_string(workspace_root().join(readme)).expect("a README");
    let found: Vec<String> = text.split(mark).skip(1).filter_map(block).map(str::to_owned).collect();
    assert!(!found.is_empty(), "{readme} has no block marked {mark}");
    found
}

fn block(after: &str) -> Option<&str> {
    let (_, rest) = after.trim_start().strip_prefix("```")?.split_once('\n')?;
    rest.split_once("```").map(|(commands, _)| commands)
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

fn check(readme: &str, block: &str, script: &str, folder: &Path) {
    let own_network = has_own_network();
    if !own_network && [9080, 9180].iter().any(|port| TcpListener::bind(("0.0.0.0", *port)).is_err()) {
        eprintln!("skipped: port 9080 or 9180 is taken, and this machine allows no network of one's own");
        return;
    }
    let mut command = if own_network {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--net", "bash", "-c"]);
        command.arg(format!("set -eu\nip link set lo up\n{script}"));
        command
    } else {
        let mut command = Command::new("bash");
        command.arg("-c").arg(format!("set -eu\n{script}"));
        command
    };
    let beside = folder.parent().unwrap_or(folder);
    let path = std::env::var("PATH").unwrap_or_default();
    let binaries = binary().parent().expect("the binary is in a folder");
    let output = command
        .current_dir(folder)
        .env("PATH", format!("{}:{}:{path}", beside.join("bin").display(), binaries.display()))
        .env("CARGO_TARGET_DIR", beside.join("target"))
        .env_remove("MAKEFLAGS")
        .stdin(Stdio::null())
        .output()
        .expect("the commands run");
    let printed = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{readme}:\n{block}\nprinted:\n{printed}\n{complaint}");
    for wanted in block.lines().filter_map(|line| line.strip_prefix("#=> ")) {
        assert!(
            printed.lines().any(|line| line == wanted),
            "{readme}: {wanted:?} not printed:\n{printed}\n{complaint}"
        );
    }
}

/// Whether this user may have a network namespace: then the default ports are free.
fn has_own_network() -> bool {
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--net", "ip", "link", "set", "lo", "up"]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}
