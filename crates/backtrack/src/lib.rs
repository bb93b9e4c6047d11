//! Regular expressions that have to backtrack, for look-around and back-references, within a limit.
//!
//! A step back may scan the whole text again, so the limit counts bytes: the longer the text, the fewer steps. A search that hits the
//! limit has no result, and the caller has to refuse. See docs/adr/0030. Searches of one request have a [`SearchTime`]
//! together.

#![forbid(unsafe_code)]

mod time;

use std::{fmt, ops::Range, sync::OnceLock};

use fancy_regex::{BytesMode, Regex, RegexBuilder};

pub use self::time::{MAX_TIME, SearchTime};

/// Bytes that a search may scan if each step back scans the whole text: a few milliseconds.
pub const MAX_BYTES: usize = 8 << 20;
/// Steps back on the shortest texts; a few milliseconds as well.
pub const MAX_STEPS: usize = 200_000;
/// Each step saves every group.
pub const MAX_GROUPS: usize = 64;

/// Texts up to these lengths in bytes share a limit; longer ones are not searched.
const LENGTHS: [usize; 6] = [64, 256, 1024, 4096, 16_384, 65_536];

/// Where each group of a match stands; group 0 is the whole of it.
pub type Groups = Vec<Option<Range<usize>>>;

/// A search hit its limit: whether the expression matches is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GaveUp;

/// How many steps back a search in a text of this length may take.
pub const fn max_steps(length: usize) -> usize {
    let steps = MAX_BYTES / if length == 0 { 1 } else { length };
    if steps > MAX_STEPS { MAX_STEPS } else { steps }
}

pub struct Pattern {
    source: String,
    ignore_case: bool,
    mode: BytesMode,
    /// One limit for texts of any length; the caller bounds the time.
    fixed: Option<Box<Regex>>,
    /// One per length in [`LENGTHS`], compiled on first use.
    stages: [OnceLock<Option<Box<Regex>>>; LENGTHS.len()],
}

impl Pattern {
    /// Matches bytes, with ASCII classes where the pattern allows it. The error says what is wrong with the pattern.
    pub fn new(source: &str, ignore_case: bool) -> Result<Pattern, String> {
        Pattern::compile(source, ignore_case, max_steps(LENGTHS[0])).map(|(pattern, regex)| {
            let _ = pattern.stages.first().map(|stage| stage.set(Some(Box::new(regex))));
            pattern
        })
    }

    /// Allows this many steps back on texts of any length; the caller bounds the time.
    pub fn with_steps(source: &str, ignore_case: bool, steps: usize) -> Result<Pattern, String> {
        Pattern::compile(source, ignore_case, steps)
            .map(|(pattern, regex)| Pattern { fixed: Some(Box::new(regex)), ..pattern })
    }

    fn compile(source: &str, ignore_case: bool, steps: usize) -> Result<(Pattern, Regex), String> {
        let compiled = compile(source, ignore_case, BytesMode::Ascii, steps)
            .map(|regex| (regex, BytesMode::Ascii))
            .or_else(|_| {
                // A class of letters beyond ASCII needs the other mode.
                let mode = BytesMode::UnicodeBytes;
                compile(source, ignore_case, mode, steps).map(|regex| (regex, mode))
            });
        let (regex, mode) = compiled.map_err(|error| error.to_string())?;
        let groups = regex.captures_len().saturating_sub(1);
        if groups > MAX_GROUPS {
            return Err(format!(
                "{groups} groups, with look-around or references to groups at most {MAX_GROUPS}; write (?:…) for \
                 groups that nothing refers to"
            ));
        }
        let source = source.to_owned();
        Ok((Pattern { source, ignore_case, mode, fixed: None, stages: Default::default() }, regex))
    }

    pub fn as_str(&self) -> &str {
        &self.source
    }

    pub fn is_match(&self, text: &[u8]) -> Result<bool, GaveUp> {
        self.stage(text.len())?.is_match(text).map_err(|_| GaveUp)
    }

    pub fn captures(&self, text: &[u8]) -> Result<Option<Groups>, GaveUp> {
        let found = self.stage(text.len())?.captures(text).map_err(|_| GaveUp)?;
        let range =
            |found: &fancy_regex::Captures<'_, [u8]>, index| found.get(index).map(|group| group.range());
        Ok(found.map(|found| (0..found.len()).map(|index| range(&found, index)).collect()))
    }

    /// The expression with the limit for texts of this length. Longer texts than the last of [`LENGTHS`] are not searched.
    fn stage(&self, length: usize) -> Result<&Regex, GaveUp> {
        if let Some(fixed) = &self.fixed {
            return Ok(fixed);
        }
        let index = LENGTHS.iter().position(|longest| length <= *longest).ok_or(GaveUp)?;
        let (stage, longest) = self.stages.get(index).zip(LENGTHS.get(index)).ok_or(GaveUp)?;
        let compiled = stage.get_or_init(|| {
            let regex = compile(&self.source, self.ignore_case, self.mode, max_steps(*longest));
            regex.ok().map(Box::new)
        });
        compiled.as_deref().ok_or(GaveUp)
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "/{}/", self.source)
    }
}

fn compile(
    source: &str,
    ignore_case: bool,
    mode: BytesMode,
    steps: usize,
) -> Result<Regex, Box<fancy_regex::Error>> {
    let mut builder = RegexBuilder::new(source);
    builder.backtrack_limit(steps).case_insensitive(ignore_case).bytes_mode(mode).build().map_err(Box::new)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn searches_end_whatever_the_text() {
        let patterns = [
            "(?!.*Googlebot).*[Bb]ot",
            "(?i)(?=.*union)(?=.*select)",
            "(?:(?!.*foo).)*baz",
            "(?>a+)+b",
            "(a*)*\\1b",
            "(?<=a)(a|aa)+$b",
            "^(?=a+)(a+)+c",
        ];
        for pattern in patterns {
            let pattern = Pattern::new(pattern, false).expect("a pattern");
            for length in [60, 1000, 16_000, 31_000, 65_000] {
                let text = vec![b'a'; length];
                let _ = pattern.is_match(&text);
                let begun = Instant::now();
                let _ = pattern.captures(&text);
                // In a debug build, on a busy machine; far from seconds.
                assert!(
                    begun.elapsed() < Duration::from_secs(1),
                    "{pattern:?} {length} {:?}",
                    begun.elapsed()
                );
            }
        }
    }

    #[test]
    fn ordinary_texts_are_searched_to_the_end() {
        let pattern = Pattern::new("(?i)(?!.*googlebot).*bot", false).expect("a pattern");
        let browser = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0 Safari/537.36";
        assert_eq!(pattern.is_match(browser.as_bytes()), Ok(false));
        assert_eq!(pattern.is_match(b"evilbot/1.0"), Ok(true));
        assert_eq!(pattern.is_match(&[b'a'; 1000]), Ok(false));
        assert_eq!(pattern.is_match(&[b'a'; 100_000]), Err(GaveUp));
        let groups = Pattern::new("(?<=x)(a)(b)?", false).expect("a pattern").captures(b"xa");
        assert_eq!(groups, Ok(Some(vec![Some(1..2), Some(1..2), None])));
    }

    #[test]
    fn too_many_groups_are_refused() {
        let pattern = format!("{}\\2", "(a)".repeat(65));
        assert!(Pattern::new(&pattern, false).is_err_and(|error| error.contains("at most 64")));
        assert!(Pattern::new("(", false).is_err());
    }

    #[test]
    fn longer_texts_have_fewer_steps() {
        assert_eq!(max_steps(0), MAX_STEPS);
        assert_eq!(max_steps(MAX_BYTES / 1000), 1000);
    }
}
