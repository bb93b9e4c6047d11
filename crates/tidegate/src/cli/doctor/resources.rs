//! The objects of an apisix.yaml: which cannot be used, and what they name.

use std::{
    collections::BTreeSet,
    net::IpAddr,
    time::{SystemTime, UNIX_EPOCH},
};

use rustls::pki_types::{CertificateDer, pem::PemObject};
use serde_json::Value;
use tidegate_model::Kind;
use tidegate_plugin_api::PluginDef;
use tidegate_tls::Certificate;

use super::{check::Check, plugin_files};
use crate::boot;

/// What to do about an object whose fault says no more.
pub(super) const CORRECT: &str = "correct the object; until then its place answers 503";

const DAY: u64 = 24 * 3600;
/// When the gateway's own warnings begin.
const SOON: u64 = 30 * DAY;

/// What objects refer to outside of the gateway.
#[derive(Default)]
pub(super) struct Named {
    /// Names, not addresses.
    pub hosts: BTreeSet<String>,
    pub redis: BTreeSet<(String, u16)>,
    /// The id of an `ssls` object and one of its chains.
    pub certificates: Vec<(String, String)>,
}

pub(super) fn count(document: &Value) -> usize {
    lists(document).map(|(_, items)| items.len()).sum()
}

/// Why objects would be left out, each with its name. `defs`: plugins in files.
pub(super) fn problems(document: &Value, defs: &[&'static PluginDef]) -> Vec<String> {
    let catalog = match plugin_files::catalog(defs) {
        Ok(catalog) => catalog,
        Err(error) => return vec![format!("{error:#}")],
    };
    let mut problems = Vec::new();
    for (kind, items) in lists(document) {
        for item in items {
            let id = id_of(item);
            let kind = if id.contains("/credentials/") { Kind::Credential } else { kind };
            let mut item = item.clone();
            if let Some(fields) = item.as_object_mut() {
                fields.insert("id".to_owned(), id.clone().into());
            }
            let checked = boot::check_object(&catalog, kind, &id, &item);
            problems.extend(checked.err().map(|reason| format!("{}/{id}: {reason}", kind.directory())));
        }
    }
    problems
}

/// The lists that are known, with their kinds.
fn lists(document: &Value) -> impl Iterator<Item = (Kind, &Vec<Value>)> {
    tidegate_store::COLLECTIONS
        .iter()
        .filter_map(|(name, kind)| Some((*kind, document.get(name)?.as_array()?)))
}

fn id_of(item: &Value) -> String {
    let id = item.get("id").or_else(|| item.get("username"));
    id.map_or_else(String::new, |id| id.as_str().map_or_else(|| id.to_string(), str::to_owned))
}

pub(super) fn named(document: &Value) -> Named {
    let mut named = Named::default();
    for (kind, items) in lists(document) {
        for item in items {
            walk(item, &mut named);
            if kind == Kind::Ssl {
                let chains = item.get("certs").and_then(Value::as_array).into_iter().flatten();
                let chains = item.get("cert").into_iter().chain(chains).filter_map(Value::as_str);
                named.certificates.extend(chains.map(|chain| (id_of(item), chain.to_owned())));
            }
        }
    }
    named
}

fn walk(value: &Value, named: &mut Named) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| walk(item, named)),
        Value::Object(fields) => {
            if let Some(host) = fields.get("redis_host").and_then(Value::as_str) {
                let port = fields.get("redis_port").and_then(Value::as_u64).unwrap_or(6379);
                named.redis.extend(u16::try_from(port).ok().map(|port| (host.to_owned(), port)));
            }
            if let Some(nodes) = fields.get("nodes") {
                nodes_of(nodes, named);
            }
            fields.values().for_each(|field| walk(field, named));
        }
        _ => {}
    }
}

fn nodes_of(nodes: &Value, named: &mut Named) {
    let names: Vec<&str> = match nodes {
        Value::Object(map) => {
            map.keys().map(|name| name.rsplit_once(':').map_or(name.as_str(), |(host, _)| host)).collect()
        }
        Value::Array(list) => list.iter().filter_map(|node| node.get("host")?.as_str()).collect(),
        _ => Vec::new(),
    };
    let is_name =
        |name: &&str| name.trim_matches(['[', ']']).parse::<IpAddr>().is_err() && !name.contains('$');
    named.hosts.extend(names.into_iter().filter(is_name).map(str::to_owned));
}

/// How long the first certificate of a chain is good.
pub(super) fn expiry(name: &str, pem: &[u8]) -> Check {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let der = CertificateDer::from_pem_slice(pem);
    let parsed = der.as_ref().ok().and_then(|der| Certificate::parse(der).ok());
    let Some(certificate) = parsed else {
        return Check::bad(name, "the certificate cannot be read", "give a PEM certificate");
    };
    let ends = certificate.not_after;
    if certificate.not_before > now {
        return Check::bad(name, "the certificate is not good yet", "check the clock, or replace it");
    }
    match ends.saturating_sub(now) {
        0 => Check::bad(name, format!("the certificate ended {} days ago", (now - ends) / DAY), "replace it"),
        left if left < SOON => {
            Check::bad(name, format!("the certificate ends in {} days", left / DAY), "replace it")
        }
        left => Check::good(name, format!("the certificate is good for {} days", left / DAY)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_objects_name() {
        let document = json!({
            "routes": [
                {"id": 1, "uri": "/a", "upstream": {"nodes": {"a.test:80": 1, "127.0.0.1:80": 1, "[::1]:80": 1}},
                 "plugins": {"limit-count": {"policy": "redis", "redis_host": "r.test"}}},
                {"id": 2, "uri": "/b", "upstream": {"nodes": [{"host": "b.test", "port": 80, "weight": 1}]}},
            ],
            "ssls": [{"id": "s", "cert": "one", "certs": ["two"]}],
        });
        let Named { hosts, redis, certificates } = named(&document);
        assert_eq!(hosts.iter().map(String::as_str).collect::<Vec<_>>(), ["a.test", "b.test"]);
        assert_eq!(redis.into_iter().collect::<Vec<_>>(), [("r.test".to_owned(), 6379)]);
        assert_eq!(certificates.len(), 2);
        assert_eq!(count(&document), 3);
    }
}
