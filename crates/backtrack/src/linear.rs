//! Regular expressions in linear time, which is long where a large pattern meets a long text.
//!
//! "Linear" counts bytes: each byte may cost as much as the pattern has states. While states times bytes are few, the
//! engine may choose how it searches. Beyond that only an automaton that gives up searches (`lazy.rs`). See docs/adr/0035.

use std::{
    fmt,
    sync::{
        OnceLock,
        atomic::{AtomicU8, Ordering::Relaxed},
    },
    time::Duration,
};

use regex_automata::{Anchored, Input, meta, nfa::thompson::WhichCaptures, util::primitives::NonMaxUsize};
use regex_syntax::{ParserBuilder, hir::Hir};

use crate::{
    automaton::{MAX_COMPILED_BYTES, automaton},
    large::{self, TOO_LARGE},
    lazy::Lazy,
    outcome::{GaveUp, Groups},
    time::work_within,
};

/// Of larger patterns the automaton for long texts is prepared before the first of them comes.
const LARGE: usize = 2048;

/// About one in each thread.
const FIRST_SEARCHES: u8 = 16;
const SHORT_WORK: usize = 16 << 10;

/// A pattern without look-around and back-references, searched in linear time.
pub struct Linear {
    source: Box<str>,
    /// The pattern as it was written.
    shown: Box<str>,
    mode: Mode,
    regex: meta::Regex,
    states: usize,
    /// Its first searches, up to [`FIRST_SEARCHES`].
    searches: AtomicU8,
    /// For long texts, made when the first of them comes.
    lazy: OnceLock<Option<Box<Lazy>>>,
}

#[derive(Clone, Copy, Debug)]
struct Mode {
    unicode: bool,
    ignore_case: bool,
}

impl Linear {
    /// Matches bytes, with ASCII classes. The error says what is wrong with the pattern.
    pub fn new(source: &str, ignore_case: bool) -> Result<Linear, String> {
        Linear::compile(source, Mode { unicode: false, ignore_case })
    }

    /// As [`Linear::new`], with classes of all letters.
    pub fn unicode(source: &str, ignore_case: bool) -> Result<Linear, String> {
        Linear::compile(source, Mode { unicode: true, ignore_case })
    }

    fn compile(source: &str, mode: Mode) -> Result<Linear, String> {
        let hir = parse(source, mode)?;
        let nfa = automaton(&hir, WhichCaptures::All, false)?;
        let states = nfa.states().len();
        let config = meta::Config::new()
            .utf8_empty(false)
            .nfa_size_limit(Some(MAX_COMPILED_BYTES))
            .hybrid_cache_capacity(cache_bytes(states));
        let built = meta::Builder::new().configure(config).build_from_hir(&hir);
        let regex = built.map_err(|error| match error.size_limit() {
            Some(_) => TOO_LARGE.to_owned(),
            None => error.to_string(),
        })?;
        large::remark_on(source, states);
        let lazy = OnceLock::new();
        if states > LARGE {
            let _ = lazy.set(Lazy::new(&hir).map(Box::new));
        }
        Ok(Linear {
            source: source.into(),
            shown: source.into(),
            mode,
            regex,
            states,
            searches: AtomicU8::new(0),
            lazy,
        })
    }

    /// With the pattern as it was written.
    pub(crate) fn shown_as(self, pattern: &str) -> Linear {
        Linear { shown: pattern.into(), ..self }
    }

    /// As configured.
    pub fn as_str(&self) -> &str {
        &self.shown
    }

    /// About what each byte of a text may cost.
    pub fn states(&self) -> usize {
        self.states
    }

    /// Groups, without the whole.
    pub fn groups(&self) -> usize {
        self.regex.captures_len().saturating_sub(1)
    }

    /// What the slowest search through a text of this length would do.
    pub(crate) fn work(&self, length: usize) -> usize {
        self.states.saturating_mul(length + 1)
    }

    /// Whether this is a short search, and one of the first: in each thread the first takes ten microseconds, which says
    /// nothing of the pattern. A thousand of them are not a reason to refuse a request.
    pub(crate) fn is_new_to(&self, text: &[u8]) -> bool {
        let is_new = self.searches.load(Relaxed) < FIRST_SEARCHES && self.work(text.len()) < SHORT_WORK;
        if is_new {
            self.searches.fetch_add(1, Relaxed);
        }
        is_new
    }

    pub(crate) fn is_match(&self, text: &[u8], most: Duration) -> Result<bool, GaveUp> {
        if self.work(text.len()) <= work_within(most) {
            return Ok(self.regex.is_match(text));
        }
        self.lazy()?.is_match(text, most)
    }

    /// The first match: group 0 is the whole of it.
    pub(crate) fn captures(&self, text: &[u8], most: Duration) -> Result<Option<Groups>, GaveUp> {
        if self.work(text.len()) <= work_within(most) {
            return Ok(self.groups_of(&Input::new(text)));
        }
        self.captures_of_long(text, most)
    }

    fn captures_of_long(&self, text: &[u8], most: Duration) -> Result<Option<Groups>, GaveUp> {
        let Some(found) = self.lazy()?.find(text, most)? else { return Ok(None) };
        if self.groups() == 0 {
            return Ok(Some(vec![Some(found)]));
        }
        // Where the groups are, only a slow engine can tell: within the match.
        if self.work(found.len()) > work_within(most) {
            return Err(GaveUp);
        }
        self.groups_of(&Input::new(text).span(found).anchored(Anchored::Yes)).map(Some).ok_or(GaveUp)
    }

    fn groups_of(&self, input: &Input<'_>) -> Option<Groups> {
        let mut slots: Vec<Option<NonMaxUsize>> = vec![None; 2 * self.regex.captures_len()];
        self.regex.search_slots(input, &mut slots)?;
        let range = |pair: &[Option<NonMaxUsize>]| match pair {
            [Some(start), Some(end)] => Some(start.get()..end.get()),
            _ => None,
        };
        Some(slots.chunks(2).map(range).collect())
    }

    fn lazy(&self) -> Result<&Lazy, GaveUp> {
        let make = || parse(&self.source, self.mode).ok().and_then(|hir| Lazy::new(&hir)).map(Box::new);
        self.lazy.get_or_init(make).as_deref().ok_or(GaveUp)
    }
}

impl fmt::Debug for Linear {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "/{}/", self.shown)
    }
}

/// What a search remembers for the next one, for each thread: enough for ordinary texts.
fn cache_bytes(states: usize) -> usize {
    const LEAST: usize = 256 << 10;
    const MOST: usize = 2 << 20;
    const OF_A_STATE: usize = 256;
    states.saturating_mul(OF_A_STATE).clamp(LEAST, MOST)
}

fn parse(source: &str, mode: Mode) -> Result<Hir, String> {
    let mut parser = ParserBuilder::new();
    parser.utf8(false).unicode(mode.unicode).case_insensitive(mode.ignore_case);
    parser.build().parse(source).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
