//! Regular expressions of `~~` and `~*`: linear-time where the pattern allows it, backtracking with a limit
//! where it needs look-around or back-references. PCRE without its UTF mode works on bytes, and so does this.

pub use backtrack::{GaveUp, MAX_STEPS, MAX_TIME, SearchTime};

#[derive(Debug)]
pub enum Pattern {
    Linear(regex::bytes::Regex),
    Backtracking(Box<backtrack::Pattern>),
}

impl Pattern {
    /// The error names the pattern.
    pub fn new(pattern: &str, ignore_case: bool) -> Result<Self, String> {
        let linear =
            regex::bytes::RegexBuilder::new(pattern).unicode(false).case_insensitive(ignore_case).build();
        if let Ok(regex) = linear {
            return Ok(Self::Linear(regex));
        }
        backtrack::Pattern::new(pattern, ignore_case)
            .map(|pattern| Self::Backtracking(Box::new(pattern)))
            .map_err(|why| match why.contains("groups") {
                true => format!("invalid regular expression '{pattern}': {why}"),
                false => format!("invalid regular expression '{pattern}'"),
            })
    }

    pub fn is_match(&self, text: &[u8]) -> Result<bool, GaveUp> {
        self.with_last_line(text, |text| self.search(text))
    }

    /// To PCRE a line feed at the very end may follow `$`.
    fn with_last_line(
        &self,
        text: &[u8],
        search: impl Fn(&[u8]) -> Result<bool, GaveUp>,
    ) -> Result<bool, GaveUp> {
        let found = search(text)?;
        match text.strip_suffix(b"\n") {
            Some(line) if !found && self.as_str().contains('$') => search(line),
            _ => Ok(found),
        }
    }

    fn search(&self, text: &[u8]) -> Result<bool, GaveUp> {
        match self {
            Self::Linear(regex) => Ok(regex.is_match(text)),
            Self::Backtracking(regex) => regex.is_match(text),
        }
    }

    /// As [`Pattern::is_match`], on the time of a request.
    pub fn is_match_within(&self, text: &[u8], time: &SearchTime) -> Result<bool, GaveUp> {
        self.with_last_line(text, |text| match self {
            Self::Linear(regex) => time.linear(text.len(), || regex.is_match(text)),
            Self::Backtracking(regex) => time.backtracking(|| regex.is_match(text)),
        })
    }

    pub fn as_str(&self) -> &str {
        match self {
            Self::Linear(regex) => regex.as_str(),
            Self::Backtracking(regex) => regex.as_str(),
        }
    }
}
