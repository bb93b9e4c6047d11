//! The settings of an upstream object, as plain data. The reader of the JSON fills this in.

use std::{borrow::Cow, fmt, net::IpAddr, sync::Arc};

use crate::health::Checks;

#[derive(Clone, Debug, Default)]
pub struct UpstreamSpec {
    pub nodes: Vec<NodeSpec>,
    pub algorithm: Algorithm,
    pub hash_on: HashOn,
    /// What `hash_on` looks up: a variable, a header, a cookie or a text with variables.
    pub key: Option<Box<str>>,
    /// `None`: the gateway's defaults.
    pub timeouts: Option<Timeouts>,
    pub keepalive: Option<Keepalive>,
    pub pass_host: PassHost,
    /// The `Host` sent with [`PassHost::Rewrite`].
    pub upstream_host: Option<Box<str>>,
    pub scheme: Scheme,
    /// Boxed: most upstreams have none, and there may be 50,000.
    pub checks: Option<Box<Checks>>,
}

#[derive(Clone, Debug, Default)]
pub struct NodeSpec {
    /// An address or a domain, as configured. A domain with several addresses is several nodes.
    pub host: Box<str>,
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
    pub metadata: Option<Arc<serde_json::Value>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    #[default]
    RoundRobin,
    /// `chash`
    ConsistentHash,
    Ewma,
    /// `least_conn`
    LeastConnections,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HashOn {
    #[default]
    Vars,
    Header,
    Cookie,
    Consumer,
    VarsCombinations,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    pub connect_ms: u64,
    pub send_ms: u64,
    pub read_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    pub size: u32,
    pub idle_timeout_ms: u64,
    pub requests: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PassHost {
    #[default]
    Pass,
    Node,
    Rewrite,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheme {
    #[default]
    Http,
    Https,
    Grpc,
    Grpcs,
    Tcp,
    Tls,
    Udp,
    Kafka,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect_ms: 60_000, send_ms: 60_000, read_ms: 60_000 }
    }
}

impl Default for Keepalive {
    fn default() -> Self {
        Self { size: 320, idle_timeout_ms: 60_000, requests: 1000 }
    }
}

impl NodeSpec {
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
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "pass" => Self::Pass,
            "node" => Self::Node,
            "rewrite" => Self::Rewrite,
            _ => return None,
        })
    }
}

impl Scheme {
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "http" => Self::Http,
            "https" => Self::Https,
            "grpc" => Self::Grpc,
            "grpcs" => Self::Grpcs,
            "tcp" => Self::Tcp,
            "tls" => Self::Tls,
            "udp" => Self::Udp,
            "kafka" => Self::Kafka,
            _ => return None,
        })
    }

    /// The port of a node that names none, and the one left out of a `Host` header.
    pub fn default_port(self) -> Option<u16> {
        match self {
            Self::Http | Self::Grpc => Some(80),
            Self::Https | Self::Grpcs => Some(443),
            Self::Tcp | Self::Tls | Self::Udp | Self::Kafka => None,
        }
    }
}
