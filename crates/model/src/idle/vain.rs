//! What an object says in vain: places that no request has, names that are not asked for.

use serde_json::Value;

use crate::{Kind, Object};

/// What of an object can never have an effect, in words.
pub fn of(object: &Object) -> Vec<String> {
    if !matches!(object.kind, Kind::Route | Kind::Service | Kind::Ssl) {
        return Vec::new();
    }
    let value = object.value();
    match object.kind {
        Kind::Ssl => names(&value).into_iter().collect(),
        kind => {
            let paths = texts(&value, "uri", "uris").filter(|_| kind == Kind::Route).filter_map(path);
            paths.chain(texts(&value, "host", "hosts").filter_map(host)).collect()
        }
    }
}

fn texts<'a>(value: &'a Value, one: &str, several: &str) -> impl Iterator<Item = &'a str> {
    let several = value.get(several).and_then(Value::as_array).into_iter().flatten();
    value.get(one).into_iter().chain(several).filter_map(Value::as_str)
}

fn path(path: &str) -> Option<String> {
    if !path.starts_with('/') && path != "*" {
        return Some(format!("uri {path} matches no request: paths begin with /"));
    }
    let sign = path.chars().find(|sign| matches!(sign, '?' | '#'))?;
    Some(format!("uri {path} matches no request: {sign} is no part of a path; compare arguments with vars"))
}

fn host(host: &str) -> Option<String> {
    let (_, port) = host.rsplit_once(':').filter(|(name, _)| !name.contains(':') || name.ends_with(']'))?;
    let is_port = !port.is_empty() && port.bytes().all(|digit| digit.is_ascii_digit());
    is_port.then(|| format!("host {host} matches no request: names are compared without their port"))
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
            let object = Object { kind, id: "1".into(), document, created: 1, modified: 1, fault: None };
            let found = of(&object);
            assert_eq!(found.len(), expected.len(), "{found:?}");
            for (found, expected) in found.iter().zip(expected) {
                assert!(found.starts_with(expected), "{found}");
            }
        };
        check(
            Kind::Route,
            json!({"uri": "*", "uris": ["/", "/*"], "host": "a.com", "hosts": ["*.b", "[::1]"]}),
            &[],
        );
        check(
            Kind::Route,
            json!({"uris": ["a", "/b?c=1", "/d#e", "/f"], "hosts": ["a.com:80", "[::1]:80", "::1"]}),
            &["uri a ", "uri /b?c=1 ", "uri /d#e ", "host a.com:80 ", "host [::1]:80 "],
        );
        check(Kind::Service, json!({"hosts": ["a.com:80"]}), &["host a.com:80 "]);
        check(Kind::Ssl, json!({"type": "client", "snis": ["a"]}), &["snis has no effect"]);
        check(Kind::Ssl, json!({"snis": ["a"]}), &[]);
    }
}
