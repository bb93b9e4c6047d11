//! The requests of a batch on their way: one after the other on one connection to this gateway, which is opened again when the
//! gateway closes it.

use std::{io, net::IpAddr, time::Duration};

use serde_json::{Map, Value, json};
use tidegate_clients::{
    batch::Weigh,
    verbatim::{Connection, Excess, Limits, VerbatimResponse},
};
use tidegate_plugin_api::{Request, aside, memory};
use tidegate_protocol::Version;
use tokio::net::UnixStream;

use super::outgoing::Requests;
use crate::common::form;

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
        let text = text_of_answer(answer, request.method, (outer.remote_addr, held), lease).await?;
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

/// Large ones are read and written elsewhere. Beside them the client holds `held` bytes already.
async fn text_of_answer(
    answer: VerbatimResponse,
    method: String,
    (client, held): (IpAddr, usize),
    lease: &mut memory::Lease,
) -> Result<Vec<u8>, Failed> {
    let size = answer.body.len();
    let read = aside::run_by_size(client, size, move || {
        let answer = into_json(answer, &method);
        let (held, encoded) = (answer.held(), answer.encoded());
        (answer, held, encoded)
    });
    let (answer, tree, encoded) = read.await.map_err(|_| Failed::Spent)?;
    lease.grow_to(held + tree + 2 * encoded).map_err(|memory::Spent| Failed::Spent)?;
    let text = aside::run_by_size(client, size.max(encoded), move || text_of(&answer));
    text.await.map_err(|_| Failed::Spent)
}

fn into_json(VerbatimResponse { head, body, .. }: VerbatimResponse, method: &str) -> Value {
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
