//! Replays the fuzz corpora with the fuzz targets' properties, without a fuzzer, on every test run.

use std::fs;

use testkit::gateway::workspace_root;

#[path = "../../fuzz/properties.rs"]
mod properties;

type Property = fn(&[u8]);

const TARGETS: [(&str, Property); 7] = [
    ("request_head", properties::request_head),
    ("response_head", properties::response_head),
    ("chunked", properties::chunked),
    ("uri", properties::uri),
    ("proxy_header", properties::proxy_header),
    ("http2_head", properties::http2_head),
    ("ocsp_answer", properties::ocsp_answer),
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

/// A corpus of answers that are all refused at the first look would try nothing.
#[test]
fn answers_of_the_corpus_reach_the_judge() {
    use control::ocsp::{Subject, judge};
    let read =
        |name: &str| fs::read(workspace_root().join("fuzz").join(name)).expect("a file of the fuzz targets");
    let (certificate, issuer) = (read("data/ocsp-certificate.der"), read("data/ocsp-issuer.der"));
    let subject = Subject { certificate: &certificate, issuer: &issuer };
    let now = std::time::Duration::from_secs(1_800_000_000);
    for (name, skip_verify, passes) in [
        ("good", false, true),
        ("delegate", false, true),
        ("revoked", false, false),
        ("unknown", false, false),
        ("stranger", false, false),
        ("stranger", true, true),
        ("other-certificate", true, false),
        ("unauthorized", true, false),
    ] {
        let verdict = judge(&read(&format!("corpus/ocsp_answer/{name}")), subject, now, skip_verify);
        assert_eq!(verdict.is_ok(), passes, "{name}: {verdict:?}");
    }
}
