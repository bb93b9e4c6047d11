//! A request as the router sees it.

use std::net::IpAddr;

use tidegate_plugin_api::{Request, Variable};
use tidegate_protocol::HeaderId;
use tidegate_routing::{
    expr::{Operand, SearchTime, Variables},
    router::{MatchInput, Methods},
};

use crate::progress::{At, FILTER_FUNC, mark};

/// The request as the router sees it.
pub(crate) struct Input<'a> {
    request: &'a Request,
    path: &'a [u8],
    method: Methods,
}

impl<'a> Input<'a> {
    pub(crate) fn new(request: &'a Request, path: &'a [u8]) -> Input<'a> {
        Input { request, path, method: Methods::of(request.head.method.as_str()) }
    }
}

impl Variables for Input<'_> {
    type Name = Variable;

    fn get<'a>(&'a self, name: &Variable) -> Operand<'a> {
        self.request.get(name)
    }

    fn search_time(&self) -> Option<&SearchTime> {
        self.request.search_time()
    }

    fn gave_up(&self, pattern: &str) {
        self.request.gave_up(pattern);
    }
}

impl MatchInput for Input<'_> {
    fn path(&self) -> &[u8] {
        self.path
    }

    fn host(&self) -> Option<&[u8]> {
        Some(self.request.host.as_slice()).filter(|host| !host.is_empty())
    }

    fn host_with_port(&self) -> Option<&[u8]> {
        self.request.head.headers.known(HeaderId::Host)
    }

    fn method(&self) -> Methods {
        self.method
    }

    fn remote_addr(&self) -> IpAddr {
        self.request.remote_addr
    }

    fn filter(&self, route: u32) -> bool {
        let route = self.request.snapshot.routes.get(route as usize);
        let condition = route.and_then(|route| Some((route, route.filter.as_ref()?)));
        condition.is_none_or(|(route, filter)| {
            mark(At::Matching, FILTER_FUNC, route.serial);
            filter.matches(self.request)
        })
    }
}
