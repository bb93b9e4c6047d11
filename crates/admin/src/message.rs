//! Requests and answers, without a connection.

use std::{
    net::IpAddr,
    ops::Deref,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use serde_json::Value;
use tidegate_protocol::uri::percent_decode_text;
use tokio::sync::mpsc;

use crate::{caller::Caller, role::Role};

/// The revision that a write led to.
pub(crate) const REVISION: &str = "X-Tidegate-Revision";

/// What an answer to a write warns of.
pub(crate) const WARNING: &str = "X-Tidegate-Warning";

/// A request without its body; header names in any case, the path still percent-encoded.
#[derive(Clone, Debug)]
pub struct Head {
    /// As on the request line.
    pub method: String,
    /// As received, without the query.
    pub path: String,
    /// Without the question mark.
    pub query: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// The client's address.
    pub peer: IpAddr,
}

/// A request that was let in.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub head: Head,
    pub body: RequestBody,
    /// `None` where no key is asked for.
    pub caller: Option<Caller>,
}

impl Request {
    /// Whether its client has signed in, and sent no key.
    pub(crate) fn is_of_session(&self) -> bool {
        self.caller.as_ref().is_some_and(|caller| caller.session.is_some())
    }

    /// Whether secrets are hidden from its client.
    pub(crate) fn is_masked(&self) -> bool {
        self.caller.as_ref().is_some_and(Caller::is_masked)
    }
}

impl Deref for Request {
    type Target = Head;

    fn deref(&self) -> &Head {
        &self.head
    }
}

/// The body of a request.
#[derive(Clone, Debug)]
pub enum RequestBody {
    /// A body that was read.
    Bytes(Bytes),
    /// Bigger than the limit; not read.
    TooLarge(u64),
}

/// A response of the Admin or Control API.
#[derive(Clone, Debug)]
pub struct Response {
    /// Final.
    pub status: u16,
    /// Besides those of framing.
    pub headers: Vec<(&'static str, String)>,
    /// May be empty.
    pub body: Bytes,
    /// What follows it, piece by piece.
    pub stream: Option<Stream>,
    /// For the audit log, and not sent.
    pub signer: Option<Signer>,
}

/// Who signed in, or whose name was tried.
#[derive(Clone, Debug)]
pub struct Signer {
    /// As the history would have it.
    pub name: String,
    /// `None`: they are not in.
    pub role: Option<Role>,
}

/// Pieces of a body that is not known yet. The first who takes them has them.
#[derive(Clone, Debug)]
pub struct Stream(Arc<Mutex<Option<mpsc::Receiver<Bytes>>>>);

impl Stream {
    pub(crate) fn take(&self) -> Option<mpsc::Receiver<Bytes>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Head {
    /// By its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// A cookie; `-` and `_` are the same, as in nginx variables.
    pub fn cookie(&self, name: &str) -> Option<&str> {
        let cookies = self.header("cookie")?.split(';').filter_map(|cookie| cookie.trim().split_once('='));
        let mut found = cookies.filter(|(other, _)| other.replace('-', "_").eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value)
    }

    /// The first query argument of that name, decoded.
    pub fn argument(&self, name: &str) -> Option<String> {
        arguments(&self.query).into_iter().find(|(other, _)| other == name).map(|(_, value)| value)
    }

    /// The decoded path.
    pub fn decoded_path(&self) -> String {
        percent_decode_text(&self.path, false)
    }
}

impl Response {
    /// Without a body.
    pub fn empty(status: u16) -> Response {
        Response { status, headers: Vec::new(), body: Bytes::new(), stream: None, signer: None }
    }

    /// Whose body comes piece by piece.
    pub(crate) fn stream(pieces: mpsc::Receiver<Bytes>) -> Response {
        let stream = Stream(Arc::new(Mutex::new(Some(pieces))));
        Response { stream: Some(stream), ..Response::empty(200) }
    }

    /// With a JSON body.
    pub fn json(status: u16, body: &Value) -> Response {
        let mut text = body.to_string();
        text.push('\n');
        Response { body: text.into(), ..Response::empty(status) }
            .with_header("Content-Type", "application/json")
    }

    /// With a plain text body.
    pub fn text(status: u16, body: &str) -> Response {
        Response::typed(status, "text/plain; charset=utf-8", body)
    }

    /// With a body of this content type.
    pub(crate) fn typed(status: u16, kind: &str, body: &str) -> Response {
        let body = Bytes::copy_from_slice(body.as_bytes());
        Response { body, ..Response::empty(status) }.with_header("Content-Type", kind)
    }

    /// `{"error_msg": message}`
    pub fn error(status: u16, message: &str) -> Response {
        Response::json(status, &serde_json::json!({ "error_msg": message }))
    }

    /// The error page of the web server itself.
    pub fn page(status: u16) -> Response {
        let reason = match status {
            403 => "403 Forbidden",
            404 => "404 Not Found",
            _ => "500 Internal Server Error",
        };
        let page = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head><title>{reason}</title></head>\n\
             <body><h1>{reason}</h1><p>Tidegate, compatible with \
             <a href=\"https://apisix.apache.org/\">Apache APISIX</a></p></body>\n</html>\n"
        );
        Response::typed(status, "text/html; charset=utf-8", &page)
    }

    /// Adds a field.
    pub fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Response {
        self.headers.push((name, value.into()));
        self
    }

    /// To a request that tried to sign in.
    pub(crate) fn of_signer(mut self, name: Option<&str>, role: Option<Role>) -> Response {
        if let Some(name) = name {
            self.signer = Some(Signer { name: name.to_owned(), role });
        }
        self
    }

    pub(crate) fn has_header(&self, name: &str) -> bool {
        self.headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name))
    }
}

/// Decodes `a=b&c=d`; an argument without `=` has an empty value.
pub(crate) fn arguments(query: &str) -> Vec<(String, String)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.map(|(name, value)| (percent_decode_text(name, true), percent_decode_text(value, true))).collect()
}

/// Of a text, what may stand in a header.
pub(crate) fn header_text(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}
