//! The response as plugins see it.

use std::{
    num::{NonZeroU16, NonZeroUsize},
    sync::Arc,
};

use tidegate_protocol::{FieldName, Head, HeaderId};

/// Who made a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// A plugin or the gateway's own answer.
    #[default]
    Gateway,
    /// The gateway's page for a failure (nginx's role in APISIX).
    ErrorPage,
    /// A node, unchanged as far as the gateway is concerned.
    Upstream,
}

#[derive(Clone, Debug, Default)]
struct Withheld {
    all: bool,
    /// One on each line; the buffer is used again.
    names: String,
    /// As `names`, of configurations.
    lists: Vec<Arc<str>>,
}

impl Withheld {
    fn names(&self) -> impl Iterator<Item = &str> {
        self.names.lines().chain(self.lists.iter().flat_map(|list| list.lines()))
    }
}

/// The answer as the filters see it.
#[derive(Clone, Debug, Default)]
pub struct Response {
    /// 0 until there is an answer.
    pub status: u16,
    /// The upstream's reason phrase; empty for the registered one.
    pub reason: Vec<u8>,
    /// To be sent; framing and hop-by-hop fields are rewritten afterwards.
    pub headers: Head,
    /// Who made it.
    pub source: Source,
    /// Fields that follow the body of a gRPC upstream; there once the last piece is.
    pub trailers: Head,
    /// Trailers of the upstream that clients do not get.
    withheld: Withheld,
    /// The body passes body filters; set by a plugin that wants pieces although it declared no body filter.
    pub body_changed: bool,
    /// The most bytes the body filters take at once; `None`: any number.
    body_step: Option<NonZeroUsize>,
    /// Whether the head waits for the first byte of the body: until then another answer can take its place.
    pub head_waits: bool,
    /// Of a body that is not there, in an answer to HEAD: no length is known but that of a field.
    pub omits_length: bool,
    /// A header filter failed at its task: this status replaces the answer.
    refused: Option<NonZeroU16>,
}

impl Response {
    /// Back to no answer; the memory stays for the connection's next request.
    pub fn clear(&mut self) {
        self.status = 0;
        self.reason.clear();
        self.headers.clear();
        self.source = Source::Gateway;
        self.trailers.clear();
        self.withheld.all = false;
        self.withheld.names.clear();
        self.withheld.lists.clear();
        self.body_changed = false;
        self.body_step = None;
        self.head_waits = false;
        self.omits_length = false;
        self.refused = None;
    }

    /// Withholds a trailer: a field that was removed from the head, or set, must not come from the upstream
    /// as a trailer either.
    pub fn withhold_trailer(&mut self, name: &str) {
        self.withheld.names.extend([name, "\n"]);
    }

    /// As [`Response::withhold_trailer`] for each name, one on each line.
    pub fn withhold_listed_trailers(&mut self, names: &Arc<str>) {
        self.withheld.lists.push(names.clone());
    }

    /// The body was replaced: the upstream's trailers do not describe the new one. A call's status stays (gRPC).
    pub fn withhold_trailers(&mut self) {
        self.withheld.all = true;
    }

    /// Whether a trailer of the upstream goes to the client.
    pub fn passes_trailer(&self, name: &[u8]) -> bool {
        let is_status = name.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"grpc-"));
        (!self.withheld.all || is_status)
            && !self.withheld.names().any(|other| other.as_bytes().eq_ignore_ascii_case(name))
    }

    /// For header filters: nothing of the answer may pass, an error page with this status is sent.
    pub fn refuse(&mut self, status: u16) {
        self.refused = NonZeroU16::new(status);
    }

    /// The status of the page that replaces the answer.
    pub fn take_refusal(&mut self) -> Option<u16> {
        self.refused.take().map(NonZeroU16::get)
    }

    /// A body filter that works hard on each byte gets pieces of this size at most. Other requests come in between.
    pub fn limit_body_step(&mut self, bytes: usize) {
        let step = bytes.clamp(1, self.body_step());
        self.body_step = NonZeroUsize::new(step);
    }

    /// Bytes that body filters take at once; `usize::MAX` for any number.
    pub fn body_step(&self) -> usize {
        self.body_step.map_or(usize::MAX, NonZeroUsize::get)
    }

    /// The body will differ from what the headers describe: drops the fields that would be wrong.
    pub fn body_modified(&mut self) {
        self.body_changed = true;
        self.headers.remove_known(HeaderId::ContentLength);
        self.headers.remove_known(HeaderId::ContentEncoding);
        self.headers.remove_known(HeaderId::LastModified);
        self.headers.remove_known(HeaderId::Etag);
    }

    /// As [`Response::body_modified`], but the content coding stays (compression sets its own).
    pub fn length_modified(&mut self) {
        self.body_changed = true;
        self.headers.remove_known(HeaderId::ContentLength);
    }

    /// As [`Response::assign`].
    pub fn assign_named(&mut self, name: &FieldName, value: impl AsRef<[u8]>) {
        match value.as_ref() {
            b"" => {
                self.headers.remove_named(name);
            }
            value => self.headers.set_named(name, |bytes| bytes.extend_from_slice(value)),
        }
    }

    /// As in nginx, an empty value removes the field.
    pub fn assign(&mut self, name: &str, value: impl AsRef<[u8]>) {
        match value.as_ref() {
            b"" => {
                self.headers.remove(name);
            }
            value => self.headers.set(name, value),
        }
    }

    /// Another status drops the upstream's reason phrase.
    pub fn set_status(&mut self, status: u16) {
        if status != self.status {
            self.status = status;
            self.reason.clear();
        }
    }
}

/// A piece of a response body on its way to the client.
#[derive(Debug, Default)]
pub struct BodyChunk {
    /// The bytes; a filter may put others in their place.
    pub data: Vec<u8>,
    /// Nothing follows.
    pub last: bool,
    /// What to do with it, set by the plugin that saw it last.
    pub passage: Passage,
}

impl BodyChunk {
    /// `last`: the body ends with it.
    pub fn new(data: Vec<u8>, last: bool) -> BodyChunk {
        BodyChunk { data, last, passage: Passage::Free }
    }
}

/// What happens to a piece after a plugin's [`crate::Plugin::body_filter`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Passage {
    /// It passes on to the next plugin.
    #[default]
    Free,
    /// The plugin has the whole body, and continues in [`crate::Plugin::whole_body`].
    Waits,
    /// Nothing more of this answer may reach the client: an error page with this status takes its place, or the connection
    /// ends if some of it is out.
    Refused(u16),
}
