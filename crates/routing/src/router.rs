//! APISIX's three routers over one index.
//!
//! A route is reached by its path alone, or by its host and then its path; its other conditions are checked on
//! each candidate in APISIX's order: methods, remote addresses, hosts, vars, filter function, path parameters.
//! Candidates come from the exact path first, then from ever shorter prefixes; `priority` orders only those that
//! share an exact path or a prefix. When no candidate passes, the next shorter prefix, the less specific host and
//! last the routes without a host are tried.
//!
//! Laying out 50,000 routes takes tens of milliseconds; so a change is laid out alone, as a second layer over the
//! first, and a lookup reads both in the order in which one index would have them.

mod explain;
mod index;
mod layer;
mod layered;
pub(super) mod lookup;
mod methods;
mod parameters;
mod shadow;
mod spec;
mod trie;
mod witness;

use std::sync::Arc;

use self::layered::Changes;

pub(crate) use self::explain::Explained;
pub use self::layer::Layer;
pub use self::layered::Stale;
pub use self::{
    explain::CandidateResult,
    lookup::{Match, MatchInput, Mode},
    shadow::{First, Place, Remark, Shadow, Shadowed, first},
    witness::Loss,
};
pub use self::{
    methods::Methods,
    spec::{HostPattern, RouteSpec, without_port},
};

/// Immutable; any number of threads look up in it at once.
#[derive(Debug)]
pub struct Router<N> {
    base: Arc<Layer<N>>,
    changes: Option<Box<layered::Changes<N>>>,
}

impl<N> Router<N> {
    /// Routes come in the order of the store, which decides between equals.
    pub fn build(mode: Mode, routes: impl Iterator<Item = Arc<RouteSpec<N>>>) -> Self {
        Self::build_in_turns(mode, routes, || {})
    }

    /// As [`Router::build`]; calls `between` again and again between short steps of the work.
    pub fn build_in_turns(
        mode: Mode,
        routes: impl Iterator<Item = Arc<RouteSpec<N>>>,
        between: fn(),
    ) -> Self {
        Self { base: Arc::new(Layer::build(mode, routes, between)), changes: None }
    }

    /// The layer that [`Router::with_changes`] can build on.
    pub fn base(&self) -> &Arc<Layer<N>> {
        &self.base
    }

    /// As it was built.
    pub fn mode(&self) -> Mode {
        self.base.mode
    }

    /// The route of the highest priority whose place has the request.
    pub fn find<I: MatchInput<Name = N>>(&self, input: &I) -> Option<Match<'_>> {
        match &self.changes {
            None => self.base.find(input),
            Some(changes) => changes.find(&self.base, input),
        }
    }

    /// The candidates that [`Router::find`] would try, with their results: at most `limit`, and the one that
    /// wins. Slow: changes are laid out together with the rest first.
    pub fn explain<I: MatchInput<Name = N>>(&self, input: &I, limit: usize) -> Explained {
        match &self.changes {
            None => self.base.explain(input, limit),
            Some(changes) => changes.merged(&self.base).explain(input, limit),
        }
    }
}

impl<N> Router<N> {
    /// `changed` in the order of the store: routes that are new since `base` was laid out, and those that
    /// replace its stale ones. Calls `between` as [`Router::build_in_turns`] does.
    pub fn with_changes(
        base: Arc<Layer<N>>,
        stale: Stale,
        changed: impl Iterator<Item = Arc<RouteSpec<N>>>,
        between: fn(),
    ) -> Self {
        let layer = Layer::build(base.mode, changed, between);
        Self { base, changes: Some(Box::new(Changes { stale, layer })) }
    }
}
