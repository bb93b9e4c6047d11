//! Regular expressions of `~~` and `~*`. PCRE without its UTF mode works on bytes, and so does this.

use tidegate_backtrack::Expression;
pub use tidegate_backtrack::{GaveUp, MAX_STEPS, MAX_TIME, SearchTime};

/// The pattern of a condition (`~~`, `~*`, `IN` with patterns).
#[derive(Debug)]
pub struct Pattern {
    expression: Expression,
    ignore_case: bool,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        (self.as_str(), self.ignore_case) == (other.as_str(), other.ignore_case)
    }
}

impl Pattern {
    /// The error names the pattern.
    pub fn new(pattern: &str, ignore_case: bool) -> Result<Self, String> {
        let expression = Expression::new(pattern, ignore_case).map_err(|why| {
            if why.is_too_large() || why.backtracking.contains("groups") {
                format!("invalid regular expression '{pattern}': {why}")
            } else {
                format!("invalid regular expression '{pattern}'")
            }
        })?;
        Ok(Pattern { expression, ignore_case })
    }

    /// In the time that a request has left; `None`: in that of one search alone.
    pub fn is_match(&self, text: &[u8], time: Option<&SearchTime>) -> Result<bool, GaveUp> {
        self.expression.is_match(text, time)
    }

    /// As configured.
    pub fn as_str(&self) -> &str {
        self.expression.as_str()
    }
}
