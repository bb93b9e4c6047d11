//! Regular expressions that have to backtrack, for look-around and back-references.
//!
//! A step back may scan the whole text again, so the limit counts bytes: the longer the text, the fewer steps. And parts
//! of the pattern run in an engine that may take as many steps for a byte as the pattern has states. So a search begins
//! with few steps and gets more while the clock allows it.

use std::{fmt, sync::OnceLock, time::Duration};

use fancy_regex::{BytesMode, Error, Regex, RegexBuilder, RuntimeError};

use crate::{
    large::{self, TOO_LARGE},
    outcome::{GaveUp, Groups},
    size,
    time::{MAX_TIME, Stopwatch, work_within},
};

/// Bytes that a search may scan if each step back scans the whole text: a few milliseconds.
pub const MAX_BYTES: usize = 8 << 20;
/// Steps back on the shortest texts; a few milliseconds as well.
pub const MAX_STEPS: usize = 200_000;
/// Each step saves every group.
pub const MAX_GROUPS: usize = 64;

/// With a fixed limit of steps and more than [`MAX_TIME`]: what one pass may take, in times of what there is.
const PATIENT_PASSES: usize = 4;

/// A search begins again with the next of these when it needs more steps.
const LIMITS: [usize; 6] = [8, 64, 512, 4096, 32_768, MAX_STEPS];

/// How many steps back a search in a text of this length may take.
pub(crate) const fn max_steps(length: usize) -> usize {
    let steps = MAX_BYTES / if length == 0 { 1 } else { length };
    if steps > MAX_STEPS { MAX_STEPS } else { steps }
}

/// A pattern that is searched step by step, with a bound on the steps.
pub struct Pattern {
    source: String,
    /// The pattern as it was written.
    shown: Box<str>,
    ignore_case: bool,
    mode: BytesMode,
    states: usize,
    /// One limit for texts of any length; the caller bounds the time.
    fixed: Option<Box<Regex>>,
    /// One for each of [`LIMITS`], compiled on first use.
    stages: [OnceLock<Option<Box<Regex>>>; LIMITS.len()],
}

impl Pattern {
    /// Matches bytes, with ASCII classes where the pattern allows it. The error says what is wrong with the pattern.
    pub fn new(source: &str, ignore_case: bool) -> Result<Pattern, String> {
        const MIDDLE: usize = 2;
        Pattern::compile(source, ignore_case, LIMITS[MIDDLE]).map(|(pattern, regex)| {
            let _ = pattern.stages.get(MIDDLE).map(|stage| stage.set(Some(Box::new(regex))));
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
        let (regex, mode) = compiled.map_err(|error| match error.to_string() {
            // The parts that run in the other engine.
            text if text.contains("size limit") || text.contains("building NFA") => TOO_LARGE.to_owned(),
            text => text,
        })?;
        let groups = regex.captures_len().saturating_sub(1);
        if groups > MAX_GROUPS {
            return Err(format!(
                "{groups} groups, with look-around or references to groups at most {MAX_GROUPS}; write (?:…) for \
                 groups that nothing refers to"
            ));
        }
        let (source, states) = (source.to_owned(), size::states(source));
        large::remark_on(&source, states);
        let shown = source.as_str().into();
        let pattern =
            Pattern { source, shown, ignore_case, mode, states, fixed: None, stages: Default::default() };
        Ok((pattern, regex))
    }

    /// With the pattern as it was written.
    pub(crate) fn shown_as(self, pattern: &str) -> Pattern {
        Pattern { shown: pattern.into(), ..self }
    }

    /// As configured.
    pub fn as_str(&self) -> &str {
        &self.shown
    }

    pub(crate) fn is_match(&self, text: &[u8], most: Duration) -> Result<bool, GaveUp> {
        self.search(text, most, |regex| regex.is_match(text))
    }

    pub(crate) fn captures(&self, text: &[u8], most: Duration) -> Result<Option<Groups>, GaveUp> {
        self.search(text, most, |regex| {
            let range =
                |found: &fancy_regex::Captures<'_, [u8]>, index| found.get(index).map(|group| group.range());
            let found = regex.captures(text)?;
            Ok(found.map(|found| (0..found.len()).map(|index| range(&found, index)).collect()))
        })
    }

    fn search<R>(
        &self,
        text: &[u8],
        most: Duration,
        run: impl Fn(&Regex) -> Result<R, Error>,
    ) -> Result<R, GaveUp> {
        let work = self.states.saturating_mul(text.len() + 1);
        // Off the worker, with seconds of time, a pass that is slower than necessary delays no other request.
        let passes = if self.fixed.is_some() && most > MAX_TIME { PATIENT_PASSES } else { 1 };
        if work > work_within(most.max(MAX_TIME)).saturating_mul(passes) {
            return Err(GaveUp);
        }
        if let Some(fixed) = &self.fixed {
            return run(fixed).map_err(|_| GaveUp);
        }
        let watch = Stopwatch::new(most);
        let enough = max_steps(text.len());
        // Where even the slowest engine is quick, it need not begin with the fewest steps.
        let first = LIMITS.iter().rposition(|steps| steps.saturating_mul(work) <= work_within(most));
        for (steps, stage) in LIMITS.iter().zip(&self.stages).skip(first.unwrap_or(0)) {
            match run(self.stage(stage, *steps)?) {
                Ok(found) => return Ok(found),
                Err(Error::RuntimeError(RuntimeError::BacktrackLimitExceeded)) if *steps < enough => {}
                Err(_) => return Err(GaveUp),
            }
            // What follows takes eight times as long.
            if watch.taken() > most / 8 {
                return Err(GaveUp);
            }
        }
        Err(GaveUp)
    }

    fn stage<'a>(&self, stage: &'a OnceLock<Option<Box<Regex>>>, steps: usize) -> Result<&'a Regex, GaveUp> {
        let compiled = stage.get_or_init(|| {
            let regex = compile(&self.source, self.ignore_case, self.mode, steps);
            regex.ok().map(Box::new)
        });
        compiled.as_deref().ok_or(GaveUp)
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "/{}/", self.shown)
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
                let watch = Stopwatch::new(MAX_TIME);
                let _ = pattern.is_match(&text, MAX_TIME);
                let _ = pattern.captures(&text, MAX_TIME);
                // In a debug build, with what is compiled on first use; far from seconds.
                assert!(
                    watch.taken() < Duration::from_millis(500),
                    "{pattern:?} {length} {:?}",
                    watch.taken()
                );
            }
        }
    }

    #[test]
    fn ordinary_texts_are_searched_to_the_end() {
        let is_match = |pattern: &Pattern, text: &[u8]| pattern.is_match(text, MAX_TIME);
        let pattern = Pattern::new("(?i)(?!.*googlebot).*bot", false).expect("a pattern");
        let browser = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0 Safari/537.36";
        assert_eq!(is_match(&pattern, browser.as_bytes()), Ok(false));
        assert_eq!(is_match(&pattern, b"evilbot/1.0"), Ok(true));
        assert_eq!(is_match(&pattern, &[b'a'; 1000]), Ok(false));
        assert_eq!(is_match(&pattern, &[b'a'; 100_000]), Err(GaveUp));
        let groups = Pattern::new("(?<=x)(a)(b)?", false).expect("a pattern").captures(b"xa", MAX_TIME);
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
