//! Which route and which certificate a snapshot has for each of some requests.

use std::{net::IpAddr, sync::Arc};

use tidegate_plugin_api::{Snapshot, Variable};
use tidegate_routing::{
    expr::{Operand, Variables},
    router::{MatchInput, Methods},
};

/// The route that a request gets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub route: Arc<str>,
    pub is_broken: bool,
    uri: String,
    host: Option<String>,
}

/// Each request, in words, with its route.
pub(crate) fn found(snapshot: &Snapshot) -> Vec<(String, Option<Found>)> {
    let mut all = Vec::new();
    for host in [None, Some("a.test"), Some("b.test"), Some("x.a.test"), Some("other.test")] {
        for path in ["/a", "/a/b", "/b", "/c", "/c/7", "/d", "/A"] {
            for (method, address, x) in [
                ("GET", [127, 0, 0, 1], None),
                ("POST", [127, 0, 0, 1], Some("1")),
                ("GET", [10, 0, 0, 1], Some("1")),
            ] {
                let asked = Asked { host, path, method: Methods::of(method), address: address.into(), x };
                let text = format!("{method} {path} of host {host:?} from {} with x {x:?}", asked.address);
                let found = snapshot.router.find(&asked).and_then(|found| {
                    let route = snapshot.routes.get(found.route as usize)?;
                    Some(Found {
                        route: route.id.clone(),
                        is_broken: route.broken.is_some(),
                        uri: found.matched_uri.to_owned(),
                        host: found.matched_host.map(str::to_owned),
                    })
                });
                all.push((text, found));
            }
        }
    }
    all
}

/// The `ssl` object of a server name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Claimed {
    pub ssl: Arc<str>,
    pub is_usable: bool,
    asks: bool,
}

/// Each server name with the object that answers handshakes for it, and with the one that guards it.
pub(crate) fn claimed(snapshot: &Snapshot) -> Vec<(String, Option<Claimed>)> {
    let mut all = Vec::new();
    for name in ["a.test", "b.test", "c.test", "x.a.test", "y.x.a.test", "other.org"] {
        let claims = [snapshot.certificates.find(name), snapshot.certificates.guard(name)];
        for (claim, by) in claims.into_iter().zip(["has", "is guarded by"]) {
            let claim = claim.map(|claim| Claimed {
                ssl: claim.server.as_ref().map_or_else(Arc::clone, |server| server.id.clone()),
                is_usable: claim.server.is_ok(),
                asks: claim.asks,
            });
            all.push((format!("{name} {by}"), claim));
        }
    }
    all
}

struct Asked {
    host: Option<&'static str>,
    path: &'static str,
    method: Methods,
    address: IpAddr,
    /// Its header field X.
    x: Option<&'static str>,
}

impl Variables for Asked {
    type Name = Variable;

    fn get<'a>(&'a self, name: &Variable) -> Operand<'a> {
        match name {
            Variable::Header(name) if &**name == "x" => self.x.map_or(Operand::Nil, Operand::from),
            _ => Operand::Nil,
        }
    }
}

impl MatchInput for Asked {
    fn path(&self) -> &[u8] {
        self.path.as_bytes()
    }

    fn host(&self) -> Option<&[u8]> {
        self.host.map(str::as_bytes)
    }

    fn host_with_port(&self) -> Option<&[u8]> {
        self.host()
    }

    fn method(&self) -> Methods {
        self.method
    }

    fn remote_addr(&self) -> IpAddr {
        self.address
    }

    fn filter(&self, _: u32) -> bool {
        true
    }
}
