//! Properties of the request, the connection and the gateway.

use wasmtime::Linker;

use super::{
    abi::{ENV, Host, Outcome, Status, code},
    memory,
};
use crate::runtime::{contexts::OfStream, current, properties, state::State};

const MAX_BYTES: usize = 64 << 10;
/// Variables that one request's modules may set.
const MAX_VARIABLES: usize = 256;

pub(super) fn install(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap(
        ENV,
        "proxy_get_property",
        |mut host: Host<'_>, path: u32, path_size: u32, data: u32, size: u32| {
            code(get(&mut host, (path, path_size), (data, size)))
        },
    )?;
    linker.func_wrap(
        ENV,
        "proxy_set_property",
        |mut host: Host<'_>, path: u32, path_size: u32, value: u32, value_size: u32| {
            code(set(&mut host, (path, path_size), (value, value_size)))
        },
    )?;
    Ok(())
}

/// Parts of a path are separated by NUL; some SDKs put one behind the last.
fn path(host: &Host<'_>, place: (u32, u32)) -> Outcome<Vec<String>> {
    let text = memory::text(host, place.0, place.1)?;
    let text = text.strip_suffix('\0').unwrap_or(&text);
    Ok(text.split('\0').map(str::to_owned).collect())
}

fn get(host: &mut Host<'_>, place: (u32, u32), to: (u32, u32)) -> Outcome {
    let path = path(host, place)?;
    let parts: Vec<&str> = path.iter().map(String::as_str).collect();
    let state = host.data_mut();
    let value = match parts.as_slice() {
        ["plugin_name" | "plugin_root_id" | "plugin_vm_id"] => Some(state.plugin.as_bytes().to_vec()),
        parts if state.is_own() => current::request(|request| properties::get(request, parts)).flatten(),
        _ => None,
    };
    memory::give(host, &value.ok_or(Status::NotFound)?, to.0, to.1)
}

fn set(host: &mut Host<'_>, place: (u32, u32), value: (u32, u32)) -> Outcome {
    let path = path(host, place)?;
    let value = memory::copy(host, value.0, value.1)?;
    let [name] = path.as_slice() else { return Err(Status::NotFound.into()) };
    if name.len() > MAX_BYTES || value.len() > MAX_BYTES {
        return Err(Status::BadArgument.into());
    }
    let state = host.data_mut();
    let effective = state.effective;
    if let Some(wanted) = state.contexts.stream(effective).and_then(|stream| wanted(stream, name)) {
        *wanted = !value.is_empty();
        return Ok(());
    }
    if !state.is_own() {
        return Err(Status::NotFound.into());
    }
    let set = current::request(|request| {
        let is_new = !request.variables.iter().any(|(other, _)| **other == **name);
        if is_new && request.variables.len() >= MAX_VARIABLES {
            return Err(Status::BadArgument.into());
        }
        request.set_variable(name, value);
        Ok(())
    });
    set.unwrap_or_else(|| Err(Status::NotFound.into()))
}

/// By these properties a module asks for bodies, as in APISIX.
fn wanted<'a>(stream: &'a mut OfStream, name: &str) -> Option<&'a mut bool> {
    match name {
        "wasm_process_req_body" => Some(&mut stream.wants.request_body),
        "wasm_process_resp_body" => Some(&mut stream.wants.response_body),
        _ => None,
    }
}
