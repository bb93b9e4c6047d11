//! `ngx.header`, `ngx.resp`, `ngx.status` and the request's headers.

use mlua::{Lua, LuaString, Table, Value};
use tidegate_plugin_api::Request;
use tidegate_protocol::Head;

use tidegate_plugin_api::reply::FINAL_STATUSES;

use super::{native::native_function, values::bytes};
use crate::lua::current::{self, Phase};

/// Values of one header: `nil` none, a table several.
fn values(value: &Value) -> mlua::Result<Vec<Vec<u8>>> {
    match value {
        Value::Nil => Ok(Vec::new()),
        Value::Table(items) => {
            let (mut values, mut total) = (Vec::new(), 0);
            for item in items.sequence_values::<Value>() {
                let Some(value) = bytes(&item?) else { continue };
                // One text can be in a list any number of times.
                total += value.len() + current::FIELD_BYTES;
                if total > current::MAX_WRITTEN_BYTES {
                    return Err(mlua::Error::runtime("too many headers and variables"));
                }
                values.push(value);
            }
            Ok(values)
        }
        Value::LightUserData(_) => Ok(Vec::new()),
        other => bytes(other)
            .map(|value| vec![value])
            .ok_or_else(|| mlua::Error::runtime(format!("invalid header value: {}", other.type_name()))),
    }
}

/// Counts what is set.
fn write(name: &[u8], values: &[Vec<u8>]) -> mlua::Result<()> {
    current::write(values.iter().map(|value| name.len() + value.len() + current::FIELD_BYTES).sum())
}

fn checked_name(name: &LuaString) -> mlua::Result<Vec<u8>> {
    if name.as_bytes().len() > current::MAX_NAME_BYTES {
        return Err(mlua::Error::runtime("invalid header name"));
    }
    let name = name.as_bytes().to_vec();
    if name.is_empty() || !name.iter().all(|&byte| tidegate_protocol::fields::is_token_byte(byte)) {
        return Err(mlua::Error::runtime("invalid header name"));
    }
    Ok(name)
}

/// Response headers are written with `_` for `-`.
fn response_name(name: &LuaString) -> mlua::Result<Vec<u8>> {
    let mut name = checked_name(name)?;
    name.iter_mut().filter(|byte| **byte == b'_').for_each(|byte| *byte = b'-');
    Ok(name)
}

/// The fields of a table by their names. Other values have none.
pub(in crate::lua) fn response_fields(table: &Value) -> mlua::Result<Vec<(Vec<u8>, Vec<Vec<u8>>)>> {
    let Value::Table(table) = table else { return Ok(Vec::new()) };
    let (mut fields, mut total) = (Vec::new(), 0);
    for pair in table.pairs::<LuaString, Value>() {
        let (name, value) = pair?;
        let (name, values) = (response_name(&name)?, values(&value)?);
        total += values.iter().map(|value| name.len() + value.len() + current::FIELD_BYTES).sum::<usize>();
        if total > current::MAX_WRITTEN_BYTES {
            return Err(mlua::Error::runtime("too many headers and variables"));
        }
        fields.push((name, values));
    }
    Ok(fields)
}

fn assign(head: &mut Head, name: &[u8], values: &[Vec<u8>]) {
    match values.split_first() {
        None => {
            head.remove(name);
        }
        Some((first, rest)) => {
            head.set(name, first);
            rest.iter().for_each(|value| head.add(name, value));
        }
    }
}

/// Where response headers stand in this phase: before there is a response they wait for it.
fn response_headers(request: &mut Request, phase: Phase) -> &mut Head {
    if phase.has_response() { &mut request.response.headers } else { &mut request.early_headers }
}

fn phase() -> Phase {
    current::call(|call| call.phase.get())
}

/// One value as text, several as a list, none as nil.
fn found<'a>(lua: &Lua, values: impl Iterator<Item = &'a [u8]>) -> mlua::Result<Value> {
    let mut values = values.map(<[u8]>::to_vec);
    let Some(first) = values.next() else { return Ok(Value::Nil) };
    let first = Value::String(lua.create_string(&first)?);
    let Some(second) = values.next() else { return Ok(first) };
    let list = lua.create_table()?;
    list.push(first)?;
    for value in std::iter::once(second).chain(values) {
        list.push(lua.create_string(&value)?)?;
    }
    Ok(Value::Table(list))
}

/// All headers as a table; names in lower case, as nginx-lua gives a request's.
fn all(lua: &Lua, pairs: Vec<(Vec<u8>, Vec<u8>)>) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(0, pairs.len())?;
    for (name, value) in pairs {
        let name = lua.create_string(&name)?;
        let value = lua.create_string(&value)?;
        match table.raw_get::<Value>(&name)? {
            Value::Nil => table.raw_set(name, value)?,
            Value::Table(list) => list.push(value)?,
            first => table.raw_set(name, lua.create_sequence_from([first, Value::String(value)])?)?,
        }
    }
    Ok(table)
}

fn pairs(head: &Head) -> Vec<(Vec<u8>, Vec<u8>)> {
    head.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.to_vec())).collect()
}

pub(super) fn install(lua: &Lua, native: &Table) -> mlua::Result<()> {
    install_response(lua, native)?;
    install_request(lua, native)
}

fn install_response(lua: &Lua, native: &Table) -> mlua::Result<()> {
    native.set(
        "resp_get",
        native_function(lua, |lua, name: LuaString| {
            let Ok(name) = response_name(&name) else { return Ok(Value::Nil) };
            let name = String::from_utf8_lossy(&name);
            let values = current::edit(|request| {
                let head = response_headers(request, phase());
                head.get_all(&name).map(<[u8]>::to_vec).collect::<Vec<_>>()
            })?;
            found(lua, values.iter().map(Vec::as_slice))
        })?,
    )?;
    native.set(
        "resp_set",
        native_function(lua, |_, (name, value): (LuaString, Value)| {
            let name = response_name(&name)?;
            let mut values = values(&value)?;
            write(&name, &values)?;
            // As nginx does: an empty value removes the field.
            values.retain(|value| !value.is_empty());
            current::edit(|request| assign_response(request, &name, &values))
        })?,
    )?;
    native.set(
        "resp_add",
        native_function(lua, |_, (name, value): (LuaString, Value)| {
            let name = response_name(&name)?;
            let values = values(&value)?;
            write(&name, &values)?;
            current::edit(|request| {
                let head = response_headers(request, phase());
                values.iter().for_each(|value| head.add(&name, value));
            })
        })?,
    )?;
    native.set(
        "resp_all",
        native_function(lua, |lua, ()| {
            all(lua, current::edit(|request| pairs(response_headers(request, phase())))?)
        })?,
    )?;
    native.set(
        "body_modified",
        native_function(lua, |_, ()| current::edit(|request| request.response.body_modified()))?,
    )?;
    native.set("status_get", native_function(lua, |_, ()| status())?)?;
    native.set(
        "status_set",
        native_function(lua, |_, status: f64| {
            let status = status as u16;
            if !FINAL_STATUSES.contains(&status) {
                return Err(mlua::Error::runtime("invalid status"));
            }
            if phase() == Phase::HeaderFilter {
                return current::edit(|request| request.response.set_status(status));
            }
            current::call(|call| call.status.set(status));
            Ok(())
        })?,
    )
}

/// A script that removes the length means to change the body.
fn assign_response(request: &mut Request, name: &[u8], values: &[Vec<u8>]) {
    let phase = phase();
    if phase == Phase::HeaderFilter && name.eq_ignore_ascii_case(b"content-length") {
        request.response.length_modified();
        return;
    }
    assign(response_headers(request, phase), name, values);
    if values.is_empty() {
        request.response.withhold_trailer(&String::from_utf8_lossy(name));
    }
}

fn status() -> mlua::Result<u16> {
    let set = current::call(|call| call.status.get());
    if set != 0 { Ok(set) } else { current::read(|request| request.response.status) }
}

fn install_request(lua: &Lua, native: &Table) -> mlua::Result<()> {
    native.set(
        "req_header",
        native_function(lua, |lua, name: LuaString| {
            if name.as_bytes().len() > current::MAX_NAME_BYTES {
                return Ok(Value::Nil);
            }
            let name = String::from_utf8_lossy(&name.as_bytes()).into_owned();
            let values = current::read(|request| {
                let of =
                    |name: &str| request.head.headers.get_all(name).map(<[u8]>::to_vec).collect::<Vec<_>>();
                let values = of(&name);
                // `_` stands for `-`, unless there is a header that really has it.
                if values.is_empty() && name.contains('_') { of(&name.replace('_', "-")) } else { values }
            })?;
            found(lua, values.iter().map(Vec::as_slice))
        })?,
    )?;
    native.set(
        "req_headers",
        native_function(lua, |lua, ()| all(lua, current::read(|request| pairs(&request.head.headers))?))?,
    )?;
    native.set(
        "req_set_header",
        native_function(lua, |_, (name, value): (LuaString, Value)| {
            let name = checked_name(&name)?;
            let values = values(&value)?;
            write(&name, &values)?;
            current::edit(|request| {
                request.assert_header(&name, &values);
                if name.eq_ignore_ascii_case(b"host") {
                    request.edits.host = values.first().cloned();
                }
            })
        })?,
    )?;
    native.set(
        "req_add_header",
        native_function(lua, |_, (name, value): (LuaString, Value)| {
            let name = checked_name(&name)?;
            let values = values(&value)?;
            write(&name, &values)?;
            current::edit(|request| values.iter().for_each(|value| request.head.headers.add(&name, value)))
        })?,
    )
}
