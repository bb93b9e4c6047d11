//! Regular expressions of plugin configurations: PCRE without UTF mode, on bytes.
//!
//! Each search has a limit. If it is hit, it is unknown whether the text matches, and the caller has to refuse the request.

use std::{ops::Range, time::Duration};

use tidegate_backtrack::Expression;
pub use tidegate_backtrack::Groups;
use tidegate_plugin_api::{
    Request,
    location::{Location, Origin},
    uri_text::Kind,
};
use tidegate_routing::expr::{GaveUp, SearchTime};

/// With more groups the engine's tables grow to hundreds of megabytes.
const MAX_GROUPS: usize = 200;

/// A pattern of a plugin's configuration, in bounded time.
#[derive(Debug)]
pub struct Regex {
    expression: Expression,
    /// The pattern has a `$`, which in PCRE also matches before a line break at the very end.
    has_end_anchor: bool,
    /// The caller has a second expression with more steps, so it is not worth a warning if this one gives up.
    quiet: bool,
}

impl Regex {
    /// The error is worded as APISIX's: `pcre_compile() failed: missing ) in "(a"`.
    pub fn new(pattern: &str, ignore_case: bool) -> Result<Regex, String> {
        Regex::with_steps(pattern, ignore_case, None)
    }

    fn with_steps(pattern: &str, ignore_case: bool, steps: Option<usize>) -> Result<Regex, String> {
        let compiled = match steps {
            None => Expression::new(pattern, ignore_case),
            Some(steps) => Expression::with_steps(pattern, ignore_case, steps),
        };
        let expression =
            compiled.map_err(|why| match why.is_too_large() || why.backtracking.contains("groups") {
                true => {
                    format!("pcre_compile() failed: {why}, in \"{}…\"", shortened(pattern))
                }
                false => format!("pcre_compile() failed: {} in \"{pattern}\"", reason(&why.linear)),
            })?;
        if let Expression::Linear(linear) = &expression
            && linear.groups() > MAX_GROUPS
        {
            let why = format!("more than {MAX_GROUPS} groups; write (?:…) for those that nothing refers to");
            return Err(format!("pcre_compile() failed: {why}, in \"{}…\"", shortened(pattern)));
        }
        Ok(Regex { expression, has_end_anchor: pattern.contains('$'), quiet: false })
    }

    /// How many groups it has, as far as that is known.
    pub fn groups(&self) -> Option<usize> {
        match &self.expression {
            Expression::Linear(linear) => Some(linear.groups()),
            Expression::Backtracking(_) => None,
        }
    }

    /// Takes the option letters of `ngx.re`: `i`, `m`, `s` and `x` matter, the others only tune PCRE.
    pub fn with_options(pattern: &str, options: &str) -> Result<Regex, String> {
        Regex::with_options_and_steps(pattern, options, None)
    }

    /// Two expressions for one pattern: the first gives up early and silently, the second has more steps. A linear pattern never
    /// gives up and needs no second one: `None`.
    pub(crate) fn quick_and_patient(
        pattern: &str,
        options: &str,
        quick: usize,
        patient: usize,
    ) -> Result<(Regex, Option<Regex>), String> {
        let regex = Regex::with_options_and_steps(pattern, options, Some(quick))?;
        let regex = Regex { quiet: true, ..regex };
        if matches!(regex.expression, Expression::Linear(_)) {
            return Ok((regex, None));
        }
        let patient = Regex::with_options_and_steps(pattern, options, Some(patient))?;
        Ok((regex, Some(patient)))
    }

    fn with_options_and_steps(pattern: &str, options: &str, steps: Option<usize>) -> Result<Regex, String> {
        if let Some(unknown) = options.chars().find(|option| !"adDijJmosuUx".contains(*option)) {
            return Err(format!("unknown flag \"{unknown}\" (flags \"{options}\")"));
        }
        let inline: String = options.chars().filter(|option| "imsx".contains(*option)).collect();
        let anchor = if options.contains('a') { "\\A" } else { "" };
        match (inline.as_str(), anchor) {
            ("", "") => Regex::with_steps(pattern, false, steps),
            ("", _) => Regex::with_steps(&format!("{anchor}(?:{pattern})"), false, steps),
            (flags, _) => Regex::with_steps(&format!("{anchor}(?{flags}:{pattern})"), false, steps),
        }
    }

    /// Charges searches to a request.
    pub fn within<'a>(&'a self, time: &'a SearchTime) -> Search<'a> {
        Search { regex: self, time: Some(time) }
    }

    /// For texts of a configuration, and callers with a time limit of their own.
    fn alone(&self) -> Search<'_> {
        Search { regex: self, time: None }
    }

    #[cfg(test)]
    pub(crate) fn is_match(&self, text: &[u8]) -> Result<bool, GaveUp> {
        self.alone().is_match(text)
    }

    /// The text without its final line break, if the pattern may match before it.
    fn without_line_end<'a>(&self, text: &'a [u8]) -> Option<&'a [u8]> {
        text.strip_suffix(b"\n").filter(|text| self.has_end_anchor && !text.ends_with(b"\n"))
    }

    /// The first match: group 0 is the whole of it.
    pub fn captures(&self, text: &[u8]) -> Result<Option<Groups>, GaveUp> {
        self.alone().captures(text)
    }

    /// Like [`Regex::captures`], with a time limit of the caller's own, off the worker.
    pub fn captures_patiently(&self, text: &[u8], most: Duration) -> Result<Option<Groups>, GaveUp> {
        self.first(text, |text| self.expression.captures_patiently(text, most))
    }

    fn first(
        &self,
        text: &[u8],
        captures: impl Fn(&[u8]) -> Result<Option<Groups>, GaveUp>,
    ) -> Result<Option<Groups>, GaveUp> {
        match (captures(text)?, self.without_line_end(text)) {
            (None, Some(text)) => captures(text),
            (found, _) => Ok(found),
        }
    }
}

/// A regular expression and the time its searches may take.
#[derive(Clone, Copy)]
pub struct Search<'a> {
    regex: &'a Regex,
    time: Option<&'a SearchTime>,
}

impl Search<'_> {
    pub(crate) fn is_match(self, text: &[u8]) -> Result<bool, GaveUp> {
        let is_match = |text| self.log_gave_up(self.regex.expression.is_match(text, self.time));
        match (is_match(text)?, self.regex.without_line_end(text)) {
            (false, Some(text)) => is_match(text),
            (found, _) => Ok(found),
        }
    }

    /// The first match: group 0 is the whole of it.
    pub fn captures(self, text: &[u8]) -> Result<Option<Groups>, GaveUp> {
        self.regex.first(text, |text| self.log_gave_up(self.regex.expression.captures(text, self.time)))
    }

    /// Logs that a search gave up.
    fn log_gave_up<R>(self, found: Result<R, GaveUp>) -> Result<R, GaveUp> {
        if found.is_err() && !self.regex.quiet {
            match self.time {
                Some(time) if time.is_spent() => {
                    tidegate_plugin_api::gave_up::warn_of_many(self.regex.expression.as_str())
                }
                _ => tidegate_plugin_api::gave_up::warn(self.regex.expression.as_str()),
            }
        }
        found
    }

    /// Replaces the first match in the request's path, for a redirect; `None` when nothing matches.
    pub(crate) fn replace_for_location(
        self,
        request: &Request,
        with: &Replacement,
    ) -> Result<Option<Location>, GaveUp> {
        let Some(groups) = self.captures(&request.path)? else { return Ok(None) };
        let mut location = Location::of(request);
        for piece in replaced(&request.path, &groups, with) {
            match piece {
                Piece::Author(literal) => location.push(Origin::Author, literal),
                Piece::Client(text) => location.push_text(Kind::Path, text),
            }
        }
        Ok(Some(location))
    }
}

impl Regex {
    /// Replaces the first match, or all; `None` when nothing matches.
    pub fn replace(&self, text: &[u8], with: &Replacement, all: bool) -> Result<Option<Vec<u8>>, GaveUp> {
        let mut out = Vec::with_capacity(text.len());
        let mut at = 0;
        let mut found = false;
        while let Some(rest) = text.get(at..) {
            let Some(groups) = self.captures(rest)? else { break };
            let Some(Some(whole)) = groups.first().cloned() else { break };
            found = true;
            out.extend_from_slice(rest.get(..whole.start).unwrap_or_default());
            with.parts(rest, &groups).for_each(|part| out.extend_from_slice(part));
            at += whole.end;
            if whole.is_empty() {
                // An empty match consumes nothing: pass one byte on, or it matches here for ever.
                out.extend(text.get(at));
                at += 1;
            }
            if !all {
                break;
            }
        }
        out.extend_from_slice(text.get(at..).unwrap_or_default());
        Ok(found.then_some(out))
    }
}

/// A part of the text that results from a replacement.
pub enum Piece<'a> {
    /// From the replacement.
    Author(&'a [u8]),
    /// From the client's text: around the match, or a group of it.
    Client(&'a [u8]),
}

/// The text with the match of these groups replaced.
pub fn replaced<'a>(
    text: &'a [u8],
    groups: &'a Groups,
    with: &'a Replacement,
) -> impl Iterator<Item = Piece<'a>> {
    let whole = groups.first().cloned().flatten().unwrap_or(0..0);
    let pieces = with.0.iter().map(move |part| match part {
        Part::Literal(literal) => Piece::Author(literal),
        Part::Group(index) => Piece::Client(group(text, groups, *index)),
    });
    let before = Piece::Client(text.get(..whole.start).unwrap_or_default());
    let after = Piece::Client(text.get(whole.end..).unwrap_or_default());
    std::iter::once(before).chain(pieces).chain([after])
}

fn shortened(pattern: &str) -> String {
    pattern.chars().take(40).collect()
}

/// PCRE's wording for an error of ours.
fn reason(error: &str) -> &str {
    let known = [
        ("unclosed group", "missing )"),
        ("unopened group", "unmatched parentheses"),
        ("unclosed character class", "missing terminating ] for character class"),
        ("repetition operator missing expression", "nothing to repeat"),
        ("unclosed counted repetition", "nothing to repeat"),
        ("incomplete escape sequence", "\\ at end of pattern"),
        ("invalid character class range", "range out of order in character class"),
    ];
    known.iter().find(|(ours, _)| error.contains(ours)).map(|(_, pcre)| *pcre).unwrap_or(
        match error.contains('\n') {
            true => "invalid pattern",
            false => error,
        },
    )
}

/// The first part of a replacement.
pub(crate) enum Beginning<'a> {
    Nothing,
    Literal(&'a [u8]),
    Group(usize),
}

/// A replacement text with `$1`, `${1}` and `$$`, as `ngx.re.sub` reads it.
#[derive(Clone, Debug)]
pub struct Replacement(Vec<Part>);

#[derive(Clone, Debug)]
enum Part {
    Literal(Vec<u8>),
    Group(usize),
}

impl Replacement {
    /// Compiles `$1` and `${name}` of a replacement.
    pub fn new(text: &str) -> Replacement {
        let bytes = text.as_bytes();
        let mut parts = Vec::new();
        let mut literal = Vec::new();
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            let rest = bytes.get(at + 1..).unwrap_or_default();
            let (group, used) = match (byte, rest.first()) {
                (b'$', Some(b'$')) => {
                    literal.push(b'$');
                    at += 2;
                    continue;
                }
                (b'$', Some(b'{')) => {
                    let digits = count_digits(rest.get(1..).unwrap_or_default());
                    let closed = digits > 0 && rest.get(1 + digits) == Some(&b'}');
                    (closed.then(|| number(rest.get(1..1 + digits))).flatten(), digits + 3)
                }
                (b'$', Some(_)) => {
                    let digits = count_digits(rest);
                    ((digits > 0).then(|| number(rest.get(..digits))).flatten(), digits + 1)
                }
                _ => (None, 1),
            };
            match group {
                Some(group) => {
                    if !literal.is_empty() {
                        parts.push(Part::Literal(std::mem::take(&mut literal)));
                    }
                    parts.push(Part::Group(group));
                    at += used;
                }
                None => {
                    literal.push(byte);
                    at += 1;
                }
            }
        }
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        Replacement(parts)
    }

    /// What it begins with.
    pub(crate) fn beginning(&self) -> Beginning<'_> {
        match self.0.first() {
            None => Beginning::Nothing,
            Some(Part::Literal(text)) => Beginning::Literal(text),
            Some(Part::Group(group)) => Beginning::Group(*group),
        }
    }

    /// The largest number of a group that it names.
    pub fn largest_group(&self) -> Option<usize> {
        let group = |part: &Part| match part {
            Part::Group(group) => Some(*group),
            Part::Literal(_) => None,
        };
        self.0.iter().filter_map(group).max()
    }

    /// `$` must be followed by a group's number, or by another `$`.
    pub fn check(text: &str) -> Result<(), String> {
        if tidegate_model::schema::is_secret_reference(text) {
            return Ok(());
        }
        let mut rest = text.as_bytes();
        while let Some(at) = rest.iter().position(|&byte| byte == b'$') {
            let after = rest.get(at + 1..).unwrap_or_default();
            let used = match after {
                [b'$', ..] => 1,
                [b'{', inner @ ..] => match count_digits(inner) {
                    0 => 0,
                    digits if inner.get(digits) == Some(&b'}') => digits + 2,
                    _ => return Err(format!("the closing bracket of a variable is missing in \"{text}\"")),
                },
                after => count_digits(after),
            };
            if used == 0 {
                return Err(format!("invalid capturing variable name found in \"{text}\""));
            }
            rest = after.get(used..).unwrap_or_default();
        }
        Ok(())
    }

    /// The parts that replace a match.
    pub fn parts<'a>(
        &'a self,
        text: &'a [u8],
        groups: &'a [Option<Range<usize>>],
    ) -> impl Iterator<Item = &'a [u8]> {
        self.0.iter().map(move |part| match part {
            Part::Literal(literal) => literal.as_slice(),
            Part::Group(index) => group(text, groups, *index),
        })
    }
}

fn group<'a>(text: &'a [u8], groups: &[Option<Range<usize>>], index: usize) -> &'a [u8] {
    let range = groups.get(index).cloned().flatten();
    range.and_then(|range| text.get(range)).unwrap_or_default()
}

fn count_digits(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

fn number(digits: Option<&[u8]>) -> Option<usize> {
    std::str::from_utf8(digits?).ok()?.parse().ok()
}

/// Checks that every text of an array is a regular expression.
pub fn check_all(patterns: Option<&serde_json::Value>) -> Result<(), String> {
    for pattern in patterns.and_then(serde_json::Value::as_array).into_iter().flatten() {
        Regex::new(pattern.as_str().unwrap_or_default(), false)?;
    }
    Ok(())
}

/// One expression that matches wherever any of the patterns does, joined as APISIX joins them.
pub fn any_of(patterns: &[String], ignore_case: bool) -> Result<Regex, String> {
    Regex::new(&patterns.join("|"), ignore_case)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacements() {
        let cases: &[(&str, &str, &str, bool, Option<&str>)] = &[
            ("^/iresty/(.*)", "/$1", "/iresty/a/b", false, Some("/a/b")),
            ("(a)(b)?", "[${1}$2]", "xab-a", true, Some("x[ab]-[a]")),
            ("o", "0", "foo", false, Some("f0o")),
            ("o", "$$", "foo", true, Some("f$$")),
            ("x", "y", "foo", true, None),
            ("", "-", "ab", true, Some("-a-b-")),
            ("(?<=f)o", "$9!", "foo", true, Some("f!o")),
            ("a", "${1", "a", false, Some("${1")),
            (r"\w\S+$", "*", "hello world\n", false, Some("hello *\n")),
        ];
        for (pattern, with, text, all, expected) in cases {
            let regex = Regex::new(pattern, false).unwrap();
            let out = regex.replace(text.as_bytes(), &Replacement::new(with), *all);
            assert_eq!(out.unwrap().as_deref(), expected.map(str::as_bytes), "{pattern} in {text}");
        }
    }

    #[test]
    fn errors_are_worded_as_pcre_does() {
        let cases = [
            (".+(", "pcre_compile() failed: missing ) in \".+(\""),
            ("[a", "pcre_compile() failed: missing terminating ] for character class in \"[a\""),
        ];
        for (pattern, expected) in cases {
            assert_eq!(Regex::new(pattern, false).unwrap_err(), expected);
        }
    }

    #[test]
    fn options_of_ngx_re() {
        let cases: &[(&str, &str, &str, bool)] =
            &[("HELLO", "ijo", "hello", true), ("b", "a", "ab", false), ("a.b", "s", "a\nb", true)];
        for (pattern, options, text, expected) in cases {
            let regex = Regex::with_options(pattern, options).unwrap();
            assert_eq!(regex.is_match(text.as_bytes()), Ok(*expected), "{pattern} {options}");
        }
        assert_eq!(Regex::with_options("a", "h").unwrap_err(), "unknown flag \"h\" (flags \"h\")");
    }

    #[test]
    fn bytes_and_cases() {
        assert!(Regex::new("^a.c$", true).unwrap().is_match(b"A\xffC").unwrap());
        assert!(Regex::new("(?!x)a", false).unwrap().is_match(b"\xffa").unwrap());
        assert!(
            any_of(&["root.exe".into(), "root.m+".into()], false).unwrap().is_match(b"/root.mm").unwrap()
        );
    }
}
