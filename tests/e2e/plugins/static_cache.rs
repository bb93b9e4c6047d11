//! What `static-files` keeps of files, by its `cache`: how many, for how long, and which of them in memory.

use std::fs;

use serde_json::{Value, json};
use tidegate_testkit::{Gateway, PATIENCE};

use super::static_files::{Site, get};

/// For longer than any test takes, a file is not looked at again.
fn serve(site: &Site, cache: Value) -> Gateway {
    let mut conf = json!({"cache": {"valid": 3600}});
    conf["cache"].as_object_mut().expect("an object").extend(cache.as_object().expect("an object").clone());
    site.serve(&[("/*", conf)])
}

#[test]
fn no_more_files_are_kept_than_configured() {
    let site = Site::new();
    // One in each of 16 parts.
    let gateway = serve(&site, json!({"files": 16}));
    let names: Vec<String> = (0..100).map(|number| format!("of-many-{number}.txt")).collect();
    let write = |text: &str| names.iter().for_each(|name| site.write(&format!("www/{name}"), text));
    write("first");
    let is_of = |text: &str, name: &String| get(&gateway, &format!("/{name}"), "").body_text() == text;
    assert!(names.iter().all(|name| is_of("first", name)));
    write("again");
    // The last of each part is kept.
    let kept = names.iter().rev().filter(|name| is_of("first", name)).count();
    assert!((1..=16).contains(&kept), "{kept} of 100 files were kept");
}

#[test]
fn small_files_are_kept_in_memory() {
    let site = Site::new();
    let gateway = serve(&site, json!({"small_file_bytes": 8}));
    for (name, first, then, expected) in
        [("small", "12345678", "abcdefgh", "12345678"), ("larger", "123456789", "abcdefghi", "abcdefghi")]
    {
        site.write(&format!("www/{name}"), first);
        assert_eq!(get(&gateway, &format!("/{name}"), "").body_text(), first, "{name}");
        site.write(&format!("www/{name}"), then);
        assert_eq!(get(&gateway, &format!("/{name}"), "").body_text(), expected, "{name}");
    }
}

#[test]
fn files_that_nobody_asks_for_are_closed() {
    let site = Site::new();
    let gateway = serve(&site, json!({"inactive": 1}));
    assert_eq!(get(&gateway, "/page.txt", "").status(), 200);
    let page = fs::canonicalize(site.root().join("page.txt")).expect("it is there");
    let is_open = || {
        let open = fs::read_dir(format!("/proc/{}/fd", gateway.process.id())).expect("its descriptors");
        open.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(|target| target == page))
    };
    assert!(is_open());
    let begun = std::time::Instant::now();
    while is_open() {
        assert!(begun.elapsed() < PATIENCE, "it stays open");
        std::thread::park_timeout(std::time::Duration::from_millis(20));
    }
}
