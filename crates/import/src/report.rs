//! What became of each part of a configuration.

use std::fmt::{self, Write};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Behaves the same.
    Converted,
    /// Behaves nearly the same; the note says where it does not.
    Approximated,
    /// Left out.
    Unsupported,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Counted from 1; 0 for what stands on no single line.
    pub line: usize,
    pub outcome: Outcome,
    /// What it is about: `route admin: plugin cors`.
    pub subject: String,
    /// Empty for what is converted.
    pub note: String,
}

#[derive(Debug, Default)]
pub struct Report {
    entries: Vec<Entry>,
}

impl Report {
    pub fn converted(&mut self, line: usize, subject: &str) {
        self.add(line, Outcome::Converted, subject, "");
    }

    pub fn approximated(&mut self, line: usize, subject: &str, how: &str) {
        self.add(line, Outcome::Approximated, subject, how);
    }

    pub fn unsupported(&mut self, line: usize, subject: &str, why: &str) {
        self.add(line, Outcome::Unsupported, subject, why);
    }

    fn add(&mut self, line: usize, outcome: Outcome, subject: &str, note: &str) {
        let entry = Entry { line, outcome, subject: subject.to_owned(), note: note.to_owned() };
        // A plugin that applies to several routes is converted once for each.
        if !self.entries.contains(&entry) {
            self.entries.push(entry);
        }
    }

    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub fn count(&self, outcome: Outcome) -> usize {
        self.entries.iter().filter(|entry| entry.outcome == outcome).count()
    }

    /// Whether everything behaves as it did.
    pub fn is_exact(&self) -> bool {
        self.count(Outcome::Converted) == self.entries.len()
    }

    /// The report as lines, each with the file's name and the line in it, in the file's order.
    pub fn text(&self, file: &str) -> String {
        let mut entries: Vec<&Entry> = self.entries.iter().collect();
        entries.sort_by_key(|entry| entry.line);
        let mut text = String::new();
        for Entry { line, outcome, subject, note } in entries {
            let colon = if note.is_empty() { "" } else { ": " };
            let line = if *line == 0 { String::new() } else { format!(":{line}") };
            // Writing to a string does not fail.
            let _ = writeln!(text, "{file}{line}: {outcome}: {subject}{colon}{note}");
        }
        let count = |outcome| self.count(outcome);
        let _ = writeln!(
            text,
            "{file}: {} converted, {} approximated, {} not supported",
            count(Outcome::Converted),
            count(Outcome::Approximated),
            count(Outcome::Unsupported)
        );
        text
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Outcome::Converted => "converted",
            Outcome::Approximated => "approximated",
            Outcome::Unsupported => "not supported",
        })
    }
}
