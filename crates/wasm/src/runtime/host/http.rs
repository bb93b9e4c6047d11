//! Calls to other services.

use bytes::Bytes;
use tidegate_telemetry::error_log::Level;
use wasmtime::Linker;

use super::{
    abi::{ENV, Host, Outcome, Status, code},
    log, memory,
};
use crate::runtime::{
    calls::{Dispatched, Wanted},
    current,
    state::{State, Wish},
};

/// Calls of one instance that are under way.
const MAX_CALLS: u32 = 1000;

pub(super) fn install(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap(
        ENV,
        "proxy_http_call",
        |mut host: Host<'_>,
         upstream: u32,
         upstream_size: u32,
         headers: u32,
         headers_size: u32,
         body: u32,
         body_size: u32,
         _: u32,
         _: u32,
         timeout: u32,
         to: u32| {
            code(call(
                &mut host,
                [upstream, upstream_size, headers, headers_size, body, body_size],
                timeout,
                to,
            ))
        },
    )?;
    linker.func_wrap(ENV, "proxy_get_status", |mut host: Host<'_>, status: u32, data: u32, size: u32| {
        let found = host.data().answer.as_ref().map_or(0, |answer| u32::from(answer.status));
        let written = memory::write_number(&mut host, status, found);
        code(written.and_then(|()| memory::give(&mut host, &[], data, size)))
    })?;
    Ok(())
}

fn call(host: &mut Host<'_>, places: [u32; 6], timeout_ms: u32, to: u32) -> Outcome {
    let [upstream, upstream_size, headers, headers_size, body, body_size] = places;
    let wanted = Wanted {
        upstream: memory::text(host, upstream, upstream_size)?,
        headers: memory::deserialize(memory::read(host, headers, headers_size)?)
            .ok_or(Status::BadArgument)?,
        body: Bytes::from(memory::copy(host, body, body_size)?),
        timeout_ms,
        client: current::request(|request| request.remote_addr),
    };
    let state = host.data_mut();
    if state.calls >= MAX_CALLS {
        log::write_line(
            host,
            Level::Error,
            format!("the limit of {MAX_CALLS} calls under way is reached").as_bytes(),
        );
        return Err(Status::InternalFailure.into());
    }
    state.next_call = state.next_call.wrapping_add(1).max(1);
    let (id, context) = (state.next_call, state.effective);
    let root = state.contexts.root(context).ok_or(Status::BadArgument)?;
    let dispatched = Dispatched::new(id, context, root, wanted).ok_or(Status::BadArgument)?;
    memory::write_number(host, to, id)?;
    let state = host.data_mut();
    if !state.is_trial {
        state.calls += 1;
        state.wishes.push(Wish::Call(Box::new(dispatched)));
    }
    Ok(())
}
