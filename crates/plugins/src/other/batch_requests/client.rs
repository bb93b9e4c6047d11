//! The requests of a batch on their way: one after the other on one connection to this gateway, which is opened again when the
//! gateway closes it.

use std::{io, time::Duration};

use serde_json::{Map, Value, json};
use tidegate_clients::{
    batch::Weigh,
    verbatim::{Answer, Connection, Excess, Limits},
};
use tidegate_plugin_api::{Request, aside, hops::Ticket, memory};
use tidegate_protocol::{Head, Version};
use tokio::net::UnixStream;

use super::outgoing::Requests;
use crate::common::form;

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

/// All bodies of a batch together.
const MAX_BODIES_BYTES: usize = 64 * 1024 * 1024;

pub(super) enum Failed {
    /// No connection at all.
    Connect(String),
    /// The budget for bodies.
    Spent,
}

/// The answers as they are shown to the client, each as text. What they hold is taken from `lease`.
pub(super) async fn run(
    requests: &Requests<'_>,
    outer: &Request,
    limit: Duration,
    lease: &mut memory::Lease,
) -> Result<Vec<Vec<u8>>, Failed> {
    let mut connection = Some(connect(outer, limit).map_err(|error| Failed::Connect(error.to_string()))?);
    let mut held = 0;
    let mut texts = Vec::with_capacity(requests.count());
    let mut room = MAX_BODIES_BYTES;
    for index in 0..requests.count() {
        // Making and answering small ones may never wait.
        tokio::task::yield_now().await;
        let Some(request) = requests.get(index, outer) else {
            texts.push(text_of(&json!({ "status": 431, "reason": tidegate_protocol::status::reason(431) })));
            continue;
        };
        let open = match connection.take() {
            Some(open) => Ok(open),
            None => connect(outer, limit),
        };
        let exchanged = match open {
            Ok(mut open) => {
                let exchanged =
                    open.exchange(&request.method, &request.to_bytes(), room, Excess::Refused).await;
                exchanged.map(|answer| (open, answer))
            }
            Err(error) => Err(error),
        };
        let Ok((open, answer)) = exchanged else {
            texts.push(text_of(&json!({ "status": 504, "reason": "upstream timeout" })));
            continue;
        };
        room = room.saturating_sub(answer.body.len());
        let persists = answer.persists && !request.http10 && answer.head.version == Version::Http11;
        connection = Some(open).filter(|_| persists);
        let text = text_of_answer(answer, request.method, held, lease).await?;
        // Once alone, and again in the list of all.
        held += 2 * text.len();
        texts.push(text);
    }
    Ok(texts)
}

fn text_of(answer: &Value) -> Vec<u8> {
    // Into memory: nothing can fail.
    serde_json::to_vec(answer).unwrap_or_default()
}

fn connect(outer: &Request, limit: Duration) -> io::Result<Connection<UnixStream>> {
    let limits = Limits { write: limit, wait: limit };
    Ok(Connection::new(tidegate_plugin_api::inner::connect(outer)?, limits))
}

impl Outgoing {
    fn to_bytes(&self) -> Vec<u8> {
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

/// Large ones are read and written elsewhere. Beside them `held` bytes are there already.
async fn text_of_answer(
    answer: Answer,
    method: String,
    held: usize,
    lease: &mut memory::Lease,
) -> Result<Vec<u8>, Failed> {
    let size = answer.body.len();
    let read = aside::run_by_size(size, move || {
        let answer = into_json(answer, &method);
        let (held, encoded) = (answer.held(), answer.encoded());
        (answer, held, encoded)
    });
    let (answer, tree, encoded) = read.await.map_err(|_| Failed::Spent)?;
    lease.grow_to(held + tree + 2 * encoded).map_err(|memory::Spent| Failed::Spent)?;
    aside::run_by_size(size.max(encoded), move || text_of(&answer)).await.map_err(|_| Failed::Spent)
}

fn into_json(Answer { head, body, .. }: Answer, method: &str) -> Value {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut headers = Map::new();
    for (name, value) in head.headers.iter() {
        form::insert(&mut headers, text(name), Value::String(text(value)));
    }
    let reason = match head.reason.as_slice() {
        b"" => tidegate_protocol::status::reason(head.status).to_owned(),
        reason => text(reason),
    };
    let mut answer = json!({ "status": head.status, "reason": reason, "headers": headers });
    let bodiless = method == "HEAD" || matches!(head.status, 204 | 304);
    if let Some(answer) = answer.as_object_mut().filter(|_| !bodiless) {
        let body = String::from_utf8(body).unwrap_or_else(|error| text(error.as_bytes()));
        answer.insert("body".to_owned(), Value::String(body));
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

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
