//! gRPC over HTTP/2: one message there, any number back (unary calls and server streams), then `grpc-status`.
//!
//! Deliberately absent: client streams, compressed messages of our own, and reading what is in a message.

mod messages;

use bytes::Bytes;
use h2::client::SendRequest;
use http::HeaderMap;

use self::messages::Messages;
use super::{
    exchange::{Exchange, ask},
    lost::{Lost, broken},
    shared::Common,
};
use crate::{
    engine::failure::{Broken, Failure},
    grpc,
};

/// Of what a server says about a failure.
const LONGEST_MESSAGE: usize = 120;

/// A call with the message of the plan.
pub(super) struct Call;

impl Exchange for Call {
    async fn exchange(
        sender: SendRequest<Bytes>,
        head: http::Request<()>,
        _: Bytes,
        common: &Common,
    ) -> Result<(u16, u64), Lost> {
        let message = common.borrow().plan.options.grpc.clone().unwrap_or_default();
        let length = message.len() as u64;
        let (head, mut body) = ask(sender, head, message).await?.into_parts();
        let first_byte = if body.is_end_stream() { 0 } else { common.borrow().clock.now() };
        {
            let mut shared = common.borrow_mut();
            shared.tally.bytes_out += length;
            shared.note_server(&head);
        }
        let is_call = head.status == http::StatusCode::OK;
        let mut messages = Messages::default();
        while let Some(data) = body.data().await {
            let data = data.map_err(broken)?;
            let _ = body.flow_control().release_capacity(data.len());
            let whole = if is_call { messages.take(&data).map_err(malformed)? } else { 0 };
            // Counted when they come: a stream may outlast the run.
            let tally = &mut common.borrow_mut().tally;
            tally.body_bytes += data.len() as u64;
            tally.bytes_in += data.len() as u64;
            tally.beyond.grpc.messages += whole;
        }
        let trailers = body.trailers().await.map_err(broken)?;
        grpc_result(head.status.as_u16(), &head.headers, trailers.as_ref())?;
        if !messages.is_between() {
            return Err(malformed("the stream ended within a message"));
        }
        Ok((head.status.as_u16(), first_byte))
    }
}

fn malformed(why: &str) -> Lost {
    Lost::Failed(Broken::new(Failure::Malformed, format!("grpc: {why}")))
}

/// `grpc-status` stands in the trailers, or in the head of an answer that is nothing but a head.
fn grpc_result(status: u16, head: &HeaderMap, trailers: Option<&HeaderMap>) -> Result<(), Lost> {
    let field = |name: &str| trailers.and_then(|fields| fields.get(name)).or_else(|| head.get(name));
    let Some(value) = field("grpc-status") else {
        let code = grpc::code_of_status(status);
        let text = format!("grpc: status {status} without grpc-status, taken for {}", grpc::name(code));
        return Err(Lost::Refused(code, text));
    };
    let code = value.to_str().ok().and_then(|text| text.parse().ok()).unwrap_or(grpc::UNKNOWN);
    let code = if grpc::is_known(code) { code } else { grpc::UNKNOWN };
    if code == 0 {
        return Ok(());
    }
    let said = field("grpc-message").map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let said: String = said.unwrap_or_default().chars().take(LONGEST_MESSAGE).collect();
    let colon = if said.is_empty() { "" } else { ": " };
    Err(Lost::Refused(code, format!("grpc-status {code} {}{colon}{said}", grpc::name(code))))
}
