//! The `checks` of an upstream, with the schema's defaults.

/// `passive: None` when the object has none: requests then report nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checks {
    /// `checks.active`; an interval of 0 turns its half of the probes off.
    pub active: Active,
    /// `checks.passive`: what requests report.
    pub passive: Option<Thresholds>,
}

/// How to probe. The healthy interval applies to healthy and mostly healthy nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Active {
    /// `type`
    pub kind: ProbeKind,
    /// For the whole probe, from connecting to the end of the status line.
    pub timeout_ms: u64,
    /// The most probes of this upstream under way at once.
    pub concurrency: usize,
    /// As written on the request line.
    pub http_method: Box<str>,
    /// Path and query of the probe.
    pub http_path: Box<str>,
    /// Sent with its `Content-Length`; empty for none.
    pub http_req_body: Box<str>,
    /// The `Host` header and TLS server name; `None`: the node's host.
    pub host: Option<Box<str>>,
    /// `None`: the node's port.
    pub port: Option<u16>,
    /// Whether the node's certificate must be valid for the probe's host; of `https` probes only.
    pub https_verify_certificate: bool,
    /// Sent before all else, before a TLS handshake too, where the probe goes to the node's own port: a PROXY header.
    pub preface: Box<[u8]>,
    /// Whole lines, `name: value`.
    pub req_headers: Vec<Box<str>>,
    /// Seconds between probes of usable nodes; 0: they are not probed.
    pub healthy_interval_s: u64,
    /// Seconds between probes of nodes that are not usable; 0: they are not probed.
    pub unhealthy_interval_s: u64,
    /// What turns a probed node's state.
    pub thresholds: Thresholds,
}

/// What a probe does once it is connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProbeKind {
    /// Sends a request and judges the status.
    #[default]
    Http,
    /// As [`ProbeKind::Http`], over TLS.
    Https,
    /// Nothing: to connect is enough.
    Tcp,
}

/// After how many outcomes in a row a state changes. 0: that outcome is ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Successes after which a node is healthy.
    pub successes: u8,
    /// Statuses that count as successes.
    pub healthy_statuses: Statuses,
    /// Statuses of [`Self::unhealthy_statuses`] after which a node is unhealthy.
    pub http_failures: u8,
    /// Failures to connect or to exchange bytes after which a node is unhealthy.
    pub tcp_failures: u8,
    /// Timeouts after which a node is unhealthy.
    pub timeouts: u8,
    /// Statuses that count as failures.
    pub unhealthy_statuses: Statuses,
}

/// A set of statuses below 640.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statuses([u64; 10]);

impl Statuses {
    pub fn contains(&self, status: u16) -> bool {
        let word = self.0.get(usize::from(status / 64)).copied().unwrap_or(0);
        word >> (status % 64) & 1 == 1
    }
}

impl FromIterator<u16> for Statuses {
    fn from_iter<T: IntoIterator<Item = u16>>(statuses: T) -> Self {
        let mut set = Self::default();
        for status in statuses {
            if let Some(word) = set.0.get_mut(usize::from(status / 64)) {
                *word |= 1 << (status % 64);
            }
        }
        set
    }
}

impl Thresholds {
    /// The defaults of `checks.active`.
    pub fn active() -> Self {
        Self {
            successes: 2,
            healthy_statuses: [200, 302].into_iter().collect(),
            http_failures: 5,
            tcp_failures: 2,
            timeouts: 3,
            unhealthy_statuses: [429, 404, 500, 501, 502, 503, 504, 505].into_iter().collect(),
        }
    }

    /// The defaults of `checks.passive`.
    pub fn passive() -> Self {
        Self {
            successes: 5,
            healthy_statuses: (200..=208).chain([226]).chain(300..=308).collect(),
            http_failures: 5,
            tcp_failures: 2,
            timeouts: 7,
            unhealthy_statuses: [429, 500, 503].into_iter().collect(),
        }
    }
}

impl Default for Active {
    fn default() -> Self {
        Self {
            kind: ProbeKind::Http,
            timeout_ms: 1000,
            concurrency: 10,
            http_method: "GET".into(),
            http_path: "/".into(),
            http_req_body: "".into(),
            host: None,
            port: None,
            https_verify_certificate: true,
            preface: Box::default(),
            req_headers: Vec::new(),
            healthy_interval_s: 1,
            unhealthy_interval_s: 1,
            thresholds: Thresholds::active(),
        }
    }
}

impl ProbeKind {
    /// The kind of that `type`; `None` for others.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "http" => Self::Http,
            "https" => Self::Https,
            "tcp" => Self::Tcp,
            _ => return None,
        })
    }

    /// The `type` in an upstream object.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Tcp => "tcp",
        }
    }
}
