//! Parts of an object without effect: places that no request has, names that are not asked for.

use serde_json::Value;

use super::{
    conditions,
    matching::{Matching, compared},
};
use crate::{Kind, Object, PluginCatalog, host, resources::MOST_RETRIES};

/// Messages for the parts of an object that can never have an effect.
pub(super) fn of(object: &Object, matching: Matching, catalog: &dyn PluginCatalog) -> Vec<String> {
    let mut found = conditions::of(object, matching, catalog);
    found.extend(places(object, matching));
    found.extend(retries(object));
    found.extend(times(object));
    found.extend(nodes(object));
    found.extend(plugins(object));
    found.extend(empty_secrets(object));
    found
}

/// Whether a message says that a route, or a name of a certificate, is for no request or for others than it seems.
pub fn is_about_place(message: &str) -> bool {
    ["uri ", "host ", "sni ", "the condition ", "vars", "no request ", "not all of its requests "]
        .iter()
        .any(|start| message.starts_with(start))
}

/// The `retries` of an upstream, wherever it is written.
fn retries(object: &Object) -> Option<String> {
    let value = object.value();
    let upstream = if object.kind == Kind::Upstream { &*value } else { value.get("upstream")? };
    let set = upstream.get("retries")?.as_u64()?;
    (set > u64::from(MOST_RETRIES)).then(|| format!("retries {set} counts as {MOST_RETRIES}"))
}

/// Longer than any client waits, in seconds, to connect, or for the next byte.
const LONGEST_TIMES: [(&str, f64); 3] = [("connect", 300.0), ("send", 3600.0), ("read", 3600.0)];

/// Limits of time that were probably meant in milliseconds.
fn times(object: &Object) -> Vec<String> {
    if !matches!(object.kind, Kind::Route | Kind::Service | Kind::Upstream)
        || !object.document.may_have("timeout")
    {
        return Vec::new();
    }
    let value = object.value();
    let tables = ["", "upstream."].into_iter().filter_map(|path| {
        let within = if path.is_empty() { Some(&*value) } else { value.get("upstream") };
        Some((path, within?.get("timeout")?))
    });
    let long = |(path, table): (&str, &Value)| {
        let shown = LONGEST_TIMES.into_iter().filter_map(|(name, most)| {
            let seconds = table.get(name)?.as_f64().filter(|seconds| *seconds > most)?;
            Some(format!(
                "{path}timeout.{name} {seconds} is in seconds; for milliseconds write {}",
                seconds / 1000.0
            ))
        });
        shown.collect::<Vec<_>>()
    };
    tables.flat_map(long).collect()
}

/// An upstream that no request can be sent to.
fn nodes(object: &Object) -> Option<String> {
    if !matches!(object.kind, Kind::Route | Kind::Service | Kind::Upstream)
        || !object.document.may_have("nodes")
    {
        return None;
    }
    let value = object.value();
    let (path, upstream) = match object.kind {
        Kind::Upstream => ("", &*value),
        _ => ("upstream.", value.get("upstream")?),
    };
    let is_empty = match upstream.get("nodes")? {
        Value::Object(nodes) => nodes.is_empty(),
        Value::Array(nodes) => nodes.is_empty(),
        _ => false,
    };
    if is_empty {
        return Some(format!("{path}nodes is empty, so requests for it are answered 503; add a node"));
    }
    if let Some(fault) = unreachable(upstream.get("nodes")?) {
        return Some(format!("{path}nodes: {fault}"));
    }
    all_zero(upstream.get("nodes")?).then(|| {
        format!("{path}nodes: every weight is 0, so they get the requests all the same; give one that should a weight above 0")
    })
}

/// A node that has another address than it seems, or none.
fn unreachable(nodes: &Value) -> Option<String> {
    let of_list = nodes.as_array().into_iter().flatten().filter_map(|node| node.get("host")?.as_str());
    let keys = nodes.as_object().into_iter().flatten().map(|(address, _)| address.as_str());
    if let Some(name) = keys.clone().chain(of_list).find(|name| name.contains('*')) {
        return Some(format!("{name} has no address: * stands for no part of a name here"));
    }
    let mut bare = keys.filter(|address| !address.contains('[') && address.matches(':').count() > 2);
    let address =
        bare.find(|address| address.rsplit(':').next().is_some_and(|end| end.parse::<u16>().is_ok()))?;
    let (host, port) = address.rsplit_once(':')?;
    let is_whole = address.parse::<std::net::Ipv6Addr>().is_ok();
    let is_host = host.parse::<std::net::Ipv6Addr>().is_ok();
    (is_whole && is_host).then(|| {
        format!(
            "{address} is one IPv6 address, without a port; for port {port} of {host} write [{host}]:{port}"
        )
    })
}

/// A weight of 0 is for a node beside others.
fn all_zero(nodes: &Value) -> bool {
    let is_zero = |weight: Option<&Value>| weight.and_then(Value::as_f64) == Some(0.0);
    match nodes {
        Value::Object(nodes) => nodes.values().all(|weight| is_zero(Some(weight))),
        Value::Array(nodes) => nodes.iter().all(|node| is_zero(node.get("weight"))),
        _ => false,
    }
}

/// The message for an object that exists only for its plugins and has none.
fn plugins(object: &Object) -> Option<String> {
    let kinds = [Kind::GlobalRule, Kind::PluginConfig, Kind::ConsumerGroup, Kind::Credential];
    if !kinds.contains(&object.kind) {
        return None;
    }
    let value = object.value();
    let is_empty = match value.get("plugins") {
        None => object.kind == Kind::Credential,
        Some(Value::Object(plugins)) => plugins.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        _ => false,
    };
    is_empty.then(|| "it has no plugins and no effect".to_owned())
}

/// What a secret manager wants to see, and refuses each read without.
const SHOWN_TO_MANAGERS: [&str; 4] = ["uri", "token", "access_key_id", "secret_access_key"];

/// Fields of a secret manager that are empty.
fn empty_secrets(object: &Object) -> Vec<String> {
    if object.kind != Kind::Secret {
        return Vec::new();
    }
    let value = object.value();
    let is_empty = |name: &&str| value.get(*name).and_then(Value::as_str).is_some_and(str::is_empty);
    let empty = SHOWN_TO_MANAGERS.into_iter().filter(is_empty);
    empty.map(|name| format!("{name} is empty, so no secret can be read; write it")).collect()
}

fn places(object: &Object, matching: Matching) -> Vec<String> {
    if !matches!(object.kind, Kind::Route | Kind::Service | Kind::Ssl) {
        return Vec::new();
    }
    let value = object.value();
    match object.kind {
        Kind::Ssl => [names(&value), unguarded(&value), versions(&value)].into_iter().flatten().collect(),
        kind => {
            let paths = texts(&value, "uri", "uris")
                .filter(|_| kind == Kind::Route)
                .filter_map(|text| path(text, matching));
            let hosts = texts(&value, "host", "hosts").filter_map(|name| {
                if name == "_" {
                    return Some("host _ matches only the name _; leave the host out for any".to_owned());
                }
                let why = host::why_vain(name, matching.host_ports)?;
                Some(format!("host {name} matches no request: {why}"))
            });
            paths.chain(hosts).collect()
        }
    }
}

fn versions(value: &Value) -> Option<String> {
    let list = value.get("ssl_protocols")?.as_array()?;
    if list.is_empty() {
        return Some("ssl_protocols is empty: the versions of config.yaml are used".to_owned());
    }
    let old = list.iter().any(|version| version == "TLSv1.1");
    old.then(|| {
        "ssl_protocols: TLSv1.1 is not supported: clients need TLSv1.2 or TLSv1.3; remove it".to_owned()
    })
}

/// An operator who disables such a certificate may mean to close its names.
fn unguarded(value: &Value) -> Option<String> {
    let is_off = value.get("status").and_then(Value::as_f64) == Some(0.0);
    (is_off && value.get("client").is_some_and(Value::is_object)).then(|| {
        "client has no effect with status 0: no client certificate is requested, and routes for these names \
         also answer on ports without TLS"
            .to_owned()
    })
}

fn texts<'a>(value: &'a Value, one: &str, several: &str) -> impl Iterator<Item = &'a str> {
    let several = value.get(several).and_then(Value::as_array).into_iter().flatten();
    value.get(one).into_iter().chain(several).filter_map(Value::as_str)
}

/// Why no request has the path, or only one that was not meant.
pub fn path(path: &str, matching: Matching) -> Option<String> {
    if !path.trim_start().starts_with('/') && path != "*" {
        return Some(format!("uri {path} matches no request: paths begin with /"));
    }
    if let Some(sign) = path.chars().find(|sign| matches!(sign, '?' | '#')) {
        let why = format!("{sign} is not part of a path; compare arguments with vars");
        return Some(format!("uri {path} matches no request: {why}"));
    }
    if path.trim_ascii_end().chars().any(char::is_control) {
        return Some(format!("uri {path:?} matches no request: it has control characters"));
    }
    if path == "*" && matching.parameters {
        return Some("uri * matches no request with radixtree_uri_with_parameter: write /*".to_owned());
    }
    if let Some(sign) = [",/", ", /", " /", ";/"].into_iter().find(|sign| path.contains(sign)) {
        let several = sign.trim_end_matches('/');
        return Some(format!("uri {path} is one path, with {several:?} in it: write several as uris"));
    }
    if let Some(literal) = literal(path, matching) {
        return Some(literal);
    }
    let form = compared(path, matching);
    (form != path).then(|| {
        let why = "paths are compared decoded, without // and dot segments; write";
        let slash = path.to_ascii_uppercase().contains("%2F");
        let or =
            if slash && !matching.encoded_slash { ", or set apisix.match_uri_encoded_slash" } else { "" };
        format!("uri {path} matches no request: {why} {form}{or}")
    })
}

/// A segment that is a wildcard in other gateways, and literal here.
fn literal(path: &str, matching: Matching) -> Option<String> {
    let is_parameter = |segment: &&str| !matching.parameters && segment.len() > 1 && segment.starts_with(':');
    let is_braced = |segment: &&str| {
        let ends = [('{', '}'), ('<', '>')];
        segment.len() > 2 && ends.iter().any(|ends| segment.starts_with(ends.0) && segment.ends_with(ends.1))
    };
    let is_class = |segment: &str| segment.split_once('[').is_some_and(|(_, rest)| rest.contains(']'));
    let is_pattern = |segment: &&str| {
        is_class(segment)
            || [".*", ".+"].contains(segment)
            || ["(.", "\\"].iter().any(|part| segment.contains(part))
    };
    let find = |test: &dyn Fn(&&str) -> bool| path.split('/').find(test);
    let router = "set apisix.router.http to radixtree_uri_with_parameter";
    let (segment, remedy) = if let Some(segment) = find(&is_parameter) {
        (segment, format!("{router}, or write *"))
    } else if let Some(segment) = find(&is_braced) {
        let name = segment.get(1..segment.len() - 1).unwrap_or_default();
        let router = if matching.parameters { String::new() } else { format!("{router} and ") };
        (segment, format!("{router}write :{name}, or write *"))
    } else {
        (find(&is_pattern)?, "paths are not regular expressions; write *, or compare uri in vars".to_owned())
    };
    Some(format!("uri {path} matches {segment} literally: {remedy}"))
}

fn names(value: &Value) -> Option<String> {
    let client = value.get("type").and_then(Value::as_str) == Some("client");
    let name =
        ["sni", "snis"].into_iter().find(|name| value.get(name).is_some_and(|value| !value.is_null()))?;
    client.then(|| format!("{name} has no effect: with type client a certificate is for upstreams"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Document;

    #[test]
    fn objects() {
        let check = |kind, value: Value, expected: &[&str]| {
            let document = Document::new(&value);
            let object =
                Object { kind, id: "1".into(), document, created: 1, modified: 1, fault: None, unread: None };
            let found = of(&object, Matching::default(), &crate::check::tests::Catalog);
            assert_eq!(found.len(), expected.len(), "{found:?}");
            for (found, expected) in found.iter().zip(expected) {
                assert!(found.starts_with(expected), "{found}");
            }
        };
        check(
            Kind::Route,
            json!({"uri": "*", "uris": ["/", "/*"], "host": "a.com", "hosts": ["*.b", "[::1]", "c.", "*", "*d.e"]}),
            &[],
        );
        check(Kind::Route, json!({"uri": "/", "upstream": {"retries": 256}}), &["retries 256 counts as 255"]);
        check(Kind::Upstream, json!({"retries": 255}), &[]);
        check(
            Kind::Route,
            json!({"uris": ["a", "/b?c=1", "/d#e", "/f"], "hosts": ["a.com:80", "[::1]:80", "::1", ".a", "..", "a..b"]}),
            &[
                "uri a ",
                "uri /b?c=1 ",
                "uri /d#e ",
                "host a.com:80 ",
                "host [::1]:80 ",
                "host ::1 matches no request: write [::1]",
                "host .a matches no request: write a and *.a",
                "host .. ",
                "host a..b ",
            ],
        );
        check(
            Kind::Route,
            json!({"uris": ["/a%20b/*", "/a%2Fb", "//x/*", "/a/../b/*", "/a/./b", "/a ", " /a", "/a\n", "/a b/:c/"]}),
            &[
                "uri /a%20b/* ",
                "uri /a%2Fb matches no request: ",
                "uri //x/* ",
                "uri /a/../b/* ",
                "uri /a/./b ",
                "uri /a  ",
                "uri  /a ",
                "uri /a\n ",
                "uri /a b/:c/ matches :c literally",
            ],
        );
        check(
            Kind::Route,
            json!({"uris": ["/o1/{id}", "/o/<id>/x", "/r/(.*)", "/n/[0-9]+", "/{", "/a(1)/$metadata", "/index.*"]}),
            &[
                "uri /o1/{id} matches {id} literally: set apisix.router.http to radixtree_uri_with_parameter and write :id",
                "uri /o/<id>/x matches <id> literally: ",
                "uri /r/(.*) matches (.*) literally: paths are not regular expressions",
                "uri /n/[0-9]+ matches [0-9]+ literally: paths are not regular expressions",
            ],
        );
        let matching = Matching { parameters: true, host_ports: true, ..Matching::default() };
        assert_eq!(path("/a/:id", matching), None);
        assert!(
            path("/a/{id}", matching).is_some_and(|text| text.ends_with("literally: write :id, or write *"))
        );
        check(
            Kind::Route,
            json!({"uri": "/", "upstream": {"timeout": {"connect": 3000, "send": 6, "read": 6000}, "nodes": {}}}),
            &[
                "upstream.timeout.connect 3000 is in seconds; for milliseconds write 3",
                "upstream.timeout.read 6000 is",
                "upstream.nodes is empty",
            ],
        );
        check(
            Kind::Upstream,
            json!({"timeout": {"connect": 60, "read": 3600}, "nodes": [{"host": "a"}]}),
            &[],
        );
        check(Kind::GlobalRule, json!({"plugins": {}}), &["it has no plugins and no effect"]);
        check(Kind::PluginConfig, json!({"plugins": []}), &["it has no plugins and no effect"]);
        check(Kind::Credential, json!({}), &["it has no plugins and no effect"]);
        check(Kind::Ssl, json!({"ssl_protocols": []}), &["ssl_protocols is empty"]);
        check(
            Kind::Ssl,
            json!({"ssl_protocols": ["TLSv1.1", "TLSv1.2"]}),
            &["ssl_protocols: TLSv1.1 is not"],
        );
        check(Kind::Ssl, json!({"ssl_protocols": ["TLSv1.2"]}), &[]);
        check(Kind::Upstream, json!({"nodes": {"*.a.b:80": 1}}), &["nodes: *.a.b:80 has no address"]);
        check(Kind::Upstream, json!({"nodes": {"::1:80": 1}}), &["nodes: ::1:80 is one IPv6 address"]);
        check(Kind::Upstream, json!({"nodes": {"[::1]:80": 1, "fe80::a": 1, "a:80": 1}}), &[]);
        check(Kind::Service, json!({"plugins": {}}), &[]);
        assert_eq!(compared("/a%20b//*", Matching::default()), "/a b/*");
        assert_eq!(compared("/a/../b/./", Matching::default()), "/b/");
        assert_eq!(compared("/a%2fb/%2F", Matching::default()), "/a/b/");
        let encoded_slash = Matching { encoded_slash: true, ..Matching::default() };
        assert_eq!(compared("/a%2fb", encoded_slash), "/a%2Fb");
        check(Kind::Service, json!({"hosts": ["a.com:80"]}), &["host a.com:80 "]);
        check(Kind::Ssl, json!({"type": "client", "snis": ["a"]}), &["snis has no effect"]);
        check(Kind::Ssl, json!({"snis": ["a"]}), &[]);
        let off = json!({"snis": ["a"], "client": {"ca": "c"}, "status": 0});
        check(Kind::Ssl, off, &["client has no effect with status 0"]);
        check(Kind::Ssl, json!({"snis": ["a"], "client": {"ca": "c"}, "status": 1}), &[]);
    }
}
