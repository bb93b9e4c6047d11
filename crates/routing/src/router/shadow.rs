//! Routes that get no request of some path, or none at all, because others answer all of these before.
//!
//! Only what is certain counts: the other route is tried earlier for every request of the path and host, and asks for nothing
//! that this one does not ask for as well. What a wider `vars` or `remote_addrs` takes away is not found.

use std::{collections::BTreeSet, fmt, sync::Arc};

use super::{
    HostPattern, Layer, Methods, RouteSpec, Router, Stale,
    index::{Candidate, Scope, key_length},
    layer::Reversed,
    lookup::Mode,
    parameters,
};

/// So many routes of one path are compared with a route: all of a path may be in question, and there may be 50,000.
const MOST_COMPARED: usize = 1000;

/// So many routes behind one are named.
const MOST_NAMED: usize = 3;

/// A path of a route that leads to others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shadow {
    /// The pattern of `uris`.
    pub uri: Box<str>,
    /// The pattern of `hosts`; `None`: any host.
    pub host: Option<Box<str>>,
    /// The routes that answer, by their ids in the store: several share the methods.
    pub by: Vec<Arc<str>>,
    /// Completes "route BY ".
    pub why: String,
}

/// What becomes of a route behind others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shadowed {
    /// Its paths that lead to others.
    pub paths: Vec<Shadow>,
    /// No request reaches it.
    pub is_whole: bool,
}

/// What to know of a route's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The other routes that it tells of.
    pub others: Vec<Arc<str>>,
    /// In words, with a remedy.
    pub text: String,
    /// The same with nothing of the others but their ids.
    pub discreet: String,
}

/// A route as one of its paths, and one host, lead to it.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The pattern of `uris`.
    pub uri: &'a str,
    /// The pattern of `hosts`, where hosts lead to paths.
    pub host: Option<&'a str>,
    /// The highest is asked first.
    pub priority: i64,
}

impl Shadow {
    /// Who answers, and the verb for as many.
    fn named(&self) -> (String, &'static str) {
        let by: Vec<&str> = self.by.iter().map(|id| &**id).collect();
        match by.as_slice() {
            [one] => (format!("route {one}"), "answers"),
            several => (format!("routes {}", several.join(", ")), "answer"),
        }
    }
}

impl Shadowed {
    /// In words, with a remedy; `None` where all is reached.
    pub fn in_words(&self) -> Option<String> {
        let first = self.paths.first()?;
        let (routes, answer) = first.named();
        let what = self.what();
        let host = first.host.as_deref().map(|host| format!(" of host {host}")).unwrap_or_default();
        let more = match self.paths.len() {
            1 => String::new(),
            count => format!(" (and {} more)", count - 1),
        };
        Some(format!(
            "{what}: {routes} {answer} those for {}{host}{more} first, and {}; give this route a higher priority or other \
             conditions, or delete one of them",
            first.uri,
            self.why(first.by.len())
        ))
    }

    /// Of the paths of this route, and who answers them; nothing else of the others.
    fn of_own_paths(&self) -> Option<String> {
        let first = self.paths.first()?;
        let (routes, answer) = first.named();
        let host = first.host.as_deref().map(|host| format!(" of host {host}")).unwrap_or_default();
        Some(format!(
            "{}: {routes} {answer} those for {}{host} first; give this route other conditions, or ask who has the others",
            self.what(),
            first.uri
        ))
    }

    fn what(&self) -> &'static str {
        if self.is_whole {
            "no request reaches this route"
        } else {
            "not all of its requests reach this route"
        }
    }

    fn why(&self, count: usize) -> String {
        let why = self.paths.first().map_or("", |path| &path.why);
        // "route a has", "routes a, b have".
        if count == 1 {
            why.to_owned()
        } else {
            why.replacen("has ", "have ", 1).replacen("comes", "come", 1)
        }
    }
}

/// Why a route is tried before another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First<'p> {
    /// Its host is the more specific one.
    Host(&'p str),
    /// Its path is.
    Path(&'p str),
    /// Its priority is higher than the other one's.
    Priority(i64, i64),
    /// Its pattern is longer.
    Pattern(&'p str),
    /// It is simply tried first.
    Tried,
    /// It comes first in the store.
    Stored,
}

impl fmt::Display for First<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            First::Host(host) => write!(f, "has the more specific host {host}"),
            First::Path(uri) => write!(f, "has the more specific path {uri}"),
            First::Priority(own, other) => write!(f, "has priority {own}, this one {other}"),
            First::Pattern(uri) => write!(f, "has the longer pattern {uri}"),
            First::Tried => f.write_str("was tried first"),
            First::Stored => f.write_str("has the same path and priority and comes first in the store"),
        }
    }
}

/// Why a route was tried before another one that fits as well; completes "route ID ".
pub fn first<'p>(first: Place<'p>, other: Place<'_>, mode: Mode) -> First<'p> {
    if first.host != other.host {
        return first.host.map_or(First::Tried, First::Host);
    }
    let key = |uri: &str| key_length(uri, mode == Mode::UriWithParameter);
    if key(first.uri) != key(other.uri) {
        return First::Path(first.uri);
    }
    if first.priority != other.priority {
        return First::Priority(first.priority, other.priority);
    }
    match first.uri.len() > other.uri.len() {
        true => First::Pattern(first.uri),
        false => First::Stored,
    }
}

/// One of the places of a route.
struct Spot<'s, N> {
    spec: &'s RouteSpec<N>,
    uri: &'s str,
    host: Option<&'s HostPattern>,
}

impl<N> Clone for Spot<'_, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<N> Copy for Spot<'_, N> {}

impl<'s, N> Spot<'s, N> {
    /// Hosts are the same wherever two of them are compared.
    fn place(&self) -> Place<'s> {
        Place { uri: self.uri, host: None, priority: self.spec.priority }
    }
}

impl<N> Router<N> {
    /// With these routes in place of those with their ids, or of those that are `gone`. For questions, not for requests.
    pub fn with(&self, routes: &[Arc<RouteSpec<N>>], gone: &[&str]) -> Router<N> {
        let ids: BTreeSet<&str> =
            routes.iter().map(|route| &*route.order).chain(gone.iter().copied()).collect();
        let (mut stale, mut all) = (Stale::default(), routes.to_vec());
        if let Some(changes) = &self.changes {
            stale = changes.stale.clone();
            all.extend(changes.layer.routes.iter().filter(|route| !ids.contains(&*route.order)).cloned());
        }
        ids.iter().filter_map(|id| position(&self.base, id)).for_each(|position| stale.mark(position));
        all.sort_by(|left, right| left.order.cmp(&right.order));
        Router::with_changes(self.base.clone(), stale, all.into_iter(), || {})
    }

    /// The paths of all routes.
    pub fn patterns(&self) -> impl Iterator<Item = &str> {
        let is_stale = |at: u32| self.changes.as_ref().is_some_and(|changes| changes.stale.has(at));
        let base =
            (0u32..).zip(&self.base.routes).filter(move |(at, _)| !is_stale(*at)).map(|(_, route)| route);
        let changed = self.changes.iter().flat_map(|changes| &changes.layer.routes);
        base.chain(changed).flat_map(|route| &route.uris).map(|uri| &**uri)
    }

    fn spec(&self, id: &str) -> Option<&RouteSpec<N>> {
        let changed = self.changes.as_ref().map(|changes| &changes.layer);
        if let Some((layer, at)) = changed.and_then(|layer| Some((layer, position(layer, id)?))) {
            return layer.routes.get(at as usize).map(|route| &**route);
        }
        let is_stale = |at: &u32| self.changes.as_ref().is_some_and(|changes| changes.stale.has(*at));
        let at = position(&self.base, id).filter(|at| !is_stale(at))?;
        self.base.routes.get(at as usize).map(|route| &**route)
    }
}

fn position<N>(layer: &Layer<N>, id: &str) -> Option<u32> {
    layer.routes.binary_search_by(|route| (*route.order).cmp(id)).ok().map(|position| position as u32)
}

impl<N: PartialEq> Router<N> {
    /// Whether requests of the route with this id in the store go to others.
    pub fn shadowed(&self, id: &str) -> Shadowed {
        self.spec(id).map(|spec| self.shadowed_spec(spec)).unwrap_or_default()
    }

    fn shadowed_spec(&self, spec: &RouteSpec<N>) -> Shadowed {
        if spec.hosts_unknown {
            return Shadowed::default();
        }
        let mut places = 0;
        let mut paths = Vec::new();
        for spot in spots(spec) {
            places += 1;
            paths.extend(self.before(spot));
        }
        Shadowed { is_whole: places > 0 && paths.len() == places, paths }
    }

    /// What to know of a route's place: what is answered before it, and of which routes it answers requests itself.
    pub fn remarks(&self, id: &str) -> Vec<Remark> {
        let own = self.shadowed(id);
        let own = own.in_words().zip(own.of_own_paths()).map(|(text, discreet)| {
            let others = own.paths.iter().flat_map(|path| path.by.iter().cloned()).collect();
            Remark { others, text, discreet }
        });
        let others = self.behind(id).into_iter().filter_map(|other| {
            let shadowed = self.shadowed(&other);
            let is_by = shadowed.paths.iter().any(|path| path.by.iter().any(|by| &**by == id));
            let text = shadowed.in_words().filter(|_| is_by)?;
            let text = format!("routes/{other}: {text}");
            let discreet = format!("routes/{other}: route {id} answers requests of this route first");
            // The text names all routes before it.
            let by = shadowed.paths.iter().flat_map(|path| path.by.iter().cloned());
            let others = by.filter(|by| &**by != id).chain([other]).collect();
            Some(Remark { others, text, discreet })
        });
        own.into_iter().chain(others.take(MOST_NAMED)).collect()
    }

    /// The ids of routes that share a path with this one, and may be behind it.
    pub fn behind(&self, id: &str) -> BTreeSet<Arc<str>> {
        let Some(spec) = self.spec(id) else { return BTreeSet::new() };
        let mut found = BTreeSet::new();
        for spot in spots(spec) {
            let others = self.at(spot).into_iter();
            let takes =
                |other: Spot<'_, N>| hosts(other.spec).any(|host| self.takes(spot, Spot { host, ..other }));
            let later = others.filter(|other| precedes(spot, *other) && takes(*other));
            found.extend(later.map(|other| other.spec.order.clone()));
        }
        found
    }

    /// Who answers all requests of a place before its route.
    fn before(&self, spot: Spot<'_, N>) -> Option<Shadow> {
        let mut others: Vec<Spot<'_, N>> = self
            .at(spot)
            .into_iter()
            .filter(|other| precedes(*other, spot) && self.takes(*other, spot))
            .collect();
        // One that takes all methods is enough.
        let whole = others.iter().position(|other| has_all(other.spec.methods, spot.spec.methods));
        match whole {
            Some(position) => others = vec![*others.get(position)?],
            None => {
                let together = others.iter().fold(Methods::EMPTY, |all, other| all.with(other.spec.methods));
                if !has_all(together, spot.spec.methods) || others.is_empty() {
                    return None;
                }
            }
        }
        let first = others.first()?;
        let mut by: Vec<Arc<str>> = others.iter().map(|other| other.spec.order.clone()).collect();
        by.dedup();
        Some(Shadow {
            uri: spot.uri.into(),
            host: spot.host.map(|host| host.pattern().into()),
            by,
            why: self::first(first.place(), spot.place(), self.mode()).to_string(),
        })
    }

    /// Whether a route that is tried earlier asks for nothing that the later one does not ask for; methods aside.
    fn takes(&self, earlier: Spot<'_, N>, later: Spot<'_, N>) -> bool {
        let (one, other) = (earlier.spec, later.spec);
        let with_parameters = self.mode() == Mode::UriWithParameter;
        let is_wide = |uri: &str| {
            let (key, is_prefix) = key_length(uri, with_parameters);
            let is_plain = uri.len() == key as usize + 1 && uri.ends_with("/*");
            is_prefix && (is_plain || !parameters::has_params(uri, with_parameters))
        };
        one.order != other.order
            && (earlier.uri == later.uri || is_wide(earlier.uri))
            && !one.has_filter
            && (one.remote_addrs.is_none() || one.remote_addrs == other.remote_addrs)
            && (one.vars.is_none() || one.vars == other.vars)
            && (one.methods.is_empty() || !other.methods.is_empty())
            && (self.mode() == Mode::HostUri || has_host(one, later.host))
    }

    /// The routes that are tried together at a place: of the same path or prefix and, where hosts lead to paths, the same host.
    fn at<'r>(&'r self, spot: Spot<'r, N>) -> Vec<Spot<'r, N>> {
        let stale = |candidate: &Candidate| {
            self.changes.as_ref().is_some_and(|changes| changes.stale.has(candidate.route))
        };
        let mut found = self.base.at(spot, |candidate| !stale(candidate));
        if let Some(changes) = &self.changes {
            found.extend(changes.layer.at(spot, |_| true));
            found.sort_by(|left, right| rank(*left).cmp(&rank(*right)));
        }
        found
    }
}

impl<N> Layer<N> {
    fn at<'r>(&'r self, spot: Spot<'r, N>, counts: impl Fn(&Candidate) -> bool) -> Vec<Spot<'r, N>> {
        let Some(scope) = self.scope_of(spot.host) else { return Vec::new() };
        let (key, is_prefix) = key_length(spot.uri, self.mode == Mode::UriWithParameter);
        let Some(path) = spot.uri.as_bytes().get(..key as usize) else { return Vec::new() };
        let candidates = self.index.candidates(scope, path);
        let here = candidates
            .skip_while(|found| is_prefix && found.pattern.is_some())
            .filter(|found| counts(found.candidate))
            .map_while(|found| {
                let spec = self.routes.get(found.candidate.route as usize)?;
                let uri: &str = spec.uris.get(found.candidate.uri as usize)?;
                let is_here = key_length(uri, self.mode == Mode::UriWithParameter) == (key, is_prefix);
                is_here.then_some(Spot { spec, uri, host: None })
            });
        here.take(MOST_COMPARED).collect()
    }

    /// `None`: no route here has the host.
    fn scope_of(&self, host: Option<&HostPattern>) -> Option<Scope> {
        let Some(host) = host.filter(|_| self.mode == Mode::HostUri) else { return Some(Scope::ANY_HOST) };
        if !host.is_wildcard() {
            return self.hosts.exact.get(host.value().as_bytes()).copied();
        }
        let reversed = Reversed::of(host.value().as_bytes());
        let mut wildcards = self.hosts.wildcards(&reversed);
        wildcards.find(|scope| self.hosts.pattern(*scope) == Some(host.pattern()))
    }
}

/// Each path with each host.
fn spots<N>(spec: &RouteSpec<N>) -> impl Iterator<Item = Spot<'_, N>> {
    spec.uris.iter().flat_map(move |uri| hosts(spec).map(move |host| Spot { spec, uri, host }))
}

fn hosts<N>(spec: &RouteSpec<N>) -> impl Iterator<Item = Option<&HostPattern>> {
    spec.hosts.iter().map(Some).chain(spec.hosts.is_empty().then_some(None))
}

fn rank<N>(spot: Spot<'_, N>) -> impl Ord + use<'_, N> {
    let Spot { spec, uri, .. } = spot;
    use std::cmp::Reverse;
    (Reverse(spec.priority), Reverse(spec.first_of_equals), Reverse(uri.len()), &*spec.order)
}

fn precedes<N>(one: Spot<'_, N>, other: Spot<'_, N>) -> bool {
    rank(one) < rank(other)
}

/// Whether a route with these methods, none meaning all, takes all requests of one with the others.
fn has_all(methods: Methods, others: Methods) -> bool {
    methods.is_empty() || methods.contains(others)
}

/// Whether a route takes all requests for this host.
fn has_host<N>(route: &RouteSpec<N>, host: Option<&HostPattern>) -> bool {
    let covers = |own: &HostPattern, host: &HostPattern| {
        let is_part = own.is_wildcard() && host.value().ends_with(own.value());
        own == host || (is_part && !own.names_port() && !host.names_port())
    };
    route.hosts.is_empty()
        || host.is_some_and(|host| route.hosts.iter().any(|own| own.pattern() == "*" || covers(own, host)))
}
