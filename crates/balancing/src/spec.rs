//! The settings of an upstream object, as plain data. The reader of the JSON fills this in.

use std::{borrow::Cow, fmt, net::IpAddr, sync::Arc};

use crate::health::Checks;

/// An `upstream` object, its names resolved: <https://apisix.apache.org/docs/apisix/admin-api/#upstream>.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UpstreamSpec {
    /// One entry per address; equal ones of several upstreams may be one.
    pub nodes: Vec<Arc<NodeSpec>>,
    /// `type`
    pub algorithm: Algorithm,
    /// `hash_on`; used by [`Algorithm::ConsistentHash`] alone.
    pub hash_on: HashOn,
    /// What `hash_on` looks up: a variable, a header, a cookie or a text with variables.
    pub key: Option<Box<str>>,
    /// `pass_host`
    pub pass_host: PassHost,
    /// The `Host` sent with [`PassHost::Rewrite`].
    pub upstream_host: Option<Box<str>>,
    /// Boxed: most upstreams have none, and there may be 50,000.
    pub checks: Option<Box<Checks>>,
}

/// One address of an upstream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeSpec {
    /// An address or a domain, as configured. A domain with several addresses is several nodes.
    pub host: Box<str>,
    /// From the object, or the scheme's default.
    pub port: u16,
    /// The weight of all nodes of this domain together: each of the `siblings` has an equal share.
    pub weight: u32,
    /// How many nodes its domain is expanded to; 0 means 1.
    pub siblings: u32,
    /// The most requests at a time, over all workers; `None`: no limit.
    pub max_conn: Option<u32>,
    /// Nodes of a lower priority are used when all of the higher ones were tried or are unhealthy.
    pub priority: i32,
    /// Where the node is; `None`: its host cannot be resolved now.
    pub address: Option<IpAddr>,
    /// `metadata` of the node, passed on to the Control API.
    pub metadata: Option<Arc<serde_json::Value>>,
}

/// How the next node is chosen: `type` of an upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// Smooth weighted round robin, as nginx has it.
    #[default]
    RoundRobin,
    /// `chash`
    ConsistentHash,
    /// The lower of two nodes by a moving average of response times.
    Ewma,
    /// `least_conn`
    LeastConnections,
}

/// Where the key of consistent hashing is taken from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HashOn {
    /// A variable.
    #[default]
    Vars,
    /// A header field of the request.
    Header,
    /// A cookie.
    Cookie,
    /// The name of the authenticated consumer.
    Consumer,
    /// A text with several variables.
    VarsCombinations,
}

/// Which `Host` the upstream gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PassHost {
    /// The client's.
    #[default]
    Pass,
    /// The node's name, with the port unless it is the scheme's own.
    Node,
    /// `upstream_host`.
    Rewrite,
}

impl NodeSpec {
    /// Never 0.
    pub fn siblings(&self) -> u32 {
        self.siblings.max(1)
    }

    /// The address, or the host where it has none.
    pub fn place(&self) -> Cow<'_, str> {
        match self.address {
            Some(address) => Cow::Owned(address.to_string()),
            None => Cow::Borrowed(&self.host),
        }
    }
}

/// `host:port`, with the address behind a name.
impl fmt::Display for NodeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)?;
        let place = self.place();
        if *self.host == *place { Ok(()) } else { write!(f, " ({place})") }
    }
}

impl Algorithm {
    /// By the name of `type`; `None` for a picker that is a Lua module.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "roundrobin" => Self::RoundRobin,
            "chash" => Self::ConsistentHash,
            "ewma" => Self::Ewma,
            "least_conn" => Self::LeastConnections,
            _ => return None,
        })
    }
}

impl HashOn {
    /// The balancer of that `type`; `None` for others.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "vars" => Self::Vars,
            "header" => Self::Header,
            "cookie" => Self::Cookie,
            "consumer" => Self::Consumer,
            "vars_combinations" => Self::VarsCombinations,
            _ => return None,
        })
    }
}

impl PassHost {
    /// The source of that name; `None` for others.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "pass" => Self::Pass,
            "node" => Self::Node,
            "rewrite" => Self::Rewrite,
            _ => return None,
        })
    }
}
