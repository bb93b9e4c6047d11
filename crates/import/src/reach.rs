//! What an expression may match where only parts of the text are known, by a walk through its automaton.

mod both;
mod looks;

pub(crate) use both::{Automaton, may_both_match};
use regex_automata::{
    nfa::thompson::{self, NFA, State},
    util::{look::Look, primitives::StateID, syntax},
};
use tidegate_backtrack::pcre;

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
    if let Some(nfa) = automaton(pattern) {
        return walked(&nfa, None, before, counted);
    }
    let widened = looks::without(pattern).and_then(|wider| automaton(&wider));
    widened.is_none_or(|nfa| match looks::only_forbid(pattern) {
        true => walked(&nfa, Some(looks::MARK), before, counted),
        // Of a wider expression, a match of what stands before means nothing.
        false => walked(&nfa, Some(looks::MARK), &[], &[before, counted].concat()),
    })
}

/// `mark`: stands where look-around was, which may hold.
fn walked(nfa: &NFA, mark: Option<Look>, before: &[Piece], counted: &[Piece]) -> bool {
    let is_known = |look| matches!(look, Look::Start | Look::End) || Some(look) == mark;
    // A line feed at the end may follow a `$`.
    let ends_a_line = matches!(counted.last(), Some(Piece::Text(text)) if text.ends_with('\n'));
    if !nfa.look_set_any().iter().all(is_known) || ends_a_line {
        return true;
    }
    let mut walk = Walk { mark, ..Walk::new(nfa) };
    walk.enter(nfa.start_unanchored(), |look| look == Look::Start);
    if before.is_empty() && walk.matches() {
        return true;
    }
    let matched = matched_states(nfa, false);
    for (index, piece) in before.iter().enumerate() {
        match piece {
            Piece::Text(text) if index + 1 == before.len() && text.ends_with('/') => {
                walk.take(Piece::Text(text.strip_suffix('/').unwrap_or_default()), &matched);
                walk.take(Piece::Text("/"), &matched_states(nfa, true));
            }
            _ => {
                walk.take(*piece, &matched);
            }
        }
    }
    if counted.is_empty() {
        return false;
    }
    for piece in counted {
        if walk.take(*piece, &[]) {
            return true;
        }
    }
    walk.end()
}

/// The states in which a match is complete, whatever follows, or where the text ends.
fn matched_states(nfa: &NFA, at_end: bool) -> Vec<bool> {
    let mut is_matched = vec![false; nfa.states().len()];
    loop {
        let mut has_changed = false;
        for (index, state) in nfa.states().iter().enumerate().rev() {
            let is = |next: &StateID| is_matched.get(next.as_usize()).copied().unwrap_or_default();
            let is_new = match state {
                State::Match { .. } => true,
                State::Union { alternates } => alternates.iter().any(is),
                State::BinaryUnion { alt1, alt2 } => is(alt1) || is(alt2),
                State::Capture { next, .. } => is(next),
                State::Look { look: Look::End, next } => at_end && is(next),
                _ => false,
            };
            if let Some(known) = is_matched.get_mut(index).filter(|known| is_new && !**known) {
                *known = true;
                has_changed = true;
            }
        }
        if !has_changed {
            return is_matched;
        }
    }
}

/// The states that a text may lead to.
struct Walk<'n> {
    nfa: &'n NFA,
    /// An assertion that may hold anywhere.
    mark: Option<Look>,
    is_in: Vec<bool>,
}

impl<'n> Walk<'n> {
    fn new(nfa: &'n NFA) -> Self {
        Walk { nfa, mark: None, is_in: vec![false; nfa.states().len()] }
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
                State::Look { look, next } if holds(*look) || Some(*look) == self.mark => stack.push(*next),
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

    /// Continues behind a piece; returns whether a match ends in it. `left_out`: states that no way leads through.
    fn take(&mut self, piece: Piece, left_out: &[bool]) -> bool {
        let is_open = |state: &StateID| !left_out.get(state.as_usize()).copied().unwrap_or_default();
        match piece {
            Piece::Text(text) => {
                let mut matches = text.is_empty() && self.matches();
                for byte in text.bytes() {
                    let mut next = Walk { mark: self.mark, ..Walk::new(self.nfa) };
                    for state in self.states() {
                        let following = after(self.nfa, state, byte).into_iter().filter(is_open);
                        following.for_each(|one| next.enter(one, |_| false));
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
                        self.states().flat_map(|state| all_after(self.nfa, state)).filter(is_open).collect();
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
        let mut last = Walk { mark: self.mark, ..Walk::new(self.nfa) };
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
            (r"/\..*", "", "index.html", false),
            (r"/\.(git|svn).*$", "", "index.html", false),
            (r"/\.(git|svn).*l$", "", "index.html", true),
            (r"^/a", "/b", "index.html", false),
            (r"/\.", "", "index.html", false),
            (r"/\.", "", ".index", true),
            (r"^/b/index", "/b", "index.html", true),
            (r"(?=x)", "", "index.html", true),
            (r"^/re2/(?!open)", "/files", "index.html", false),
            (r"^/re2/(?!open)", "", "index.html", false),
            (r"/(?!x)", "", "index.html", false),
            (r"/\.(?!well-known)", "", "index.html", false),
            (r"/\.(?!well-known).*", "", "index.html", false),
            (r"/\.(?!well-known)", "", ".index", true),
            // What stands before the place may be forbidden in the directory, and not behind it.
            (r"/b.*(?<![b/])", "", "index.html", true),
            (r"^/(?!static).*\.html$", "", "index.html", true),
            (r"(?<!x)\.html$", "", "index.html", true),
            // What they forbid may end with the directory.
            (r"^/a(?!.*/$)", "", "index.html", true),
            (r"^/a(?!\b)", "", "index.html", true),
            (r"^/a(?!(?!x))", "", "index.html", true),
            (r"^/a(?=.*html)", "", "index.html", true),
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
