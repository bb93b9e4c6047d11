//! Whether one text may match both of two expressions, by a walk through their automata side by side.

use std::collections::HashSet;

use regex_automata::{
    nfa::thompson::{NFA, State},
    util::{look::Look, primitives::StateID},
};

use super::automaton;

/// An expression that is anchored at its start, for [`may_both_match`].
pub(crate) struct Automaton(NFA);

impl Automaton {
    pub(crate) fn of(pattern: &str) -> Option<Automaton> {
        automaton(pattern).map(Automaton)
    }
}

/// Steps of two automata that are followed together.
const MAX_STEPS: usize = 100_000;

/// Whether one text may match both of two expressions. Assertions other than that of the end are taken to hold.
pub(crate) fn may_both_match(one: &Automaton, other: &Automaton) -> bool {
    let start = (one.0.start_anchored(), other.0.start_anchored(), false);
    let (mut seen, mut stack) = (HashSet::from([start]), vec![start]);
    while let Some((left, right, has_ended)) = stack.pop() {
        let (ways, others) = (Ways::of(&one.0, left), Ways::of(&other.0, right));
        if (ways.matches && others.matches) || seen.len() > MAX_STEPS {
            return true;
        }
        let mut next: Vec<(StateID, StateID, bool)> = Vec::new();
        next.extend(ways.free.iter().map(|left| (*left, right, has_ended)));
        next.extend(others.free.iter().map(|right| (left, *right, has_ended)));
        next.extend(ways.at_end.iter().map(|left| (*left, right, true)));
        next.extend(others.at_end.iter().map(|right| (left, *right, true)));
        if !has_ended {
            for (from, to, left) in &ways.bytes {
                let meets = others
                    .bytes
                    .iter()
                    .filter(|(other_from, other_to, _)| from <= other_to && other_from <= to);
                next.extend(meets.map(|(_, _, right)| (*left, *right, false)));
            }
        }
        stack.extend(next.into_iter().filter(|state| seen.insert(*state)));
    }
    false
}

/// Where a state leads.
#[derive(Default)]
struct Ways {
    /// Without a byte.
    free: Vec<StateID>,
    /// Without a byte, at the end of the text.
    at_end: Vec<StateID>,
    bytes: Vec<(u8, u8, StateID)>,
    matches: bool,
}

impl Ways {
    fn of(nfa: &NFA, state: StateID) -> Ways {
        let mut ways = Ways::default();
        match nfa.state(state) {
            State::Match { .. } => {
                ways.matches = true;
                // Whatever follows.
                ways.bytes.push((0, u8::MAX, state));
            }
            State::Look { look: Look::End, next } => ways.at_end.push(*next),
            State::Look { next, .. } | State::Capture { next, .. } => ways.free.push(*next),
            State::Union { alternates } => ways.free.extend(alternates.iter()),
            State::BinaryUnion { alt1, alt2 } => ways.free.extend([*alt1, *alt2]),
            State::ByteRange { trans } => ways.bytes.push((trans.start, trans.end, trans.next)),
            State::Sparse(sparse) => {
                ways.bytes.extend(sparse.transitions.iter().map(|one| (one.start, one.end, one.next)));
            }
            State::Dense(dense) => {
                let found = (0..=u8::MAX).filter_map(|byte| Some((byte, byte, dense.matches_byte(byte)?)));
                ways.bytes.extend(found);
            }
            State::Fail => {}
        }
        ways
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_may_both_match() {
        for (one, other, wanted) in [
            ("^/a/.*", "^/a/x\\z", true),
            ("^/users/[0-9]+\\z", "^/users/[0-9]+/posts\\z", false),
            ("^/users/[0-9]+", "^/users/[0-9]+/posts\\z", true),
            ("^/a", "^/b", false),
            ("^/(?:a|b)\\z", "^/b\\z", true),
            ("^/a\\z", "^/a", true),
        ] {
            let (one, other) = (Automaton::of(one), Automaton::of(other));
            let found = one.zip(other).map(|(one, other)| may_both_match(&one, &other));
            assert_eq!(found, Some(wanted));
        }
    }
}
