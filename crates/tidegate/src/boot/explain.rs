//! `POST /apisix/admin/explain` and `tidegate explain`: what would become of a request, and where each field of the
//! configuration that it meets comes from.

mod answer;
mod candidates;
mod disabled;
mod ending;
mod fields;
mod nearest_path;
mod notes;
mod ports;
mod reason;

use std::{net::IpAddr, sync::Arc};

use serde_json::Value;
use tidegate_plugin_api::Snapshot;
use tidegate_proxy::{
    explain::{Question, explain},
    settings::Reading,
};

pub(super) use self::{answer::Objects, disabled::disabled, ports::Ports};

const MAX_URL_BYTES: usize = 16 * 1024;
const MAX_FIELDS: usize = 100;

/// Answers a question as the Admin API takes it; the error says what is wrong with it.
pub(super) fn answer(
    snapshot: &Arc<Snapshot>,
    reading: &Reading,
    objects: &Objects<'_>,
    question: &Value,
) -> Result<Value, String> {
    let question = parse(question, objects.ports)?;
    let explanation = explain(snapshot, reading, &question)?;
    Ok(answer::to_json(snapshot, objects, &question, &explanation))
}

fn parse(question: &Value, ports: Ports) -> Result<Question, String> {
    let fields = question
        .as_object()
        .ok_or("should be an object with url, and optionally method, headers, body, client_ip, consumer")?;
    let known = ["method", "url", "headers", "body", "client_ip", "consumer"];
    if let Some(unknown) = fields.keys().find(|name| !known.contains(&name.as_str())) {
        return Err(format!("unknown field {unknown}"));
    }
    let text = |name: &str| match question.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(_) => Err(format!("{name} should be a string")),
    };
    let method = text("method")?.unwrap_or("GET");
    if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-') {
        return Err(format!("invalid method {method:?}"));
    }
    if method.bytes().any(|byte| byte.is_ascii_lowercase()) {
        let upper = method.to_ascii_uppercase();
        return Err(format!("methods are in upper case: write {upper} in place of {method}"));
    }
    let url = text("url")?.ok_or("url is missing")?;
    let (https, host, target) = split_url(url)?;
    let headers = headers(question.get("headers"))?;
    let client = match text("client_ip")? {
        None => IpAddr::from([127, 0, 0, 1]),
        Some(ip) => ip.parse::<IpAddr>().map_err(|_| format!("invalid client_ip {ip:?}"))?.to_canonical(),
    };
    let mut head = format!("{method} {target} HTTP/1.1\r\n");
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        head.push_str(&format!("Host: {host}\r\n"));
    }
    for (name, value) in &headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let body = text("body")?.unwrap_or_default();
    if !body.is_empty() {
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    head.push_str("\r\n");
    let consumer = text("consumer")?.map(str::to_owned);
    let port = port_of(host).unwrap_or(if https { ports.https } else { ports.http });
    Ok(Question { head: head.into_bytes(), body: body.as_bytes().to_vec(), client, https, port, consumer })
}

/// Of `host:port`; the colons of an IPv6 address stand in brackets.
fn port_of(host: &str) -> Option<u16> {
    let (_, port) = host.rsplit_once(':').filter(|(_, port)| !port.contains(']'))?;
    port.parse().ok()
}

/// `http://host[:port]/path?query`, or a path alone (of host `localhost`).
fn split_url(url: &str) -> Result<(bool, &str, String), String> {
    if url.len() > MAX_URL_BYTES {
        return Err(format!("the url is longer than {MAX_URL_BYTES} bytes"));
    }
    if url.bytes().any(|byte| byte <= b' ' || byte == 127) {
        return Err("the url contains spaces or control characters; encode them (%20)".to_owned());
    }
    let url = url.split('#').next().unwrap_or_default();
    let (https, rest) = match url.split_once("://") {
        Some(("http", rest)) => (false, rest),
        Some(("https", rest)) => (true, rest),
        Some((scheme, _)) if !url.starts_with('/') => {
            return Err(format!("scheme {scheme} is neither http nor https"));
        }
        _ if url.starts_with('/') => return Ok((false, "localhost", url.to_owned())),
        _ => return Err("the url should be http://HOST/PATH or /PATH".to_owned()),
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, target) = rest.split_at(end);
    if host.is_empty() {
        return Err(format!("{url} has no host: write http://HOST/PATH, or /PATH alone"));
    }
    let slash = if target.starts_with('/') { "" } else { "/" };
    Ok((https, host, format!("{slash}{target}")))
}

/// An object of names and values, or of names and lists of values.
fn headers(value: Option<&Value>) -> Result<Vec<(String, String)>, String> {
    let Some(value) = value else { return Ok(Vec::new()) };
    let fields = value.as_object().ok_or("headers should be an object of names and values")?;
    let mut headers = Vec::new();
    for (name, value) in fields {
        let values = value.as_array().map_or_else(|| std::slice::from_ref(value), Vec::as_slice);
        for value in values {
            let value = value.as_str().ok_or_else(|| format!("header {name} should be a string"))?;
            if name.is_empty() || name.contains(['\r', '\n', ':', ' ']) || value.contains(['\r', '\n']) {
                return Err(format!("invalid header {name:?}"));
            }
            headers.push((name.clone(), value.to_owned()));
        }
    }
    if headers.len() > MAX_FIELDS {
        return Err(format!("{} headers, at most {MAX_FIELDS} are allowed", headers.len()));
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PORTS: Ports = Ports { http: 9080, https: 9443 };

    #[test]
    fn the_port_is_that_of_the_url_or_the_gateways() {
        for (url, port) in [
            ("http://h:81/a", 81),
            ("https://[::1]:82/a", 82),
            ("http://[::1]/a", 9080),
            ("http://h/a:83", 9080),
            ("https://h/a", 9443),
            ("/a", 9080),
        ] {
            let parsed = parse(&json!({"url": url}), PORTS).expect("a good question");
            assert_eq!(parsed.port, port, "{url}");
        }
    }

    #[test]
    fn questions_become_heads() {
        let check = |question: Value, head: &str| {
            let parsed = parse(&question, PORTS).expect("a good question");
            assert_eq!(String::from_utf8_lossy(&parsed.head), head, "{question}");
        };
        check(json!({"url": "http://h:81/a?b"}), "GET /a?b HTTP/1.1\r\nHost: h:81\r\n\r\n");
        check(json!({"url": "https://h?x=1", "method": "PUT"}), "PUT /?x=1 HTTP/1.1\r\nHost: h\r\n\r\n");
        check(
            json!({"url": "/a", "headers": {"host": "x", "A": ["1", "2"]}}),
            "GET /a HTTP/1.1\r\nhost: x\r\nA: 1\r\nA: 2\r\n\r\n",
        );
        check(
            json!({"url": "/a", "body": "a=1"}),
            "GET /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\n",
        );
        for bad in [
            json!({}),
            json!({"url": "ftp://h/"}),
            json!({"url": "h/a"}),
            json!({"url": "/a b"}),
            json!({"url": "http://"}),
            json!({"url": "/", "method": "get"}),
            json!({"url": "/", "headers": {"a": "1\r\nb: 2"}}),
            json!({"url": "/", "client_ip": "x"}),
            json!({"url": "/", "verbose": true}),
        ] {
            assert!(parse(&bad, PORTS).is_err(), "{bad}");
        }
    }
}
