//! `tidegate bench doctor`: what people forget before they measure, with the command that puts it right.

mod check;
mod machine;
mod network;
mod target;

pub use target::{Involved, target_checks};

pub use self::check::{Check, State};

/// Everything that needs no target. Takes about a second: steal and hiccups are measured.
pub fn system_checks() -> Vec<Check> {
    let mut checks = network::checks();
    checks.extend(machine::checks());
    checks
}

/// A table for the terminal.
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
