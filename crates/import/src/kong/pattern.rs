//! Kong's expressions on paths, for the engines here.
//!
//! From version 3 on they are those of Rust, on characters; here patterns are PCRE's, on bytes. So each is written out: a character beyond
//! ASCII as its bytes, `$` as the very end. What is compared is `$kong_uri`, the path in which reserved characters stay escaped.

mod written;

use std::fmt::Write;

use regex_syntax::hir::{Class, ClassUnicode, Hir, HirKind, Look, Repetition};
use tidegate_backtrack::{Expression, pcre};
use tidegate_protocol::uri::percent_decode;
pub(super) use written::bytes;

/// The path as Kong compares it.
pub(super) const VARIABLE: &str = "kong_uri";

/// What Kong leaves escaped in paths, besides the slash.
const RESERVED: &str = "!*'();:@&=+$,?%#[]";

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pattern {
    /// What the paths begin with, decoded.
    pub base: String,
    /// With its anchors.
    pub text: String,
    /// What it matches of the decoded path, and how many groups that has; `None`: unknown.
    pub strip: Option<(String, usize)>,
}

impl Pattern {
    /// Takes all paths, for what is not known.
    pub(super) fn all() -> Pattern {
        Pattern { base: "/".to_owned(), text: "^".to_owned(), strip: None }
    }

    /// Of a text as Kong compares it: paths that begin with it, or are it.
    pub(super) fn literal(text: &str, whole: bool) -> Pattern {
        let end = if whole { "\\z" } else { "" };
        // What is decoded here; a slash stays, and the sign itself may come from elsewhere.
        let parts: Vec<String> = text.split("%2F").map(decoded).collect();
        let strip = format!(
            "^{}",
            parts.iter().map(|part| regex::escape(part)).collect::<Vec<_>>().join("(?:%2F|/)")
        );
        let is_known = !text.contains("%25");
        Pattern {
            base: base(text),
            text: format!("^{}{end}", regex::escape(text)),
            strip: is_known.then(|| (format!("{strip}{end}"), 0)),
        }
    }

    /// Of Rust, from version 3 on. The error says why it is not known.
    pub(crate) fn of_rust(pattern: &str) -> Result<Pattern, String> {
        let hir = regex_syntax::parse(pattern).map_err(|_| format!("`{pattern}` is not supported"))?;
        let text = bytes(pattern)?;
        let is_anchored = hir.properties().look_set_prefix().contains(Look::Start);
        let strip = (is_anchored && is_same_decoded(&hir, false))
            .then(|| (format!("(?:{text})"), hir.properties().explicit_captures_len()));
        Ok(Pattern { base: base(&start(&hir)), text, strip })
    }

    /// Of PCRE, before that: at the start of the path.
    pub(crate) fn of_pcre(pattern: &str) -> Result<Pattern, String> {
        if let Err(why) = Expression::new(pattern, false) {
            return Err(format!("`{pattern}` is not supported: {why}"));
        }
        let text = format!("^(?:{})", pattern.trim_start_matches('^'));
        let read = pcre::translate(&text, pcre::Units::Characters).ok();
        let hir = read.and_then(|read| regex_syntax::parse(&read.pattern).ok());
        let groups = regex::Regex::new(pattern).map_or(1, |regex| regex.captures_len()).saturating_sub(1);
        let is_known = hir.as_ref().is_none_or(|hir| is_same_decoded(hir, false));
        Ok(Pattern {
            base: base(&hir.as_ref().map(start).unwrap_or_default()),
            strip: is_known.then(|| (text.clone(), groups)),
            text,
        })
    }

    /// Whether Kong's routers, of which a file does not say which one it is for, anchor the same: `^` stands before the first
    /// alternative only.
    pub(crate) fn anchors_all(pattern: &str) -> bool {
        regex_syntax::parse(pattern).is_ok_and(|hir| hir.properties().look_set_prefix().contains(Look::Start))
    }
}

/// Of a header's value, from version 3 on: Kong writes the expression in small letters, `\D` too, and compares values in small letters.
pub(crate) fn of_header(pattern: &str) -> Result<String, String> {
    bytes(&format!("(?i){}", pattern.to_ascii_lowercase()))
}

/// Whether it is read alike by PCRE, which older routers run.
pub(super) fn is_common(pattern: &str) -> bool {
    pcre::translate(pattern, pcre::Units::Characters).is_ok_and(|read| read.is_common)
}

/// A path of a route as Kong compares it: escapes decoded, but those of reserved characters.
pub(super) fn normal(path: &str) -> String {
    let mut kept = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = rest.find('%') {
        let (before, from) = rest.split_at(at);
        kept.push_str(before);
        let code = from.get(1..3).and_then(|code| u8::from_str_radix(code, 16).ok());
        match code {
            Some(code) if code == b'/' || RESERVED.as_bytes().contains(&code) => {
                // Behind a sign that stays: what is decoded next.
                let _ = write!(kept, "\u{0}{code:02X}");
                rest = from.get(3..).unwrap_or_default();
            }
            Some(_) => {
                kept.push_str(from.get(..3).unwrap_or_default());
                rest = from.get(3..).unwrap_or_default();
            }
            None => {
                kept.push('%');
                rest = from.get(1..).unwrap_or_default();
            }
        }
    }
    kept.push_str(rest);
    decoded(&kept).replace('\u{0}', "%")
}

pub(super) fn decoded(text: &str) -> String {
    String::from_utf8(percent_decode(text.as_bytes(), false)).unwrap_or_else(|_| text.to_owned())
}

/// Whether Kong compares this text as the gateway has paths.
pub(super) fn is_plain(text: &str) -> bool {
    !text.contains(|sign| RESERVED.contains(sign))
}

/// What of a text the decoded path begins with, too.
fn base(text: &str) -> String {
    let plain = text.split(|sign| RESERVED.contains(sign)).next().unwrap_or_default();
    if plain.starts_with('/') { plain.to_owned() } else { "/".to_owned() }
}

/// The text that an expression begins with, at the start of the path.
fn start(hir: &Hir) -> String {
    let mut text = String::new();
    collect(hir, &mut text);
    text
}

/// Whether what follows is a part of the text, too.
fn collect(hir: &Hir, text: &mut String) -> bool {
    match hir.kind() {
        HirKind::Look(Look::Start) | HirKind::Empty => true,
        HirKind::Literal(literal) => match std::str::from_utf8(&literal.0) {
            Ok(part) => {
                text.push_str(part);
                true
            }
            Err(_) => false,
        },
        HirKind::Capture(capture) => collect(&capture.sub, text),
        HirKind::Concat(parts) => parts.iter().all(|part| collect(part, text)),
        _ => false,
    }
}

/// Whether it matches as much of a path that is decoded. Reserved characters have to come as they are, or any number of all of them.
fn is_same_decoded(hir: &Hir, is_optional: bool) -> bool {
    match hir.kind() {
        HirKind::Literal(literal) => {
            let has = |sign: u8| literal.0.contains(&sign);
            !(has(b'%') || is_optional && RESERVED.bytes().any(has))
        }
        HirKind::Class(Class::Unicode(class)) => match reserved(class) {
            0 => true,
            _ => !is_optional && !has(class, '%'),
        },
        HirKind::Class(Class::Bytes(class)) => {
            let has = |sign| class.iter().any(|range| (range.start()..=range.end()).contains(&sign));
            !RESERVED.bytes().any(has)
        }
        HirKind::Repetition(Repetition { min, max, sub, .. }) => match sub.kind() {
            HirKind::Class(Class::Unicode(class)) if max.is_none() && reserved(class) == RESERVED.len() => {
                true
            }
            _ => is_same_decoded(sub, is_optional || Some(*min) != *max),
        },
        HirKind::Capture(capture) => is_same_decoded(&capture.sub, is_optional),
        HirKind::Concat(parts) => parts.iter().all(|part| is_same_decoded(part, is_optional)),
        HirKind::Alternation(parts) => parts.iter().all(|part| is_same_decoded(part, true)),
        HirKind::Empty | HirKind::Look(_) => true,
    }
}

fn has(class: &ClassUnicode, sign: char) -> bool {
    class.iter().any(|range| (range.start()..=range.end()).contains(&sign))
}

fn reserved(class: &ClassUnicode) -> usize {
    RESERVED.chars().filter(|sign| has(class, *sign)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_patterns_stand() {
        for (pattern, wanted) in [
            (r"^/api/v1/\d+$", "/api/v1/"),
            (r"^/a(b)c[de]", "/abc"),
            (r"^/(?:x|y)/z", "/"),
            (r"^(?i)/abc", "/"),
            (r"^/a%2Fb", "/a"),
            (r"^/é/a@b", "/é/a"),
            (r"^x/y", "/"),
            ("^/admin|/secret", "/"),
        ] {
            assert_eq!(Pattern::of_rust(pattern).map(|found| found.base).as_deref(), Ok(wanted), "{pattern}");
        }
    }

    #[test]
    fn what_is_taken_away() {
        for (pattern, is_known) in [
            ("^/items/([0-9]+)", true),
            ("^/u/[^/]+/x", true),
            ("^/u/.*", true),
            ("^/u/.", false),
            ("^/u/[^/?]+", false),
            ("^/u/[a-z@]+", false),
            ("^/u/[a@]x", true),
            ("^/u/@me", true),
            ("^/u(?:@me)?", false),
            ("^/u%40", false),
            ("^/admin|/secret", false),
        ] {
            assert_eq!(
                Pattern::of_rust(pattern).map(|found| found.strip.is_some()),
                Ok(is_known),
                "{pattern}"
            );
        }
        assert_eq!(Pattern::literal("/a%2Fb%40", false).strip, Some(("^/a(?:%2F|/)b@".to_owned(), 0)));
    }

    #[test]
    fn paths_in_kongs_form() {
        for (path, wanted) in [
            ("/a%20b", "/a b"),
            ("/a%2fb", "/a%2Fb"),
            ("/%40%41", "/%40A"),
            ("/%c3%A9", "/é"),
            ("/a%25x", "/a%25x"),
            ("/a%2", "/a%2"),
        ] {
            assert_eq!(normal(path), wanted, "{path}");
        }
    }
}
