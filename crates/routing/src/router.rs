//! APISIX's three routers over one index.
//!
//! A route is reached by its path alone, or by its host and then its path; what else it asks for is checked on
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
mod parameters;
mod spec;
mod trie;

use std::{net::IpAddr, sync::Arc};

use smallvec::SmallVec;

pub use self::explain::{Considered, Explained, Loss, Verdict};
pub use self::layer::Layer;
pub use self::layered::Stale;
pub use self::parameters::Param;
pub use self::spec::{HostPattern, Methods, RouteSpec, without_port};
use crate::expr::Variables;

/// `apisix.router.http` of config.yaml.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// `radixtree_host_uri`, the default: hosts lead to paths.
    HostUri,
    /// `radixtree_uri`: paths only, hosts are one of the conditions.
    Uri,
    /// `radixtree_uri_with_parameter`: as `Uri`, and `:name` stands for one path segment.
    UriWithParameter,
}

/// The request as the router sees it.
pub trait MatchInput: Variables {
    /// Normalised path without the query.
    fn path(&self) -> &[u8];
    /// Lower case, no port; `None` when the request has none.
    fn host(&self) -> Option<&[u8]>;
    /// The `Host` header as it came, for patterns that name a port.
    fn host_with_port(&self) -> Option<&[u8]>;
    /// One bit, or none for a method no route can name.
    fn method(&self) -> Methods;
    fn remote_addr(&self) -> IpAddr;
    /// Runs the route's `filter_func`; called only for routes that have one.
    fn filter(&self, route: u32) -> bool;
}

/// Everything borrows from the router, nothing from the request.
#[derive(Debug, PartialEq, Eq)]
pub struct Match<'r> {
    /// The id the route was built with.
    pub route: u32,
    /// The pattern of `uris` that led here.
    pub matched_uri: &'r str,
    /// The pattern of `hosts` that led here, lower case.
    pub matched_host: Option<&'r str>,
    pub params: SmallVec<[Param<'r>; 4]>,
}

/// Immutable; any number of threads look up in it at once.
#[derive(Debug)]
pub struct Router<N> {
    base: Arc<Layer<N>>,
    changes: Option<Box<layered::Changes<N>>>,
}

impl<N> Router<N> {
    /// Routes come in the order of the store, which decides between equals.
    pub fn build(mode: Mode, routes: impl Iterator<Item = Arc<RouteSpec<N>>>) -> Self {
        Self { base: Arc::new(Layer::build(mode, routes)), changes: None }
    }

    /// What [`Router::with_changes`] can be laid over.
    pub fn base(&self) -> &Arc<Layer<N>> {
        &self.base
    }

    pub fn find<I: MatchInput<Name = N>>(&self, input: &I) -> Option<Match<'_>> {
        match &self.changes {
            None => self.base.find(input),
            Some(changes) => changes.find(&self.base, input),
        }
    }

    /// What [`Router::find`] would try, and what became of it: at most `limit` candidates and the one that wins.
    /// Slow: changes are laid out together with the rest first.
    pub fn explain<I: MatchInput<Name = N>>(&self, input: &I, limit: usize) -> Explained {
        match &self.changes {
            None => self.base.explain(input, limit),
            Some(changes) => changes.merged(&self.base).explain(input, limit),
        }
    }
}
