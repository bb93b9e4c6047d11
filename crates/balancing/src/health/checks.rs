//! The `checks` of an upstream, with the schema's defaults.

/// `passive: None` when the object has none: requests then report nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checks {
    pub active: Active,
    pub passive: Option<Thresholds>,
}

/// How to probe. The healthy interval applies to healthy and mostly healthy nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Active {
    pub kind: ProbeKind,
    pub timeout_ms: u64,
    pub concurrency: usize,
    pub http_method: Box<str>,
    pub http_path: Box<str>,
    pub http_req_body: Box<str>,
    /// The `Host` header and TLS server name; `None`: the node's host.
    pub host: Option<Box<str>>,
    /// `None`: the node's port.
    pub port: Option<u16>,
    pub https_verify_certificate: bool,
    /// Sent before all else, before a TLS handshake too, where the probe goes to the node's own port: a PROXY header.
    pub preface: Box<[u8]>,
    /// Whole lines, `name: value`.
    pub req_headers: Vec<Box<str>>,
    pub healthy_interval_s: u64,
    pub unhealthy_interval_s: u64,
    pub thresholds: Thresholds,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProbeKind {
    #[default]
    Http,
    Https,
    Tcp,
}

/// After how many outcomes in a row a state changes. 0: that outcome is ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thresholds {
    pub successes: u8,
    pub healthy_statuses: Statuses,
    pub http_failures: u8,
    pub tcp_failures: u8,
    pub timeouts: u8,
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
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "http" => Self::Http,
            "https" => Self::Https,
            "tcp" => Self::Tcp,
            _ => return None,
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Tcp => "tcp",
        }
    }
}

impl Checks {
    /// From an object that the schema accepted; absent or invalid values take their defaults.
    pub fn from_json(checks: &serde_json::Value) -> Self {
        let passive = checks.get("passive").map(|passive| thresholds(passive, Thresholds::passive()));
        Self { active: checks.get("active").map(active).unwrap_or_default(), passive }
    }
}

fn active(value: &serde_json::Value) -> Active {
    let defaults = Active::default();
    let text = |name: &str| value.get(name).and_then(serde_json::Value::as_str);
    let interval = |of: &str, default: u64| {
        value.get(of).and_then(|part| part.get("interval")?.as_u64()).unwrap_or(default).max(1)
    };
    let timeout_s = value.get("timeout").and_then(serde_json::Value::as_f64).unwrap_or(1.0);
    Active {
        kind: text("type").and_then(ProbeKind::from_name).unwrap_or_default(),
        timeout_ms: (timeout_s * 1000.0).max(1.0) as u64,
        concurrency: value
            .get("concurrency")
            .and_then(serde_json::Value::as_u64)
            .map_or(defaults.concurrency, |count| usize::try_from(count).unwrap_or(usize::MAX).max(1)),
        http_method: text("http_method").map_or(defaults.http_method, Into::into),
        http_path: text("http_path").map_or(defaults.http_path, Into::into),
        http_req_body: text("http_req_body").map_or(defaults.http_req_body, Into::into),
        host: text("host").map(Into::into),
        port: value.get("port").and_then(serde_json::Value::as_u64).and_then(|port| u16::try_from(port).ok()),
        https_verify_certificate: value
            .get("https_verify_certificate")
            .and_then(serde_json::Value::as_bool)
            .unwrap_or(true),
        preface: Box::default(),
        req_headers: value
            .get("req_headers")
            .and_then(serde_json::Value::as_array)
            .map_or_else(Vec::new, |lines| {
                lines.iter().filter_map(|line| line.as_str().map(Into::into)).collect()
            }),
        healthy_interval_s: interval("healthy", defaults.healthy_interval_s),
        unhealthy_interval_s: interval("unhealthy", defaults.unhealthy_interval_s),
        thresholds: thresholds(value, defaults.thresholds),
    }
}

fn thresholds(value: &serde_json::Value, defaults: Thresholds) -> Thresholds {
    let field = |of: &str, name: &str| value.get(of).and_then(|part| part.get(name));
    let count = |of: &str, name: &str, default: u8| {
        field(of, name)
            .and_then(serde_json::Value::as_u64)
            .and_then(|count| u8::try_from(count).ok())
            .unwrap_or(default)
    };
    let statuses = |of: &str, default: Statuses| match field(of, "http_statuses") {
        Some(serde_json::Value::Array(items)) => {
            items.iter().filter_map(|item| u16::try_from(item.as_u64()?).ok()).collect()
        }
        _ => default,
    };
    Thresholds {
        successes: count("healthy", "successes", defaults.successes),
        healthy_statuses: statuses("healthy", defaults.healthy_statuses),
        http_failures: count("unhealthy", "http_failures", defaults.http_failures),
        tcp_failures: count("unhealthy", "tcp_failures", defaults.tcp_failures),
        timeouts: count("unhealthy", "timeouts", defaults.timeouts),
        unhealthy_statuses: statuses("unhealthy", defaults.unhealthy_statuses),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn empty_objects_are_the_defaults() {
        let checks = Checks::from_json(&json!({"active": {}, "passive": {}}));
        assert_eq!(checks, Checks { active: Active::default(), passive: Some(Thresholds::passive()) });
        assert_eq!(Checks::from_json(&json!({"active": {}})).passive, None);
    }

    #[test]
    fn what_is_given_is_taken() {
        let checks = Checks::from_json(&json!({
            "active": {
                "type": "tcp", "timeout": 0.5, "port": 81, "host": "h", "req_headers": ["A: b"],
                "healthy": {"interval": 2, "successes": 1, "http_statuses": [204]},
                "unhealthy": {"interval": 3, "tcp_failures": 7}
            },
            "passive": {"healthy": {"successes": 0}}
        }));
        let active = &checks.active;
        assert_eq!((active.kind, active.timeout_ms, active.port), (ProbeKind::Tcp, 500, Some(81)));
        assert_eq!((active.healthy_interval_s, active.unhealthy_interval_s), (2, 3));
        assert_eq!((active.thresholds.successes, active.thresholds.tcp_failures), (1, 7));
        assert!(active.thresholds.healthy_statuses.contains(204));
        assert!(!active.thresholds.healthy_statuses.contains(200));
        assert_eq!(checks.passive.map(|passive| passive.successes), Some(0));
    }
}
