//! The response's way through a plugin: head, pieces of the body, trailers.
//!
//! A response whose callback pauses is held, head and body, until its calls are answered and the module resumes it. It goes on when
//! its last piece has come. What cannot be looked at never reaches the client.

use std::sync::Arc;

use bytes::Bytes;
use tidegate_plugin_api::{
    BodyChunk, Passage, Request, Source,
    memory::{self, Lease},
};
use tidegate_protocol::{HeaderId, Method};
use tidegate_telemetry::error_log::{self, Level};

use super::{
    contexts::LocalReply,
    held::Held,
    instance::Conf,
    pool,
    request::Streams,
    state::Entry,
    stream::{Action, Stream},
    wasm::Wasm,
};

/// Bodies that are held.
const MAX_HELD_BYTES: usize = 64 << 20;
/// The most that a callback gets at once, unless it holds more.
const BODY_STEP: usize = 256 << 10;

fn failed(plugin: &Wasm, reason: &str) {
    error_log::log(Level::Error, format_args!("{}: failed to run wasm plugin: {reason}", plugin.name));
}

pub(super) fn head(plugin: &'static Wasm, conf: &Arc<Conf>, request: &mut Request) {
    let Some(mut stream) = Streams::take(request, conf.serial).or_else(|| late(plugin, conf, request)) else {
        return;
    };
    if !stream.held.is_refused {
        stream.held = Held::default();
        if let Err(reason) = run_head(plugin, request, &mut stream) {
            failed(plugin, &reason);
            stream.held.is_refused = true;
            request.response.refuse(503);
        }
    }
    Streams::put(request, conf.serial, stream);
}

/// A request that was answered before the plugin's turn. What came from an upstream does not pass without it; where it failed at
/// the request, the refusal does.
fn late(plugin: &'static Wasm, conf: &Arc<Conf>, request: &mut Request) -> Option<Box<Stream>> {
    if Streams::is_refused(request, conf.serial) {
        return None;
    }
    let begun =
        pool::of(plugin).any().ok_or_else(|| "no instance is there yet".to_owned()).and_then(|hosted| {
            let mut instance = hosted.instance.borrow_mut();
            let context = instance.context_of(conf)?;
            let id = instance.begin_stream(context)?;
            drop(instance);
            Ok(Box::new(Stream::new(hosted, id)))
        });
    match begun {
        Ok(stream) => Some(stream),
        Err(reason) => {
            if request.response.source == Source::Upstream {
                failed(plugin, &reason);
                request.response.refuse(503);
            }
            None
        }
    }
}

fn has_no_body(request: &Request) -> bool {
    request.head.method == Method::Head || matches!(request.response.status, 204 | 304)
}

fn run_head(plugin: &'static Wasm, request: &mut Request, stream: &mut Stream) -> Result<(), String> {
    let (id, fields) = (stream.id, request.response.headers.len() as u32 + 1);
    let is_empty = request.response.headers.known(HeaderId::ContentLength) == Some(b"0".as_slice());
    let is_last = u32::from(is_empty || has_no_body(request));
    stream.begin_turn();
    let action =
        stream.run(request, Entry::ResponseHeaders, |store, exports| match &exports.response_headers {
            Some(headers) => headers.call(store, (id, fields, is_last)).map(Action::of),
            None => Ok(Action::Continue),
        })?;
    if let Some(reply) = stream.take_reply() {
        replace(request, stream, *reply);
        return Ok(());
    }
    if stream.is_closed() {
        return Err("it has closed the response".to_owned());
    }
    stream.held.has_bodies = (plugin.has.response_body || plugin.has.response_trailers)
        && (plugin.process_bodies || stream.wants().response_body);
    stream.held.is_paused = action == Action::Pause && !stream.is_resumed();
    if stream.held.is_paused && has_no_body(request) {
        return Err("it pauses a response that has no body, and nothing would resume it".to_owned());
    }
    if stream.held.is_paused {
        stream.held.holds_head = true;
        request.response.head_waits = true;
    }
    if stream.held.is_paused || stream.held.has_bodies {
        request.response.length_modified();
        request.response.limit_body_step(BODY_STEP);
    }
    Ok(())
}

/// Another answer takes the place of this one, whose head is not out.
fn replace(request: &mut Request, stream: &mut Stream, reply: LocalReply) {
    let response = &mut request.response;
    response.set_status(reply.status);
    response.headers = reply.headers;
    if response.headers.known(HeaderId::ContentType).is_none() && !reply.body.is_empty() {
        response.headers.set("Content-Type", "text/plain; charset=utf-8");
    }
    response.body_modified();
    response.withhold_trailers();
    stream.held.local = Some(reply.body);
}

/// Whether the body is looked at, or replaced.
pub(super) fn takes_body(conf: &Conf, request: &Request) -> bool {
    Streams::get(request, conf.serial).is_some_and(|stream| stream.held.takes_body())
}

pub(super) fn piece(plugin: &'static Wasm, conf: &Arc<Conf>, request: &mut Request, chunk: &mut BodyChunk) {
    let Some(mut stream) = Streams::take(request, conf.serial) else { return };
    if stream.held.is_refused {
        // The page of the refusal.
    } else if let Some(local) = &mut stream.held.local {
        chunk.data = if chunk.last { Vec::from(std::mem::take(local)) } else { Vec::new() };
    } else if (stream.held.has_bodies || stream.held.is_paused)
        && let Err(refusal) = run_piece(plugin, request, &mut stream, chunk)
    {
        failed(plugin, &refusal.reason);
        stream.held.is_refused = true;
        chunk.data.clear();
        chunk.passage = Passage::Refused(refusal.status);
    }
    Streams::put(request, conf.serial, stream);
}

struct Refusal {
    status: u16,
    reason: String,
}

impl From<String> for Refusal {
    fn from(reason: String) -> Refusal {
        Refusal { status: 503, reason }
    }
}

fn run_piece(
    plugin: &'static Wasm,
    request: &mut Request,
    stream: &mut Stream,
    chunk: &mut BodyChunk,
) -> Result<(), Refusal> {
    if !stream.held.bytes.is_empty() {
        let mut all = std::mem::take(&mut stream.held.bytes);
        all.append(&mut chunk.data);
        chunk.data = all;
    }
    if stream.held.has_bodies {
        run_callbacks(plugin, request, stream, chunk)?;
    }
    if let Some(reply) = stream.take_reply() {
        if !stream.held.holds_head {
            return Err(format!(
                "an answer with status {} comes behind the head of the response",
                reply.status
            )
            .into());
        }
        replace(request, stream, *reply);
        let local = stream.held.local.as_mut().filter(|_| chunk.last);
        chunk.data = local.map(std::mem::take).map(Vec::from).unwrap_or_default();
        return Ok(());
    }
    if stream.is_closed() {
        return Err("it has closed the response".to_owned().into());
    }
    if stream.held.is_paused && !stream.is_resumed() {
        hold(request, stream, chunk)?;
        if chunk.last {
            chunk.passage = Passage::Waits;
        }
    }
    Ok(())
}

fn run_callbacks(
    plugin: &'static Wasm,
    request: &mut Request,
    stream: &mut Stream,
    chunk: &mut BodyChunk,
) -> Result<(), String> {
    let (id, is_last) = (stream.id, chunk.last);
    let trailers = if is_last { request.response.trailers.len() as u32 } else { 0 };
    let has_trailers = trailers > 0 && plugin.has.response_trailers;
    if plugin.has.response_body && (is_last || !chunk.data.is_empty()) {
        stream.begin_turn();
        let length = chunk.data.len() as u32;
        let action =
            stream.run_on_chunk(request, chunk, Entry::ResponseBody, |store, exports| {
                match &exports.response_body {
                    Some(body) => {
                        body.call(store, (id, length, u32::from(is_last && !has_trailers))).map(Action::of)
                    }
                    None => Ok(Action::Continue),
                }
            })?;
        stream.held.is_paused = action == Action::Pause;
    }
    if has_trailers {
        stream.begin_turn();
        let action =
            stream.run_on_chunk(request, chunk, Entry::ResponseTrailers, |store, exports| match &exports
                .response_trailers
            {
                Some(callback) => callback.call(store, (id, trailers)).map(Action::of),
                None => Ok(Action::Continue),
            })?;
        stream.held.is_paused = action == Action::Pause;
    }
    Ok(())
}

/// Keeps what has come so far, in memory that is counted.
fn hold(request: &Request, stream: &mut Stream, chunk: &mut BodyChunk) -> Result<(), Refusal> {
    let bytes = std::mem::take(&mut chunk.data);
    if bytes.len() > MAX_HELD_BYTES {
        let reason = format!("a paused response has more than {MAX_HELD_BYTES} bytes");
        return Err(Refusal { status: 502, reason });
    }
    if bytes.capacity() > memory::UNCOUNTED {
        let lease = stream.held.lease.get_or_insert_with(|| Lease::new(request.remote_addr));
        if lease.grow_to(bytes.capacity()).is_err() {
            return Err("out of memory for bodies".to_owned().into());
        }
    }
    stream.held.bytes = bytes;
    Ok(())
}

/// Waits until a response that is here as a whole is resumed.
pub(super) async fn whole(
    plugin: &'static Wasm,
    conf: &Arc<Conf>,
    request: &mut Request,
) -> Result<Bytes, u16> {
    let Some(mut stream) = Streams::take(request, conf.serial) else { return Err(503) };
    let waited = wait(request, &mut stream).await;
    if let Err(reason) = &waited {
        failed(plugin, reason);
        stream.held.is_refused = true;
    }
    Streams::put(request, conf.serial, stream);
    waited.map_err(|_| 503)
}

async fn wait(request: &mut Request, stream: &mut Stream) -> Result<Bytes, String> {
    loop {
        if let Some(reply) = stream.take_reply() {
            if !stream.held.holds_head {
                return Err("an answer comes behind the head of the response".to_owned());
            }
            replace(request, stream, *reply);
            return Ok(stream.held.local.take().unwrap_or_default());
        }
        if stream.is_lost() {
            return Err("its instance failed at another request".to_owned());
        }
        if stream.is_closed() {
            return Err("it has closed the response".to_owned());
        }
        if stream.is_resumed() {
            let bytes = std::mem::take(&mut stream.held.bytes);
            stream.held.lease = None;
            return memory::hold(bytes, request.remote_addr)
                .map_err(|memory::Spent| "out of memory for bodies".to_owned());
        }
        if stream.waits_for_calls() {
            let mut chunk = BodyChunk::new(std::mem::take(&mut stream.held.bytes), true);
            let answered = stream.answer(request, &mut chunk, Entry::ResponsePaused).await;
            stream.held.bytes = std::mem::take(&mut chunk.data);
            answered?;
        } else if !stream.wake().await {
            return Err("the response was paused, and nothing resumed it".to_owned());
        }
    }
}

pub(super) fn log(conf: &Arc<Conf>, request: &mut Request) {
    if let Some(mut stream) = Streams::take(request, conf.serial) {
        stream.end(Some(request));
    }
}
