//! Regular expressions of `~~` and `~*`: linear-time where the pattern allows it, backtracking with a limit
//! where it needs look-around or back-references. PCRE without its UTF mode works on bytes, and so does this.

use fancy_regex::BytesMode;

/// Steps after which an expression that backtracks gives up, some milliseconds.
pub const MAX_STEPS: usize = 200_000;

/// An expression spent [`MAX_STEPS`] on a text: whether it matches is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GaveUp;

#[derive(Debug)]
pub enum Pattern {
    Linear(regex::bytes::Regex),
    Backtracking(fancy_regex::Regex),
}

impl Pattern {
    /// The error names the pattern.
    pub fn new(pattern: &str, ignore_case: bool) -> Result<Self, String> {
        let linear =
            regex::bytes::RegexBuilder::new(pattern).unicode(false).case_insensitive(ignore_case).build();
        if let Ok(regex) = linear {
            return Ok(Self::Linear(regex));
        }
        // Bytes where the pattern allows it; a class of letters beyond ASCII needs the other mode.
        let backtracking = |mode| {
            let mut builder = fancy_regex::RegexBuilder::new(pattern);
            builder.backtrack_limit(MAX_STEPS).case_insensitive(ignore_case).bytes_mode(mode).build()
        };
        let regex = backtracking(BytesMode::Ascii).or_else(|_| backtracking(BytesMode::UnicodeBytes));
        regex.map(Self::Backtracking).map_err(|_| format!("invalid regular expression '{pattern}'"))
    }

    pub fn is_match(&self, text: &[u8]) -> Result<bool, GaveUp> {
        match self {
            Self::Linear(regex) => Ok(regex.is_match(text)),
            Self::Backtracking(regex) => regex.is_match(text).map_err(|_| GaveUp),
        }
    }

    pub fn as_str(&self) -> &str {
        match self {
            Self::Linear(regex) => regex.as_str(),
            Self::Backtracking(regex) => regex.as_str(),
        }
    }
}
