//! Both ways of searching against the `regex` crate.

use proptest::prelude::*;

use super::*;
use crate::{Expression, MAX_TIME, SearchTime};

/// Enough for every search here, on a slow machine.
const LONG: Duration = Duration::from_secs(20);

fn pattern() -> impl Strategy<Value = String> {
    let atom = prop_oneof![
        8 => "[abx]",
        1 => Just(r"\n".to_owned()),
        2 => Just(".".to_owned()),
        1 => Just(r"(?s-u:.)".to_owned()),
        2 => prop_oneof![Just(r"\w"), Just(r"\W"), Just(r"\s"), Just(r"\d")].prop_map(str::to_owned),
        2 => prop_oneof![Just("[ab]"), Just("[^a]"), Just("[^ab\n]"), Just("(?i:[A-B])")].prop_map(str::to_owned),
        1 => prop_oneof![Just("^"), Just("$"), Just("(?m:^)"), Just("(?m:$)")].prop_map(str::to_owned),
        1 => prop_oneof![Just(r"\b"), Just(r"\B"), Just(r"\A"), Just(r"\z")].prop_map(str::to_owned),
        1 => Just(r"\xff".to_owned()),
        1 => Just("(?:)".to_owned()),
    ];
    atom.prop_recursive(5, 40, 4, |inner| {
        let repeated = prop_oneof![
            Just("*"), Just("+"), Just("?"), Just("*?"), Just("+?"), Just("??"), Just("{2}"), Just("{0,3}"),
            Just("{1,4}?"), Just("{3,}"), Just("{0}")
        ];
        prop_oneof![
            4 => prop::collection::vec(inner.clone(), 1..4).prop_map(|parts| parts.concat()),
            2 => prop::collection::vec(inner.clone(), 2..4).prop_map(|parts| format!("(?:{})", parts.join("|"))),
            2 => inner.clone().prop_map(|inner| format!("({inner})")),
            3 => (inner, repeated).prop_map(|(inner, how)| format!("(?:{inner}){how}")),
        ]
    })
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        6 => Just(b'a'), 5 => Just(b'b'), 4 => Just(b'x'), 1 => Just(b'A'), 1 => Just(b'\n'), 1 => Just(b' '),
        1 => Just(b'7'), 1 => Just(0xff_u8)
    ];
    prop::collection::vec(byte, 0..60)
}

fn groups(found: Option<regex::bytes::Captures<'_>>) -> Option<Groups> {
    found.map(|found| found.iter().map(|group| group.map(|group| group.range())).collect())
}

/// The same answers as the `regex` crate, in every way of searching.
fn compare(source: &str, ignore_case: bool, texts: &[Vec<u8>]) {
    let mut builder = regex::bytes::RegexBuilder::new(source);
    let expected = builder.unicode(false).case_insensitive(ignore_case).build();
    let linear = Linear::new(source, ignore_case);
    assert_eq!(expected.is_ok(), linear.is_ok(), "{source}");
    let (Ok(expected), Ok(linear)) = (expected, linear) else { return };
    assert_eq!(linear.groups() + 1, expected.captures_len());
    let lazy = linear.lazy().expect("an automaton");
    for text in texts {
        let what = format!("/{source}/ on {:?}", String::from_utf8_lossy(text));
        assert_eq!(linear.is_match(text, LONG), Ok(expected.is_match(text)), "{what}");
        assert_eq!(lazy.is_match(text, LONG), Ok(expected.is_match(text)), "{what}");
        let range = expected.find(text).map(|found| found.range());
        assert_eq!(lazy.find(text, LONG), Ok(range), "{what}");
        let found = groups(expected.captures(text));
        assert_eq!(linear.captures(text, LONG), Ok(found.clone()), "{what}");
        assert_eq!(linear.captures_of_long(text, LONG), Ok(found), "{what}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn answers_are_those_of_the_regex_crate(
        source in pattern(),
        ignore_case: bool,
        texts in prop::collection::vec(text(), 1..6),
    ) {
        compare(&source, ignore_case, &texts);
    }
}

#[test]
fn long_texts_are_searched_alike() {
    let sources = [
        "union.{1,50}select|drop\\s+table",
        "([a-z0-9]+)\\.([a-z]+)$",
        "^/static/(.*)\\.(jpg|png)$",
        "(x{1,30}){1,30}y",
        "foo(bar)?",
        "(?:a|ab)(c|bcd)(d*)",
        "\\bneedle\\b",
        "",
        "$",
        "^",
        "z*?",
        "[ab]*a[ab]{8}c(.)",
    ];
    let filler = |length: usize| "/static/ab cd.e/f-".bytes().cycle().take(length).collect::<Vec<_>>();
    let mut texts = vec![filler(9000)];
    for (at, what) in [
        (0, "union all select"),
        (4500, "needle"),
        (8990, "foobar"),
        (100, "aabbaabbaabbac!"),
        (8990, "x.png"),
    ] {
        let mut text = filler(9000);
        text.splice(at..at, what.bytes());
        texts.push(text);
    }
    for source in sources {
        compare(source, false, &texts);
    }
}

/// The patterns that held a worker for seconds, and a bound that no search comes near unless it goes on to its end.
#[test]
fn searches_end_whatever_the_pattern() {
    const FAR: Duration = Duration::from_millis(if cfg!(debug_assertions) { 300 } else { 60 });
    let sources = [
        "(x{1,300}){1,300}y",
        "(x{1,100}){1,100}y",
        "(x{1,50}){1,50}y",
        "(?i)(?:\\w{1,80} ?){80}y",
        "x{1,900}y",
        "(x?){900}y",
        "(?:x|xx|xxx){900}y",
        "[ax]*a[ax]{20}c",
        "(a|x)*a(a|x){200}c",
        "(x{1,100}){1,100}(?=y)",
        "(?<=x)(x{1,50}){1,50}y",
        "\\p{L}{30}y",
        "^((x{1,100}){1,100})$",
        "(?:(?=.*y)x)*z",
    ];
    for source in sources {
        let Ok(pattern) = Expression::new(source, false) else { panic!("{source}") };
        for length in [100, 1000, 15_000, 60_000] {
            let mut random = 7_u32;
            let mut next = || {
                random ^= random << 13;
                random ^= random >> 17;
                random ^= random << 5;
                random.is_multiple_of(2)
            };
            for mixed in [false, true] {
                let text: Vec<u8> = (0..length).map(|_| if mixed && next() { b'a' } else { b'x' }).collect();
                let _ = pattern.is_match(b"x", None);
                let time = SearchTime::default();
                let begun = crate::time::processor_time();
                let _ = pattern.is_match(&text, Some(&time));
                let _ = pattern.captures(&text, Some(&time));
                let took = crate::time::processor_time().saturating_sub(begun);
                assert!(took < FAR, "/{source}/ {length} mixed {mixed}: {took:?}");
            }
        }
    }
    assert!(MAX_TIME < FAR);
}

/// Classes of all letters have hundreds of states each, of which a text needs few.
#[test]
fn counted_classes_of_letters_judge_short_texts() {
    for (source, text, matches) in [
        (r"^(\p{L}|\d){1,64}@[a-z.]+$", "abc@def.g", true),
        (r"^(\p{L}|\d){1,64}@[a-z.]+$", "abcdef", false),
        (r"^[\p{L} .'-]{1,100}$", "Jürgen O'Neil", true),
        (r"^\w{3,128}$", "ab", false),
    ] {
        let pattern = Linear::unicode(source, false).expect("compiles");
        let found = pattern.is_match(text.as_bytes(), MAX_TIME);
        assert_eq!(found, Ok(matches), "{source} {text}, {} states", pattern.states());
    }
}
