//! What loggers log: the default entry with everything about a request, or the fields of a `log_format`.
//!
//! Bodies are kept only where the configuration asks for them, up to its limits; a compressed response body is shown
//! decompressed.

mod bodies;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tidegate_plugin_api::{
    BodyChunk, Phases, Request, SchemaKind, Step, Variable, aside, host, variables::Named,
};
use tidegate_protocol::{Head, HeaderId};
use tidegate_routing::expr::Expression;

pub(crate) use bodies::{Entry, Made};
use bodies::{Kept, MARKS, ResponseBody};

use super::{
    log_format::{self, Format, text},
    masked_body::Shown,
    number,
};

/// Request bodies that are read for the log. Larger ones are refused with 413.
const MAX_COLLECTED_BYTES: usize = 64 << 20;

const DEFAULT_MAX_BODY_BYTES: usize = 512 << 10;

/// The fields that all loggers share.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Conf {
    log_format: Option<Value>,
    log_format_extra: Option<Value>,
    include_req_body: bool,
    include_req_body_expr: Option<Value>,
    include_resp_body: bool,
    include_resp_body_expr: Option<Value>,
    max_req_body_bytes: Option<usize>,
    max_resp_body_bytes: Option<usize>,
}

pub(crate) struct LogEntry {
    format: Option<Format>,
    extra: Option<Format>,
    include_req_body: bool,
    req_expr: Option<Expression<Variable>>,
    include_resp_body: bool,
    resp_expr: Option<Expression<Variable>>,
    max_req_body_bytes: usize,
    max_resp_body_bytes: usize,
    /// Names this configuration's part of the response body among those of other loggers.
    serial: u64,
}

/// The response bodies that the loggers of one request keep.
#[derive(Default)]
struct KeptBodies(Vec<Kept>);

/// The `check` of a logger: `include_req_body_expr` and its neighbour must be expressions.
pub(crate) fn check(conf: &Value, kind: SchemaKind) -> Result<(), String> {
    if kind != SchemaKind::Plugin {
        return Ok(());
    }
    for name in ["include_req_body_expr", "include_resp_body_expr"] {
        if let Some(rule) = conf.get(name) {
            Expression::compile(rule, &mut |name| Variable::resolve(name))
                .map_err(|reason| format!("failed to validate the '{name}' expression: {reason}"))?;
        }
    }
    Ok(())
}

/// The format of the configuration wins over the metadata's, and an empty one of the metadata counts as none.
fn format(conf: Option<&Value>, metadata: Option<&Value>, name: &str) -> Option<Format> {
    match conf.filter(|value| !value.is_null()) {
        Some(conf) => Format::new(conf),
        None => metadata
            .and_then(|metadata| metadata.get(name))
            .and_then(Format::new)
            .filter(|format| !format.is_empty()),
    }
}

impl LogEntry {
    pub(crate) fn new(conf: &Value, metadata: Option<&Value>) -> Result<LogEntry, String> {
        use std::sync::atomic::{AtomicU64, Ordering};
        static SERIAL: AtomicU64 = AtomicU64::new(1);
        let conf: Conf = super::conf::typed(conf)?;
        let expression = |rule: &Option<Value>| {
            rule.as_ref().and_then(|rule| Expression::compile(rule, &mut |name| Variable::resolve(name)).ok())
        };
        Ok(LogEntry {
            format: format(conf.log_format.as_ref(), metadata, "log_format"),
            extra: format(conf.log_format_extra.as_ref(), metadata, "log_format_extra")
                .filter(|extra| !extra.is_empty()),
            include_req_body: conf.include_req_body,
            req_expr: expression(&conf.include_req_body_expr),
            include_resp_body: conf.include_resp_body,
            resp_expr: expression(&conf.include_resp_body_expr),
            max_req_body_bytes: conf.max_req_body_bytes.unwrap_or(DEFAULT_MAX_BODY_BYTES),
            max_resp_body_bytes: conf.max_resp_body_bytes.unwrap_or(DEFAULT_MAX_BODY_BYTES),
            serial: SERIAL.fetch_add(1, Ordering::Relaxed),
        })
    }

    /// What a logger declares as its phases at most.
    pub(crate) const ALL_PHASES: Phases = Phases::ACCESS.and(Phases::BODY_FILTER).and(Phases::LOG);

    /// What this configuration needs of them.
    pub(crate) fn phases(&self) -> Phases {
        let mut phases = Phases::LOG;
        if self.include_req_body {
            phases = phases.and(Phases::ACCESS);
        }
        if self.include_resp_body {
            phases = phases.and(Phases::BODY_FILTER);
        }
        phases
    }

    /// Reads the request's body where it will be logged.
    pub(crate) fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        let unread = matches!(request.body, tidegate_plugin_api::RequestBody::Unread { .. });
        if !self.include_req_body || !unread || !holds(&self.req_expr, request) {
            return Step::Next;
        }
        Step::wait(async move { request.collect_body(MAX_COLLECTED_BYTES).await.map(|_| ()) })
    }

    /// Keeps a copy of the response body.
    pub(crate) fn body_filter(&self, request: &mut Request, chunk: &BodyChunk) {
        if !self.include_resp_body {
            return;
        }
        let known = request
            .extensions
            .get::<KeptBodies>()
            .is_some_and(|kept| kept.0.iter().any(|kept| kept.serial == self.serial));
        if !known {
            let wanted = holds(&self.resp_expr, request);
            let kept = Kept::new(self.serial, wanted);
            request.extensions.get_or_insert_with(KeptBodies::default).0.push(kept);
        }
        let Some(bodies) = request.extensions.get_mut::<KeptBodies>() else { return };
        let Some(kept) = bodies.0.iter_mut().find(|kept| kept.serial == self.serial && kept.wanted) else {
            return;
        };
        kept.extend(&chunk.data, self.max_resp_body_bytes);
    }

    /// The response body, or the mark that stands for it, and what takes the mark's place.
    fn response_body(&self, request: &mut Request) -> (Option<String>, Option<ResponseBody>) {
        let coding = request.response.headers.known(HeaderId::ContentEncoding);
        let kept = request.extensions.get_mut::<KeptBodies>();
        let kept =
            kept.and_then(|kept| kept.0.iter_mut().find(|kept| kept.serial == self.serial && kept.wanted));
        match kept.map(|kept| kept.read(coding, self.max_resp_body_bytes)) {
            None => (None, None),
            Some(Ok(body)) => (body, None),
            Some(Err(unread)) => (Some(MARKS.response.clone()), Some(unread)),
        }
    }

    /// The entry for the log.
    pub(crate) fn entry(&self, request: &mut Request) -> Entry {
        self.entry_as(request, |fields| fields)
    }

    /// As [`LogEntry::entry`] for a logger whose default entry is another one, which `form` makes of the common one.
    pub(crate) fn entry_as(
        &self,
        request: &mut Request,
        form: impl FnOnce(Map<String, Value>) -> Map<String, Value>,
    ) -> Entry {
        let (mut response_body, mut unread, mut named) = (None, None, false);
        // Formats may name `$resp_body`.
        let known = request.variables.iter().any(|(name, _)| &**name == "resp_body");
        if self.include_resp_body && (self.format.is_none() || !known) {
            (response_body, unread) = self.response_body(request);
            named = self.format.is_some();
        }
        if let Some(body) = response_body.as_ref().filter(|_| named) {
            request.set_variable("resp_body", body.as_str());
        }
        let fields = match &self.format {
            Some(format) => self.formatted(format, request),
            None => self.full(request, response_body, form),
        };
        if unread.is_some() && named {
            // The mark is of this entry only.
            request.variables.retain(|(name, _)| &**name != "resp_body");
        }
        let request_body = self.unread_request_body(request);
        Entry::new(fields, request_body, unread)
    }

    /// Of a request whose body has a mark in the entry.
    fn unread_request_body(&self, request: &Request) -> Option<Shown> {
        Shown::of(request, self.max_req_body_bytes).filter(|body| !body.is_short())
    }

    fn formatted(&self, format: &Format, request: &Request) -> Map<String, Value> {
        let mut entry = format.render(request, &self.limits());
        if let Some(route) = &request.route {
            match route.service_id() {
                Some(id) => entry.insert("service_id".to_owned(), (**id).into()),
                None => entry.remove("service_id"),
            };
            entry.insert("route_id".to_owned(), (*route.id).into());
        }
        entry
    }

    fn limits(&self) -> log_format::Limits<'static> {
        log_format::Limits { max: self.max_req_body_bytes, marked: aside::SMALL, mark: &MARKS.request }
    }

    fn full(
        &self,
        request: &Request,
        response_body: Option<String>,
        form: impl FnOnce(Map<String, Value>) -> Map<String, Value>,
    ) -> Map<String, Value> {
        let request_body = (self.include_req_body && holds(&self.req_expr, request))
            .then(|| log_format::request_body(request, &self.limits()))
            .flatten();
        let mut entry = form(full(request, request_body, response_body.map(Value::from)));
        if let Some(extra) = &self.extra {
            for (name, value) in extra.render(request, &self.limits()) {
                entry.entry(name).or_insert(value);
            }
        }
        entry
    }

    /// The request as it was sent, for `meta_format: origin`.
    pub(crate) fn original(&self, request: &Request) -> Made<String> {
        let line = request.variable(&Variable::Named(Named::RequestLine)).unwrap_or_default();
        let mut out = line.into_owned();
        out.extend_from_slice(b"\r\n");
        for (name, value) in request.head.headers.iter() {
            out.extend_from_slice(&name.to_ascii_lowercase());
            out.extend_from_slice(b": ");
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
        match Shown::of(request, self.max_req_body_bytes).filter(|_| self.include_req_body) {
            Some(body) => bodies::with_request_body(out, body),
            None => Made::Now(text(&out)),
        }
    }
}

fn holds(rule: &Option<Expression<Variable>>, request: &Request) -> bool {
    rule.as_ref().is_none_or(|rule| rule.eval(request))
}

pub(crate) fn variable(request: &Request, named: Named) -> Option<String> {
    request.variable(&Variable::Named(named)).map(|value| text(&value))
}

/// Names in lower case; repeated fields are a list.
fn headers(head: &Head) -> Map<String, Value> {
    let mut map = Map::new();
    for (name, value) in head.iter() {
        add(&mut map, text(&name.to_ascii_lowercase()), text(value).into());
    }
    map
}

fn add(map: &mut Map<String, Value>, name: String, value: Value) {
    match map.get_mut(&name) {
        None => {
            map.insert(name, value);
        }
        Some(Value::Array(list)) => list.push(value),
        Some(first) => *first = Value::Array(vec![first.take(), value]),
    }
}

fn query(request: &Request) -> Map<String, Value> {
    let mut map = Map::new();
    for (name, value) in
        tidegate_protocol::uri::query_pairs(request.head.query().unwrap_or_default()).take(100)
    {
        let decode = |bytes| text(&tidegate_protocol::uri::percent_decode(bytes, true));
        add(&mut map, decode(name), value.map_or(Value::Bool(true), |value| decode(value).into()));
    }
    map
}

/// Milliseconds, of the whole request, its upstream, and the gateway itself.
pub(crate) struct Latencies {
    pub total: Value,
    /// Where one was asked.
    pub upstream: Option<Value>,
    pub gateway: Value,
}

impl Latencies {
    pub(crate) fn of(request: &Request) -> Latencies {
        let (total, upstream) = (request.elapsed_seconds(), request.upstream_seconds());
        Latencies {
            total: milliseconds(total),
            upstream: upstream.map(milliseconds),
            gateway: milliseconds((total - upstream.unwrap_or(0.0)).max(0.0)),
        }
    }
}

/// Milliseconds with three digits, as a whole number where it is one.
fn milliseconds(seconds: f64) -> Value {
    let rounded = (seconds * 1e6).round() / 1e3;
    number::lua(rounded)
        .parse::<f64>()
        .map_or(Value::Null, |value| if value.fract() == 0.0 { (value as i64).into() } else { value.into() })
}

fn response_headers(request: &Request) -> Map<String, Value> {
    let mut map = headers(&request.response.headers);
    if let Some(host) = host().filter(|_| !map.contains_key("server")) {
        map.insert("server".to_owned(), host.server_token.as_str().into());
    }
    map
}

fn object<const N: usize>(members: [(&str, Option<Value>); N]) -> Value {
    let members = members.into_iter();
    Value::Object(members.filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
}

/// Every fact about the request, in APISIX's shape.
fn full(request: &Request, request_body: Option<Value>, response_body: Option<Value>) -> Map<String, Value> {
    let named = |named| variable(request, named).unwrap_or_default();
    let uri = named(Named::RequestUri);
    let (scheme, host_name, port) = (named(Named::Scheme), named(Named::Host), named(Named::ServerPort));
    let latencies = Latencies::of(request);
    let started = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default()
        .saturating_sub(request.started.elapsed());
    let mut entry = Map::new();
    entry.insert(
        "request".to_owned(),
        object([
            ("url", Some(format!("{scheme}://{host_name}:{port}{uri}").into())),
            ("uri", Some(uri.into())),
            ("method", Some(named(Named::RequestMethod).into())),
            ("body", request_body),
            ("headers", Some(headers(&request.head.headers).into())),
            ("querystring", Some(query(request).into())),
            ("size", Some(request.outcome.request_length.into())),
        ]),
    );
    entry.insert(
        "response".to_owned(),
        object([
            ("status", Some(request.response.status.into())),
            ("body", response_body),
            ("headers", Some(response_headers(request).into())),
            ("size", Some(request.outcome.bytes_sent.into())),
        ]),
    );
    let hostname = host().map_or("localhost", |host| &host.hostname);
    entry.insert("server".to_owned(), json!({ "hostname": hostname, "version": "3.18.0" }));
    if let Some(address) = variable(request, Named::UpstreamAddr) {
        entry.insert("upstream".to_owned(), address.into());
    }
    match &request.route {
        Some(route) => {
            entry.insert("service_id".to_owned(), route.service_id().map_or("", |id| &**id).into());
            entry.insert("route_id".to_owned(), (*route.id).into());
        }
        None => {
            entry.insert("service_id".to_owned(), host_name.into());
        }
    }
    if let Some(consumer) = &request.consumer {
        entry.insert("consumer".to_owned(), json!({ "username": &*consumer.username }));
    }
    entry.insert("client_ip".to_owned(), named(Named::RemoteAddr).into());
    entry.insert("start_time".to_owned(), (started.as_millis() as u64).into());
    entry.insert("latency".to_owned(), latencies.total);
    if let Some(upstream) = latencies.upstream {
        entry.insert("upstream_latency".to_owned(), upstream);
    }
    entry.insert("apisix_latency".to_owned(), latencies.gateway);
    entry
}
