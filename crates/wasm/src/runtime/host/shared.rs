//! Shared data, queues, metrics.

use wasmtime::Linker;

use super::{
    abi::{ENV, Host, Outcome, Status, code},
    memory,
};
use crate::runtime::{
    metrics,
    shared::{self, NotSet},
    state::{State, Wish},
};

const MAX_NAME_BYTES: u32 = 64 << 10;

pub(super) fn install(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    install_data(linker)?;
    install_queues(linker)?;
    install_metrics(linker)
}

fn install_data(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap(
        ENV,
        "proxy_get_shared_data",
        |mut host: Host<'_>, key: u32, key_size: u32, data: u32, size: u32, cas: u32| {
            code(get(&mut host, (key, key_size), (data, size), cas))
        },
    )?;
    linker.func_wrap(
        ENV,
        "proxy_set_shared_data",
        |host: Host<'_>, key: u32, key_size: u32, value: u32, value_size: u32, cas: u32| {
            code(set(&host, (key, key_size), (value, value_size), cas))
        },
    )?;
    Ok(())
}

fn name(host: &Host<'_>, place: (u32, u32)) -> Outcome<Vec<u8>> {
    match place.1 > MAX_NAME_BYTES {
        true => Err(Status::BadArgument.into()),
        false => memory::copy(host, place.0, place.1),
    }
}

fn get(host: &mut Host<'_>, key: (u32, u32), to: (u32, u32), cas: u32) -> Outcome {
    let key = name(host, key)?;
    let (value, change) = shared::get(host.data().plugin, &key).ok_or(Status::NotFound)?;
    memory::give(host, &value, to.0, to.1)?;
    memory::write_number(host, cas, change)
}

fn set(host: &Host<'_>, key: (u32, u32), value: (u32, u32), cas: u32) -> Outcome {
    let key = name(host, key)?;
    let value = memory::read(host, value.0, value.1)?;
    shared::set(host.data().plugin, &key, value, cas).map_err(|fault| {
        match fault {
            NotSet::Mismatch => Status::CasMismatch,
            NotSet::Full => Status::InternalFailure,
        }
        .into()
    })
}

fn install_queues(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap(
        ENV,
        "proxy_register_shared_queue",
        |mut host: Host<'_>, at: u32, size: u32, to: u32| code(register(&mut host, (at, size), to)),
    )?;
    linker.func_wrap(
        ENV,
        "proxy_resolve_shared_queue",
        |mut host: Host<'_>, vm: u32, vm_size: u32, at: u32, size: u32, to: u32| {
            code(resolve(&mut host, (vm, vm_size), (at, size), to))
        },
    )?;
    linker.func_wrap(
        ENV,
        "proxy_enqueue_shared_queue",
        |host: Host<'_>, queue: u32, at: u32, size: u32| code(enqueue(&host, queue, at, size)),
    )?;
    linker.func_wrap(
        ENV,
        "proxy_dequeue_shared_queue",
        |mut host: Host<'_>, queue: u32, data: u32, size: u32| code(dequeue(&mut host, queue, (data, size))),
    )?;
    Ok(())
}

fn register(host: &mut Host<'_>, place: (u32, u32), to: u32) -> Outcome {
    let name = name(host, place)?;
    let state = host.data_mut();
    let queue = shared::register(state.plugin, &name).map_err(|shared::Full| Status::InternalFailure)?;
    let effective = state.effective;
    if let Some(context) = state.contexts.root(effective) {
        state.wishes.push(Wish::Listen { context, queue });
    }
    memory::write_number(host, to, queue)
}

fn resolve(host: &mut Host<'_>, vm: (u32, u32), place: (u32, u32), to: u32) -> Outcome {
    let vm = String::from_utf8_lossy(&name(host, vm)?).into_owned();
    let name = name(host, place)?;
    let queue = shared::resolve(host.data().plugin, &vm, &name).ok_or(Status::NotFound)?;
    memory::write_number(host, to, queue)
}

fn enqueue(host: &Host<'_>, queue: u32, at: u32, size: u32) -> Outcome {
    let queue = shared::queue(queue).ok_or(Status::NotFound)?;
    let item = memory::read(host, at, size)?;
    queue.push(item).map_err(|shared::Full| Status::InternalFailure.into())
}

fn dequeue(host: &mut Host<'_>, queue: u32, to: (u32, u32)) -> Outcome {
    let queue = shared::queue(queue).ok_or(Status::NotFound)?;
    let item = queue.pop().ok_or(Status::Empty)?;
    memory::give(host, &item, to.0, to.1)
}

fn install_metrics(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap(
        ENV,
        "proxy_define_metric",
        |mut host: Host<'_>, kind: u32, at: u32, size: u32, to: u32| {
            code(define(&mut host, kind, (at, size), to))
        },
    )?;
    linker.func_wrap(ENV, "proxy_increment_metric", |_: Host<'_>, metric: u32, delta: i64| {
        code(answer(metrics::increment(metric, delta)))
    })?;
    linker.func_wrap(ENV, "proxy_record_metric", |_: Host<'_>, metric: u32, value: u64| {
        code(answer(metrics::record(metric, value)))
    })?;
    linker.func_wrap(ENV, "proxy_get_metric", |mut host: Host<'_>, metric: u32, to: u32| {
        let value = metrics::get(metric).ok_or(Status::NotFound);
        code(value.map_err(Into::into).and_then(|value| memory::write(&mut host, to, &value.to_le_bytes())))
    })?;
    Ok(())
}

fn answer(changed: Result<(), metrics::Fault>) -> Outcome {
    changed.map_err(|fault| {
        match fault {
            metrics::Fault::Unknown => Status::NotFound,
            metrics::Fault::Unfit => Status::BadArgument,
        }
        .into()
    })
}

fn define(host: &mut Host<'_>, kind: u32, place: (u32, u32), to: u32) -> Outcome {
    let kind = metrics::Sort::of(kind).ok_or(Status::BadArgument)?;
    let name = String::from_utf8_lossy(&name(host, place)?).into_owned();
    let defined = metrics::define(host.data().plugin, &name, kind);
    let metric = defined.ok_or(Status::InternalFailure)?;
    memory::write_number(host, to, metric)
}
