//! The request's way through a plugin: head, body, trailers, and the answers to calls that it waits for.

use std::{rc::Rc, sync::Arc};

use smallvec::SmallVec;
use tidegate_plugin_api::{BodyChunk, BodyReader, Reply, Request, RequestBody, Step, Verdict};
use tidegate_protocol::Head;
use tidegate_telemetry::error_log::{self, Level};

use super::{
    hosted::Hosted,
    instance::Conf,
    pool,
    state::Entry,
    stream::{Action, Stream},
    wasm::Wasm,
};

/// Request bodies that modules may look at.
const MAX_BODY_BYTES: usize = 64 << 20;

/// The streams of a request, by the configuration that each belongs to.
#[derive(Default)]
pub(super) struct Streams {
    under_way: SmallVec<[(u64, Box<Stream>); 1]>,
    /// Configurations whose callbacks have failed: nothing more of them runs for this request.
    refused: Vec<u64>,
}

impl Streams {
    pub(super) fn take(request: &mut Request, serial: u64) -> Option<Box<Stream>> {
        let streams = &mut request.extensions.get_mut::<Streams>()?.under_way;
        let at = streams.iter().position(|(other, _)| *other == serial)?;
        Some(streams.swap_remove(at).1)
    }

    pub(super) fn put(request: &mut Request, serial: u64, stream: Box<Stream>) {
        request.extensions.get_or_insert_with(Streams::default).under_way.push((serial, stream));
    }

    pub(super) fn get(request: &Request, serial: u64) -> Option<&Stream> {
        let streams = &request.extensions.get::<Streams>()?.under_way;
        streams.iter().find(|(other, _)| *other == serial).map(|(_, stream)| &**stream)
    }

    fn refuse(request: &mut Request, serial: u64) {
        request.extensions.get_or_insert_with(Streams::default).refused.push(serial);
    }

    pub(super) fn is_refused(request: &Request, serial: u64) -> bool {
        request.extensions.get::<Streams>().is_some_and(|streams| streams.refused.contains(&serial))
    }
}

/// Runs the callbacks of a request. Few of them wait.
pub(super) fn run<'a>(plugin: &'static Wasm, conf: &'a Arc<Conf>, request: &'a mut Request) -> Step<'a> {
    let pool = pool::of(plugin);
    let Some(hosted) = pool.pick(conf) else {
        return Step::ask(async move {
            let hosted =
                pool.wait(conf).await.map_err(|reason| without_context(plugin, conf, request, &reason))?;
            let begun = begin(plugin, conf, request, hosted)?;
            finish_phase(plugin, conf, request, begun).await
        });
    };
    match begin(plugin, conf, request, hosted) {
        Err(reply) => Step::Reply(reply),
        Ok(begun) if begun.is_done() => {
            Streams::put(request, conf.serial, begun.stream);
            Step::Next
        }
        Ok(begun) => Step::ask(finish_phase(plugin, conf, request, begun)),
    }
}

/// A request whose head was seen.
struct Begun {
    stream: Box<Stream>,
    action: Action,
    wants_body: bool,
}

impl Begun {
    fn is_done(&self) -> bool {
        self.action == Action::Continue && !self.wants_body && !self.stream.waits_for_calls()
    }
}

fn failed(plugin: &Wasm, reason: &str) -> Box<Reply> {
    error_log::log(Level::Error, format_args!("{}: failed to run wasm plugin: {reason}", plugin.name));
    Box::new(Reply::page(503))
}

/// Refuses a request for which none of the module's callbacks runs any more.
fn without_context(plugin: &Wasm, conf: &Conf, request: &mut Request, reason: &str) -> Box<Reply> {
    Streams::refuse(request, conf.serial);
    error_log::log(Level::Error, format_args!("{}: failed to fetch wasm plugin ctx: {reason}", plugin.name));
    Box::new(Reply::page(503))
}

fn begin(
    plugin: &'static Wasm,
    conf: &Arc<Conf>,
    request: &mut Request,
    hosted: Rc<Hosted>,
) -> Result<Begun, Box<Reply>> {
    let context = {
        let mut instance = hosted.instance.borrow_mut();
        let context =
            instance.context_of(conf).map_err(|reason| without_context(plugin, conf, request, &reason))?;
        instance.begin_stream(context)
    };
    let id = context.map_err(|reason| {
        Streams::refuse(request, conf.serial);
        failed(plugin, &reason)
    })?;
    let mut stream = Box::new(Stream::new(hosted, id));
    let fields = request.head.headers.len() as u32 + 4;
    let is_last = u32::from(request.body.is_empty());
    let action = stream
        .run(request, Entry::RequestHeaders, |store, exports| match &exports.request_headers {
            Some(headers) => headers.call(store, (id, fields, is_last)).map(Action::of),
            None => Ok(Action::Continue),
        })
        .map_err(|reason| {
            Streams::refuse(request, conf.serial);
            failed(plugin, &reason)
        })?;
    if let Some(reply) = stream.take_reply() {
        Streams::put(request, conf.serial, stream);
        return Err(reply.into_reply());
    }
    let wants_body = plugin.has.request_body
        && (stream.wants().request_body || plugin.process_bodies && !request.body.is_empty());
    Ok(Begun { stream, action, wants_body })
}

async fn finish_phase(
    plugin: &'static Wasm,
    conf: &Arc<Conf>,
    request: &mut Request,
    begun: Begun,
) -> Verdict {
    let Begun { mut stream, action, wants_body } = begun;
    let verdict = callbacks(plugin, request, &mut stream, action, wants_body).await;
    match stream.is_lost() {
        true => Streams::refuse(request, conf.serial),
        false => Streams::put(request, conf.serial, stream),
    }
    verdict
}

async fn callbacks(
    plugin: &'static Wasm,
    request: &mut Request,
    stream: &mut Stream,
    mut action: Action,
    wants_body: bool,
) -> Verdict {
    await_calls(plugin, request, stream, Entry::RequestHeaders).await?;
    if wants_body {
        let reader = match &request.body {
            RequestBody::Unread { reader, .. } => Some(reader.clone()),
            _ => None,
        };
        let length = request.collect_body(MAX_BODY_BYTES).await?.len() as u32;
        let trailers =
            reader.as_ref().map(|reader| trailers_of(reader.as_ref())).filter(|head| !head.is_empty());
        let has_trailers = trailers.is_some() && plugin.has.request_trailers;
        if length > 0 || stream.wants().request_body {
            stream.begin_turn();
            let id = stream.id;
            action = stream
                .run(request, Entry::RequestBody, |store, exports| match &exports.request_body {
                    Some(body) => body.call(store, (id, length, u32::from(!has_trailers))).map(Action::of),
                    None => Ok(Action::Continue),
                })
                .map_err(|reason| failed(plugin, &reason))?;
            await_calls(plugin, request, stream, Entry::RequestBody).await?;
        }
        if let Some((reader, trailers)) = reader.zip(trailers).filter(|_| has_trailers) {
            stream.begin_turn();
            action = run_trailers(plugin, request, stream, trailers, reader.as_ref())?;
            await_calls(plugin, request, stream, Entry::RequestTrailers).await?;
        }
    }
    while action == Action::Pause && !stream.is_resumed() {
        if !stream.wake().await {
            return Err(failed(plugin, "the request was paused, and nothing resumed it"));
        }
        await_calls(plugin, request, stream, Entry::RequestHeaders).await?;
    }
    Ok(())
}

fn trailers_of(reader: &dyn BodyReader) -> Head {
    let mut all = Head::new();
    reader.visit_trailers(&mut |trailers| all = trailers.clone());
    all
}

fn run_trailers(
    plugin: &'static Wasm,
    request: &mut Request,
    stream: &mut Stream,
    trailers: Head,
    reader: &dyn BodyReader,
) -> Result<Action, Box<Reply>> {
    let (id, count) = (stream.id, trailers.len() as u32);
    let action = stream
        .run(request, Entry::RequestTrailers, |store, exports| {
            store.data_mut().trailers = Some(trailers);
            match &exports.request_trailers {
                Some(callback) => callback.call(store, (id, count)).map(Action::of),
                None => Ok(Action::Continue),
            }
        })
        .map_err(|reason| failed(plugin, &reason))?;
    let changed = stream.hosted.instance.borrow_mut().store.data_mut().trailers.take();
    if let Some(changed) = changed {
        reader.visit_trailers(&mut |trailers| *trailers = changed.clone());
    }
    Ok(action)
}

/// Waits for calls, as APISIX does whatever the callback answered: what a service decides comes before the upstream. Ends the
/// request where the module said so.
async fn await_calls(
    plugin: &'static Wasm,
    request: &mut Request,
    stream: &mut Stream,
    entry: Entry,
) -> Verdict {
    loop {
        if let Some(reply) = stream.take_reply() {
            return Err(reply.into_reply());
        }
        if stream.is_lost() {
            return Err(failed(plugin, "its instance failed at another request"));
        }
        if stream.is_closed() {
            return Err(failed(plugin, "it has closed the request"));
        }
        if !stream.waits_for_calls() {
            return Ok(());
        }
        let mut no_response = BodyChunk::default();
        stream.answer(request, &mut no_response, entry).await.map_err(|reason| failed(plugin, &reason))?;
    }
}
