//! An automaton that is built while it searches, in little memory, with an eye on the clock.
//!
//! Each byte leads to a state that is known, in 2 ns, or to a new one, which takes as long as the pattern is large. A text
//! that leads from one new state to the next runs out of time, and the search ends there.

use std::{
    cell::RefCell,
    ops::Range,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use regex_automata::{
    Anchored, Input, MatchKind, Span,
    hybrid::{
        LazyStateID,
        dfa::{Builder, Cache, Config, DFA},
    },
    nfa::thompson::WhichCaptures,
    util::prefilter::Prefilter,
};
use regex_syntax::hir::{Hir, Look};

use crate::{automaton::automaton, outcome::GaveUp, time::Stopwatch};

/// For the states of one direction, in each thread; more where a few states need more.
const CACHE_BYTES: usize = 256 << 10;
const CACHE_BYTES_OF_A_STATE: usize = 64;

/// Larger patterns have no such automaton. A new state of it takes some milliseconds at most. Classes of all letters that are
/// counted have so many: `\p{L}{1,64}` some 40,000.
const MAX_STATES: usize = 256 << 10;

/// Patterns whose states a thread remembers for the next search.
const REMEMBERED: usize = 4;

/// A pattern with more states is the only one that a thread remembers: it has some megabytes.
const MANY_STATES: usize = 32 << 10;

/// What is done between two looks at the clock, in states of the pattern: less than a millisecond.
const STATES_BETWEEN_LOOKS: usize = 64 << 10;

pub(crate) struct Lazy {
    id: u64,
    forward: DFA,
    reverse: DFA,
    prefilter: Option<Prefilter>,
    always_from_start: bool,
    /// How many patterns a thread remembers, this one among them.
    remembered: usize,
    /// Bytes between two looks at the clock.
    stride: usize,
}

/// What was built so far, in each direction.
struct Caches {
    forward: Cache,
    reverse: Cache,
}

thread_local! {
    /// The one that was used last comes first.
    static REMEMBER: RefCell<Vec<(u64, Caches)>> = const { RefCell::new(Vec::new()) };
}

impl Lazy {
    /// `None`: the pattern is too large for such an automaton.
    pub(crate) fn new(hir: &Hir) -> Option<Lazy> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let forward = automaton(hir, WhichCaptures::None, false).ok()?;
        let reverse = automaton(hir, WhichCaptures::None, true).ok()?;
        let states = forward.states().len().max(reverse.states().len());
        if states > MAX_STATES {
            return None;
        }
        let always_from_start = hir.properties().look_set_prefix().contains(Look::Start);
        let prefilter = match always_from_start {
            true => None,
            false => Prefilter::from_hir_prefix(MatchKind::LeftmostFirst, hir),
        };
        let config = Config::new()
            .unicode_word_boundary(true)
            .cache_capacity(CACHE_BYTES.max(states * CACHE_BYTES_OF_A_STATE));
        let build = |config, nfa| Builder::new().configure(config).build_from_nfa(nfa).ok();
        Some(Lazy {
            id: NEXT.fetch_add(1, Relaxed),
            reverse: build(config.clone().match_kind(MatchKind::All), reverse)?,
            forward: build(config, forward)?,
            prefilter,
            always_from_start,
            remembered: if states > MANY_STATES { 1 } else { REMEMBERED },
            stride: (STATES_BETWEEN_LOOKS / states.max(1)).clamp(1, 512),
        })
    }

    pub(crate) fn is_match(&self, text: &[u8], most: Duration) -> Result<bool, GaveUp> {
        let mut watch = Stopwatch::new(most);
        self.with_caches(|caches| {
            self.end(text, true, &mut caches.forward, &mut watch).map(|end| end.is_some())
        })
    }

    pub(crate) fn find(&self, text: &[u8], most: Duration) -> Result<Option<Range<usize>>, GaveUp> {
        let mut watch = Stopwatch::new(most);
        self.with_caches(|caches| {
            let Some(end) = self.end(text, false, &mut caches.forward, &mut watch)? else { return Ok(None) };
            let start = match end == 0 || self.always_from_start {
                true => 0,
                false => self.start(text, end, &mut caches.reverse, &mut watch)?,
            };
            Ok(Some(start..end))
        })
    }

    /// Where the first match ends, or the shortest that begins first.
    fn end(
        &self,
        text: &[u8],
        shortest: bool,
        cache: &mut Cache,
        watch: &mut Stopwatch,
    ) -> Result<Option<usize>, GaveUp> {
        let from = match &self.prefilter {
            None => 0,
            Some(prefilter) => match prefilter.find(text, Span::from(0..text.len())) {
                Some(candidate) => candidate.start,
                None => return Ok(None),
            },
        };
        let dfa = &self.forward;
        let input = Input::new(text).range(from..);
        let mut state = dfa.start_state_forward(cache, &input).map_err(|_| GaveUp)?;
        let mut end = None;
        let mut at = from;
        for piece in text.get(from..).unwrap_or_default().chunks(self.stride) {
            for &byte in piece {
                state = next(dfa, cache, state, byte)?;
                if state.is_tagged() {
                    match Tag::of(state)? {
                        // A state says so one byte late.
                        Tag::Match if shortest => return Ok(Some(at)),
                        Tag::Match => end = Some(at),
                        Tag::Dead => return Ok(end),
                        Tag::Other => {}
                    }
                }
                at += 1;
            }
            watch.check()?;
        }
        let state = dfa.next_eoi_state(cache, state).map_err(|_| GaveUp)?;
        Ok(if state.is_match() { Some(text.len()) } else { end })
    }

    /// Where the match begins that ends here.
    fn start(
        &self,
        text: &[u8],
        end: usize,
        cache: &mut Cache,
        watch: &mut Stopwatch,
    ) -> Result<usize, GaveUp> {
        let dfa = &self.reverse;
        let input = Input::new(text).range(..end).anchored(Anchored::Yes);
        let mut state = dfa.start_state_reverse(cache, &input).map_err(|_| GaveUp)?;
        let mut start = None;
        let mut at = end;
        for piece in text.get(..end).unwrap_or_default().rchunks(self.stride) {
            for &byte in piece.iter().rev() {
                state = next(dfa, cache, state, byte)?;
                if state.is_tagged() {
                    match Tag::of(state)? {
                        Tag::Match => start = Some(at),
                        Tag::Dead => return start.ok_or(GaveUp),
                        Tag::Other => {}
                    }
                }
                at -= 1;
            }
            watch.check()?;
        }
        let state = dfa.next_eoi_state(cache, state).map_err(|_| GaveUp)?;
        if state.is_match() { Ok(0) } else { start.ok_or(GaveUp) }
    }

    fn with_caches<R>(&self, search: impl FnOnce(&mut Caches) -> R) -> R {
        REMEMBER.with_borrow_mut(|remembered| {
            let known = remembered.iter().position(|(id, _)| *id == self.id).map(|at| remembered.remove(at));
            let mut entry = known.unwrap_or_else(|| {
                // Of patterns of different sizes: memory that one has no use for is given back.
                remembered.truncate(self.remembered - 1);
                let caches =
                    Caches { forward: self.forward.create_cache(), reverse: self.reverse.create_cache() };
                (self.id, caches)
            });
            let result = search(&mut entry.1);
            remembered.insert(0, entry);
            result
        })
    }
}

/// The state behind a byte, which is built if it is new.
#[inline]
fn next(dfa: &DFA, cache: &mut Cache, state: LazyStateID, byte: u8) -> Result<LazyStateID, GaveUp> {
    if !state.is_tagged() {
        let next = dfa.next_state_untagged(cache, state, byte);
        if !next.is_unknown() {
            return Ok(next);
        }
    }
    dfa.next_state(cache, state, byte).map_err(|_| GaveUp)
}

enum Tag {
    Match,
    Dead,
    Other,
}

impl Tag {
    /// Of a state that is not an ordinary one; the automaton may not be for this text.
    fn of(state: LazyStateID) -> Result<Tag, GaveUp> {
        match state {
            state if state.is_match() => Ok(Tag::Match),
            state if state.is_dead() => Ok(Tag::Dead),
            state if state.is_quit() => Err(GaveUp),
            _ => Ok(Tag::Other),
        }
    }
}
