//! Modules that public SDKs make: Rust's from crates.io, AssemblyScript's from npm, and Go's own library format.

use std::{fs, path::Path, process::Command};

use tidegate_testkit::{Upstream, gateway::workspace_root};

use super::kit::Fixture;

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
}

fn rust(folder: &Path) -> Vec<u8> {
    let source = workspace_root().join("tests/wasm/rust");
    run(Command::new("rustup").args(["target", "add", "wasm32-wasip1"]).current_dir(&source));
    // The lock file that this makes is not for the repository, whose toolchain it is built with.
    fs::create_dir_all(folder.join("src")).expect("a folder");
    for file in ["Cargo.toml", "src/lib.rs"] {
        fs::copy(source.join(file), folder.join(file)).expect("a copy");
    }
    run(Command::new("cargo")
        .args(["build", "--quiet", "--release", "--target", "wasm32-wasip1", "--manifest-path"])
        .arg(folder.join("Cargo.toml"))
        .env("CARGO_TARGET_DIR", folder)
        .current_dir(&source));
    fs::read(folder.join("wasm32-wasip1/release/tagging.wasm")).expect("a module")
}

fn assembly_script(folder: &Path) -> Vec<u8> {
    run(Command::new("npm").current_dir(folder).args([
        "install",
        "--no-audit",
        "--no-fund",
        "--prefix",
        ".",
        "assemblyscript@0.14.13",
        "@solo-io/proxy-runtime@0.1.8",
    ]));
    let source = workspace_root().join("tests/wasm/assembly/index.ts");
    fs::create_dir_all(folder.join("assembly")).expect("a folder");
    fs::copy(source, folder.join("assembly/index.ts")).expect("a copy");
    run(Command::new("npx")
        .args([
            "asc",
            "assembly/index.ts",
            "-b",
            "tagging.wasm",
            "--use",
            "abort=abort_proc_exit",
            "--optimize",
        ])
        .current_dir(folder));
    fs::read(folder.join("tagging.wasm")).expect("a module")
}

fn go(folder: &Path) -> Vec<u8> {
    let module = folder.join("tagging.wasm");
    run(Command::new("go")
        .args(["build", "-buildmode=c-shared", "-o"])
        .arg(&module)
        .arg(".")
        .env("GOOS", "wasip1")
        .env("GOARCH", "wasm")
        .current_dir(workspace_root().join("tests/wasm/go")));
    fs::read(module).expect("a module")
}

#[test]
#[ignore = "downloads SDKs and builds with four compilers"]
fn modules_of_public_sdks_work() {
    let (first, second, third) = (
        tempfile::tempdir().expect("a folder"),
        tempfile::tempdir().expect("a folder"),
        tempfile::tempdir().expect("a folder"),
    );
    let modules = vec![
        ("none", rust(first.path())),
        ("assembly", assembly_script(second.path())),
        ("go", go(third.path())),
    ];
    let upstream = Upstream::service(|_| (200, "hello".to_owned()));
    let fixture = Fixture::start_with(modules, ", process_bodies: true", "", upstream);
    for (path, tag, body) in
        [("/none", "rust", "HELLO"), ("/assembly", "assembly", "hello"), ("/go", "go", "hello")]
    {
        for _ in 0..3 {
            let answer = fixture.get(path);
            assert_eq!((answer.status(), answer.header("X-Tag")), (200, Some(tag)), "{path}");
            assert_eq!(answer.body_text(), body, "{path}");
        }
    }
    fixture.gateway.wait_for_log("path Some(\"/none\")");
    fixture.gateway.wait_for_log("wasm plugin go: request 1 of the instance");
}
