//! Regular expressions of `~~` and `~*`: linear-time where the pattern allows it, backtracking with a limit
//! where it needs look-around or back-references. PCRE without its UTF mode works on bytes, and so does this.

use fancy_regex::BytesMode;

#[derive(Debug)]
pub enum Pattern {
    Linear(regex::bytes::Regex),
    Backtracking(fancy_regex::Regex),
}

impl Pattern {
    /// `None` when it is no regular expression; the caller treats that as "never matches", as APISIX does.
    pub fn new(pattern: &str, ignore_case: bool) -> Option<Self> {
        let linear =
            regex::bytes::RegexBuilder::new(pattern).unicode(false).case_insensitive(ignore_case).build();
        if let Ok(regex) = linear {
            return Some(Self::Linear(regex));
        }
        // Bytes where the pattern allows it; a class of letters beyond ASCII needs the other mode.
        let backtracking = |mode| {
            let mut builder = fancy_regex::RegexBuilder::new(pattern);
            builder.case_insensitive(ignore_case).bytes_mode(mode).build()
        };
        let regex = backtracking(BytesMode::Ascii).or_else(|_| backtracking(BytesMode::UnicodeBytes));
        regex.ok().map(Self::Backtracking)
    }

    pub fn is_match(&self, text: &[u8]) -> bool {
        match self {
            Self::Linear(regex) => regex.is_match(text),
            // An error is the backtracking limit: better no match than a stalled worker.
            Self::Backtracking(regex) => regex.is_match(text).unwrap_or(false),
        }
    }
}
