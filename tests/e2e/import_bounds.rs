//! Hostile files: the importer ends, with a message.

use std::{
    fmt::Write as _,
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use testkit::gateway::binary;

/// Success, what was printed, and the time that it took.
fn import(kind: &str, file: &Path) -> (bool, String, Duration) {
    let started = Instant::now();
    let output = Command::new(binary()).args(["import", kind]).arg(file).output().expect("the binary runs");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned(), started.elapsed())
}

#[test]
fn what_is_no_file_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
    assert!(made.success());
    let sparse = folder.path().join("sparse");
    fs::File::create(&sparse).and_then(|file| file.set_len(3 << 30)).expect("a sparse file");
    for (file, wanted) in [
        (Path::new("/dev/zero"), "not a regular file"),
        (&pipe, "not a regular file"),
        (&sparse, "more than 64 MiB"),
    ] {
        for kind in ["nginx", "kong"] {
            let (fine, said, _) = import(kind, file);
            assert!(!fine && said.contains(wanted), "{kind} {}: {said:.300}", file.display());
        }
        let including = folder.path().join("nginx.conf");
        let text =
            format!("server {{ listen 80; include {}; location / {{ return 200; }} }}", file.display());
        fs::write(&including, text).expect("written");
        let (fine, said, _) = import("nginx", &including);
        assert!(fine && said.contains(wanted) && said.contains("closed by import"), "{said:.500}");
    }
}

#[test]
fn texts_that_double_close_their_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("nginx.conf");
    let mut text = "server { listen 80; set $v0 ab;\n".to_owned();
    for number in 0..41 {
        let _ = writeln!(text, "set $v{} $v{number}$v{number};", number + 1);
    }
    fs::write(&file, text + "location / { return 200 $v40; } location = /a { return 200 $v1; } }")
        .expect("written");
    let (fine, said, _) = import("nginx", &file);
    assert!(fine && said.contains("1 of 2 locations behave as in nginx"), "{said:.500}");
}

#[test]
fn many_locations_take_a_time_of_their_number() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("nginx.conf");
    let time = |count: u32| {
        let mut text = "server { listen 80;\n".to_owned();
        for number in 0..count {
            let _ = writeln!(text, "location /p{number}/ {{ proxy_pass http://127.0.0.1:9; }}");
        }
        fs::write(&file, text + "}").expect("written");
        let (fine, said, took) = import("nginx", &file);
        assert!(fine && said.contains(&format!("{count} of {count} locations")), "{said:.300}");
        took
    };
    let (few, many) = (time(1_000), time(8_000));
    println!("1,000: {few:?}, 8,000: {many:?}");
    assert!(many < few * 24 + Duration::from_secs(1), "1,000: {few:?}, 8,000: {many:?}");
}
