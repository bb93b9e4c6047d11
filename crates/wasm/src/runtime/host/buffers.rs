//! Buffers: bodies, configurations, the body of an answer to a call.

use bytes::Bytes;
use tidegate_plugin_api::{Request, RequestBody, memory as body_memory};
use tidegate_protocol::HeaderId;
use wasmtime::Linker;

use super::{
    abi::{ENV, Host, Outcome, Status, code},
    memory,
};
use crate::runtime::{
    current,
    state::{Entry, State},
};

const REQUEST_BODY: u32 = 0;
const RESPONSE_BODY: u32 = 1;
const CALL_BODY: u32 = 4;
const VM_CONF: u32 = 6;
const PLUGIN_CONF: u32 = 7;
const LAST: u32 = 8;

/// What a module may make of a body.
const MAX_BODY_BYTES: usize = 64 << 20;

pub(super) fn install(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap(
        ENV,
        "proxy_get_buffer_bytes",
        |mut host: Host<'_>, kind: u32, start: u32, most: u32, data: u32, size: u32| {
            code(get(&mut host, kind, start, most, data, size))
        },
    )?;
    linker.func_wrap(
        ENV,
        "proxy_get_buffer_status",
        |mut host: Host<'_>, kind: u32, size: u32, unused: u32| code(status(&mut host, kind, size, unused)),
    )?;
    linker.func_wrap(
        ENV,
        "proxy_set_buffer_bytes",
        |mut host: Host<'_>, kind: u32, start: u32, size: u32, data: u32, length: u32| {
            code(set(&mut host, kind, start, size, data, length))
        },
    )?;
    Ok(())
}

/// Bytes that a module asks for.
enum Buffer<'a> {
    /// Parts of these are had without a copy.
    Shared(&'a Bytes),
    Own(&'a [u8]),
}

impl Buffer<'_> {
    fn len(&self) -> usize {
        match self {
            Buffer::Shared(bytes) => bytes.len(),
            Buffer::Own(bytes) => bytes.len(),
        }
    }

    /// The part that is asked for. None of what is not there.
    fn part(&self, start: u32, most: u32) -> Option<Bytes> {
        let start = start as usize;
        let end = start.saturating_add(most as usize).min(self.len());
        match self {
            _ if start > end => None,
            Buffer::Shared(bytes) => Some(bytes.slice(start..end)),
            Buffer::Own(bytes) => bytes.get(start..end).map(Bytes::copy_from_slice),
        }
    }
}

/// Looks at a buffer.
fn read_buffer<R>(host: &mut Host<'_>, kind: u32, look: impl FnOnce(Buffer<'_>) -> R) -> Outcome<R> {
    let state = host.data_mut();
    let found = match kind {
        REQUEST_BODY if state.is_own() && state.entry.is_request() => {
            current::request(|request| match &request.body {
                RequestBody::Collected(bytes) if !bytes.is_empty() => Some(look(Buffer::Shared(bytes))),
                _ => None,
            })
            .flatten()
        }
        RESPONSE_BODY if state.is_own() && is_response_body(state.entry) => {
            current::chunk(|chunk| look(Buffer::Own(&chunk.data)))
        }
        CALL_BODY => state.answer.as_deref().map(|answer| look(Buffer::Shared(&answer.body))),
        VM_CONF => Some(look(Buffer::Shared(&state.vm_conf))),
        PLUGIN_CONF => {
            let root = state.contexts.root(state.effective);
            let conf = root.and_then(|root| state.contexts.conf(root));
            conf.map(|conf| look(Buffer::Shared(&conf.conf)))
        }
        0..=LAST => None,
        _ => return Err(Status::BadArgument.into()),
    };
    found.ok_or_else(|| Status::NotFound.into())
}

fn is_response_body(entry: Entry) -> bool {
    matches!(entry, Entry::ResponseBody | Entry::ResponseTrailers | Entry::ResponsePaused)
}

fn get(host: &mut Host<'_>, kind: u32, start: u32, most: u32, data: u32, size: u32) -> Outcome {
    let bytes = read_buffer(host, kind, |buffer| buffer.part(start, most))?.ok_or(Status::BadArgument)?;
    memory::give(host, &bytes, data, size)
}

fn status(host: &mut Host<'_>, kind: u32, size: u32, unused: u32) -> Outcome {
    let length = read_buffer(host, kind, |buffer| buffer.len())?;
    memory::write_number(host, size, u32::try_from(length).unwrap_or(u32::MAX))?;
    memory::write_number(host, unused, 0)
}

fn set(host: &mut Host<'_>, kind: u32, start: u32, size: u32, data: u32, length: u32) -> Outcome {
    let (memory, state) = memory::split(host);
    let new = memory::part(memory, data, length)?;
    if !matches!(kind, REQUEST_BODY | RESPONSE_BODY) || !state.is_own() {
        return Err(if kind > LAST { Status::BadArgument } else { Status::NotFound }.into());
    }
    let set = match kind {
        REQUEST_BODY if matches!(state.entry, Entry::RequestBody | Entry::RequestTrailers) => {
            current::request(|request| set_request_body(request, start, size, new))
        }
        RESPONSE_BODY if is_response_body(state.entry) => {
            current::chunk(|chunk| replace(&mut chunk.data, start, size, new))
        }
        _ => None,
    };
    set.unwrap_or_else(|| Err(Status::NotFound.into()))
}

/// Replaces a part; a start behind the end appends.
fn replace(bytes: &mut Vec<u8>, start: u32, size: u32, new: &[u8]) -> Outcome {
    let start = (start as usize).min(bytes.len());
    let end = start.saturating_add(size as usize).min(bytes.len());
    if bytes.len() - (end - start) + new.len() > MAX_BODY_BYTES {
        return Err(Status::InternalFailure.into());
    }
    bytes.splice(start..end, new.iter().copied());
    Ok(())
}

fn set_request_body(request: &mut Request, start: u32, size: u32, new: &[u8]) -> Outcome {
    let RequestBody::Collected(before) = &request.body else { return Err(Status::NotFound.into()) };
    let mut bytes = before.to_vec();
    replace(&mut bytes, start, size, new)?;
    // The one before is given back first.
    request.body = RequestBody::Collected(Bytes::new());
    let body = body_memory::hold(bytes, request.remote_addr)
        .map_err(|body_memory::Spent| Status::InternalFailure)?;
    request.head.headers.set("Content-Length", body.len().to_string());
    request.head.headers.remove_known(HeaderId::TransferEncoding);
    request.body = RequestBody::Collected(body);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_buffers() {
        let shared = Bytes::from_static(b"hello");
        for buffer in [Buffer::Shared(&shared), Buffer::Own(b"hello")] {
            let check = |start, most, expected: Option<&[u8]>| {
                assert_eq!(buffer.part(start, most).as_deref(), expected, "{start} {most}");
            };
            check(1, 3, Some(b"ell"));
            check(5, 3, Some(b""));
            check(6, 3, None);
            check(0, u32::MAX, Some(b"hello"));
        }
    }

    #[test]
    fn replaced_prepended_and_appended() {
        let check = |start, size, new: &str, expected: &str| {
            let mut bytes = b"hello".to_vec();
            assert!(replace(&mut bytes, start, size, new.as_bytes()).is_ok());
            assert_eq!(String::from_utf8_lossy(&bytes), expected);
        };
        check(0, 0, ">> ", ">> hello");
        check(u32::MAX, 0, "!", "hello!");
        check(1, 3, "--", "h--o");
        check(0, u32::MAX, "new", "new");
    }
}
