//! Replays the fuzz corpora with the fuzz targets' properties, without a fuzzer, on every test run.

use std::fs;

use testkit::gateway::workspace_root;

#[path = "../../fuzz/properties.rs"]
mod properties;

type Property = fn(&[u8]);

const TARGETS: [(&str, Property); 4] = [
    ("request_head", properties::request_head),
    ("response_head", properties::response_head),
    ("chunked", properties::chunked),
    ("uri", properties::uri),
];

#[test]
fn corpora_hold() {
    for (name, property) in TARGETS {
        let folder = workspace_root().join("fuzz/corpus").join(name);
        let mut replayed = 0;
        for entry in
            fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())).flatten()
        {
            let data = fs::read(entry.path()).expect("a readable corpus file");
            eprintln!("{name}: {}", entry.path().display());
            property(&data);
            // Every prefix too: a peer may stop anywhere.
            (0..data.len().min(300)).for_each(|end| property(&data[..end]));
            replayed += 1;
        }
        assert!(replayed > 0, "{} is empty", folder.display());
    }
}
