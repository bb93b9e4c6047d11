//! Casbin's functions that compare a text with a pattern. Patterns are of the policy or the matcher, and compiled once.

use std::{borrow::Cow, net::IpAddr};

use tidegate_routing::{address::AddressSet, expr::SearchTime};

use crate::common::regexes::Regex;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    KeyMatch,
    KeyMatch2,
    KeyMatch3,
    KeyMatch4,
    KeyMatch5,
    RegexMatch,
    IpMatch,
    GlobMatch,
}

impl Function {
    pub(super) fn of(name: &str) -> Option<Function> {
        Some(match name {
            "keyMatch" => Function::KeyMatch,
            "keyMatch2" => Function::KeyMatch2,
            "keyMatch3" => Function::KeyMatch3,
            "keyMatch4" => Function::KeyMatch4,
            "keyMatch5" => Function::KeyMatch5,
            "regexMatch" => Function::RegexMatch,
            "ipMatch" => Function::IpMatch,
            "globMatch" => Function::GlobMatch,
            _ => return None,
        })
    }
}

pub(super) enum Pattern {
    Exact(String),
    Prefix(String),
    Regex(Regex),
    /// Groups with the same name stand for the same text.
    Named(Regex, Vec<String>),
    /// The text counts up to `?`.
    WithoutQuery(Regex),
    Addresses(AddressSet),
}

/// A whole text, line breaks included: a rule that denies must not be passed by one at the end of a path.
fn whole(pattern: &str) -> Result<Regex, String> {
    Regex::new(&format!("(?s)\\A(?:{pattern})\\z"), false)
}

impl Pattern {
    pub(super) fn new(function: Function, text: &str) -> Result<Pattern, String> {
        let path = || text.replace("/*", "/.*");
        Ok(match function {
            Function::KeyMatch => match text.split_once('*') {
                Some((prefix, _)) => Pattern::Prefix(prefix.to_owned()),
                None => Pattern::Exact(text.to_owned()),
            },
            Function::KeyMatch2 => Pattern::Regex(whole(&replaced(&path(), ':', "/", |_| "[^/]+"))?),
            Function::KeyMatch3 => Pattern::Regex(whole(&braces(&path(), |_| "[^/]+"))?),
            Function::KeyMatch4 => {
                let mut names = Vec::new();
                let pattern = braces(&path(), |name| {
                    names.push(name.to_owned());
                    "([^/]+)"
                });
                Pattern::Named(whole(&pattern)?, names)
            }
            Function::KeyMatch5 => Pattern::WithoutQuery(whole(&braces(&path(), |_| "[^/]+"))?),
            Function::RegexMatch => Pattern::Regex(Regex::new(text, false)?),
            Function::GlobMatch => Pattern::Regex(whole(&glob(text))?),
            Function::IpMatch => Pattern::Addresses(AddressSet::parse([text])?),
        })
    }

    /// `Err`: it cannot be said.
    pub(super) fn matches(&self, text: &str, time: &SearchTime) -> Result<bool, &'static str> {
        const GAVE_UP: &str = "a search took too long";
        let is_match =
            |regex: &Regex, text: &str| regex.within(time).is_match(text.as_bytes()).map_err(|_| GAVE_UP);
        match self {
            Pattern::Exact(exact) => Ok(text == exact),
            Pattern::Prefix(prefix) => Ok(text.starts_with(prefix.as_str())),
            Pattern::Regex(regex) => is_match(regex, text),
            Pattern::WithoutQuery(regex) => is_match(regex, text.split('?').next().unwrap_or_default()),
            Pattern::Named(regex, names) => {
                let found = regex.within(time).captures(text.as_bytes()).map_err(|_| GAVE_UP)?;
                let Some(groups) = found else { return Ok(false) };
                let value =
                    |at: usize| groups.get(at + 1).and_then(|range| text.as_bytes().get(range.clone()?));
                Ok(names.iter().enumerate().all(|(at, name)| {
                    let first = names.iter().position(|other| other == name);
                    first.is_none_or(|first| value(first) == value(at))
                }))
            }
            Pattern::Addresses(addresses) => match text.parse::<IpAddr>() {
                Ok(address) => Ok(addresses.contains(address.to_canonical())),
                Err(_) => Err("ipMatch of a text that is not an address"),
            },
        }
    }
}

/// Replaces each `{name}` within a segment of a path.
fn braces(pattern: &str, mut make: impl FnMut(&str) -> &'static str) -> String {
    let mut out = String::new();
    let mut rest = pattern;
    while let Some(at) = rest.find('{') {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        let inner = after.get(1..).unwrap_or_default();
        match inner.find('}').map(|end| inner.split_at(end)) {
            Some((name, behind)) if !name.is_empty() && !name.contains('/') => {
                out.push_str(make(name));
                rest = behind.get(1..).unwrap_or_default();
            }
            _ => {
                out.push('{');
                rest = inner;
            }
        }
    }
    out + rest
}

/// Replaces each piece that begins with a sign, up to one of the ends.
fn replaced(pattern: &str, sign: char, ends: &str, make: impl Fn(&str) -> &'static str) -> String {
    let mut out = String::new();
    let mut rest = pattern;
    while let Some(at) = rest.find(sign) {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        let name = after.get(1..).unwrap_or_default();
        let (name, behind) = name.split_at(name.find(|end| ends.contains(end)).unwrap_or(name.len()));
        out.push_str(if name.is_empty() { ":" } else { make(name) });
        rest = behind;
    }
    out + rest
}

/// `*` and `?` stay within a segment of a path; `[…]` is as in regular expressions.
fn glob(pattern: &str) -> String {
    let mut out = String::new();
    let mut signs = pattern.chars();
    while let Some(sign) = signs.next() {
        match sign {
            '*' => out.push_str("[^/]*"),
            '?' => out.push_str("[^/]"),
            '[' | ']' | '-' => out.push(sign),
            '\\' => out.push_str(&escaped(signs.next().unwrap_or('\\'))),
            sign => out.push_str(&escaped(sign)),
        }
    }
    out
}

fn escaped(sign: char) -> Cow<'static, str> {
    if sign.is_alphanumeric() || !sign.is_ascii() {
        sign.to_string().into()
    } else {
        format!("\\{sign}").into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        use Function::*;
        for (function, text, pattern, expected) in [
            (KeyMatch, "/foo", "/foo*", true),
            (KeyMatch, "/foobar", "/foo/*", false),
            (KeyMatch, "/foo/", "/foo/*", true),
            (KeyMatch, "/f", "/foo*", false),
            (KeyMatch, "/fü", "/f*", true),
            (KeyMatch, "ü", "a*", false),
            (KeyMatch, "/foo", "/foo", true),
            (KeyMatch2, "/a/b/c", "/a/*", true),
            (KeyMatch2, "/a/\n", "/a/*", true),
            (KeyMatch2, "/a/1/x", "/a/:id/x", true),
            (KeyMatch2, "/a/1/2/x", "/a/:id/x", false),
            (KeyMatch2, "/a/1", "/a/:id", true),
            (KeyMatch2, "/a/1\n", "/a/1", false),
            (KeyMatch3, "/a/1/x", "/a/{id}/x", true),
            (KeyMatch3, "/a//x", "/a/{id}/x", false),
            (KeyMatch4, "/p/1/c/1", "/p/{id}/c/{id}", true),
            (KeyMatch4, "/p/1/c/2", "/p/{id}/c/{id}", false),
            (KeyMatch4, "/p/1/c/2", "/p/{id}/c/{other}", true),
            (KeyMatch5, "/a/1?x=1", "/a/{id}", true),
            (RegexMatch, "/a1", "^/a[0-9]$", true),
            (RegexMatch, "x/a1", "^/a[0-9]$", false),
            (IpMatch, "10.1.2.3", "10.1.0.0/16", true),
            (IpMatch, "10.2.2.3", "10.1.0.0/16", false),
            (GlobMatch, "/a/b.txt", "/a/*.txt", true),
            (GlobMatch, "/a/c/b.txt", "/a/*.txt", false),
            (GlobMatch, "/a/bxtxt", "/a/b.txt", false),
            (GlobMatch, "/a/b", "/[a-c]/?", true),
        ] {
            let compiled = Pattern::new(function, pattern).expect(pattern);
            assert_eq!(
                compiled.matches(text, &SearchTime::default()),
                Ok(expected),
                "{function:?} {text:?} {pattern}"
            );
        }
        assert!(Pattern::new(RegexMatch, "(").is_err() && Pattern::new(KeyMatch2, "/(").is_err());
        assert!(Pattern::new(IpMatch, "x").is_err());
        let addresses = Pattern::new(IpMatch, "10.0.0.0/8").expect("addresses");
        assert!(
            addresses.matches("jack", &SearchTime::default()).is_err(),
            "it is not said that it does not match"
        );
    }
}
