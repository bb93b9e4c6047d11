//! The input and the result of a lookup.

use std::net::IpAddr;

use smallvec::SmallVec;

use super::parameters::Param;
use crate::{Methods, expr::Variables};

/// `apisix.router.http` of config.yaml.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// `radixtree_host_uri`, the default: hosts lead to paths.
    HostUri,
    /// `radixtree_uri`: paths only, hosts are one of the conditions.
    Uri,
    /// `radixtree_uri_with_parameter`: as `Uri`, and `:name` matches one path segment.
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
    /// For `remote_addrs`.
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
    /// Of the pattern's `:name` and `*name`, in order.
    pub params: SmallVec<[Param<'r>; 4]>,
}
