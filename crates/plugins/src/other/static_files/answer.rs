//! From what the cache knows of a path to the answer: conditions, codings, ranges.

use std::time::SystemTime;

use bytes::{Bytes, BytesMut};
use tidegate_plugin_api::{FileBody, Reply, Request, file_body::Part, location, reply::ReplyBody};
use tidegate_protocol::{Head, HeaderId, Method};

use super::{
    coding,
    conditions::{self, Precondition, Validators},
    entry::{FileLookup, Representation, Served},
    path,
    range::{self, Ranges, Span},
};

pub(super) fn answer(request: &Request, outcome: &FileLookup, max_ranges: usize) -> Reply {
    match outcome {
        FileLookup::Status(code) => Reply::page(*code),
        // The caller leaves these to the upstream.
        FileLookup::Upstream => Reply::page(404),
        FileLookup::Redirect => redirect(request),
        FileLookup::Listing(page) => Reply::bytes(200, page.clone()).content_type("text/html; charset=utf-8"),
        FileLookup::File(served) => file(request, served, max_ranges),
    }
}

/// To the same path with a slash at its end.
fn redirect(request: &Request) -> Reply {
    let mut path = Vec::with_capacity(request.path.len() + 16);
    path::encode(&request.path, &mut path);
    path.push(b'/');
    if let Some(query) = request.head.query() {
        path.push(b'?');
        path.extend_from_slice(query);
    }
    Reply::page(301).header("Location", location::on_this_site(&path))
}

fn file(request: &Request, served: &Served, max_ranges: usize) -> Reply {
    let headers = &request.head.headers;
    let representation = choose(headers, served);
    let validators = Validators { etag: representation.etag.as_bytes(), modified: representation.modified };
    match conditions::evaluate(headers, &validators) {
        Precondition::Send => {}
        Precondition::NotModified => return not_modified(representation),
        Precondition::Failed => return Reply::page(412),
    }
    // RFC 9110 section 14.2: a range counts with GET only.
    let wanted = headers.known(HeaderId::Range).filter(|_| request.head.method == Method::Get);
    let ranges = match wanted {
        // An empty file has no parts: all of it is sent, with 200.
        Some(_) if representation.length == 0 => Ranges::Whole,
        Some(value) if conditions::range_applies(headers, &validators, SystemTime::now()) => {
            range::parse(value, representation.length, max_ranges)
        }
        _ => Ranges::Whole,
    };
    match ranges {
        Ranges::Whole => whole(representation),
        Ranges::Unsatisfiable => {
            Reply::page(416).header("Content-Range", format!("bytes */{}", representation.length))
        }
        Ranges::Parts(spans) => partial(representation, &spans),
    }
}

fn choose<'a>(headers: &Head, served: &'a Served) -> &'a Representation {
    if served.coded.is_empty() {
        return &served.plain;
    }
    let existing = served.coded.iter().map(|(coding, _)| *coding);
    let lines: Vec<&[u8]> = headers.all_known(HeaderId::AcceptEncoding).collect();
    coding::choose(lines.iter().copied(), existing)
        .and_then(|at| served.coded.get(at))
        .map_or(&served.plain, |(_, representation)| representation)
}

fn whole(representation: &Representation) -> Reply {
    let body = match &representation.bytes {
        Some(bytes) => ReplyBody::Bytes(bytes.clone()),
        None => from_file(representation, vec![Part::File { offset: 0, length: representation.length }]),
    };
    Reply { status: 200, headers: representation.head.clone(), body }
}

/// Validators, and what the choice between codings depends on; nothing that describes a body.
fn not_modified(representation: &Representation) -> Reply {
    let mut reply = Reply::bytes(304, Bytes::new());
    for id in [HeaderId::LastModified, HeaderId::Etag, HeaderId::Vary] {
        if let Some(value) = representation.head.known(id) {
            reply.headers.add(id.name(), value);
        }
    }
    reply
}

fn partial(representation: &Representation, spans: &[Span]) -> Reply {
    let length = representation.length;
    let mut headers = representation.head.clone();
    let parts = match spans {
        [span] => {
            headers.add("Content-Range", format!("bytes {}-{}/{length}", span.start, span.end));
            vec![Part::File { offset: span.start, length: span.length() }]
        }
        spans => {
            let (parts, boundary) = range::multipart(spans, length, &representation.content_type);
            headers.set("Content-Type", format!("multipart/byteranges; boundary={boundary}"));
            parts
        }
    };
    let body = match &representation.bytes {
        Some(bytes) => ReplyBody::Bytes(joined(bytes, &parts)),
        None => from_file(representation, parts),
    };
    Reply { status: 206, headers, body }
}

/// The parts of a file that is in memory.
fn joined(bytes: &Bytes, parts: &[Part]) -> Bytes {
    let slice = |part: &Part| match part {
        Part::Bytes(bytes) => bytes.clone(),
        Part::File { offset, length } => {
            let end = (offset + length).min(bytes.len() as u64) as usize;
            bytes.slice((*offset as usize).min(end)..end)
        }
    };
    if let [part] = parts {
        return slice(part);
    }
    let mut out = BytesMut::new();
    for part in parts {
        out.extend_from_slice(&slice(part));
    }
    out.freeze()
}

fn from_file(representation: &Representation, parts: Vec<Part>) -> ReplyBody {
    ReplyBody::File(Box::new(FileBody {
        file: representation.file.clone(),
        residence: representation.residence,
        parts,
    }))
}
