//! One check, and what came of it.

/// What one look found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What was checked.
    pub name: &'static str,
    /// Whether it distorts measurements.
    pub state: State,
    /// What was seen, with numbers.
    pub seen: String,
    /// The command or setting that puts it right; empty when all is well.
    pub remedy: String,
}

/// What a check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing to do.
    Good,
    /// Measurements would be distorted.
    Bad,
    /// Cannot be seen from here.
    Unknown,
}

impl Check {
    pub(crate) fn good(name: &'static str, seen: impl Into<String>) -> Check {
        Check { name, state: State::Good, seen: seen.into(), remedy: String::new() }
    }

    pub(crate) fn unknown(name: &'static str, seen: impl Into<String>) -> Check {
        Check { name, state: State::Unknown, seen: seen.into(), remedy: String::new() }
    }

    /// Good or bad, with what was seen and the remedy.
    pub fn condition(
        name: &'static str,
        good: bool,
        seen: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Check {
        if good {
            return Check::good(name, seen);
        }
        Check { name, state: State::Bad, seen: seen.into(), remedy: remedy.into() }
    }
}

/// A number in a file of /proc or /sys.
pub(super) fn number(path: &str) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}
