//! What plugins and the request path ask of a request, and do to it.

use std::{
    cell::{Cell, OnceCell},
    rc::Rc,
    sync::Arc,
    time::Instant,
};

use bytes::Bytes;
use smallvec::SmallVec;
use tidegate_model::random::random_u64;
use tidegate_protocol::{FieldName, Head, HeaderId, RequestHead};
use tidegate_routing::expr::SearchTime;

use crate::{
    AuthEntry, Consumer, Extensions, Reply, Request, RequestBody, Response, WorkerSnapshot,
    connection::ConnectionInfo,
    edits::{Asserted, UpstreamEdits},
    outcome::RequestLog,
    poll_clock,
    route::Matched,
    variables::BodyValues,
};

impl Request {
    /// Of a head that was let in: no route yet, and no consumer.
    pub fn new(
        head: RequestHead,
        connection: Rc<ConnectionInfo>,
        snapshot: Rc<WorkerSnapshot>,
        worker: usize,
    ) -> Request {
        let client = connection.inner_client().unwrap_or(connection.peer);
        Request {
            head,
            remote_addr: client.ip().to_canonical(),
            remote_port: client.port(),
            https: connection.tls.is_some(),
            connection,
            host: Vec::new(),
            path: Vec::new(),
            snapshot,
            route: None,
            matched: Matched::default(),
            consumer: None,
            credential_id: None,
            edits: UpstreamEdits::default(),
            body: RequestBody::Empty,
            asserted: Asserted::default(),
            body_limit: None,
            body_values: BodyValues::default(),
            response: Response::default(),
            early_headers: Head::new(),
            extensions: Extensions::default(),
            variables: SmallVec::new(),
            started: poll_clock::now(),
            outcome: RequestLog::default(),
            id: OnceCell::new(),
            worker,
            undecided: Cell::new(None),
            search_time: SearchTime::default(),
        }
    }

    /// A condition is undecided: either result might open what it should guard, so the request is
    /// answered with this status.
    pub fn set_undecided(&self, status: u16) {
        self.undecided.set(Some(status));
    }

    /// `Err` once a condition is undecided.
    pub fn require_decided(&self) -> Result<(), Box<Reply>> {
        self.undecided.get().map_or(Ok(()), |status| Err(Box::new(Reply::page(status))))
    }

    /// The first value of that name, in any case of letters.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.head.headers.get(name)
    }

    /// As [`Request::header`]; `None` if it is not UTF-8.
    pub fn header_str(&self, name: &str) -> Option<&str> {
        self.head.headers.get_str(name)
    }

    /// The first value of a query argument, decoded. None has an empty name.
    pub fn arg(&self, name: &str) -> Option<Vec<u8>> {
        let query = self.head.query().filter(|_| !name.is_empty())?;
        tidegate_protocol::uri::query_pairs(query)
            .find(|(key, _)| {
                *key == name.as_bytes()
                    || (memchr_any(key)
                        && tidegate_protocol::uri::percent_decode(key, true) == name.as_bytes())
            })
            .map(|(_, value)| tidegate_protocol::uri::percent_decode(value.unwrap_or_default(), true))
    }

    /// As nginx's `$arg_NAME`: the first with a value whose name is this in any case, not decoded.
    pub(crate) fn raw_arg(&self, name: &str) -> Option<&[u8]> {
        let mut pairs = tidegate_protocol::uri::query_pairs(self.head.query()?);
        pairs.find_map(|(key, value)| value.filter(|_| key.eq_ignore_ascii_case(name.as_bytes())))
    }

    /// Removes every query argument of that name from the target.
    pub fn remove_arg(&mut self, name: &str) {
        let Some(query) = self.head.query().filter(|_| !name.is_empty()) else { return };
        let mut target = self.head.raw_path().to_vec();
        let mut separator = b'?';
        for pair in query.split(|&byte| byte == b'&') {
            let key = pair.split(|&byte| byte == b'=').next().unwrap_or_default();
            if tidegate_protocol::uri::percent_decode(key, true) != name.as_bytes() {
                target.push(separator);
                target.extend_from_slice(pair);
                separator = b'&';
            }
        }
        self.head.set_target(&target);
    }

    /// Gives the request another query, also where its path was changed.
    pub fn set_query(&mut self, query: &[u8]) {
        let targets = [Some(self.head.target().to_vec()), self.edits.target.take()].map(|target| {
            let target = target?;
            let path = target.split(|&byte| byte == b'?').next().unwrap_or_default();
            Some([path, b"?", query].concat())
        });
        let [target, upstream] = targets;
        self.head.set_target(&target.unwrap_or_default());
        self.edits.target = upstream;
    }

    /// Replaces the queries of the target and of the one that went upstream, for what tells of the request afterwards.
    pub fn replace_queries(&mut self, mut with: impl FnMut(&[u8]) -> Vec<u8>) {
        if let Some(target) = with_query(self.head.target(), &mut with) {
            self.head.set_target(&target);
        }
        let upstream = [Some(&mut self.outcome.upstream_target), self.edits.target.as_mut()];
        for target in upstream.into_iter().flatten() {
            *target = with_query(target, &mut with).unwrap_or_else(|| std::mem::take(target));
        }
    }

    /// A cookie's value as sent. None has an empty name.
    pub fn cookie(&self, name: &str) -> Option<&[u8]> {
        let mut lines = self.head.headers.all_known(HeaderId::Cookie).filter(|_| !name.is_empty());
        lines.find_map(|line| cookie_in(line, name.as_bytes()))
    }

    /// The value of each cookie of that name.
    pub fn cookies<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let lines = self.head.headers.all_known(HeaderId::Cookie);
        lines.flat_map(move |line| cookies_in(line, name.as_bytes()))
    }

    /// Reads the body into memory, at most `limit` bytes: 413 past that.
    pub async fn collect_body(&mut self, limit: usize) -> Result<Bytes, Box<Reply>> {
        let allowed = self.body_limit.map_or(limit, |allowed| usize::try_from(allowed).unwrap_or(limit));
        Ok(self.body.collect(limit.min(allowed), self.remote_addr).await?)
    }

    /// Sets `$name` for this request, over a built-in variable too.
    pub fn set_variable(&mut self, name: &str, value: impl Into<Vec<u8>>) {
        let value = value.into();
        match self.variables.iter_mut().find(|(other, _)| **other == *name) {
            Some((_, old)) => *old = value,
            None => self.variables.push((name.into(), value)),
        }
    }

    /// `$apisix_request_id`: 32 hex digits, or what plugin `request-id` set.
    pub fn request_id(&self) -> &str {
        self.id.get_or_init(|| {
            let (high, low) = (random_u64(), random_u64());
            format!("{high:016x}{low:016x}").into()
        })
    }

    /// Attaches the consumer to the request and sets the headers that identify it to the upstream.
    pub fn attach(&mut self, entry: &AuthEntry) {
        self.attach_consumer(&entry.consumer, entry.credential_id.clone());
    }

    /// As [`Request::attach`], for a consumer that no key was looked up for.
    pub fn attach_consumer(&mut self, consumer: &Arc<Consumer>, credential_id: Option<Arc<str>>) {
        self.head.headers.set_known(HeaderId::XConsumerUsername, consumer.username.as_bytes());
        match &credential_id {
            Some(id) => self.head.headers.set_known(HeaderId::XCredentialIdentifier, id.as_bytes()),
            None => self.head.headers.remove_known(HeaderId::XCredentialIdentifier),
        }
        match &consumer.custom_id {
            Some(id) => self.head.headers.set_known(HeaderId::XConsumerCustomId, id.as_bytes()),
            None => self.head.headers.remove_known(HeaderId::XConsumerCustomId),
        }
        self.consumer = Some(consumer.clone());
        self.credential_id = credential_id;
    }

    /// Sets a header of the request for the gateway: nothing the client sent under this name goes upstream, in whatever
    /// spelling (see [`tidegate_protocol::claims`]), nor as a trailer. Without values the header is only removed.
    pub fn assert_header<V: AsRef<[u8]>>(
        &mut self,
        name: impl AsRef<[u8]>,
        values: impl IntoIterator<Item = V>,
    ) {
        let name = name.as_ref();
        self.forget_header(name);
        for value in values {
            self.head.headers.add(name, value);
        }
    }

    /// As [`Request::assert_header`].
    pub fn assert_named<V: AsRef<[u8]>>(&mut self, name: &FieldName, values: impl IntoIterator<Item = V>) {
        self.forget_header(name.text().as_bytes());
        for value in values {
            self.head.headers.add_named(name, value);
        }
    }

    /// Nothing of the client goes upstream under this name.
    fn forget_header(&mut self, name: &[u8]) {
        self.asserted.others_dropped += self.head.headers.remove_folded(name);
        // Only a body that is still on its way can have trailers.
        if matches!(self.body, RequestBody::Unread { .. }) {
            self.asserted.names.push(name.into());
        }
    }

    /// Keeps a trailer of this name from going upstream: it would come after the decision on the fields of
    /// the head.
    pub fn withhold_trailer(&mut self, name: impl AsRef<[u8]>) {
        if matches!(self.body, RequestBody::Unread { .. }) {
            self.asserted.names.push(name.as_ref().into());
        }
    }

    /// No trailer of the client goes upstream.
    pub fn withhold_trailers(&mut self) {
        self.asserted.all_trailers = true;
    }

    /// Removes a credential: it goes upstream in no spelling, nor as a trailer.
    pub fn hide_header(&mut self, name: impl AsRef<[u8]>) {
        let dropped = self.asserted.others_dropped;
        self.assert_header(name, [] as [&[u8]; 0]);
        self.asserted.others_dropped = dropped;
    }

    /// Seconds since the request came in, or until it was answered.
    pub fn elapsed_seconds(&self) -> f64 {
        self.outcome.finished.unwrap_or_else(Instant::now).duration_since(self.started).as_secs_f64()
    }

    /// `$upstream_response_time` of all attempts together; `None` without one.
    pub fn upstream_seconds(&self) -> Option<f64> {
        let attempts = &self.outcome.attempts;
        (!attempts.is_empty()).then(|| attempts.iter().map(|attempt| attempt.response_seconds).sum())
    }
}

/// The target with another query; without one there is no question mark. `None`: it has none.
fn with_query(target: &[u8], with: &mut impl FnMut(&[u8]) -> Vec<u8>) -> Option<Vec<u8>> {
    let at = memchr::memchr(b'?', target)?;
    let (path, query) = target.split_at(at);
    let query = with(query.get(1..).unwrap_or_default());
    let separator: &[u8] = if query.is_empty() { b"" } else { b"?" };
    Some([path, separator, &query].concat())
}

fn memchr_any(key: &[u8]) -> bool {
    key.iter().any(|&byte| matches!(byte, b'%' | b'+'))
}

/// The value of a cookie in a line of them, as sent.
pub fn cookie_in<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    cookies_in(line, name).next()
}

fn cookies_in<'a>(line: &'a [u8], name: &[u8]) -> impl Iterator<Item = &'a [u8]> {
    line.split(|&byte| byte == b';').filter_map(move |pair| {
        let pair = pair.trim_ascii();
        let at = pair.iter().position(|&byte| byte == b'=')?;
        (pair.get(..at)? == name).then(|| pair.get(at + 1..)).flatten()
    })
}
