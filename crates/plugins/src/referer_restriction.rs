//! Lets requests through, or keeps them out, by the host in their `Referer`.

use std::sync::Arc;

use plugin::{BuildContext, Phases, Plugin, PluginDef, Reply, Request, Step};
use rustc_hash::FxHashSet;
use serde::Deserialize;
use serde_json::Value;
use wire::HeaderId;

use crate::common::conf::typed;

pub static PLUGIN: PluginDef = PluginDef {
    name: "referer-restriction",
    version: 0.1,
    priority: 2990,
    schema: include_str!("../schemas/referer-restriction.json"),
    phases: Phases::ACCESS,
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
            match pattern.strip_prefix('*') {
                Some(suffix) => hosts.suffixes.push(suffix.as_bytes().to_vec()),
                None => {
                    hosts.exact.insert(pattern.as_bytes().to_vec());
                }
            }
        }
        hosts
    }

    fn contains(&self, host: &[u8]) -> bool {
        self.exact.contains(host) || self.suffixes.iter().any(|suffix| host.ends_with(suffix))
    }
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
        let passes = match request.head.headers.known(HeaderId::Referer).and_then(host) {
            None => self.bypass_missing,
            Some(host) => self.hosts.contains(host) == self.is_whitelist,
        };
        if passes { Step::Next } else { Step::reply(self.rejection.clone()) }
    }
}

/// The host of an absolute http(s) URI, or of one without scheme (`//host/`).
fn host(uri: &[u8]) -> Option<&[u8]> {
    let rest = [&b"http:"[..], b"https:"].iter().find_map(|scheme| uri.strip_prefix(*scheme)).unwrap_or(uri);
    let rest = rest.strip_prefix(b"//")?;
    let end =
        rest.iter().position(|byte| matches!(byte, b'[' | b']' | b':' | b'/' | b'?')).unwrap_or(rest.len());
    rest.get(..end).filter(|host| !host.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_referers() {
        let cases: &[(&str, Option<&str>)] = &[
            ("http://a.com/x", Some("a.com")),
            ("https://a.com:8443?x", Some("a.com")),
            ("//a.com", Some("a.com")),
            ("a.com", None),
            ("ftp://a.com", None),
            ("http://", None),
        ];
        for (uri, expected) in cases {
            assert_eq!(host(uri.as_bytes()), expected.map(str::as_bytes), "{uri}");
        }
        let hosts = Hosts::new(&["a.com".into(), "*.b.com".into()]);
        for (host, expected) in [("a.com", true), ("x.a.com", false), ("x.b.com", true), ("b.com", false)] {
            assert_eq!(hosts.contains(host.as_bytes()), expected, "{host}");
        }
    }
}
