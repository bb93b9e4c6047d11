//! The requests of a batch, made one after the other.

use std::collections::HashSet;

use serde_json::{Map, Value};
use tidegate_plugin_api::{
    Request,
    hops::{self, Ticket},
};
use tidegate_protocol::{
    Head,
    claims::{self, Claim},
};

use super::batch::{Batch, Item};

/// No head that is larger can be received.
const MAX_HEAD_BYTES: usize = 128 << 10;

type Fields = Vec<(String, Vec<u8>)>;

pub(super) struct Outgoing {
    pub method: String,
    pub target: Vec<u8>,
    pub http10: bool,
    /// Names in lower case.
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: Vec<u8>,
    /// Kept until the answer has come.
    pub _ticket: Option<Ticket>,
}

impl Outgoing {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut head = Head::new();
        for (name, value) in &self.headers {
            let is_own = matches!(
                name.as_str(),
                "connection"
                    | "keep-alive"
                    | "transfer-encoding"
                    | "te"
                    | "upgrade"
                    | "expect"
                    | "content-length"
            );
            let is_token = !name.is_empty() && name.bytes().all(tidegate_protocol::fields::is_token_byte);
            if !is_own && is_token {
                head.add(name, value);
            }
        }
        if !head.contains("host") {
            head.add("host", "127.0.0.1");
        }
        if !self.body.is_empty() {
            head.add("content-length", self.body.len().to_string());
        }
        let mut bytes = self.method.as_bytes().to_vec();
        bytes.push(b' ');
        bytes.extend_from_slice(&self.target);
        bytes.extend_from_slice(if self.http10 { b" HTTP/1.0\r\n" } else { b" HTTP/1.1\r\n" });
        head.write_fields(&mut bytes, |_| true);
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

/// What the requests of a batch are made of.
pub(super) struct Requests<'a> {
    batch: &'a Batch,
    /// Those of the outer request that are not about its body.
    outer: Fields,
}

impl Batch {
    pub(super) fn requests(&self, outer: &Request) -> Requests<'_> {
        let headers = outer.head.headers.iter();
        let named = headers.map(|(name, value)| (String::from_utf8_lossy(name).to_ascii_lowercase(), value));
        let outer_fields = named.filter(|(name, _)| !name.starts_with("content-"));
        Requests { batch: self, outer: outer_fields.map(|(name, value)| (name, value.to_vec())).collect() }
    }
}

/// Fields as they are sent, but those that a client may not say of itself: a proxy in front may be believed.
pub(super) fn fields(given: Option<Map<String, Value>>) -> Fields {
    let mut fields = Fields::new();
    for (name, value) in given.into_iter().flatten() {
        push_field(&mut fields, &name, &value);
    }
    fields
}

fn push_field(fields: &mut Fields, name: &str, value: &Value) {
    let name = name.to_ascii_lowercase();
    if matches!(claims::of(name.as_bytes()), Some(Claim::Identity | Claim::Forwarding)) {
        return;
    }
    let values = match value {
        Value::Array(values) => values.as_slice(),
        one => std::slice::from_ref(one),
    };
    fields.extend(values.iter().map(|value| (name.clone(), plain_text(value).into_bytes())));
}

fn plain_text(value: &Value) -> String {
    crate::common::header_edits::text(value).unwrap_or_else(|| value.to_string())
}

impl Requests<'_> {
    pub(super) fn count(&self) -> usize {
        self.batch.pipeline.len()
    }

    /// `None`: its head is larger than any that is received.
    pub(super) fn get(&self, index: usize, outer: &Request) -> Option<Outgoing> {
        let item = self.batch.pipeline.get(index)?;
        // A batch of batches must end.
        let (loops, ticket) = hops::next_value(outer);
        let mut headers = self.headers(item)?;
        headers.retain(|(name, _)| name != "cdn-loop");
        headers.push(("cdn-loop".to_owned(), loops));
        Some(Outgoing {
            method: item.method.clone(),
            target: target(&item.path, item.query.as_ref(), self.batch.query.as_ref())?,
            http10: item.version < 1.1,
            headers,
            body: item.body.clone().unwrap_or_default().into_bytes(),
            _ticket: Some(ticket),
        })
    }

    /// Its own fields, then the batch's, then those of the outer request.
    fn headers(&self, item: &Item) -> Option<Fields> {
        let (mut headers, mut bytes) = (Fields::new(), 0);
        for (name, value) in item.headers.iter().flatten() {
            let before = headers.len();
            push_field(&mut headers, name, value);
            bytes += headers.iter().skip(before).map(|(name, value)| name.len() + value.len()).sum::<usize>();
            if bytes > MAX_HEAD_BYTES {
                return None;
            }
        }
        for inherited in [&self.batch.common, &self.outer] {
            let known: HashSet<String> = headers.iter().map(|(name, _)| name.clone()).collect();
            for (name, value) in inherited.iter().filter(|(name, _)| !known.contains(name)) {
                bytes += name.len() + value.len();
                if bytes > MAX_HEAD_BYTES {
                    return None;
                }
                headers.push((name.clone(), value.clone()));
            }
        }
        Some(headers)
    }
}

fn target(
    path: &str,
    own: Option<&Map<String, Value>>,
    common: Option<&Map<String, Value>>,
) -> Option<Vec<u8>> {
    if path.len() > MAX_HEAD_BYTES {
        return None;
    }
    let mut target = Vec::with_capacity(path.len() + 16);
    for &byte in path.as_bytes() {
        // A blank or line break would end the request line.
        if byte <= b' ' || byte == 0x7f {
            target.extend_from_slice(format!("%{byte:02X}").as_bytes());
        } else {
            target.push(byte);
        }
    }
    let has = |name: &str| own.is_some_and(|own| own.contains_key(name));
    let inherited = common.into_iter().flatten().filter(|(name, _)| !has(name));
    let mut separator = if target.contains(&b'?') { b'&' } else { b'?' };
    for (name, value) in own.into_iter().flatten().chain(inherited) {
        let values = match value {
            Value::Array(values) => values.as_slice(),
            one => std::slice::from_ref(one),
        };
        for value in values.iter().filter(|value| **value != Value::Bool(false)) {
            let length = value.as_str().map_or(0, str::len);
            if target.len() + name.len() + length > MAX_HEAD_BYTES {
                return None;
            }
            target.push(separator);
            separator = b'&';
            tidegate_protocol::uri::encode_component(name.as_bytes(), &mut target);
            if *value != Value::Bool(true) {
                target.push(b'=');
                tidegate_protocol::uri::encode_component(plain_text(value).as_bytes(), &mut target);
            }
        }
    }
    Some(target)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn targets_of_items() {
        let object = |value: Value| value.as_object().cloned();
        let cases = [
            ("/a", json!({}), json!({}), "/a"),
            ("/a", json!({"x": 1}), json!({"x": 2, "y": "b c"}), "/a?x=1&y=b%20c"),
            ("/a?z=1", json!({"x": [1, true]}), json!({}), "/a?z=1&x=1&x"),
            ("/a b\r\n", json!({"x": false}), json!({}), "/a%20b%0D%0A"),
        ];
        for (path, own, common, expected) in cases {
            let (own, common) = (object(own), object(common));
            let target = target(path, own.as_ref(), common.as_ref()).unwrap();
            assert_eq!(target, expected.as_bytes(), "{path}");
        }
        assert_eq!(target(&"/".repeat(MAX_HEAD_BYTES + 1), None, None), None);
    }

    #[test]
    fn requests_on_the_wire() {
        let request = Outgoing {
            method: "POST".to_owned(),
            target: b"/a".to_vec(),
            http10: false,
            headers: vec![
                ("host".to_owned(), b"h".to_vec()),
                ("connection".to_owned(), b"close".to_vec()),
                ("x-a".to_owned(), b"b\r\nc: d".to_vec()),
                ("bad name".to_owned(), b"x".to_vec()),
            ],
            body: b"hi".to_vec(),
            _ticket: None,
        };
        let expected = "POST /a HTTP/1.1\r\nhost: h\r\nx-a: b  c: d\r\ncontent-length: 2\r\n\r\nhi";
        assert_eq!(String::from_utf8(request.to_bytes()).unwrap(), expected);
    }
}
