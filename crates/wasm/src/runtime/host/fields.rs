//! Maps of fields: heads and trailers of the request and its answer, and of answers to calls.

use std::sync::Arc;

use tidegate_clients::http::Incoming;
use tidegate_plugin_api::Request;
use tidegate_protocol::{Head, Method, fields::is_token_byte};
use wasmtime::Linker;

use super::{
    abi::{ENV, Host, Outcome, Status, code},
    memory,
    memory::Pairs,
};
use crate::runtime::{
    current,
    state::{Entry, State},
};

/// `proxy_map_type_t`
#[derive(Clone, Copy, PartialEq, Eq)]
enum Map {
    RequestHeaders,
    RequestTrailers,
    ResponseHeaders,
    ResponseTrailers,
    CallHeaders,
    /// Calls keep no trailers, and gRPC is not supported.
    Empty,
}

impl Map {
    fn of(number: u32) -> Outcome<Map> {
        Ok(match number {
            0 => Map::RequestHeaders,
            1 => Map::RequestTrailers,
            2 => Map::ResponseHeaders,
            3 => Map::ResponseTrailers,
            6 => Map::CallHeaders,
            4 | 5 | 7 => Map::Empty,
            _ => return Err(Status::BadArgument.into()),
        })
    }

    /// Whether it may be changed in this callback.
    fn is_open(self, entry: Entry) -> bool {
        match self {
            Map::RequestHeaders => entry.is_request(),
            Map::RequestTrailers => entry == Entry::RequestTrailers,
            Map::ResponseHeaders => matches!(entry, Entry::ResponseHeaders | Entry::ResponsePaused),
            Map::ResponseTrailers => matches!(entry, Entry::ResponseBody | Entry::ResponseTrailers),
            Map::CallHeaders | Map::Empty => false,
        }
    }
}

/// Fields of one head, and what one may have.
const MAX_FIELDS: usize = 1000;
const MAX_NAME_BYTES: usize = 1 << 10;
const MAX_VALUE_BYTES: usize = 64 << 10;

pub(super) fn install(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap(ENV, "proxy_get_header_map_size", |mut host: Host<'_>, map: u32, to: u32| {
        code(Map::of(map).and_then(|map| {
            let bytes = serialized(&mut host, map)?;
            memory::write_number(&mut host, to, bytes.len() as u32)
        }))
    })?;
    linker.func_wrap(
        ENV,
        "proxy_get_header_map_pairs",
        |mut host: Host<'_>, map: u32, data: u32, size: u32| {
            code(Map::of(map).and_then(|map| {
                let bytes = serialized(&mut host, map)?;
                memory::give(&mut host, &bytes, data, size)
            }))
        },
    )?;
    linker.func_wrap(
        ENV,
        "proxy_set_header_map_pairs",
        |mut host: Host<'_>, map: u32, data: u32, size: u32| {
            code(Map::of(map).and_then(|map| set_all(&mut host, map, data, size)))
        },
    )?;
    linker.func_wrap(
        ENV,
        "proxy_get_header_map_value",
        |mut host: Host<'_>, map: u32, key: u32, key_size: u32, data: u32, size: u32| {
            code(Map::of(map).and_then(|map| get(&mut host, map, (key, key_size), (data, size))))
        },
    )?;
    linker.func_wrap(
        ENV,
        "proxy_add_header_map_value",
        |mut host: Host<'_>, map: u32, key: u32, key_size: u32, value: u32, value_size: u32| {
            code(edit(&mut host, map, (key, key_size), Some((value, value_size)), Change::Add))
        },
    )?;
    linker.func_wrap(
        ENV,
        "proxy_replace_header_map_value",
        |mut host: Host<'_>, map: u32, key: u32, key_size: u32, value: u32, value_size: u32| {
            code(edit(&mut host, map, (key, key_size), Some((value, value_size)), Change::Replace))
        },
    )?;
    linker.func_wrap(
        ENV,
        "proxy_remove_header_map_value",
        |mut host: Host<'_>, map: u32, key: u32, key_size: u32| {
            code(edit(&mut host, map, (key, key_size), None, Change::Remove))
        },
    )?;
    Ok(())
}

#[derive(Clone, Copy)]
enum Change {
    Add,
    Replace,
    Remove,
}

/// A map as pairs, names in lower case, what is not a field first.
fn pairs(host: &mut Host<'_>, map: Map) -> Outcome<Pairs> {
    let state = host.data_mut();
    let lower = |head: &Head| -> Pairs {
        head.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.to_vec())).collect()
    };
    let is_own = state.is_own();
    let found = match map {
        Map::RequestHeaders if is_own => current::request(|request| {
            let names = [":authority", ":path", ":method", ":scheme"];
            let mut all: Pairs = names
                .iter()
                .filter_map(|name| {
                    Some((name.as_bytes().to_vec(), request_pseudo(request, name.as_bytes())?))
                })
                .collect();
            let fields = lower(&request.head.headers);
            all.extend(fields.into_iter().filter(|(name, _)| name != b"host"));
            all
        }),
        Map::ResponseHeaders if is_own => current::request(|request| {
            let mut all = vec![(b":status".to_vec(), request.response.status.to_string().into_bytes())];
            all.extend(lower(&request.response.headers));
            all
        }),
        Map::RequestTrailers if is_own => Some(state.trailers.as_ref().map(lower).unwrap_or_default()),
        Map::ResponseTrailers if is_own => current::request(|request| lower(&request.response.trailers)),
        Map::CallHeaders => state.answer.as_deref().map(call_pairs),
        _ => Some(Vec::new()),
    };
    found.ok_or_else(|| Status::BadArgument.into())
}

fn call_pairs(answer: &Incoming) -> Pairs {
    let mut all = vec![(b":status".to_vec(), answer.status.to_string().into_bytes())];
    all.extend(
        answer
            .headers
            .iter()
            .map(|(name, value)| (name.as_str().as_bytes().to_vec(), value.as_bytes().to_vec())),
    );
    all
}

/// The number of fields that a callback gets.
pub(in crate::runtime) fn count_of_call(answer: &Arc<Incoming>) -> u32 {
    answer.headers.len() as u32 + 1
}

fn serialized(host: &mut Host<'_>, map: Map) -> Outcome<Vec<u8>> {
    let pairs = pairs(host, map)?;
    Ok(memory::serialize(pairs.iter().map(|(name, value)| (name.as_slice(), value.as_slice()))))
}

/// What HTTP/2 has beside fields.
fn request_pseudo(request: &Request, name: &[u8]) -> Option<Vec<u8>> {
    match name {
        b":path" => Some(request.edits.target.clone().unwrap_or_else(|| request.head.target().to_vec())),
        b":method" => Some(request.edits.method.as_ref().unwrap_or(&request.head.method).as_bytes().to_vec()),
        b":scheme" => Some(if request.https { b"https".to_vec() } else { b"http".to_vec() }),
        b":authority" => {
            request.edits.host.clone().or_else(|| request.head.headers.get("host").map(<[u8]>::to_vec))
        }
        _ => None,
    }
}

fn get(host: &mut Host<'_>, map: Map, key: (u32, u32), to: (u32, u32)) -> Outcome {
    let (memory, state) = memory::split(host);
    let name = memory::part(memory, key.0, key.1)?;
    let value = std::str::from_utf8(name).ok().and_then(|name| value_of(state, map, name));
    memory::give(host, &value.ok_or(Status::NotFound)?, to.0, to.1)
}

fn value_of(state: &State, map: Map, name: &str) -> Option<Vec<u8>> {
    let is_own = state.is_own();
    match map {
        Map::RequestHeaders if is_own => current::request(|request| match name.starts_with(':') {
            true => request_pseudo(request, name.as_bytes()),
            false => joined(&request.head.headers, name),
        })
        .flatten(),
        Map::ResponseHeaders if is_own => current::request(|request| match name {
            ":status" => Some(request.response.status.to_string().into_bytes()),
            _ => joined(&request.response.headers, name),
        })
        .flatten(),
        Map::RequestTrailers if is_own => state.trailers.as_ref().and_then(|head| joined(head, name)),
        Map::ResponseTrailers if is_own => {
            current::request(|request| joined(&request.response.trailers, name)).flatten()
        }
        Map::CallHeaders => state.answer.as_deref().and_then(|answer| match name {
            ":status" => Some(answer.status.to_string().into_bytes()),
            _ => answer.header(name).map(<[u8]>::to_vec),
        }),
        _ => None,
    }
}

/// The values of a name, as one.
fn joined(head: &Head, name: &str) -> Option<Vec<u8>> {
    let mut values = head.get_all(name);
    let mut all = values.next()?.to_vec();
    for value in values {
        all.extend_from_slice(b", ");
        all.extend_from_slice(value);
    }
    Some(all)
}

/// What separates messages is the gateway's: a module can neither set nor remove it.
fn is_framing(name: &[u8]) -> bool {
    let names: [&[u8]; 4] = [b"content-length", b"transfer-encoding", b"connection", b"upgrade"];
    names.iter().any(|framing| name.eq_ignore_ascii_case(framing))
}

fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.iter().all(|byte| is_token_byte(*byte))
}

fn is_value(value: &[u8]) -> bool {
    value.len() <= MAX_VALUE_BYTES && !value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0))
}

fn edit(
    host: &mut Host<'_>,
    map: u32,
    key: (u32, u32),
    value: Option<(u32, u32)>,
    change: Change,
) -> Outcome {
    let map = Map::of(map)?;
    let (memory, state) = memory::split(host);
    let name = memory::part(memory, key.0, key.1)?;
    let (at, length) = value.unwrap_or_default();
    let value = memory::part(memory, at, length)?;
    if !state.is_own() || !map.is_open(state.entry) {
        return Err(Status::BadArgument.into());
    }
    apply(state, map, name, value, change)
}

fn apply(state: &mut State, map: Map, name: &[u8], value: &[u8], change: Change) -> Outcome {
    let is_pseudo = name.starts_with(b":");
    if !is_value(value) || !(is_pseudo || is_name(name)) {
        return Err(Status::BadArgument.into());
    }
    let applied = match map {
        Map::RequestHeaders => {
            current::request(|request| match is_pseudo || name.eq_ignore_ascii_case(b"host") {
                true => set_request_pseudo(request, name, value, change),
                false => change_request(request, name, value, change),
            })
        }
        Map::ResponseHeaders => current::request(|request| match is_pseudo {
            true => set_status(request, name, value),
            false => change_response(request, name, value, change),
        }),
        Map::RequestTrailers => {
            state.trailers.as_mut().map(|trailers| change_head(trailers, name, value, change))
        }
        Map::ResponseTrailers => {
            current::request(|request| change_head(&mut request.response.trailers, name, value, change))
        }
        Map::CallHeaders | Map::Empty => None,
    };
    applied.unwrap_or_else(|| Err(Status::BadArgument.into()))
}

fn change_head(head: &mut Head, name: &[u8], value: &[u8], change: Change) -> Outcome {
    if head.len() >= MAX_FIELDS {
        return Err(Status::BadArgument.into());
    }
    match change {
        Change::Add => head.add(name, value),
        Change::Replace => head.set(name, value),
        Change::Remove => {
            head.remove(name);
        }
    }
    Ok(())
}

/// What a module says of the request holds: a client cannot send it in another spelling.
fn change_request(request: &mut Request, name: &[u8], value: &[u8], change: Change) -> Outcome {
    if is_framing(name) {
        return Ok(());
    }
    if request.head.headers.len() >= MAX_FIELDS {
        return Err(Status::BadArgument.into());
    }
    match change {
        Change::Add => request.head.headers.add(name, value),
        Change::Replace => request.assert_header(name, [value]),
        Change::Remove => request.hide_header(name),
    }
    Ok(())
}

fn change_response(request: &mut Request, name: &[u8], value: &[u8], change: Change) -> Outcome {
    if is_framing(name) {
        // A module that makes another body removes its length first.
        if matches!(change, Change::Remove) && name.eq_ignore_ascii_case(b"content-length") {
            request.response.length_modified();
        }
        return Ok(());
    }
    if matches!(change, Change::Remove | Change::Replace)
        && let Ok(name) = std::str::from_utf8(name)
    {
        request.response.withhold_trailer(name);
    }
    change_head(&mut request.response.headers, name, value, change)
}

fn set_request_pseudo(request: &mut Request, name: &[u8], value: &[u8], change: Change) -> Outcome {
    if matches!(change, Change::Remove) {
        return Err(Status::BadArgument.into());
    }
    let is_visible = !value.is_empty() && value.iter().all(|byte| byte.is_ascii_graphic() || *byte >= 0x80);
    match name {
        b":path" if is_visible && value.starts_with(b"/") => request.edits.target = Some(value.to_vec()),
        b":method" if is_name(value) => request.edits.method = Some(Method::of(value)),
        b":authority" if is_visible => request.edits.host = Some(value.to_vec()),
        // It is the connection's.
        b":scheme" => {}
        _ if name.eq_ignore_ascii_case(b"host") && is_visible => request.edits.host = Some(value.to_vec()),
        _ => return Err(Status::BadArgument.into()),
    }
    Ok(())
}

fn set_status(request: &mut Request, name: &[u8], value: &[u8]) -> Outcome {
    let status = std::str::from_utf8(value).ok().and_then(|text| text.parse::<u16>().ok());
    match status.filter(|status| name == b":status" && (200..600).contains(status)) {
        Some(status) => {
            request.response.set_status(status);
            Ok(())
        }
        None => Err(Status::BadArgument.into()),
    }
}

/// Puts a whole map in place of what is there.
fn set_all(host: &mut Host<'_>, map: Map, data: u32, size: u32) -> Outcome {
    let bytes = memory::copy(host, data, size)?;
    let pairs = memory::deserialize(&bytes).ok_or(Status::BadArgument)?;
    let state = host.data_mut();
    if !state.is_own() || !map.is_open(state.entry) {
        return Err(Status::BadArgument.into());
    }
    if pairs.iter().any(|(name, value)| !is_value(value) || !(name.starts_with(b":") || is_name(name))) {
        return Err(Status::BadArgument.into());
    }
    let keeps = |name: &[u8]| is_framing(name) || name.eq_ignore_ascii_case(b"host");
    match map {
        Map::RequestHeaders => {
            current::request(|request| request.head.headers.retain(|name, _| keeps(name)));
        }
        Map::ResponseHeaders => {
            current::request(|request| request.response.headers.retain(|name, _| is_framing(name)));
        }
        Map::RequestTrailers => {
            if let Some(trailers) = &mut state.trailers {
                trailers.clear();
            }
        }
        Map::ResponseTrailers => {
            current::request(|request| request.response.trailers.clear());
        }
        Map::CallHeaders | Map::Empty => {}
    }
    for (name, value) in &pairs {
        let is_set = name.starts_with(b":") || name.eq_ignore_ascii_case(b"host");
        apply(state, map, name, value, if is_set { Change::Replace } else { Change::Add })?;
    }
    Ok(())
}

/// Fields of an answer that a module makes. `None`: one of them cannot be sent.
pub(super) fn head_of(pairs: &Pairs) -> Option<Head> {
    let mut head = Head::new();
    for (name, value) in pairs {
        if name.starts_with(b":") || is_framing(name) {
            continue;
        }
        if !is_name(name) || !is_value(value) {
            return None;
        }
        head.add(name, value);
    }
    Some(head)
}
