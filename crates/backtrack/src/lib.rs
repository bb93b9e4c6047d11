//! Regular expressions on texts of clients and upstreams, in bounded time.
//!
//! Most run in linear time ([`Linear`]); look-around and back-references need steps back ([`Pattern`]). Both may take long
//! where a large pattern meets a long text. A search that runs out of its time or steps has no result, and the caller has
//! to refuse. See docs/adr/0030 and 0035. Searches of one request have a [`SearchTime`] together.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod automaton;
mod large;
mod lazy;
mod linear;
mod outcome;
pub mod pcre;
mod size;
mod steps;
mod time;

use std::{fmt, time::Duration};

pub use self::{
    large::{TOO_LARGE, remarks_on_patterns},
    linear::Linear,
    outcome::{GaveUp, Groups},
    size::states,
    steps::{MAX_BYTES, MAX_GROUPS, MAX_STEPS, Pattern},
    time::{MAX_TIME, MAX_WORK, SearchTime},
};

/// Why neither engine takes a pattern.
#[derive(Debug)]
pub struct Refused {
    /// From the engine without back-references.
    pub linear: String,
    /// From the engine that steps back.
    pub backtracking: String,
}

impl Refused {
    /// Nothing is wrong with it but its size.
    pub fn is_too_large(&self) -> bool {
        self.linear == TOO_LARGE || self.backtracking == TOO_LARGE
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.is_too_large() { TOO_LARGE } else { &self.backtracking })
    }
}

/// A regular expression with the engine that it needs.
pub enum Expression {
    /// Takes time in proportion to the text.
    Linear(Box<Linear>),
    /// Has look-around or back-references.
    Backtracking(Box<Pattern>),
}

/// Of a pattern as PCRE has it, see [`pcre`].
impl Expression {
    /// Matches bytes, with ASCII classes where the pattern allows it.
    pub fn new(source: &str, ignore_case: bool) -> Result<Expression, Refused> {
        Expression::compile(source, ignore_case, Pattern::new)
    }

    /// Of a pattern that backtracks: allows this many steps on texts of any length.
    pub fn with_steps(source: &str, ignore_case: bool, steps: usize) -> Result<Expression, Refused> {
        Expression::compile(source, ignore_case, |source, ignore_case| {
            Pattern::with_steps(source, ignore_case, steps)
        })
    }

    fn compile(
        source: &str,
        ignore_case: bool,
        backtracking: impl FnOnce(&str, bool) -> Result<Pattern, String>,
    ) -> Result<Expression, Refused> {
        let shown = source;
        let source = match pcre::translate(source, pcre::Units::Bytes) {
            Ok(translated) => translated.pattern,
            Err(why) => return Err(Refused { linear: why.clone(), backtracking: why }),
        };
        match Linear::new(&source, ignore_case) {
            Ok(linear) => Ok(Expression::Linear(Box::new(linear.shown_as(shown)))),
            Err(linear) => backtracking(&source, ignore_case)
                .map(|pattern| Expression::Backtracking(Box::new(pattern.shown_as(shown))))
                .map_err(|backtracking| Refused { linear, backtracking }),
        }
    }

    /// As configured.
    pub fn as_str(&self) -> &str {
        match self {
            Expression::Linear(linear) => linear.as_str(),
            Expression::Backtracking(pattern) => pattern.as_str(),
        }
    }

    /// In the time that a request has left; `None`: in that of one search alone. To PCRE a line feed at the very end may follow a
    /// `$`.
    pub fn is_match(&self, text: &[u8], time: Option<&SearchTime>) -> Result<bool, GaveUp> {
        let found = self.is_in(text, time)?;
        match text.strip_suffix(b"\n") {
            Some(line) if !found && self.as_str().contains('$') => self.is_in(line, time),
            _ => Ok(found),
        }
    }

    /// As [`Expression::is_match`], where `$` stands for the very end alone, as in JSON Schema (ECMA-262).
    pub fn is_match_to_the_end(&self, text: &[u8], time: Option<&SearchTime>) -> Result<bool, GaveUp> {
        self.is_in(text, time)
    }

    fn is_in(&self, text: &[u8], time: Option<&SearchTime>) -> Result<bool, GaveUp> {
        match self {
            Expression::Linear(linear) => within(linear, text, time, |most| linear.is_match(text, most)),
            Expression::Backtracking(pattern) => match time {
                Some(time) => time.backtracking(|most| pattern.is_match(text, most)),
                None => pattern.is_match(text, MAX_TIME),
            },
        }
    }

    /// As [`Expression::is_match`]: the first match, whose group 0 is the whole of it.
    pub fn captures(&self, text: &[u8], time: Option<&SearchTime>) -> Result<Option<Groups>, GaveUp> {
        match self {
            Expression::Linear(linear) => within(linear, text, time, |most| linear.captures(text, most)),
            Expression::Backtracking(pattern) => match time {
                Some(time) => time.backtracking(|most| pattern.captures(text, most)),
                None => pattern.captures(text, MAX_TIME),
            },
        }
    }

    /// For a caller who has this time, off the worker.
    pub fn captures_patiently(&self, text: &[u8], most: Duration) -> Result<Option<Groups>, GaveUp> {
        match self {
            Expression::Linear(linear) => linear.captures(text, most),
            Expression::Backtracking(pattern) => pattern.captures(text, most),
        }
    }
}

fn within<R>(
    linear: &Linear,
    text: &[u8],
    time: Option<&SearchTime>,
    search: impl FnOnce(Duration) -> Result<R, GaveUp>,
) -> Result<R, GaveUp> {
    match time {
        Some(time) if linear.is_new_to(text) => time.unclocked(text.len(), search),
        Some(time) => time.linear(text.len(), linear.work(text.len()), search),
        None => search(MAX_TIME),
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "/{}/", self.as_str())
    }
}
