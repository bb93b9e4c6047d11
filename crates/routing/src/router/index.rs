//! From a path to the routes that may serve it: a hash of exact paths and a radix tree of prefixes, both divided
//! into scopes, one for each host pattern.

use std::{
    cmp::Reverse,
    hash::{BuildHasher, Hasher},
    sync::Arc,
};

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

use super::{
    RouteSpec,
    lookup::Mode,
    parameters,
    trie::{Key, Prefixes, Trie},
};

/// Routes of one host pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Scope(pub(super) u32);

impl Scope {
    /// Routes that ask for no host.
    pub(super) const ANY_HOST: Scope = Scope(0);
}

#[derive(Debug)]
pub(super) struct Index {
    exact: HashTable<Exact>,
    /// Text of all exact paths, so that a comparison does not reach into the routes.
    text: String,
    prefixes: Trie,
    /// The tree of each scope, or `NO_TREE`.
    roots: Vec<u32>,
    /// Ranges of `candidates`; the values of the tree's ends.
    buckets: Vec<(u32, u32)>,
    /// In the order they are tried within each bucket.
    candidates: Vec<Candidate>,
}

/// Where to look for the route and the pattern.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub route: u32,
    /// Position in the route's `uris`.
    pub uri: u32,
    /// The route's own number, which a match answers.
    pub id: u32,
    /// The pattern has variables, or can only be decided on the whole path.
    pub(crate) has_params: bool,
    /// The route asks for nothing but its place: the index alone answers.
    pub is_free: bool,
}

/// A candidate for a path, and its pattern where that is the path itself.
#[derive(Clone, Copy)]
pub(super) struct Found<'i> {
    pub candidate: &'i Candidate,
    pub pattern: Option<&'i str>,
}

#[derive(Debug)]
struct Exact {
    scope: Scope,
    text_start: u32,
    text_length: u32,
    list: List,
}

/// Nearly every path has one route, which is found where the path is.
#[derive(Debug)]
enum List {
    One(Candidate),
    Several { first: u32, count: u32 },
}

const NO_TREE: u32 = u32::MAX;

impl Index {
    /// Exact path first, then prefixes from the longest to the shortest.
    pub(super) fn candidates(&self, scope: Scope, path: &[u8]) -> Candidates<'_> {
        let exact = self.exact.find(hash(scope, path), |entry| {
            entry.scope == scope && entry.path(&self.text).as_bytes() == path
        });
        let current = match exact.map(|entry| &entry.list) {
            Some(List::One(candidate)) => std::slice::from_ref(candidate).iter(),
            Some(List::Several { first, count }) => self.slice(*first, *count),
            None => Default::default(),
        };
        let pattern = exact.map(|entry| entry.path(&self.text));
        let prefixes = self.roots.get(scope.0 as usize).map(|root| self.prefixes.prefixes(*root, path));
        Candidates { index: self, current, pattern, prefixes }
    }

    fn slice(&self, first: u32, count: u32) -> std::slice::Iter<'_, Candidate> {
        let first = first as usize;
        self.candidates.get(first..first + count as usize).unwrap_or_default().iter()
    }
}

impl Exact {
    fn path<'t>(&self, text: &'t str) -> &'t str {
        let start = self.text_start as usize;
        text.get(start..start + self.text_length as usize).unwrap_or_default()
    }
}

/// Iterator of [`Index::candidates`].
pub(super) struct Candidates<'i> {
    index: &'i Index,
    current: std::slice::Iter<'i, Candidate>,
    /// While `current` is of the exact path.
    pattern: Option<&'i str>,
    prefixes: Option<Prefixes<'i>>,
}

impl<'i> Iterator for Candidates<'i> {
    type Item = Found<'i>;

    fn next(&mut self) -> Option<Found<'i>> {
        loop {
            if let Some(candidate) = self.current.next() {
                return Some(Found { candidate, pattern: self.pattern });
            }
            self.pattern = None;
            let bucket = self.prefixes.as_mut()?.next()?;
            let (first, count) = *self.index.buckets.get(bucket as usize)?;
            self.current = self.index.slice(first, count);
        }
    }
}

/// How much of a pattern is looked up, and whether that is a prefix: the whole path, or the part before the first
/// variable.
pub(super) fn key_length(pattern: &str, parameters: bool) -> (u32, bool) {
    let bytes = pattern.as_bytes();
    // With parameters the first colon wins even when an asterisk comes before it, as in APISIX.
    let colon = if parameters { memchr::memchr(b':', bytes) } else { None };
    let variable = colon.or_else(|| memchr::memchr(b'*', bytes));
    (variable.unwrap_or(bytes.len()) as u32, variable.is_some())
}

/// Collects patterns, then lays everything out at once.
pub(super) struct Builder {
    mode: Mode,
    exact: Vec<Pattern>,
    /// Bytes of all exact paths.
    text_length: usize,
    prefixes: Vec<Pattern>,
}

#[derive(Clone, Copy)]
struct Pattern {
    scope: Scope,
    route: u32,
    uri: u32,
    /// Length of the key: the whole path, or the part before the first variable.
    key_length: u32,
    id: u32,
    has_params: bool,
    is_free: bool,
}

impl Builder {
    pub(super) fn new(mode: Mode, routes: usize) -> Self {
        Self { mode, exact: Vec::with_capacity(routes), text_length: 0, prefixes: Vec::new() }
    }

    pub(super) fn add<N>(&mut self, scope: Scope, route: u32, spec: &RouteSpec<N>) {
        let with_parameters = self.mode == Mode::UriWithParameter;
        let is_free = spec.asks_for_nothing_else(self.mode);
        for (uri, pattern) in (0u32..).zip(&spec.uris) {
            let (key_length, is_prefix) = key_length(pattern, with_parameters);
            let has_params = is_prefix && parameters::has_params(pattern, with_parameters);
            let pattern = Pattern { scope, route, uri, key_length, id: spec.id, has_params, is_free };
            if is_prefix {
                self.prefixes.push(pattern);
            } else {
                self.text_length += key_length as usize;
                self.exact.push(pattern);
            }
        }
    }

    pub(super) fn finish<N>(self, routes: &[Arc<RouteSpec<N>>], between: fn()) -> Index {
        let mut index = Index {
            exact: HashTable::with_capacity(self.exact.len()),
            text: String::with_capacity(self.text_length),
            prefixes: Trie::default(),
            roots: Vec::new(),
            buckets: Vec::new(),
            candidates: Vec::with_capacity(self.prefixes.len()),
        };
        index.add_exact(&self.exact, routes, between);
        index.add_prefixes(self.prefixes, routes, between);
        index.candidates.shrink_to_fit();
        index
    }
}

impl Index {
    fn add_exact<N>(&mut self, patterns: &[Pattern], routes: &[Arc<RouteSpec<N>>], between: fn()) {
        // Patterns of one path form a list in order of insertion; nearly all lists have one item.
        let mut next = vec![u32::MAX; patterns.len()];
        let mut order = Vec::with_capacity(patterns.len());
        for (position, pattern) in (0u32..).zip(patterns) {
            between();
            let path = pattern.text(routes);
            let text = &mut self.text;
            let entry = self.exact.entry(
                hash(pattern.scope, path.as_bytes()),
                |entry| entry.scope == pattern.scope && entry.path(text) == path,
                |entry| hash(entry.scope, entry.path(text).as_bytes()),
            );
            match entry {
                hashbrown::hash_table::Entry::Occupied(mut entry) => {
                    // A chain of positions until all are known.
                    if let List::Several { first, count } = &mut entry.get_mut().list {
                        next[position as usize] = std::mem::replace(first, position);
                        *count += 1;
                    }
                }
                hashbrown::hash_table::Entry::Vacant(entry) => {
                    let text_start = text.len() as u32;
                    text.push_str(path);
                    entry.insert(Exact {
                        scope: pattern.scope,
                        text_start,
                        text_length: pattern.key_length,
                        list: List::Several { first: position, count: 1 },
                    });
                }
            }
        }
        for entry in &mut self.exact {
            between();
            order.clear();
            let List::Several { first: mut at, count } = entry.list else { continue };
            while at != u32::MAX {
                order.push(patterns[at as usize]);
                at = next[at as usize];
            }
            order.reverse();
            sort(&mut order, routes);
            entry.list = match order.as_slice() {
                [only] => List::One(only.candidate()),
                _ => List::Several { first: self.candidates.len() as u32, count },
            };
            if count > 1 {
                self.candidates.extend(order.iter().map(Pattern::candidate));
            }
        }
    }

    fn add_prefixes<N>(&mut self, mut patterns: Vec<Pattern>, routes: &[Arc<RouteSpec<N>>], between: fn()) {
        patterns.sort_by_key(|pattern| pattern.scope.0);
        let Self { prefixes, roots, buckets, candidates, .. } = self;
        let mut keys = Vec::new();
        let mut order = Vec::new();
        for group in patterns.chunk_by(|left, right| left.scope == right.scope) {
            keys.clear();
            keys.extend(
                (0u32..).zip(group).map(|(value, pattern)| Key { bytes: pattern.key(routes), value }),
            );
            let root = prefixes.add_root(&mut keys, &mut |ends| {
                between();
                order.clear();
                let mut positions: smallvec::SmallVec<[u32; 8]> = ends.iter().map(|key| key.value).collect();
                positions.sort_unstable();
                order.extend(positions.iter().map(|position| group[*position as usize]));
                sort(&mut order, routes);
                buckets.push((candidates.len() as u32, order.len() as u32));
                candidates.extend(order.iter().map(Pattern::candidate));
                buckets.len() as u32 - 1
            });
            let scope = group.first().map_or(0, |pattern| pattern.scope.0) as usize;
            // Scopes come in ascending order.
            roots.resize(scope, NO_TREE);
            roots.push(root);
        }
    }
}

impl Pattern {
    fn text<'r, N>(&self, routes: &'r [Arc<RouteSpec<N>>]) -> &'r str {
        &routes[self.route as usize].uris[self.uri as usize]
    }

    fn key<'r, N>(&self, routes: &'r [Arc<RouteSpec<N>>]) -> &'r [u8] {
        &self.text(routes).as_bytes()[..self.key_length as usize]
    }

    fn candidate(&self) -> Candidate {
        let Pattern { route, uri, id, has_params, is_free, .. } = *self;
        Candidate { route, uri, id, has_params, is_free }
    }
}

/// Higher priority first, then routes that come before their equals, then the longer pattern, then the order of
/// insertion.
fn sort<N>(patterns: &mut [Pattern], routes: &[Arc<RouteSpec<N>>]) {
    if patterns.len() > 1 {
        patterns.sort_by_key(|pattern| {
            let route = &routes[pattern.route as usize];
            let length = pattern.text(routes).len();
            (Reverse(route.priority), Reverse(route.first_of_equals), Reverse(length))
        });
    }
}

fn hash(scope: Scope, path: &[u8]) -> u64 {
    let mut hasher = FxBuildHasher.build_hasher();
    hasher.write_u32(scope.0);
    hasher.write(path);
    hasher.finish()
}
