//! One route for the router. Prepared when the route changes, shared by all later routers.

use std::sync::Arc;

use super::{
    lookup::{MatchInput, Mode},
    methods::Methods,
};
use crate::{address::AddressSet, expr::Expression};

/// One route, ready to be indexed.
#[derive(Debug)]
pub struct RouteSpec<N> {
    /// Returned by a match and given to the filter.
    pub id: u32,
    /// The id in the store, whose order decides between equals.
    pub order: Arc<str>,
    /// Exact paths, `prefix*` or patterns with parameters.
    pub uris: Vec<Box<str>>,
    /// The route's hosts, or its service's when it has none. Empty: any host.
    pub hosts: Vec<HostPattern>,
    /// The route's hosts are not known, and it refuses the requests it gets: it comes before the routes of wildcards and those
    /// without a host, as the host of each request may be one of its own.
    pub hosts_unknown: bool,
    /// It refuses the requests it gets, and its conditions are not known for certain: it comes before its
    /// equals.
    pub first_of_equals: bool,
    /// Empty: any method.
    pub methods: Methods,
    /// `None`: any client. Boxed, as are the conditions: most routes have none, and there may be 50,000.
    pub remote_addrs: Option<Box<AddressSet>>,
    /// `None`: no conditions.
    pub vars: Option<Box<Expression<N>>>,
    /// The highest is asked first.
    pub priority: i64,
    /// The route has a `filter_func`.
    pub has_filter: bool,
}

impl<N> RouteSpec<N> {
    /// A route for these paths that asks for nothing else.
    pub fn new(id: u32, order: Arc<str>, uris: Vec<Box<str>>) -> Self {
        Self {
            id,
            order,
            uris,
            hosts: Vec::new(),
            hosts_unknown: false,
            first_of_equals: false,
            methods: Methods::EMPTY,
            remote_addrs: None,
            vars: None,
            priority: 0,
            has_filter: false,
        }
    }

    /// Whether a request that comes to its place, which is a host as well where hosts lead to paths, belongs to it.
    pub(super) fn asks_for_nothing_else(&self, mode: Mode) -> bool {
        let Self { hosts, methods, remote_addrs, vars, has_filter, .. } = self;
        (mode == Mode::HostUri || hosts.is_empty())
            && methods.is_empty()
            && remote_addrs.is_none()
            && vars.is_none()
            && !has_filter
    }
}

/// An exact host or, with a leading `*`, a suffix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern {
    pattern: Box<str>,
    /// Only a `Host` header with this port matches.
    names_port: bool,
}

/// A host as requests name it, without its port: the colons of an IPv6 address come before a bracket and do not begin a
/// port.
pub fn without_port(host: &[u8]) -> &[u8] {
    match host.iter().rposition(|&byte| byte == b':') {
        Some(at) if !host[at..].contains(&b']') => &host[..at],
        _ => host,
    }
}

impl HostPattern {
    /// Without the dots at the end, as the hosts of requests are.
    pub fn new(pattern: &str) -> Self {
        let pattern = Some(pattern.trim_end_matches('.')).filter(|name| !name.is_empty()).unwrap_or(pattern);
        let names_port = without_port(pattern.as_bytes()).len() < pattern.len();
        Self { pattern: pattern.to_ascii_lowercase().into(), names_port }
    }

    /// As configured.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    pub(super) fn is_wildcard(&self) -> bool {
        self.pattern.starts_with('*')
    }

    pub(super) fn names_port(&self) -> bool {
        self.names_port
    }

    /// Without the asterisk.
    pub(super) fn value(&self) -> &str {
        self.pattern.strip_prefix('*').unwrap_or(&self.pattern)
    }

    /// A pattern with a port is compared with the whole `Host` header.
    pub(super) fn matches<I: MatchInput>(&self, input: &I) -> bool {
        let value = self.value().as_bytes();
        let matches = |host: &[u8]| match self.is_wildcard() {
            true => host.len() >= value.len() && host[host.len() - value.len()..].eq_ignore_ascii_case(value),
            false => host.eq_ignore_ascii_case(value),
        };
        let with_port = self.names_port.then(|| input.host_with_port()).flatten();
        match with_port.or_else(|| input.host()) {
            Some(host) => matches(host),
            None => &*self.pattern == "*",
        }
    }
}
