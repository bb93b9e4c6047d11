//! What became of each part of a configuration.

use std::{
    collections::{HashMap, HashSet},
    fmt::{self, Write},
    sync::Arc,
};

/// What became of a part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Conversion {
    /// Behaves the same.
    Converted,
    /// Left out, and no answer changes for it.
    Ignored,
    /// Behaves nearly the same; the note says where it does not.
    Approximated,
    /// Left out.
    Unsupported,
    /// Answers 501: what guards it, or what it does, cannot be converted.
    Closed,
}

impl Conversion {
    /// Whether clients may notice.
    pub(crate) fn changes_answers(self) -> bool {
        !matches!(self, Conversion::Converted | Conversion::Ignored)
    }
}

/// A line of a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct At {
    /// `None`: the file that was given.
    pub file: Option<Arc<str>>,
    /// Counted from 1; 0 for what stands on no single line.
    pub line: usize,
}

impl From<usize> for At {
    fn from(line: usize) -> At {
        At { file: None, line }
    }
}

impl From<&At> for At {
    fn from(at: &At) -> At {
        at.clone()
    }
}

impl At {
    /// `conf/nginx.conf:12`
    pub fn text(&self, given: &str) -> String {
        let file = self.file.as_deref().unwrap_or(given);
        if self.line == 0 { file.to_owned() } else { format!("{file}:{}", self.line) }
    }
}

/// A part of a file and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// File and line.
    pub at: At,
    /// What became of it.
    pub outcome: Conversion,
    /// What it is about: `route admin: plugin cors`.
    pub subject: String,
    /// Empty for what is converted.
    pub note: String,
}

/// What became of the parts that a verdict counts, such as nginx's locations.
#[derive(Debug)]
struct Tally {
    plural: &'static str,
    like: &'static str,
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    at: At,
    outcome: Conversion,
    /// What serves it, such as `routes/a`; `consumers`: any of them. Empty: what was made of the same line.
    objects: Vec<String>,
}

impl Part {
    /// The gateway refuses an object that was made of this line.
    fn refuse(&mut self, collection: &str, object: &str, at: &At) {
        let is_known = self.objects.iter().any(|own| own == object);
        if is_known || self.objects.is_empty() && at.line > 0 && self.at == *at {
            self.outcome = Conversion::Closed;
        } else if self.objects.iter().any(|own| own == collection) && self.outcome == Conversion::Converted {
            self.outcome = Conversion::Approximated;
        }
    }
}

/// What became of each part of a file, in its order.
#[derive(Debug, Default)]
pub struct Report {
    entries: Vec<Entry>,
    known: HashSet<Entry>,
    tally: Option<Tally>,
    /// The line that an object is made of.
    lines: HashMap<String, At>,
    /// What holds for every file of the kind, and which [`Report::is_exact`] does not look at.
    general: Vec<(&'static str, &'static str)>,
}

impl Report {
    pub(crate) fn converted(&mut self, at: impl Into<At>, subject: &str) {
        self.add(at, Conversion::Converted, subject, "");
    }

    /// It is left out, and no response changes.
    pub fn ignored(&mut self, at: impl Into<At>, subject: &str, why: &str) {
        self.add(at, Conversion::Ignored, subject, why);
    }

    pub(crate) fn approximated(&mut self, at: impl Into<At>, subject: &str, how: &str) {
        self.add(at, Conversion::Approximated, subject, how);
    }

    /// It is left out, and responses differ.
    pub fn unsupported(&mut self, at: impl Into<At>, subject: &str, why: &str) {
        self.add(at, Conversion::Unsupported, subject, why);
    }

    /// Requests that it may be for are refused.
    pub fn closed(&mut self, at: impl Into<At>, subject: &str, why: &str) {
        self.add(at, Conversion::Closed, subject, why);
    }

    fn add(&mut self, at: impl Into<At>, outcome: Conversion, subject: &str, note: &str) {
        let entry = Entry { at: at.into(), outcome, subject: subject.to_owned(), note: note.to_owned() };
        self.push(entry);
    }

    /// A plugin that applies to several routes is converted once for each, and named once.
    fn push(&mut self, entry: Entry) {
        if self.known.insert(entry.clone()) {
            self.entries.push(entry);
        }
    }

    /// What differs with every file that has such a part.
    pub(crate) fn differs_always(&mut self, subject: &'static str, how: &'static str) {
        if !self.general.contains(&(subject, how)) {
            self.general.push((subject, how));
        }
    }

    /// Takes over what was noted on the side.
    pub(crate) fn absorb(&mut self, other: Report) {
        for entry in other.entries {
            self.push(entry);
        }
        self.lines.extend(other.lines);
        other.general.into_iter().for_each(|(subject, how)| self.differs_always(subject, how));
    }

    /// A verdict counts parts: `31 of 34 {plural} behave as in {like}`.
    pub fn count_parts(&mut self, plural: &'static str, like: &'static str) {
        self.tally = Some(Tally { plural, like, parts: Vec::new() });
    }

    /// What became of one of the parts that the verdict counts.
    pub fn part(&mut self, at: impl Into<At>, outcome: Conversion) {
        self.part_of(at, outcome, Vec::new());
    }

    /// The same, with what serves it.
    pub(crate) fn part_of(&mut self, at: impl Into<At>, outcome: Conversion, objects: Vec<String>) {
        if let Some(tally) = &mut self.tally {
            tally.parts.push(Part { at: at.into(), outcome, objects });
        }
    }

    /// Which line became an object.
    pub(crate) fn made(&mut self, collection: &str, id: &str, at: impl Into<At>) {
        self.lines.insert(format!("{collection}/{id}"), at.into());
    }

    /// An object that the gateway refuses: what it serves is shut.
    pub fn refused(&mut self, collection: &str, id: &str, why: &str) {
        let object = format!("{collection}/{id}");
        let at = self.lines.get(&object).cloned().unwrap_or_default();
        for part in self.tally.iter_mut().flat_map(|tally| &mut tally.parts) {
            part.refuse(collection, &object, &at);
        }
        let why = format!("{why}; the gateway refuses this, and shuts what needs it: change it in the file");
        self.unsupported(at, &format!("{collection} {id}"), &why);
    }

    /// In the order of the file.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Entries with this outcome.
    pub fn count(&self, outcome: Conversion) -> usize {
        self.entries.iter().filter(|entry| entry.outcome == outcome).count()
    }

    /// Whether every answer is as it was.
    pub fn is_exact(&self) -> bool {
        !self.entries.iter().any(|entry| entry.outcome.changes_answers())
    }

    /// `31 of 34 locations behave as in nginx; 3 are closed: nginx.conf:7, …`
    pub fn verdict(&self, file: &str) -> Option<String> {
        let Tally { plural, like, parts } = self.tally.as_ref()?;
        let named = |wanted: &[Conversion]| {
            let chosen: Vec<String> = parts
                .iter()
                .filter(|part| wanted.contains(&part.outcome))
                .map(|part| part.at.text(file))
                .collect();
            (chosen.len(), chosen.join(", "))
        };
        let (closed, closed_at) = named(&[Conversion::Closed]);
        let (differ, differ_at) = named(&[Conversion::Approximated, Conversion::Unsupported]);
        let mut text =
            format!("{} of {} {plural} behave as in {like}", parts.len() - closed - differ, parts.len());
        for (count, what, places) in
            [(differ, "answer differently", differ_at), (closed, "closed", closed_at)]
        {
            let is = match (what, count) {
                ("closed", 1) => "is ",
                ("closed", _) => "are ",
                _ => "",
            };
            if count > 0 {
                // Writing to a string does not fail.
                let _ = write!(text, "; {count} {is}{what}: {places}");
            }
        }
        Some(text)
    }

    /// The report as lines, each with the file's name and the line in it, in the files' order; then the verdict and the
    /// counts.
    pub fn text(&self, file: &str) -> String {
        let mut entries: Vec<&Entry> = self.entries.iter().collect();
        entries.sort_by(|one, other| one.at.cmp(&other.at));
        let mut text = String::new();
        for (subject, how) in &self.general {
            let _ = writeln!(text, "{file}: {}: {subject}: {how}", Conversion::Approximated);
        }
        for Entry { at, outcome, subject, note } in entries {
            let colon = if note.is_empty() { "" } else { ": " };
            let _ = writeln!(text, "{}: {outcome}: {subject}{colon}{note}", at.text(file));
        }
        if let Some(verdict) = self.verdict(file) {
            let _ = writeln!(text, "{file}: {verdict}");
        }
        let count = |outcome| self.count(outcome);
        let _ = writeln!(
            text,
            "{file}: {} converted, {} left out without effect, {} approximated, {} closed, {} not supported",
            count(Conversion::Converted),
            count(Conversion::Ignored),
            count(Conversion::Approximated),
            count(Conversion::Closed),
            count(Conversion::Unsupported)
        );
        text
    }
}

impl fmt::Display for Conversion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Conversion::Converted => "converted",
            Conversion::Ignored => "no effect on answers",
            Conversion::Approximated => "approximated",
            Conversion::Unsupported => "not supported",
            Conversion::Closed => "closed",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_names_what_to_look_at() {
        let mut report = Report::default();
        assert_eq!(report.verdict("f"), None);
        report.count_parts("locations", "nginx");
        report.part(3, Conversion::Converted);
        report.part(5, Conversion::Closed);
        report.part(At { file: Some("inc".into()), line: 2 }, Conversion::Unsupported);
        let text = report.verdict("f").unwrap_or_default();
        assert_eq!(
            text,
            "1 of 3 locations behave as in nginx; 1 answer differently: inc:2; 1 is closed: f:5"
        );
    }

    #[test]
    fn what_the_gateway_refuses_is_closed() {
        let mut report = Report::default();
        report.count_parts("routes", "Kong");
        let objects = |route: &str| vec![format!("routes/{route}"), "consumers".to_owned()];
        report.part_of(3, Conversion::Converted, objects("a"));
        report.part_of(3, Conversion::Converted, objects("b"));
        report.part(7, Conversion::Converted);
        report.made("routes", "a", 3);
        report.made("routes", "other", 7);
        report.refused("routes", "a", "why");
        let text = |report: &Report| report.verdict("f").unwrap_or_default();
        assert_eq!(text(&report), "2 of 3 routes behave as in Kong; 1 is closed: f:3");
        report.refused("consumers", "anna", "why");
        report.refused("routes", "other", "why");
        let all = "0 of 3 routes behave as in Kong; 1 answer differently: f:3; 2 are closed: f:3, f:7";
        assert_eq!(text(&report), all);
        assert!(report.text("f").contains("f:3: not supported: routes a: why; the gateway refuses this"));
    }

    #[test]
    fn what_changes_no_answer_is_exact() {
        let mut report = Report::default();
        report.ignored(1, "sendfile", "");
        assert!(report.is_exact());
        report.differs_always("proxy_pass", "how");
        assert!(report.is_exact(), "no file could be");
        assert!(
            report.text("f").starts_with("f: approximated: proxy_pass: how\nf:1: "),
            "{}",
            report.text("f")
        );
        report.closed(1, "location /", "why");
        assert!(!report.is_exact());
    }
}
