//! `tidegate bench doctor`: what people forget before they measure, with the command that puts it right.

mod machine;
mod network;
mod target;

pub use target::{Involved, target_checks};

/// What one look found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    pub name: &'static str,
    pub state: State,
    /// What was seen, with numbers.
    pub seen: String,
    /// The command or setting that puts it right; empty when all is well.
    pub remedy: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Good,
    Bad,
    /// Cannot be seen from here.
    Unknown,
}

impl Check {
    pub fn good(name: &'static str, seen: impl Into<String>) -> Check {
        Check { name, state: State::Good, seen: seen.into(), remedy: String::new() }
    }

    pub fn unknown(name: &'static str, seen: impl Into<String>) -> Check {
        Check { name, state: State::Unknown, seen: seen.into(), remedy: String::new() }
    }

    pub fn judge(
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

/// Everything that needs no target. Takes about a second: steal and hiccups are measured.
pub fn system_checks() -> Vec<Check> {
    let mut checks = network::checks();
    checks.extend(machine::checks());
    checks
}

pub fn render(checks: &[Check]) -> String {
    let mut out = String::new();
    for check in checks {
        let mark = match check.state {
            State::Good => "ok  ",
            State::Bad => "BAD ",
            State::Unknown => "?   ",
        };
        out.push_str(&format!("{mark} {:<24} {}\n", check.name, check.seen));
        if !check.remedy.is_empty() {
            out.push_str(&format!("     {:<24} -> {}\n", "", check.remedy));
        }
    }
    out
}

/// A number in a file of /proc or /sys.
fn number(path: &str) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_has_a_finding_and_bad_ones_a_remedy() {
        let checks = system_checks();
        for name in ["open files", "accept queue", "local ports", "CPUs", "CPU steal", "hiccups"] {
            assert!(checks.iter().any(|check| check.name == name), "{name}");
        }
        for check in &checks {
            assert!(!check.seen.is_empty(), "{check:?}");
            assert_eq!(check.state == State::Bad, !check.remedy.is_empty(), "{check:?}");
        }
    }
}
