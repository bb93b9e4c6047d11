//! The hosts that a request may name where no key is required.
//!
//! A page in a browser on this machine may make its own name lead to 127.0.0.1 and then read what answers there (DNS
//! rebinding). The browser sends that name as `Host`, so only what no page can take over is answered: addresses, `localhost`,
//! and names that the operator gave.

use std::net::{IpAddr, Ipv6Addr};

use crate::message::{Head, Response};

/// Names that are answered beside addresses and `localhost`.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    names: Vec<String>,
    /// The key of config.yaml that takes further ones.
    key: &'static str,
}

impl Hosts {
    /// `names`: accepted besides addresses and localhost; `key`: of config.yaml, for the message.
    pub fn new(names: impl IntoIterator<Item = String>, key: &'static str) -> Hosts {
        Hosts { names: names.into_iter().collect(), key }
    }

    /// The refusal of a request to another host. HTTP/1.0 may do without one; no browser does.
    pub(crate) fn check(&self, head: &Head) -> Result<(), Response> {
        let hosts = head.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("host"));
        let mut others = hosts.map(|(_, host)| host.trim()).filter(|host| !self.has(host));
        match others.next() {
            None => Ok(()),
            Some(host) => Err(Response::error(403, &self.refusal(host))),
        }
    }

    fn refusal(&self, host: &str) -> String {
        let shown: String = host.chars().take(255).collect();
        format!(
            "this API is not served as {shown:?}; use an IP address or localhost, or add the name to {}",
            self.key
        )
    }

    fn has(&self, host: &str) -> bool {
        let Some(name) = name_of(host) else { return false };
        let name = name.strip_suffix('.').unwrap_or(name);
        name.is_empty()
            || is_address(name)
            || name.eq_ignore_ascii_case("localhost")
            || self.names.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

/// Without the port.
fn name_of(host: &str) -> Option<&str> {
    let end = match host.starts_with('[') {
        true => host.find(']')? + 1,
        false => host.find(':').unwrap_or(host.len()),
    };
    let (name, port) = host.split_at_checked(end)?;
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    (port.is_empty() || port.strip_prefix(':').is_some_and(is_port)).then_some(name)
}

fn is_address(name: &str) -> bool {
    match name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(inner) => inner.parse::<Ipv6Addr>().is_ok(),
        None => name.parse::<IpAddr>().is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_strangers_are_refused() {
        let hosts = Hosts::new(["gateway.internal".to_owned()], "apisix.control.hosts");
        for (host, expected) in [
            ("", true),
            ("127.0.0.1", true),
            ("127.0.0.1:9090", true),
            ("10.0.0.7:9090", true),
            ("[::1]:9090", true),
            ("[::1]", true),
            ("localhost", true),
            ("LocalHost.:9090", true),
            ("gateway.internal:9090", true),
            ("Gateway.Internal.", true),
            (":9090", true),
            ("[::1]evil.example", false),
            ("127.0.0.1:evil.example", false),
            ("evil.example", false),
            ("evil.example:9090", false),
            ("127.0.0.1.evil.example", false),
            ("localhost.evil.example", false),
            ("evil.localhost", false),
            ("x.gateway.internal", false),
            ("[evil.example]", false),
            ("[::1", false),
            ("2130706433", false),
        ] {
            assert_eq!(hosts.has(host), expected, "{host}");
        }
    }
}
