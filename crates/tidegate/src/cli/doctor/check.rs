//! One check, and what came of it.

use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Good,
    Bad,
    /// Cannot be seen from here, or depends on what is wanted. Does not count.
    Unknown,
}

#[derive(Clone, Debug)]
pub(super) struct Check {
    pub name: String,
    pub state: State,
    /// What was seen.
    pub seen: String,
    /// What to do about it; empty when all is well.
    pub remedy: String,
}

impl Check {
    pub(super) fn good(name: &str, seen: impl Into<String>) -> Check {
        Check { name: name.to_owned(), state: State::Good, seen: seen.into(), remedy: String::new() }
    }

    pub(super) fn bad(name: &str, seen: impl Into<String>, remedy: impl Into<String>) -> Check {
        Check { name: name.to_owned(), state: State::Bad, seen: seen.into(), remedy: remedy.into() }
    }

    pub(super) fn unknown(name: &str, seen: impl Into<String>, remedy: impl Into<String>) -> Check {
        Check { name: name.to_owned(), state: State::Unknown, seen: seen.into(), remedy: remedy.into() }
    }

    /// From a message of the gateway's, whose remedy stands behind a semicolon; `otherwise`: where it has none.
    pub(super) fn of_message(name: &str, message: &str, otherwise: &str) -> Check {
        let (seen, remedy) = message.split_once("; ").unwrap_or((message, otherwise));
        Check::bad(name, seen, remedy)
    }

    /// Of ports and etcd: then a trial says nothing of the objects.
    pub(super) fn keeps_from_starting(&self) -> bool {
        let is_etcd = self.name == "etcd" && self.seen.contains("does not answer");
        self.state == State::Bad && (is_etcd || self.seen.contains("cannot listen on "))
    }

    pub(super) fn json(&self) -> Value {
        let state = match self.state {
            State::Good => "good",
            State::Bad => "bad",
            State::Unknown => "unknown",
        };
        json!({"check": self.name, "state": state, "seen": self.seen, "remedy": self.remedy})
    }

    pub(super) fn text(&self) -> String {
        let mark = match self.state {
            State::Good => "ok  ",
            State::Bad => "BAD ",
            State::Unknown => "?   ",
        };
        let mut text = format!("{mark} {:<20} {}", self.name, self.seen);
        if !self.remedy.is_empty() {
            text.push_str(&format!("\n     {:<20} -> {}", "", self.remedy));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_cut_before_its_remedy() {
        let check = Check::of_message("keys", "the key is published; make a new one; then restart", "");
        assert_eq!(
            (check.seen.as_str(), check.remedy.as_str()),
            ("the key is published", "make a new one; then restart")
        );
        assert!(check.text().starts_with("BAD  keys"));
        assert_eq!(Check::good("a", "b").json()["state"], "good");
    }
}
