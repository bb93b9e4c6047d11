//! Passes the commit and its date to `tidegate version`. Not to debug builds, which would be built again after each commit.

use std::{env, process::Command};

fn main() {
    println!("cargo::rerun-if-env-changed=TIDEGATE_COMMIT");
    let profile = env::var("PROFILE").unwrap_or_default();
    // Of a source archive, which has no history: `TIDEGATE_COMMIT="HASH DATE"`.
    let given = env::var("TIDEGATE_COMMIT").ok().filter(|text| !text.is_empty());
    let folder = folder().unwrap_or(profile);
    let commit = given.or_else(|| if folder == "debug" { None } else { of_git() });
    // Cargo sets these for what it runs, too: none may be a variable that the program reads when it starts.
    println!("cargo::rustc-env=TIDEGATE_COMMIT={}", commit.unwrap_or_default());
    println!("cargo::rustc-env=TIDEGATE_BUILD_PROFILE={folder}");
}

/// `06b5c087d1f2 2026-11-26`
fn of_git() -> Option<String> {
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--path-format=absolute", "--git-path", name]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    git(&["log", "-1", "--abbrev=12", "--format=%h %cs"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Profiles of one's own have a folder of their name; `PROFILE` has that of the profile they inherit.
fn folder() -> Option<String> {
    let out = env::var_os("OUT_DIR")?;
    // target/PROFILE/build/tidegate-HASH/out
    let name = std::path::Path::new(&out).ancestors().nth(3)?.file_name()?;
    name.to_str().map(str::to_owned)
}
