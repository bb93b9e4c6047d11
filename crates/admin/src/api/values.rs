//! How many values bodies may hold. A tree takes up to a hundred times the text that it is made of, so the values are counted
//! before there is one: of a body, and of all that are being processed.

use std::sync::Arc;

use tidegate_model::json::most_values;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    at_length::at_length,
    message::{Request, RequestBody, Response},
};

/// Of all bodies at a time: 100,000 routes of 40 values. Their trees and the copies that are made of them take 480 MB.
const MAX_VALUES: usize = 4_000_000;

/// Bodies up to this size are not counted: the number of connections bounds them.
const UNCOUNTED_BYTES: usize = 16 << 10;

/// So many make the memory of their tree worth giving back.
const MANY: usize = 100_000;

pub(crate) struct Values(Arc<Semaphore>);

/// What a body takes up until its request is answered.
pub(super) struct Held(Option<OwnedSemaphorePermit>);

impl Values {
    pub(crate) fn new() -> Values {
        Values(Arc::new(Semaphore::new(MAX_VALUES)))
    }

    pub(super) fn admit(&self, request: &Request) -> Result<Held, Response> {
        let RequestBody::Bytes(bytes) = &request.body else { return Ok(Held(None)) };
        if bytes.len() <= UNCOUNTED_BYTES {
            return Ok(Held(None));
        }
        let count = at_length(|| if may_be_yaml(request) { most_in_yaml(bytes) } else { most_values(bytes) });
        if count > MAX_VALUES {
            let message = format!("invalid request body: it has more than {MAX_VALUES} values");
            return Err(Response::error(400, &message));
        }
        let permits =
            u32::try_from(count).ok().and_then(|count| self.0.clone().try_acquire_many_owned(count).ok());
        match permits {
            Some(permits) => Ok(Held(Some(permits))),
            None => {
                let message = format!(
                    "bodies with {} of {MAX_VALUES} values are being processed, and this one has {count}; try again when they are done",
                    MAX_VALUES - self.0.available_permits()
                );
                Err(Response::error(503, &message).with_header("Retry-After", "1"))
            }
        }
    }
}

impl Held {
    pub(super) fn is_large(&self) -> bool {
        self.0.as_ref().is_some_and(|permits| permits.num_permits() >= MANY)
    }
}

/// An import is YAML unless it says otherwise; other bodies are if they say so.
fn may_be_yaml(request: &Request) -> bool {
    let kind = request.header("content-type").unwrap_or_default();
    kind.starts_with("application/yaml")
        || (request.path.ends_with("/import") && !kind.starts_with("application/json"))
}

/// What may part values, in texts as well: where a text begins is not known before it is read.
fn most_in_yaml(bytes: &[u8]) -> usize {
    let parts = |pair: &[u8]| match pair {
        [b',' | b'[' | b'{', _] => true,
        [b'-' | b':' | b'?', next] => next.is_ascii_whitespace(),
        _ => false,
    };
    2 + bytes.windows(2).filter(|pair| parts(pair)).count()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::message::Head;

    fn request(path: &str, kind: &str, body: &str) -> Request {
        let head = Head {
            method: "PUT".to_owned(),
            path: path.to_owned(),
            query: String::new(),
            headers: vec![("Content-Type".to_owned(), kind.to_owned())],
            peer: [127, 0, 0, 1].into(),
        };
        Request { head, body: RequestBody::Bytes(Bytes::copy_from_slice(body.as_bytes())), caller: None }
    }

    #[test]
    fn values_are_bounded_each_and_together() {
        let values = Values::new();
        let status = |request: &Request| values.admit(request).err().map(|refused| refused.status);
        let most = |count: usize| format!("[{}1]", "1,".repeat(count - 2));
        assert_eq!(status(&request("/a", "", &most(MAX_VALUES + 1))), Some(400));
        assert_eq!(status(&request("/a", "", &format!("\"{}\"", ",".repeat(MAX_VALUES)))), None, "a text");
        let half = request("/a", "application/json", &most(MAX_VALUES / 2 + 1));
        let held = values.admit(&half).expect("room");
        assert!(held.is_large());
        assert_eq!(status(&half), Some(503));
        assert_eq!(status(&request("/a", "", "[1]")), None);
        drop(held);
        assert_eq!(status(&half), None);
    }

    #[test]
    fn yaml_is_counted_by_what_may_part_values() {
        assert_eq!(most_in_yaml(b"a: 1\nb:\n  - [x, y]\n  - {c: d}\n"), 2 + 3 + 2 + 2 + 1);
        assert!(may_be_yaml(&request("/apisix/admin/import", "", "")));
        assert!(!may_be_yaml(&request("/apisix/admin/import", "application/json; charset=utf-8", "")));
        assert!(may_be_yaml(&request("/apisix/admin/configs", "application/yaml", "")));
    }
}
