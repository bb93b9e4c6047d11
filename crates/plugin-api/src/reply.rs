//! Answers that the gateway makes itself.

use bytes::Bytes;
use serde_json::{Value, json};
use tidegate_protocol::Head;

use crate::FileBody;

/// The statuses that end a request: an interim answer (1xx) leaves the client waiting.
pub const FINAL_STATUSES: std::ops::Range<u16> = 200..1000;

/// The body of a [`Reply`].
#[derive(Clone, Debug)]
pub enum ReplyBody {
    /// The HTML page of the status, which crate `proxy` makes; nothing below 300.
    Page,
    /// In memory.
    Bytes(Bytes),
    /// Read while it is sent.
    File(Box<FileBody>),
    /// None, in the answer of a server to HEAD: what a GET would get is as long as its `Content-Length` says, if it has one.
    OfHead,
}

/// An answer made by the gateway or a plugin.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Final, never 1xx.
    pub status: u16,
    /// Framing fields are added when it is sent.
    pub headers: Head,
    /// Of the answer; not sent in answers to HEAD.
    pub body: ReplyBody,
}

impl Reply {
    /// A bare status: its HTML page.
    pub fn page(status: u16) -> Reply {
        Reply { status, headers: Head::new(), body: ReplyBody::Page }
    }

    /// Without a `Content-Type` the body is `text/plain; charset=utf-8`, as in APISIX.
    pub fn bytes(status: u16, body: impl Into<Bytes>) -> Reply {
        Reply { status, headers: Head::new(), body: ReplyBody::Bytes(body.into()) }
    }

    /// A JSON document followed by a line break. APISIX sends it as text/plain unless a type is set.
    pub fn json(status: u16, value: &Value) -> Reply {
        let mut text = value.to_string();
        text.push('\n');
        Reply::bytes(status, text)
    }

    /// `{"message":"..."}`
    pub fn message(status: u16, message: &str) -> Reply {
        Reply::json(status, &json!({ "message": message }))
    }

    /// `{"error_msg":"..."}`
    pub fn error_msg(status: u16, message: &str) -> Reply {
        Reply::json(status, &json!({ "error_msg": message }))
    }

    /// Adds a field; those of the same name stay.
    pub fn header(mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Reply {
        self.headers.add(name, value);
        self
    }

    /// Replaces `Content-Type`.
    pub fn content_type(self, value: &str) -> Reply {
        self.header("Content-Type", value)
    }

    /// With a message if there is one, else the page of the status.
    pub fn error_msg_or_page(status: u16, message: Option<&str>) -> Reply {
        message.map_or_else(|| Reply::page(status), |message| Reply::error_msg(status, message))
    }
}

impl From<Reply> for Box<dyn std::error::Error> {
    fn from(reply: Reply) -> Self {
        format!("answered {}", reply.status).into()
    }
}
