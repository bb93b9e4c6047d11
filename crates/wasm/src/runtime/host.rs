//! The functions that a module may call. Each answers a status of the interface, and ends the callback only where the module
//! cannot go on.

mod abi;
mod buffers;
mod fields;
mod http;
mod log;
mod memory;
mod property;
mod shared;
mod stream;
mod wasi;

use std::time::Duration;

use tidegate_model::nearest::nearest;
use wasmtime::{ExternType, Linker, Module, Store, Val};

use self::abi::{ENV, Status};
use super::{names::NOT_OFFERED, room::Room, state::State};

pub(super) use abi::Exit;
pub(super) use fields::count_of_call;

pub(super) fn install(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    log::install(linker)?;
    fields::install(linker)?;
    buffers::install(linker)?;
    stream::install(linker)?;
    http::install(linker)?;
    property::install(linker)?;
    shared::install(linker)?;
    wasi::install(linker)
}

/// `ENOSYS` of WASI.
const NOT_SUPPORTED: i32 = 52;

/// Functions of the interface and of WASI that are not offered answer so. Others are an error.
pub(super) fn install_absent(linker: &mut Linker<State>, module: &Module) -> Result<(), String> {
    let mut unknown = Vec::new();
    let mut store = Store::new(module.engine(), State::new("", Room::new(0, 0), Duration::ZERO));
    for import in module.imports() {
        let (space, name) = (import.module(), import.name());
        if linker.get_by_import(&mut store, &import).is_some() {
            continue;
        }
        let answer = match space {
            wasi::SPACE | wasi::OLD_SPACE => NOT_SUPPORTED,
            ENV if NOT_OFFERED.contains(&name) => Status::Unimplemented as i32,
            _ => {
                unknown.push(format!("{space}.{name}{}", hint(linker, &mut store, name)));
                continue;
            }
        };
        let ExternType::Func(kind) = import.ty() else {
            unknown.push(format!("{space}.{name}"));
            continue;
        };
        let defined = linker.func_new(space, name, kind, move |_, _, results| {
            results.iter_mut().for_each(|result| *result = Val::I32(answer));
            Ok(())
        });
        defined.map_err(|error| format!("{error:#}"))?;
    }
    match unknown.is_empty() {
        true => Ok(()),
        false => Err(format!("it imports what is not offered: {}", unknown.join(", "))),
    }
}

fn hint(linker: &Linker<State>, store: &mut Store<State>, name: &str) -> String {
    let offered: Vec<&str> =
        linker.iter(store).filter(|(space, ..)| *space == ENV).map(|(_, name, _)| name).collect();
    nearest(name, offered).map(|meant| format!(" (did you mean {meant}?)")).unwrap_or_default()
}
