//! One index over a set of routes, and the lookup in it.

use std::{cmp::Reverse, sync::Arc};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::{
    HostPattern, RouteSpec,
    index::{self, Candidate, Found, Index, Scope, key_length},
    lookup::{Match, MatchInput, Mode},
    parameters,
    trie::{self, Trie},
    witness::{Loss, Nobody, Tried, Witness},
};

/// Routes laid out at once: immutable, any number of threads look up in it.
#[derive(Debug)]
pub struct Layer<N> {
    pub(super) mode: Mode,
    pub(super) routes: Vec<Arc<RouteSpec<N>>>,
    pub(super) index: Index,
    pub(super) hosts: Hosts,
    /// The scope of routes whose hosts are not known.
    pub(super) unknown: Option<Scope>,
    /// Called between short steps, also as this is dropped.
    between: fn(),
}

impl<N> Drop for Layer<N> {
    fn drop(&mut self) {
        // Each may be the last to hold its route, and lies elsewhere in memory.
        while self.routes.pop().is_some() {
            (self.between)();
        }
    }
}

/// A candidate, and where it comes from.
pub(super) struct Source<'r, N> {
    pub(super) layer: &'r Layer<N>,
    scope: Scope,
    found: Found<'r>,
}

/// Which [`Scope`] a host leads to. Empty in the URI modes.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    pub(super) exact: FxHashMap<Box<[u8]>, Scope>,
    /// Suffixes of wildcards, reversed.
    wildcard: Trie,
    /// The pattern of each scope; the first, of routes without a host, has none.
    pub(super) patterns: Vec<Box<str>>,
}

/// Longer names cannot occur in DNS.
const MAX_HOST: usize = 255;

impl<N> Layer<N> {
    /// Routes come in the order of the store, which decides between equals. `between` is called between short steps.
    pub fn build(mode: Mode, routes: impl Iterator<Item = Arc<RouteSpec<N>>>, between: fn()) -> Self {
        let routes: Vec<_> = routes.collect();
        let mut builder = index::Builder::new(mode, routes.len());
        let mut scopes = HostsBuilder::default();
        let mut unknown = Vec::new();
        for (position, route) in (0u32..).zip(&routes) {
            between();
            if mode == Mode::HostUri && route.hosts_unknown {
                unknown.push((position, route));
            } else if mode != Mode::HostUri || route.hosts.is_empty() {
                builder.add(Scope::ANY_HOST, position, route);
            } else {
                route.hosts.iter().for_each(|host| builder.add(scopes.scope(host), position, route));
            }
        }
        let hosts = scopes.finish();
        let next = Scope(hosts.patterns.len() as u32 + 1);
        unknown.iter().for_each(|(position, route)| builder.add(next, *position, route));
        let unknown = (!unknown.is_empty()).then_some(next);
        let index = builder.finish(&routes, between);
        Self { mode, routes, index, hosts, unknown, between }
    }

    pub(super) fn find<I: MatchInput<Name = N>>(&self, input: &I) -> Option<Match<'_>> {
        self.find_watched(input, &mut Nobody)
    }

    pub(super) fn find_watched<'r, I: MatchInput<Name = N>, W: Witness<'r>>(
        &'r self,
        input: &I,
        witness: &mut W,
    ) -> Option<Match<'r>> {
        if (!self.hosts.patterns.is_empty() || self.unknown.is_some())
            // `*` is also for requests without a host, as in APISIX, where they have that of the server.
            && let Some(found) = self.find_by_host(input.host().unwrap_or_default(), input, witness)
        {
            return Some(found);
        }
        self.find_in(Scope::ANY_HOST, input, witness)
    }

    fn find_by_host<'r, I: MatchInput<Name = N>, W: Witness<'r>>(
        &'r self,
        host: &[u8],
        input: &I,
        witness: &mut W,
    ) -> Option<Match<'r>> {
        let found = if self.unknown.is_some() {
            let mut sources = Vec::new();
            self.add_of_host(host, input.path(), |_| true, &mut sources);
            sort(&mut sources);
            sources.iter().find_map(|source| self.try_one(source.found, source.scope, input, witness))
        } else {
            self.hosts.exact.get(host).and_then(|scope| self.find_in(*scope, input, witness))
        };
        if found.is_some() {
            return found;
        }
        if self.hosts.wildcard.is_empty() {
            return None;
        }
        let reversed = Reversed::of(host);
        self.hosts.wildcards(&reversed).find_map(|scope| self.find_in(scope, input, witness))
    }

    fn find_in<'r, I: MatchInput<Name = N>, W: Witness<'r>>(
        &'r self,
        scope: Scope,
        input: &I,
        witness: &mut W,
    ) -> Option<Match<'r>> {
        let mut candidates = self.index.candidates(scope, input.path());
        candidates.find_map(|found| self.try_one(found, scope, input, witness))
    }

    #[inline]
    fn try_one<'r, I: MatchInput<Name = N>, W: Witness<'r>>(
        &'r self,
        found: Found<'r>,
        scope: Scope,
        input: &I,
        witness: &mut W,
    ) -> Option<Match<'r>> {
        if !W::LOOKS
            && let Some(matched) = self.free_match(found, scope)
        {
            return Some(matched);
        }
        let candidate = found.candidate;
        let route = self.routes.get(candidate.route as usize)?;
        let uri: &str = route.uris.get(candidate.uri as usize)?;
        let judged = self.check_candidate(route, uri, candidate.has_params, scope, input);
        if W::LOOKS {
            let clause = || route.vars.as_ref().and_then(|vars| vars.failing_clause(input));
            let tried = Tried {
                route: route.id,
                scope,
                uri,
                host: self.hosts.pattern(scope),
                priority: route.priority,
                judged: &judged,
                clause: &clause,
            };
            if witness.saw(tried) {
                return None;
            }
        }
        judged.ok()
    }

    /// The match of a route that asks for nothing but its path and host: the index has all of it, so that nothing else is
    /// read. There may be 50,000 routes, which are in no cache.
    #[inline]
    pub(super) fn free_match<'r>(&'r self, found: Found<'r>, scope: Scope) -> Option<Match<'r>> {
        let matched_uri = found.pattern.filter(|_| found.candidate.is_free)?;
        let matched_host = self.hosts.pattern(scope);
        Some(Match { route: found.candidate.id, matched_uri, matched_host, params: SmallVec::new() })
    }

    /// Adds the routes for this very host, and those that may be for it.
    pub(super) fn add_of_host<'r>(
        &'r self,
        host: &[u8],
        path: &[u8],
        counts: impl Fn(&Candidate) -> bool,
        sources: &mut Vec<Source<'r, N>>,
    ) {
        let scopes = [self.hosts.exact.get(host).copied(), self.unknown];
        for scope in scopes.into_iter().flatten() {
            let candidates = self.index.candidates(scope, path).filter(|found| counts(found.candidate));
            sources.extend(candidates.map(|found| Source { layer: self, scope, found }));
        }
    }

    /// The order of trying: exact paths, then the longest prefix; within one of them the order of [`super::index`].
    pub(super) fn rank(&self, candidate: &Candidate) -> impl Ord + use<'_, N> {
        let route = self.routes.get(candidate.route as usize);
        let uri: &str = route.and_then(|route| route.uris.get(candidate.uri as usize)).map_or("", |uri| uri);
        let (key, is_prefix) = key_length(uri, self.mode == Mode::UriWithParameter);
        let (priority, is_first, order) =
            route.map_or((0, false, ""), |route| (route.priority, route.first_of_equals, &*route.order));
        (is_prefix, Reverse(key), Reverse(priority), Reverse(is_first), Reverse(uri.len()), order)
    }

    #[inline]
    pub(super) fn check_candidate<'r, I: MatchInput<Name = N>>(
        &'r self,
        route: &'r RouteSpec<N>,
        matched_uri: &'r str,
        has_params: bool,
        scope: Scope,
        input: &I,
    ) -> Result<Match<'r>, Loss> {
        let matched_host = self.check(route, input)?;
        let mut params = SmallVec::new();
        if has_params {
            let parameters = self.mode == Mode::UriWithParameter;
            if !parameters::capture(matched_uri, input.path(), parameters, &mut params) {
                return Err(Loss::Parameters);
            }
        }
        let matched_host = matched_host.or_else(|| self.hosts.pattern(scope));
        Ok(Match { route: route.id, matched_uri, matched_host, params })
    }

    /// The conditions in APISIX's order; `Ok(None)` when they hold without naming a host.
    fn check<'r, I: MatchInput<Name = N>>(
        &self,
        route: &'r RouteSpec<N>,
        input: &I,
    ) -> Result<Option<&'r str>, Loss> {
        if !route.methods.is_empty() && !route.methods.contains(input.method()) {
            return Err(Loss::Method);
        }
        if let Some(addresses) = &route.remote_addrs
            && !addresses.contains(input.remote_addr())
        {
            return Err(Loss::RemoteAddr);
        }
        let mut matched_host = None;
        if self.mode != Mode::HostUri && !route.hosts.is_empty() {
            let found = route.hosts.iter().find(|host| host.matches(input));
            matched_host = Some(found.ok_or(Loss::Host)?.pattern());
        }
        if route.vars.as_ref().is_some_and(|vars| !vars.eval(input)) {
            return Err(Loss::Vars);
        }
        if route.has_filter && !input.filter(route.id) {
            return Err(Loss::FilterFunction);
        }
        Ok(matched_host)
    }
}

impl<'r, N> Source<'r, N> {
    pub(super) fn find<I: MatchInput<Name = N>>(&self, input: &I) -> Option<Match<'r>> {
        self.layer.try_one(self.found, self.scope, input, &mut Nobody)
    }
}

/// In the order of trying.
pub(super) fn sort<N>(sources: &mut [Source<'_, N>]) {
    sources.sort_by(|one, other| {
        one.layer.rank(one.found.candidate).cmp(&other.layer.rank(other.found.candidate))
    });
}

/// A host read from its end, where the suffixes of wildcards begin.
pub(super) struct Reversed {
    bytes: [u8; MAX_HOST],
    length: usize,
}

impl Reversed {
    pub(super) fn of(host: &[u8]) -> Self {
        let mut bytes = [0u8; MAX_HOST];
        for (to, from) in bytes.iter_mut().zip(host.iter().rev()) {
            *to = *from;
        }
        Self { bytes, length: host.len().min(MAX_HOST) }
    }
}

impl Hosts {
    /// The scopes of the wildcards that this host fits, the longest suffix first.
    pub(super) fn wildcards(&self, host: &Reversed) -> impl Iterator<Item = Scope> {
        let host = host.bytes.get(..host.length).unwrap_or_default();
        let found =
            (!self.wildcard.is_empty()).then(|| self.wildcard.prefixes(self.wildcard.first_root(), host));
        found.into_iter().flatten().map(Scope)
    }

    pub(super) fn pattern(&self, scope: Scope) -> Option<&str> {
        self.patterns.get((scope.0 as usize).checked_sub(1)?).map(|pattern| &**pattern)
    }
}

/// Gives each distinct host pattern its scope.
#[derive(Default)]
struct HostsBuilder<'a> {
    known: FxHashMap<&'a str, Scope>,
    patterns: Vec<&'a HostPattern>,
}

impl<'a> HostsBuilder<'a> {
    fn scope(&mut self, host: &'a HostPattern) -> Scope {
        let next = Scope(self.patterns.len() as u32 + 1);
        *self.known.entry(host.pattern()).or_insert_with(|| {
            self.patterns.push(host);
            next
        })
    }

    fn finish(self) -> Hosts {
        let mut hosts = Hosts::default();
        let mut reversed = Vec::new();
        for (scope, host) in (1u32..).zip(&self.patterns) {
            hosts.patterns.push(host.pattern().into());
            if host.is_wildcard() {
                reversed.push((host.value().bytes().rev().collect::<Vec<u8>>(), scope));
            } else {
                hosts.exact.insert(host.value().as_bytes().into(), Scope(scope));
            }
        }
        if !reversed.is_empty() {
            let mut keys: Vec<_> =
                reversed.iter().map(|(key, scope)| trie::Key { bytes: key, value: *scope }).collect();
            // Patterns are distinct, so each end holds exactly one.
            hosts.wildcard.add_root(&mut keys, &mut |ends| ends.first().map_or(0, |key| key.value));
        }
        hosts
    }
}
