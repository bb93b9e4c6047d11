//! What a plugin would do with a request that is only asked about: see [`crate::Plugin::foresee`]. Nothing here runs while
//! requests are served.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use serde_json::Value;
use tidegate_protocol::HeaderId;

use crate::{Reply, Step, UpstreamHandle, reply::ReplyBody};

/// The longest message of an answer that is repeated.
const MAX_MESSAGE_BYTES: usize = 300;

/// What a plugin would do in a phase.
#[derive(Clone)]
pub enum Foresight {
    /// It surely lets the request continue.
    Continues,
    /// It surely lets the request continue, but how it changes it is not known.
    Alters,
    /// It surely answers.
    Answers(Foreseen),
    /// It may answer.
    Maybe(Foreseen),
    /// The request continues, to one of several upstreams.
    Splits(Vec<Share>),
}

/// An answer in place of the upstream's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreseen {
    /// `None`: it is not known beforehand.
    pub status: Option<u16>,
    /// Why it comes, or on what it depends.
    pub why: Why,
    /// It does not depend on what the request is like.
    pub always: bool,
}

/// A part of the requests.
#[derive(Clone)]
pub struct Share {
    /// Where it goes; `None`: to the route's own.
    pub upstream: Option<Arc<UpstreamHandle>>,
    /// Its part of the sum of all weights.
    pub weight: u32,
}

/// Why a plugin answers, or on what that depends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its configuration and the request say so; with the message that the client gets.
    Decided(Option<String>),
    /// It redirects to there.
    Redirects(String),
    /// How many requests there were before.
    Counts,
    /// A draw, of so many in a hundred.
    Draws(u64),
    /// What a service answers that it asks.
    Asks,
    /// It calls a service in the upstream's place.
    Calls,
    /// The session that a cookie of the client names.
    Session,
    /// Whether an answer has been stored.
    Stored,
    /// How the upstream has answered lately.
    Breaks,
    /// What code of the configuration does.
    Runs,
    /// The body of the request, which is not at hand.
    Body,
    /// It serves a file, if there is one.
    Files,
    /// One of the gateway's own APIs answers.
    OwnApi,
    /// The plugin cannot tell.
    Unknown,
}

impl Why {
    /// Names it for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Why::Decided(_) => "decided",
            Why::Redirects(_) => "redirects",
            Why::Counts => "counts",
            Why::Draws(_) => "draws",
            Why::Asks => "asks",
            Why::Calls => "calls",
            Why::Session => "session",
            Why::Stored => "stored",
            Why::Breaks => "breaks",
            Why::Runs => "runs",
            Why::Body => "body",
            Why::Files => "files",
            Why::OwnApi => "own_api",
            Why::Unknown => "unknown",
        }
    }

    /// What stands in the sentence that is not always the same.
    pub fn value(&self) -> Option<String> {
        match self {
            Why::Decided(message) => message.clone(),
            Why::Redirects(location) => Some(location.clone()),
            Why::Draws(percentage) => Some(percentage.to_string()),
            _ => None,
        }
    }

    /// The plugin may change the request in a way that is not known, so that nothing behind it is sure.
    pub fn leaves_open(&self) -> bool {
        matches!(self, Why::Asks | Why::Session | Why::Runs | Why::Body | Why::Unknown)
    }
}

impl Foresight {
    /// Nothing is known.
    pub const UNKNOWN: Foresight =
        Foresight::Maybe(Foreseen { status: None, why: Why::Unknown, always: false });

    /// It surely answers so.
    pub fn answers(reply: &Reply) -> Foresight {
        Foresight::Answers(Foreseen { status: Some(reply.status), why: why(reply), always: false })
    }

    /// It surely answers, whatever the request is like, with a status that is not known.
    pub fn answers_somehow(why: Why) -> Foresight {
        Foresight::Answers(Foreseen { status: None, why, always: true })
    }

    /// It would do so whatever the request was like.
    pub fn always(self) -> Foresight {
        match self {
            Foresight::Answers(foreseen) => Foresight::Answers(Foreseen { always: true, ..foreseen }),
            other => other,
        }
    }

    /// What `_meta.error_response` makes of its answers: see `with_error_response` of proxy/src/phases.rs.
    pub fn with_error_response(self, body: Option<&Bytes>) -> Foresight {
        let Some(body) = body else { return self };
        let told = |foreseen: Foreseen| match (&foreseen.why, foreseen.status) {
            (Why::Decided(_), Some(400..)) => Foreseen { why: Why::Decided(message_of(body)), ..foreseen },
            _ => foreseen,
        };
        match self {
            Foresight::Answers(foreseen) => Foresight::Answers(told(foreseen)),
            Foresight::Maybe(foreseen) => Foresight::Maybe(told(foreseen)),
            other => other,
        }
    }

    /// It may answer.
    pub fn maybe(status: impl Into<Option<u16>>, why: Why) -> Foresight {
        Foresight::Maybe(Foreseen { status: status.into(), why, always: false })
    }

    /// Of a step that waits for nothing but the body of the request.
    pub fn of_step(step: Step<'_>) -> Foresight {
        let verdict = match step {
            Step::Next => Some(Ok(())),
            Step::Reply(reply) => Some(Err(reply)),
            Step::Wait(future) | Step::Ask(future) => at_once(future),
        };
        match verdict {
            None => Foresight::UNKNOWN,
            Some(Ok(())) => Foresight::Continues,
            Some(Err(reply)) => Foresight::answers(&reply),
        }
    }
}

/// The result of a future that does not have to wait.
pub fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
}

fn why(reply: &Reply) -> Why {
    let location = reply.headers.known(HeaderId::Location);
    match location.filter(|_| (300..400).contains(&reply.status)) {
        Some(location) => Why::Redirects(String::from_utf8_lossy(location).into_owned()),
        None => Why::Decided(message(reply)),
    }
}

/// What an answer says where it is one of the usual form, or a refusal in a line of text. Other bodies are not repeated.
fn message(reply: &Reply) -> Option<String> {
    let ReplyBody::Bytes(body) = &reply.body else { return None };
    let line = || {
        let text = std::str::from_utf8(body).ok()?.trim();
        let is_line = !text.is_empty() && text.len() <= MAX_MESSAGE_BYTES && !text.contains(['\n', '<', '{']);
        (is_line && reply.status >= 400).then(|| text.to_owned())
    };
    message_of(body).or_else(line)
}

fn message_of(body: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(body.get(..body.len().min(4096))?).ok()?;
    let text = value.get("message").or_else(|| value.get("error_msg"))?.as_str()?;
    Some(text.chars().take(MAX_MESSAGE_BYTES).collect())
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[test]
    fn steps() {
        let of = |step: Step<'_>| match Foresight::of_step(step) {
            Foresight::Continues | Foresight::Alters => (None, "continues".to_owned()),
            Foresight::Answers(foreseen) | Foresight::Maybe(foreseen) => {
                (foreseen.status, format!("{:?}", foreseen.why))
            }
            Foresight::Splits(_) => (None, "splits".to_owned()),
        };
        let cases = [
            (Step::Next, None, "continues"),
            (Step::wait(async { Ok(()) }), None, "continues"),
            (Step::reply(Reply::page(404)), Some(404), "Decided(None)"),
            (Step::reply(Reply::message(401, "no key")), Some(401), "Decided(Some(\"no key\"))"),
            (Step::reply(Reply::bytes(200, "text")), Some(200), "Decided(None)"),
            (Step::reply(Reply::bytes(400, "no x-a\n")), Some(400), "Decided(Some(\"no x-a\"))"),
            (Step::reply(Reply::bytes(400, "<p>text</p>")), Some(400), "Decided(None)"),
            (Step::reply(Reply::page(301).header("Location", "/a")), Some(301), "Redirects(\"/a\")"),
            (Step::ask(async { Err(Box::new(Reply::page(403))) }), Some(403), "Decided(None)"),
            (Step::wait(pending()), None, "Unknown"),
        ];
        for (step, status, text) in cases {
            assert_eq!(of(step), (status, text.to_owned()));
        }
    }
}
