//! What an expression may match where only parts of the text are known, by a walk through its automaton.

mod both;
mod looks;

pub(crate) use both::{Automaton, may_both_match};
use regex_automata::{
    nfa::thompson::{self, NFA, State},
    util::{look::Look, primitives::StateID, syntax},
};
use tidegate_backtrack::pcre;

use self::looks::without_looks;

/// A part of a text.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Piece<'t> {
    Text(&'t str),
    Any,
}

/// Larger automata are not looked through.
const MAX_BYTES: usize = 1 << 20;

fn automaton(pattern: &str) -> Option<NFA> {
    let translated = pcre::translate(pattern, pcre::Units::Bytes).ok()?;
    let config = thompson::Config::new()
        .utf8(false)
        .nfa_size_limit(Some(MAX_BYTES))
        .which_captures(thompson::WhichCaptures::None);
    thompson::Compiler::new()
        .syntax(syntax::Config::new().unicode(false).utf8(false))
        .configure(config)
        .build(&translated.pattern)
        .ok()
}

/// Whether a text of these pieces may match.
pub(crate) fn may_match(pattern: &str, pieces: &[Piece]) -> bool {
    found(pattern, &[], pieces)
}

/// Whether the expression may match a text that continues with `last` though it does not match what stands before.
pub(crate) fn may_match_with(pattern: &str, before: &[Piece], last: &str) -> bool {
    found(pattern, before, &[Piece::Text(last)])
}

/// Whether a text that matches still matches with anything behind it.
pub(crate) fn stays(pattern: &str) -> bool {
    automaton(pattern).is_some_and(|nfa| nfa.look_set_any().iter().all(|look| look == Look::Start))
}

/// What the gateway's engines read otherwise than PCRE: `$` before a line feed that something takes, and `^` of `(?m)` behind the
/// last one.
pub(crate) fn is_odd(pattern: &str) -> bool {
    // The usual case: one `$`, at the end.
    let before = pattern.trim_end_matches(['$', ')']);
    if !before.contains('$') && !before.contains("(?") {
        return false;
    }
    let Some(nfa) = automaton(pattern) else {
        // An expression that goes back.
        let mut ends = pattern.match_indices('$').map(|(at, _)| pattern.get(at + 1..).unwrap_or_default());
        return ends.any(|rest| !rest.is_empty() && !rest.starts_with([')', '|', ']']));
    };
    if nfa.look_set_any().contains(Look::StartLF) {
        return true;
    }
    nfa.states().iter().any(|state| match state {
        State::Look { look: Look::End, next } => {
            let mut walk = Walk::new(&nfa);
            walk.enter(*next, |_| true);
            walk.states().any(|state| !after(&nfa, state, b'\n').is_empty())
        }
        _ => false,
    })
}

fn found(pattern: &str, before: &[Piece], counted: &[Piece]) -> bool {
    let pattern = without_rest(pattern);
    let Some(nfa) = automaton(pattern) else {
        let widened = without_looks(pattern).filter(|wider| automaton(&wider.pattern).is_some());
        return widened.is_none_or(|wider| match wider.keeps_matches {
            true => found(&wider.pattern, before, counted),
            // A match of what stands before means nothing.
            false => found(&wider.pattern, &[], &[before, counted].concat()),
        });
    };
    let is_known = |look| matches!(look, Look::Start | Look::End);
    // A line feed at the end may follow a `$`.
    let ends_a_line = matches!(counted.last(), Some(Piece::Text(text)) if text.ends_with('\n'));
    if !nfa.look_set_any().iter().all(is_known) || ends_a_line {
        return true;
    }
    let mut walk = Walk::new(&nfa);
    walk.enter(nfa.start_unanchored(), |look| look == Look::Start);
    if before.is_empty() && walk.matches() {
        return true;
    }
    for piece in before {
        walk.take(*piece);
    }
    if counted.is_empty() {
        return false;
    }
    for piece in counted {
        if walk.take(*piece) {
            return true;
        }
    }
    walk.end()
}

/// Without `.*` at its end, which matches nothing more, but makes what stands before unclear.
fn without_rest(pattern: &str) -> &str {
    let shorter = pattern.strip_suffix(".*").filter(|rest| !rest.ends_with('\\') && !rest.contains("\\Q"));
    shorter.unwrap_or(pattern)
}

/// The states that a text may lead to.
struct Walk<'n> {
    nfa: &'n NFA,
    is_in: Vec<bool>,
}

impl<'n> Walk<'n> {
    fn new(nfa: &'n NFA) -> Self {
        Walk { nfa, is_in: vec![false; nfa.states().len()] }
    }

    fn states(&self) -> impl Iterator<Item = StateID> + '_ {
        let indices = self.is_in.iter().enumerate().filter(|(_, is_in)| **is_in);
        indices.filter_map(|(index, _)| StateID::new(index).ok())
    }

    /// A state with all that follow it without a byte.
    fn enter(&mut self, state: StateID, holds: impl Fn(Look) -> bool) {
        let mut stack = vec![state];
        while let Some(state) = stack.pop() {
            let Some(is_in) = self.is_in.get_mut(state.as_usize()) else { continue };
            if std::mem::replace(is_in, true) {
                continue;
            }
            match self.nfa.state(state) {
                State::Look { look, next } if holds(*look) => stack.push(*next),
                State::Union { alternates } => stack.extend(alternates.iter()),
                State::BinaryUnion { alt1, alt2 } => stack.extend([*alt1, *alt2]),
                State::Capture { next, .. } => stack.push(*next),
                _ => {}
            }
        }
    }

    fn matches(&self) -> bool {
        self.states().any(|state| matches!(self.nfa.state(state), State::Match { .. }))
    }

    /// Continues behind a piece; returns whether a match ends in it.
    fn take(&mut self, piece: Piece) -> bool {
        match piece {
            Piece::Text(text) => {
                let mut matches = text.is_empty() && self.matches();
                for byte in text.bytes() {
                    let mut next = Walk::new(self.nfa);
                    for state in self.states() {
                        after(self.nfa, state, byte).into_iter().for_each(|one| next.enter(one, |_| false));
                    }
                    *self = next;
                    matches |= self.matches();
                }
                matches
            }
            Piece::Any => {
                // Until no byte leads to another state.
                loop {
                    let before = self.states().count();
                    let following: Vec<StateID> =
                        self.states().flat_map(|state| all_after(self.nfa, state)).collect();
                    following.into_iter().for_each(|one| self.enter(one, |_| false));
                    if self.states().count() == before {
                        return self.matches();
                    }
                }
            }
        }
    }

    /// At the end of the text.
    fn end(self) -> bool {
        let mut last = Walk::new(self.nfa);
        self.states().for_each(|state| last.enter(state, |look| look == Look::End));
        last.matches()
    }
}

fn after(nfa: &NFA, state: StateID, byte: u8) -> Vec<StateID> {
    match nfa.state(state) {
        State::ByteRange { trans } if trans.matches_byte(byte) => vec![trans.next],
        State::Sparse(sparse) => sparse.matches_byte(byte).into_iter().collect(),
        State::Dense(dense) => dense.matches_byte(byte).into_iter().collect(),
        _ => Vec::new(),
    }
}

fn all_after(nfa: &NFA, state: StateID) -> Vec<StateID> {
    match nfa.state(state) {
        State::ByteRange { trans } => vec![trans.next],
        State::Sparse(sparse) => sparse.transitions.iter().map(|one| one.next).collect(),
        State::Dense(dense) => {
            dense.transitions.iter().copied().filter(|next| *next != StateID::ZERO).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Piece::*, *};

    #[test]
    fn what_an_index_may_meet() {
        let below = |text| [Text(text), Any, Text("/")];
        for (pattern, base, name, wanted) in [
            (r"\.html$", "", "index.html", true),
            (r"(?i)\.HTML$", "", "index.html", true),
            (r"\.php$", "", "index.html", false),
            // The folder is taken by it already.
            (r"\.php", "", "index.html", false),
            (r"/$", "", "index.html", false),
            (r"^/admin", "", "index.html", false),
            (r"^/a.*x", "", "index.html", true),
            (r"^/a", "/b", "index.html", false),
            (r"/\.", "", "index.html", false),
            (r"/\..*", "", "index.html", false),
            (r"/\.*", "", "index.html", false),
            (r"/\.", "", ".index", true),
            (r"^/b/index", "/b", "index.html", true),
            (r"(?=x)", "", "index.html", true),
            (r"^/re2/(?!open)", "/files", "index.html", false),
            (r"^/re2/(?!open)", "", "index.html", false),
            (r"/(?!x)", "", "index.html", false),
            (r"/\.(?!well-known)", "", "index.html", false),
            (r"/\.(?!well-known).*", "", "index.html", false),
            (r"/\.(?!well-known|a\.b)", "", ".hidden", true),
            (r"/(?!a$)", "", "index.html", true),
            (r"/(?!a\b)", "", "index.html", true),
            (r"/(?=i)", "", "index.html", true),
            (r"(?!a)\.html", "", "index.html", true),
            (r"^/a(?![)x(]|\)).*(?<!y)\.php$", "", "index.html", false),
            (r"^/a(?!x", "/b", "index.html", true),
            (
                r"(?x)^/a #)(
(?!b)",
                "/b",
                "index.html",
                true,
            ),
            (r"\bindex", "", "index.html", true),
        ] {
            assert_eq!(may_match_with(pattern, &below(base), name), wanted, "{pattern} {base} {name}");
        }
    }

    #[test]
    fn what_a_new_path_may_meet() {
        for (pattern, pieces, wanted) in [
            ("^/old$", vec![Text("/new")], false),
            ("^", vec![Text("/new")], true),
            ("x*", vec![Text("/new")], true),
            ("^/new$", vec![Text("/new")], true),
            ("^/a/x/(.*)$", vec![Text("/a/"), Any], true),
            ("^/b/x/(.*)$", vec![Text("/a/"), Any], false),
            ("^/(.*)$", vec![Text("/a/"), Any], true),
            (r"\.php$", vec![Text("/run")], false),
        ] {
            assert_eq!(may_match(pattern, &pieces), wanted, "{pattern}");
        }
        assert!(stays("^/a/") && !stays("/$") && !stays("(?!x)"));
    }

    #[test]
    fn what_is_read_otherwise() {
        for (pattern, odd) in [
            ("^/admin$", false),
            ("^/admin$\n", true),
            ("^/admin$\\n", true),
            ("^/(a$|b)", false),
            ("^/(a$|b)\\s?", true),
            ("(?m)^a", true),
            ("(?i)a$", false),
            ("^/[$]a", false),
            ("^/(?!a$)b", false),
            ("^/(?!a)b$c", true),
        ] {
            assert_eq!(is_odd(pattern), odd, "{pattern}");
        }
    }
}
