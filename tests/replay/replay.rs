//! Replays the fuzz corpora with the fuzz targets' properties, without a fuzzer, on every test run, and what a fixed sequence
//! of random changes makes of them. `TIDEGATE_FUZZ=100000` makes that many of each input in place of [`CHANGES`].

use std::fs;

use tidegate_testkit::gateway::workspace_root;

#[path = "../../fuzz/properties.rs"]
mod properties;

#[path = "../../fuzz/texts.rs"]
mod texts;

type Property = fn(&[u8]);

const CHANGES: u32 = 150;
/// Larger inputs are not tried: their like is in the tests of what large bodies cost.
const LARGEST: usize = 64 * 1024;

const TARGETS: [(&str, Property); 19] = [
    ("request_head", properties::request_head),
    ("response_head", properties::response_head),
    ("chunked", properties::chunked),
    ("uri", properties::uri),
    ("proxy_header", properties::proxy_header),
    ("http2_head", properties::http2_head),
    ("ocsp_answer", properties::ocsp_answer),
    ("xml", texts::xml),
    ("proto", texts::proto),
    ("template", texts::template),
    ("yaml", texts::yaml),
    ("expression", texts::expression),
    ("cookie", texts::cookie),
    ("jwt", texts::jwt),
    ("import_nginx", texts::import_nginx),
    ("import_kong", texts::import_kong),
    ("import_apisix", texts::import_apisix),
    ("form", texts::form),
    ("json_path", texts::json_path),
];

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % bound.max(1)
    }
}

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = workspace_root().join("fuzz/corpus").join(name);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).expect("a readable corpus file")).collect()
}

/// One change: a bit, a byte, a piece gone, repeated or from another input, or a byte that means something to parsers.
fn change(data: &mut Vec<u8>, others: &[Vec<u8>], random: &mut Random) {
    const MEANING: &[u8] = b"\0\n\r\t \"'<>&;:,.=-!#$%()*[]{}\\/|?+~^@\xff\x80_09azAZ";
    let at = random.below(data.len());
    let end = (at + 1 + random.below(12)).min(data.len());
    match random.below(6) {
        0 if !data.is_empty() => data[at] ^= 1 << random.below(8),
        1 if !data.is_empty() => data[at] = MEANING[random.below(MEANING.len())],
        2 => drop(data.drain(at..end)),
        3 => {
            let piece = data[at..end].repeat(1 + random.below(40));
            data.splice(at..at, piece);
        }
        4 => {
            let other = &others[random.below(others.len())];
            let begin = random.below(other.len());
            let piece = other[begin..(begin + 1 + random.below(40)).min(other.len())].to_vec();
            data.splice(at..at, piece);
        }
        _ => data.insert(at, MEANING[random.below(MEANING.len())]),
    }
}

#[test]
fn what_chance_makes_of_the_corpora_holds() {
    let changes = std::env::var("TIDEGATE_FUZZ").map_or(CHANGES, |text| text.parse().expect("a number"));
    let mut random = Random(20_261_122);
    for (name, property) in TARGETS {
        let inputs = corpus(name);
        let (begin, mut tried) = (std::time::Instant::now(), 0_u32);
        // Of large corpora, which a fuzzer has grown, some.
        for input in inputs.iter().step_by(inputs.len() / 8 + 1) {
            let mut data = input.clone();
            for round in 0..changes {
                if round % 8 == 0 || data.len() > LARGEST {
                    data.clone_from(input);
                }
                change(&mut data, &inputs, &mut random);
                let result = std::panic::catch_unwind(|| property(&data));
                if let Err(panic) = result {
                    eprintln!("{name}: {:?}", data.escape_ascii().to_string());
                    std::panic::resume_unwind(panic);
                }
                tried += 1;
            }
        }
        eprintln!("{name}: {tried} in {:?}", begin.elapsed());
    }
}

/// What opens and never closes, and what is long: no parser may need the stack for it, nor look at all of it again for each
/// byte.
#[test]
fn nothing_nests_or_repeats_without_end() {
    const PIECES: [&str; 24] = [
        "[",
        "{",
        "(",
        "<a>",
        "<a b='",
        "a {",
        "message M {",
        "map<",
        "{a: ",
        "{\"a\":",
        "- ",
        "? ",
        "&a [",
        "*a ",
        "[\"AND\",",
        "{{",
        "{% if x then %}",
        "${a",
        "a=b;",
        "e30.",
        "--b\r\n",
        "\"\\",
        "location / {",
        "&#x41;",
    ];
    const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);
    for (name, property) in TARGETS {
        for piece in PIECES {
            let begin = std::time::Instant::now();
            let text = piece.repeat(LARGEST / piece.len());
            property(text.as_bytes());
            property(&[text.as_bytes(), b"\xff", piece.as_bytes()].concat());
            let took = begin.elapsed();
            assert!(took < PATIENCE, "{name}: {piece:?} took {took:?}");
            if took > PATIENCE / 40 {
                eprintln!("{name}: {piece:?} took {took:?}");
            }
        }
    }
}

/// Each of the corpora of texts has an input that its parser takes: refusals alone would try nothing.
#[test]
fn texts_of_the_corpora_are_taken() {
    let taken = |name: &str, takes: &dyn Fn(&[u8]) -> bool| {
        assert!(corpus(name).iter().any(|input| takes(input)), "{name}: every input is refused");
    };
    let text = |data: &[u8]| String::from_utf8(data.to_vec()).expect("a text");
    taken("xml", &|data| tidegate_plugins::parsers::xml(&text(data), 1 << 20));
    taken("proto", &|data| tidegate_plugins::check_proto(&text(data)).is_ok());
    taken("template", &|data| tidegate_plugins::parsers::template(&text(data)));
    taken("yaml", &|data| tidegate_config::yaml::to_value(&text(data)).is_ok());
    taken("jwt", &|data| tidegate_clients::jws::Token::parse(data).is_ok());
    let files = |_: &str| Err("none".to_owned());
    for (name, source) in [
        ("nginx", tidegate_import::Source::Nginx),
        ("kong", tidegate_import::Source::Kong),
        ("apisix", tidegate_import::Source::Apisix),
    ] {
        taken(&format!("import_{name}"), &|data| {
            tidegate_import::import(source, &text(data), &files, tidegate_import::Options::default())
                .is_ok_and(|imported| imported.output.has("routes"))
        });
    }
}

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
fn answers_of_the_corpus_reach_the_verifier() {
    use tidegate_probes::ocsp::{Subject, verify_response};
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
        let verdict =
            verify_response(&read(&format!("corpus/ocsp_answer/{name}")), subject, now, skip_verify);
        assert_eq!(verdict.is_ok(), passes, "{name}: {verdict:?}");
    }
}
