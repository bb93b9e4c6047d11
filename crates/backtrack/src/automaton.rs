//! The automaton of a pattern, which the engines in linear time search with.

use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};
use regex_syntax::hir::Hir;

use crate::large::TOO_LARGE;

/// Memory of a compiled pattern; more is refused.
pub(crate) const MAX_COMPILED_BYTES: usize = 10 << 20;

pub(crate) fn automaton(hir: &Hir, captures: WhichCaptures, reverse: bool) -> Result<NFA, String> {
    let config = thompson::Config::new()
        .utf8(false)
        .reverse(reverse)
        .which_captures(captures)
        .nfa_size_limit(Some(MAX_COMPILED_BYTES));
    let built = thompson::Compiler::new().configure(config).build_from_hir(hir);
    built.map_err(|error| match error.size_limit() {
        Some(_) => TOO_LARGE.to_owned(),
        None => error.to_string(),
    })
}
