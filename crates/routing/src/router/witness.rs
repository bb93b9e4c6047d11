//! What a lookup reports about the candidates that it tries.

use super::{index::Scope, lookup::Match};

/// The condition that a candidate failed, the first in the order of `Router::find`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// `methods`
    Method,
    /// `remote_addrs`
    RemoteAddr,
    /// `hosts`
    Host,
    /// `vars`
    Vars,
    /// `filter_func`
    FilterFunction,
    /// The pattern of the path.
    Parameters,
}

/// The lookup's result for one candidate.
pub(super) struct Tried<'r, 'm> {
    pub route: u32,
    pub scope: Scope,
    pub uri: &'r str,
    pub host: Option<&'r str>,
    pub priority: i64,
    pub judged: &'m Result<Match<'r>, Loss>,
    /// Evaluated only when the witness wants it.
    pub clause: &'m dyn Fn() -> Option<usize>,
}

/// Sees each candidate in the order of trying.
pub(super) trait Witness<'r> {
    /// Whether candidates are looked at: if not, they are not prepared for it.
    const LOOKS: bool;
    /// `true`: continue, even when this one has won.
    fn saw(&mut self, tried: Tried<'r, '_>) -> bool;
}

/// For requests: records nothing, the first candidate that passes wins.
pub(super) struct Nobody;

impl Witness<'_> for Nobody {
    const LOOKS: bool = false;
    fn saw(&mut self, _: Tried<'_, '_>) -> bool {
        false
    }
}
