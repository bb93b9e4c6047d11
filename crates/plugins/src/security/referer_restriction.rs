//! Lets requests through, or keeps them out, by the host in their `Referer`.

use std::sync::Arc;

use rustc_hash::FxHashSet;
use serde::Deserialize;
use serde_json::Value;
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, SchemaKind, Step,
};
use tidegate_protocol::HeaderId;

use crate::common::conf::typed;

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "referer-restriction",
    version: 0.1,
    priority: 2990,
    schema: include_str!("referer_restriction.json"),
    phases: Phases::ACCESS,
    check,
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Conf {
    bypass_missing: bool,
    whitelist: Option<Vec<String>>,
    blacklist: Option<Vec<String>>,
    message: String,
}

struct RefererRestriction {
    bypass_missing: bool,
    hosts: Hosts,
    is_whitelist: bool,
    rejection: Reply,
}

#[derive(Default)]
struct Hosts {
    exact: FxHashSet<Vec<u8>>,
    /// What follows the `*`.
    suffixes: Vec<Vec<u8>>,
}

impl Hosts {
    fn new(patterns: &[String]) -> Hosts {
        let mut hosts = Hosts::default();
        for pattern in patterns {
            let pattern = match pattern.trim_end_matches('.') {
                "" => pattern,
                name => name,
            };
            match pattern.strip_prefix('*') {
                Some(suffix) => hosts.suffixes.push(suffix.to_ascii_lowercase().into_bytes()),
                None => {
                    hosts.exact.insert(pattern.to_ascii_lowercase().into_bytes());
                }
            }
        }
        hosts
    }

    fn contains(&self, host: &[u8]) -> bool {
        self.exact.contains(host) || self.suffixes.iter().any(|suffix| host.ends_with(suffix))
    }
}

/// A name with a port never matches a `Referer`, so a blacklist with one would not block anyone.
fn check(conf: &Value, _: SchemaKind) -> Result<(), String> {
    for list in ["whitelist", "blacklist"] {
        let entries = conf.get(list).and_then(Value::as_array).into_iter().flatten();
        for entry in entries.filter_map(Value::as_str) {
            let (name, port) = match entry.rsplit_once(':') {
                Some((name, port)) if !name.contains(':') || name.ends_with(']') => (name, port),
                _ => continue,
            };
            if port.bytes().all(|digit| digit.is_ascii_digit()) {
                return Err(format!("{list}: {entry}: hosts are compared without their port; write {name}"));
            }
        }
    }
    Ok(())
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(conf)?;
    let is_whitelist = conf.whitelist.is_some();
    Ok(Arc::new(RefererRestriction {
        bypass_missing: conf.bypass_missing,
        hosts: Hosts::new(&conf.whitelist.or(conf.blacklist).unwrap_or_default()),
        is_whitelist,
        rejection: Reply::message(403, &conf.message),
    }))
}

impl Plugin for RefererRestriction {
    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        let mut referers = request.head.headers.all_known(HeaderId::Referer).peekable();
        let passes = match referers.peek() {
            None => self.bypass_missing,
            // Each of several has to pass.
            Some(_) => referers.all(|referer| match origin(referer) {
                Origin::None => self.bypass_missing,
                Origin::Host(host) => self.hosts.contains(&host) == self.is_whitelist,
                Origin::Doubtful => false,
            }),
        };
        if passes { Step::Next } else { Step::reply(self.rejection.clone()) }
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        Foresight::by_running(self, phase, request)
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Origin {
    /// It is not an http(s) URI.
    None,
    /// In lower case.
    Host(Vec<u8>),
    /// A browser may read another host in it: user information, `\`, `%`.
    Doubtful,
}

/// Of an absolute http(s) URI, or of one without scheme (`//host/`).
fn origin(uri: &[u8]) -> Origin {
    let rest = [&b"http:"[..], b"https:"].iter().find_map(|scheme| {
        let (start, rest) = uri.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(rest)
    });
    let Some(rest) = rest.unwrap_or(uri).strip_prefix(b"//") else { return Origin::None };
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(rest.len());
    let (authority, _) = rest.split_at(end);
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | 0x80..);
    let host_end = match authority.first() {
        None => return Origin::None,
        Some(b'[') => authority.iter().position(|&byte| byte == b']').map_or(0, |at| at + 1),
        Some(_) => authority.iter().position(|byte| !is_plain(byte)).unwrap_or(authority.len()),
    };
    let (host, port) = authority.split_at(host_end);
    let is_port = |port: &[u8]| port.iter().all(u8::is_ascii_digit);
    match port.strip_prefix(b":").map_or(port.is_empty(), is_port) && !host.is_empty() {
        // As in routes, a dot at the end of a name does not count.
        true => Origin::Host(without_dot(host).to_ascii_lowercase()),
        false => Origin::Doubtful,
    }
}

fn without_dot(host: &[u8]) -> &[u8] {
    let end = host.iter().rposition(|byte| *byte != b'.').map_or(host.len(), |last| last + 1);
    host.get(..end).unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_referers() {
        let host = |host: &str| Origin::Host(host.as_bytes().to_vec());
        let cases = [
            ("http://a.com/x", host("a.com")),
            ("https://a.com:8443?x", host("a.com")),
            ("HTTP://A.com", host("a.com")),
            ("//a.com", host("a.com")),
            ("http://a.com./x", host("a.com")),
            ("http://a.com.:80", host("a.com")),
            ("http://./", host(".")),
            ("http://[::1]:80/", host("[::1]")),
            ("http://evil.com#.a.com", host("evil.com")),
            ("a.com", Origin::None),
            ("ftp://a.com", Origin::None),
            ("http://", Origin::None),
            ("http://evil.com\\.a.com", Origin::Doubtful),
            ("http://evil.com%2f.a.com", Origin::Doubtful),
            ("http://a.com:1@evil/", Origin::Doubtful),
            ("http://a.com@evil/", Origin::Doubtful),
            ("http://:80/", Origin::Doubtful),
        ];
        for (uri, expected) in cases {
            assert_eq!(origin(uri.as_bytes()), expected, "{uri}");
        }
        let hosts = Hosts::new(&["a.com".into(), "*.b.com".into()]);
        for (host, expected) in [("a.com", true), ("x.a.com", false), ("x.b.com", true), ("b.com", false)] {
            assert_eq!(hosts.contains(host.as_bytes()), expected, "{host}");
        }
    }
}
