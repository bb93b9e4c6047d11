//! What a module does with the request it is called for, and with its contexts.

use std::time::Duration;

use bytes::Bytes;
use tidegate_plugin_api::reply::FINAL_STATUSES;
use wasmtime::Linker;

use super::{
    abi::{ENV, Host, Outcome, Status, code},
    fields, memory,
};
use crate::runtime::{
    contexts::{Context, LocalReply},
    state::{State, Wish},
};

const REQUEST: u32 = 0;
const RESPONSE: u32 = 1;
const LAST_STREAM: u32 = 3;

/// The longest period of a timer.
const MOST_TICK: Duration = Duration::from_secs(30 * 24 * 3600);
/// The shortest.
const LEAST_TICK: Duration = Duration::from_millis(10);

pub(super) fn install(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap(ENV, "proxy_continue_stream", |mut host: Host<'_>, kind: u32| {
        code(resume(&mut host, kind))
    })?;
    linker
        .func_wrap(ENV, "proxy_close_stream", |mut host: Host<'_>, kind: u32| code(close(&mut host, kind)))?;
    // As older SDKs name them.
    linker.func_wrap(ENV, "proxy_continue_request", |mut host: Host<'_>| code(resume(&mut host, REQUEST)))?;
    linker
        .func_wrap(ENV, "proxy_continue_response", |mut host: Host<'_>| code(resume(&mut host, RESPONSE)))?;
    linker.func_wrap(
        ENV,
        "proxy_send_local_response",
        |mut host: Host<'_>,
         status: u32,
         _: u32,
         _: u32,
         body: u32,
         body_size: u32,
         headers: u32,
         headers_size: u32,
         grpc: u32| {
            code(reply(&mut host, status, (body, body_size), (headers, headers_size), grpc))
        },
    )?;
    linker.func_wrap(ENV, "proxy_set_effective_context", |mut host: Host<'_>, context: u32| {
        let state = host.data_mut();
        code(match state.contexts.get(context).is_some() {
            true => {
                state.effective = context;
                Ok(())
            }
            false => Err(Status::BadArgument.into()),
        })
    })?;
    linker.func_wrap(ENV, "proxy_done", |mut host: Host<'_>| code(done(&mut host)))?;
    linker.func_wrap(ENV, "proxy_set_tick_period_milliseconds", |mut host: Host<'_>, period: u32| {
        code(set_tick(&mut host, period))
    })?;
    Ok(())
}

fn resume(host: &mut Host<'_>, kind: u32) -> Outcome {
    if kind > LAST_STREAM {
        return Err(Status::BadArgument.into());
    }
    if kind > RESPONSE {
        return Err(Status::Unimplemented.into());
    }
    let state = host.data_mut();
    let effective = state.effective;
    let stream = state.contexts.stream(effective).ok_or(Status::BadArgument)?;
    stream.resumed = true;
    if let Some(wake) = &stream.wake {
        wake.notify_one();
    }
    Ok(())
}

fn close(host: &mut Host<'_>, kind: u32) -> Outcome {
    if kind > RESPONSE {
        return Err(Status::BadArgument.into());
    }
    let state = host.data_mut();
    let effective = state.effective;
    let stream = state.contexts.stream(effective).ok_or(Status::BadArgument)?;
    stream.closed = true;
    if let Some(wake) = &stream.wake {
        wake.notify_one();
    }
    Ok(())
}

fn reply(host: &mut Host<'_>, status: u32, body: (u32, u32), headers: (u32, u32), grpc: u32) -> Outcome {
    let status = u16::try_from(status).ok().filter(|status| FINAL_STATUSES.contains(status));
    let status = status.ok_or(Status::BadArgument)?;
    let body = Bytes::from(memory::copy(host, body.0, body.1)?);
    let pairs = memory::deserialize(memory::read(host, headers.0, headers.1)?).ok_or(Status::BadArgument)?;
    let mut headers = fields::head_of(&pairs).ok_or(Status::BadArgument)?;
    if let Some(grpc) = i32::try_from(grpc).ok().filter(|grpc| (1..=16).contains(grpc)) {
        headers.set("grpc-status", grpc.to_string());
    }
    let state = host.data_mut();
    let effective = state.effective;
    let stream = state.contexts.stream(effective).ok_or(Status::BadArgument)?;
    stream.reply = Some(Box::new(LocalReply { status, headers, body }));
    if let Some(wake) = &stream.wake {
        wake.notify_one();
    }
    Ok(())
}

fn done(host: &mut Host<'_>) -> Outcome {
    let state = host.data_mut();
    let effective = state.effective;
    match state.contexts.get(effective) {
        Some(Context::Stream(stream)) if stream.lingers => {
            stream.lingers = false;
            state.done.push(effective);
            Ok(())
        }
        _ => Err(Status::NotFound.into()),
    }
}

fn set_tick(host: &mut Host<'_>, period_ms: u32) -> Outcome {
    let state = host.data_mut();
    let effective = state.effective;
    let root = state.contexts.root(effective).ok_or(Status::BadArgument)?;
    let conf = state.contexts.conf(root).ok_or(Status::BadArgument)?;
    let period = Duration::from_millis(u64::from(period_ms)).clamp(LEAST_TICK, MOST_TICK);
    conf.tick = (period_ms > 0).then_some(period);
    conf.ticks_set += 1;
    state.wishes.push(Wish::Tick(root));
    Ok(())
}
