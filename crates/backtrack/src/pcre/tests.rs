//! Beside GNU grep, whose `-P` is PCRE2; in locale C it compares bytes as we do.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use proptest::prelude::*;

use super::*;
use crate::Expression;

/// Which of the texts PCRE2 finds the pattern in; `None`: it refuses the pattern.
fn pcre(pattern: &str, texts: &[Vec<u8>]) -> Option<Vec<bool>> {
    let mut command = Command::new("grep");
    command.args(["-zaP", "-n", "--color=never", "-e", pattern]).env("LC_ALL", "C");
    let mut grep = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("grep is installed");
    let mut input = grep.stdin.take().expect("a pipe");
    let mut all = Vec::new();
    for text in texts {
        assert!(!text.contains(&0));
        all.extend_from_slice(text);
        all.push(0);
    }
    // It may have ended already, with an error.
    let _ = input.write_all(&all);
    drop(input);
    let output = grep.wait_with_output().expect("grep ends");
    if output.status.code() == Some(2) {
        return None;
    }
    let mut found = vec![false; texts.len()];
    for line in output.stdout.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
        let number: String =
            line.iter().take_while(|byte| byte.is_ascii_digit()).map(|&byte| char::from(byte)).collect();
        // grep counts a line more where it prints lines that hold line feeds; nothing is said of those.
        *found.get_mut(number.parse::<usize>().expect("a line number") - 1)? = true;
    }
    Some(found)
}

fn of_backtrack(pattern: &str, texts: &[Vec<u8>]) -> Option<Vec<bool>> {
    let expression = Expression::new(pattern, false).ok()?;
    Some(texts.iter().map(|text| expression.is_match(text, None).expect("in time")).collect())
}

/// grep ends lines with NUL here, so that to it a line feed at the end is none.
fn is_judged(pattern: &str, text: &[u8]) -> bool {
    !(pattern.contains('$') && text.ends_with(b"\n"))
}

fn texts() -> Vec<Vec<u8>> {
    let mut texts: Vec<Vec<u8>> = (1..=255).map(|byte| vec![byte]).collect();
    let more = [
        "", "ab", "aab", "aaa", "a{,3}x", "<script", "script", "a;b", "a&b", "a&&b", "/<adm", "/adm", "h x",
        "hax", "R\u{85}", "\r\n", "\r\n\n", "[a]", "a]", "é", "éé", "aXb", "a.b", "x}", "{2}", "A1", "SA",
        "\u{1}1", "abab", "ab b", "#", "a#b", "foo-bar", "foo.bar", "a--z", "a~~b", "aba", "abc", "aa1",
        "S1", "xx\n",
    ];
    texts.extend(more.iter().map(|text| text.as_bytes().to_vec()));
    texts
}

/// What strangers found, and its neighbours.
const PATTERNS: &[&str] = &[
    r"=(\<|%3C)",
    r"\<script",
    r"\>",
    r"[;&&\|]",
    r"^/\<adm",
    r"^h\hx",
    r"^h\Hx",
    r"^v\vx",
    r"\v",
    r"\V",
    r"\h",
    r"\H",
    r"^R\R",
    r"^[a&&b]",
    r"^[a~~b]$",
    r"[a--z]",
    r"[--/]",
    r"[a-]",
    r"[]-a]",
    r"[^]a]",
    r"[[a-z]+]",
    r"[[a]",
    r"[a[:b]",
    r"^a{,3}x",
    r"^\{2\}",
    r"x\}",
    "x}",
    r"\Qa.b\E",
    r"\Qa.b",
    r"[\Qa-]\E]",
    r"\101",
    r"\cA1",
    r"\x41",
    r"\x{41}",
    r"\x4",
    r"\x",
    r"\0",
    r"\01",
    r"\o{101}",
    r"\e",
    r"[\b]",
    r"[\1]",
    r"(a)\1",
    r"(a)(b)\2",
    r"(a)\10",
    r"(a)\g1",
    r"(a)\g{1}b",
    r"(a)\g{-1}",
    r"(?<n>a)\k<n>",
    r"(?P<n>a)(?P=n)",
    r"(?'n'a)\k'n'",
    r"(?'n'a)\k{n}",
    r"a++ab",
    r"a++b",
    r"(?>a+)ab",
    r"a*+a",
    r"a?+a",
    r"a{1,2}+a",
    r"[ab]++b",
    r"(ab)++b",
    r"(?:a|ab)++c",
    r"\R+\n",
    r"\R\n",
    r"(?x) a  b # comment",
    r"(?x)[ ]",
    r"(?x: a ) b",
    r"(?x)a \  b",
    r"(?i)s1",
    r"(?i:s)1",
    r"(?-i)s",
    r"(?s)a.b",
    r"(?#no)ab",
    r"a(?#no)+b",
    r"[[:alpha:]]1",
    r"[[:^alpha:]]",
    r"[[:word:]-]",
    r"[[:digit:][:blank:]]",
    "é",
    "é+",
    "[é]",
    "[^é]",
    "^.$",
    "^..$",
    r"\w",
    r"\W",
    r"\s",
    r"\d",
    r"\bb",
    r"\N",
    r"(a)?(?(1)b|c)",
    r"(?<=a)b",
    r"(?<!a)b",
    r"(?=a)ab",
    r"(?!a)b",
    r"\Z",
    r"x\Z",
    r"\Ax",
    r"x\z",
    r"x$",
    r"^$",
    r"a#b",
    r"a\#b",
    r"[\w-]",
    r"[\x41-\x43]",
    r"[\101-\103]",
    r"[a-\x63]",
    r"[\]]",
    r"[\\]",
    r"[\[]",
    r"\]",
    r"\/",
    r"\-",
    r"\ ",
    r"\@",
    r"\%3C",
    r"a|b",
    r"(?:)",
    r"()",
    r"a\Eb",
    r"[\E^a]",
    r"(?U)a+",
    r"(?U)a+?b",
    r"[[:<:]]ab[[:>:]]",
    r"a[[:>:]]",
    r"\p{L}",
    r"\P{L}",
    r"\p{Lu}",
    r"(?i)\p{Lu}",
    r"[\p{Lu}1]",
    r"[^\p{L}]",
    r"\pN",
    r"\p{Han}",
    r"[\p{Han}]",
    r"\p{L&}",
    r"\p{Xan}",
    r"\p{Any}",
    r"\p{Xwd}",
    r"\p{Xsp}",
    r"\p{Greek}1",
    r"\p{Zs}",
    r"\p{Sc}",
    r"\p{Cc}",
    // Refused by both.
    r"[[:FOO:]]",
    r"[[:a-b:]]",
    r"\p{Nope}",
    r"a**",
    r"a{2}{3}",
    r"^*",
    r"(",
    r")",
    r"[",
    r"[]",
    r"\8",
    r"\400",
    r"\x{100}",
    r"[[:foo:]]",
    r"[z-a]",
    r"\c",
    r"(?<n",
    r"*a",
    r"+",
    r"\y",
    r"\u0041",
    r"\N{U+41}x(",
];

#[test]
fn patterns_say_what_they_say_to_pcre() {
    let texts = texts();
    for pattern in PATTERNS {
        let (pcre, ours) = (pcre(pattern, &texts), of_backtrack(pattern, &texts));
        let (Some(pcre), Some(ours)) = (&pcre, &ours) else {
            assert_eq!(pcre, ours, "{pattern}: {:?}", translate(pattern, Units::Bytes));
            continue;
        };
        for ((text, pcre), ours) in
            texts.iter().zip(pcre).zip(ours).filter(|((text, _), _)| is_judged(pattern, text))
        {
            assert_eq!(
                pcre,
                ours,
                "{pattern} on {:?}: {:?}",
                String::from_utf8_lossy(text),
                translate(pattern, Units::Bytes)
            );
        }
    }
}

/// Constructs that are refused although PCRE has them: nothing of them is taken for something else.
#[test]
fn what_is_not_supported_is_refused() {
    for pattern in [
        "(?R)",
        "(a)(?1)",
        "(?&n)",
        "(?|a|b)",
        "(*UTF8)a",
        "(*UCP)a",
        r"\X",
        r"\C",
        "(?C)a",
        "(?J)a",
        "(?^i)a",
        "(?(?=a)b|c)",
        "(?(DEFINE)a)",
        r"[[.a.]]",
        r"[[=a=]]",
        "(?(R)a|b)",
        r"(a)\g<1>",
        "(?n)(a)",
        "(?xx)a",
    ] {
        assert!(Expression::new(pattern, false).is_err(), "{pattern}");
    }
}

fn parts() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "a",
        "b",
        "x",
        "-",
        "&",
        "&&",
        "~",
        "~~",
        "<",
        "\\<",
        "\\>",
        "[",
        "]",
        "[^",
        "[a",
        "b]",
        "(",
        "(?:",
        "(?>",
        "(?i)",
        "(?x)",
        ")",
        "|",
        "*",
        "+",
        "?",
        "{2}",
        "{,2}",
        "{1,2}",
        "{",
        "}",
        "^",
        "$",
        ".",
        "\\h",
        "\\H",
        "\\v",
        "\\R",
        "\\N",
        "\\w",
        "\\d",
        "\\b",
        "\\1",
        "\\101",
        "\\x41",
        "\\Q",
        "\\E",
        " ",
        "#",
        "\n",
        "é",
        "[:alpha:]",
        "\\-",
        "--",
        "a-c",
        "(a)",
        "[ab]",
        "\\\\",
        "\\[",
        "\\]",
    ]);
    prop::collection::vec(part, 1..7).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_accepted_is_read_as_pcre_reads_it(pattern in parts()) {
        // grep makes several patterns of it.
        prop_assume!(!pattern.contains('\n'));
        let texts = texts();
        if let Some(ours) = of_backtrack(&pattern, &texts)
            && let Some(pcre) = pcre(&pattern, &texts)
        {
            for ((text, pcre), ours) in texts.iter().zip(&pcre).zip(&ours) {
                if is_judged(&pattern, text) {
                    prop_assert_eq!(
                        pcre, ours,
                        "{} on {:?}: {:?}", pattern, String::from_utf8_lossy(text), translate(&pattern, Units::Bytes)
                    );
                }
            }
        }
    }
}
