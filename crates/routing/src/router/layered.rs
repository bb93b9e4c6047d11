//! Changed routes over a base that was laid out before: found together, in the order of one index.

use std::iter::Peekable;

use super::{
    Layer,
    index::{Found, Scope},
    layer::{Reversed, sort},
    lookup::{Match, MatchInput},
};

/// Positions of routes in the base that are changed or gone.
#[derive(Clone, Debug, Default)]
pub struct Stale(Vec<u64>);

impl Stale {
    /// Takes a position out of the layer below.
    pub fn mark(&mut self, position: u32) {
        let word = position as usize / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        if let Some(bits) = self.0.get_mut(word) {
            *bits |= 1 << (position % 64);
        }
    }

    pub(super) fn has(&self, position: u32) -> bool {
        self.0.get(position as usize / 64).is_some_and(|bits| bits >> (position % 64) & 1 == 1)
    }
}

#[derive(Debug)]
pub(super) struct Changes<N> {
    pub(super) stale: Stale,
    pub(super) layer: Layer<N>,
}

impl<N> Changes<N> {
    /// One layer of all routes.
    pub(super) fn merged(&self, base: &Layer<N>) -> Layer<N> {
        let kept = (0u32..).zip(&base.routes).filter(|(position, _)| !self.stale.has(*position));
        let mut routes: Vec<_> =
            kept.map(|(_, route)| route.clone()).chain(self.layer.routes.iter().cloned()).collect();
        routes.sort_by(|left, right| left.order.cmp(&right.order));
        Layer::build(base.mode, routes.into_iter(), || {})
    }

    /// As `Layer::find` goes: the host, its wildcards from the longest on, then the routes without a host.
    pub(super) fn find<'r, I: MatchInput<Name = N>>(
        &'r self,
        base: &'r Layer<N>,
        input: &I,
    ) -> Option<Match<'r>> {
        let hosts = (&base.hosts, &self.layer.hosts);
        let has_unknown = base.unknown.is_some() || self.layer.unknown.is_some();
        if has_unknown || !(hosts.0.patterns.is_empty() && hosts.1.patterns.is_empty()) {
            // `*` is also for requests without a host, as in `Layer::find`.
            let host = input.host().unwrap_or_default();
            let found = if has_unknown {
                self.find_by_rank(base, host, input)
            } else {
                let scopes = (hosts.0.exact.get(host).copied(), hosts.1.exact.get(host).copied());
                self.find_in(base, scopes, input)
            };
            if found.is_some() {
                return found;
            }
            let reversed = Reversed::of(host);
            let mut left = hosts.0.wildcards(&reversed).peekable();
            let mut right = hosts.1.wildcards(&reversed).peekable();
            loop {
                let length =
                    |layer: &Layer<N>, scope: &Scope| layer.hosts.pattern(*scope).map_or(0, str::len);
                let lengths = (
                    left.peek().map(|scope| length(base, scope)),
                    right.peek().map(|scope| length(&self.layer, scope)),
                );
                if lengths == (None, None) {
                    break;
                }
                // Of two suffixes of one host the longer is the more specific; equally long ones are the same.
                let scopes =
                    (left.next_if(|_| lengths.0 >= lengths.1), right.next_if(|_| lengths.1 >= lengths.0));
                if let Some(found) = self.find_in(base, scopes, input) {
                    return Some(found);
                }
            }
        }
        self.find_in(base, (Some(Scope::ANY_HOST), Some(Scope::ANY_HOST)), input)
    }

    /// Among the routes for this very host and those that may be for it.
    fn find_by_rank<'r, I: MatchInput<Name = N>>(
        &'r self,
        base: &'r Layer<N>,
        host: &[u8],
        input: &I,
    ) -> Option<Match<'r>> {
        let mut sources = Vec::new();
        base.add_of_host(host, input.path(), |old| !self.stale.has(old.route), &mut sources);
        self.layer.add_of_host(host, input.path(), |_| true, &mut sources);
        sort(&mut sources);
        sources.iter().find_map(|source| source.find(input))
    }

    fn find_in<'r, I: MatchInput<Name = N>>(
        &'r self,
        base: &'r Layer<N>,
        scopes: (Option<Scope>, Option<Scope>),
        input: &I,
    ) -> Option<Match<'r>> {
        let path = input.path();
        let old = scopes.0.map(|scope| base.index.candidates(scope, path));
        let old = old.into_iter().flatten().filter(|found| !self.stale.has(found.candidate.route));
        let new = scopes.1.map(|scope| self.layer.index.candidates(scope, path)).into_iter().flatten();
        let (mut old, mut new) = (old.peekable(), new.peekable());
        loop {
            let (layer, scope, found) = if is_next(&mut new, &self.layer, &mut old, base) {
                (&self.layer, scopes.1?, new.next()?)
            } else {
                (base, scopes.0?, old.next()?)
            };
            if let Some(matched) = layer.free_match(found, scope) {
                return Some(matched);
            }
            let candidate = found.candidate;
            let Some(route) = layer.routes.get(candidate.route as usize) else { continue };
            let Some(uri) = route.uris.get(candidate.uri as usize) else { continue };
            if let Ok(found) = layer.check_candidate(route, uri, candidate.has_params, scope, input) {
                return Some(found);
            }
        }
    }
}

/// Whether the changed candidate is to be tried before the one of the base.
fn is_next<'r, N>(
    new: &mut Peekable<impl Iterator<Item = Found<'r>>>,
    changed: &Layer<N>,
    old: &mut Peekable<impl Iterator<Item = Found<'r>>>,
    base: &Layer<N>,
) -> bool {
    match (new.peek(), old.peek()) {
        (Some(new), Some(old)) => changed.rank(new.candidate) < base.rank(old.candidate),
        (new, _) => new.is_some(),
    }
}
