//! `ngx.req`, `ngx.var`, `ngx.arg` and what `ctx` holds about the request.

use bytes::Bytes;
use mlua::{Lua, LuaString, Table, Value};
use tidegate_plugin_api::{Request, RequestBody, memory};
use tidegate_protocol::{HeaderId, uri};

use super::{native::native_function, text, values};
use crate::{
    authentication::jwt_auth::JwtPayload,
    lua::{
        bounds, clock,
        current::{self, Phase},
    },
};

/// Arguments that one table holds unless a function asks for more, as in nginx-lua.
const DEFAULT_ARGUMENTS: i64 = 100;
const MAX_ARGUMENTS_BYTES: usize = 4 << 20;

/// Arguments between two looks at the clock.
const LOOK_EVERY: usize = 256;

pub(super) fn install(lua: &Lua, native: &Table) -> mlua::Result<()> {
    install_variables(lua, native)?;
    install_target(lua, native)?;
    install_body(lua, native)?;
    install_context(lua, native)
}

fn install_variables(lua: &Lua, native: &Table) -> mlua::Result<()> {
    native.set(
        "var_get",
        native_function(lua, |lua, name: Value| {
            let Some(name) = short_name(&name) else { return Ok(Value::Nil) };
            match current::read(|request| variable(request, &name))? {
                Some(value) => lua.create_string(value).map(Value::String),
                None => Ok(Value::Nil),
            }
        })?,
    )?;
    native.set(
        "var_set",
        native_function(lua, |_, (name, value): (LuaString, Value)| {
            let Some(name) = short_name(&Value::String(name)) else {
                return Err(mlua::Error::runtime("invalid variable name"));
            };
            let value = values::bytes(&value);
            current::write(name.len() + value.as_ref().map_or(0, Vec::len) + current::FIELD_BYTES)?;
            current::edit(|request| set_variable(request, &name, value))
        })?,
    )
}

fn short_name(name: &Value) -> Option<String> {
    let Value::String(name) = name else { return None };
    (name.as_bytes().len() <= current::MAX_NAME_BYTES).then(|| name.to_string_lossy())
}

/// `uri` is the path as rewritten so far; elsewhere, as in `vars` of a route, it stays the client's.
fn variable(request: &Request, name: &str) -> Option<Vec<u8>> {
    match (name, &request.edits.target) {
        ("uri", Some(target)) => target.split(|&byte| byte == b'?').next().map(<[u8]>::to_vec),
        _ => request.variable_by_name(name),
    }
}

/// Some of nginx's variables steer the proxy; the others are only remembered.
fn set_variable(request: &mut Request, name: &str, value: Option<Vec<u8>>) {
    match (name, value) {
        ("upstream_uri", value) => request.edits.target = value,
        ("upstream_host", value) => request.edits.host = value,
        ("args", value) => set_query(request, value.as_deref().unwrap_or_default()),
        (_, Some(value)) => request.set_variable(name, value),
        (_, None) => request.variables.retain(|(other, _)| **other != *name),
    }
}

fn set_query(request: &mut Request, query: &[u8]) {
    let mut target = request.head.raw_path().to_vec();
    if !query.is_empty() {
        target.push(b'?');
        push_visible(query, &mut target);
    }
    request.head.set_target(&target);
}

/// Spaces and controls would end the request line, and `#` the target.
fn push_visible(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        if byte <= 0x20 || byte == 0x7f || byte == b'#' {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        } else {
            out.push(byte);
        }
    }
}

fn set_path(request: &mut Request, path: &[u8]) {
    let mut target = Vec::with_capacity(path.len());
    if path.first() != Some(&b'/') {
        target.push(b'/');
    }
    // What is set to itself stays what it was: a slash that is still encoded does not become a text.
    match path == request.path {
        true => uri::encode_marked_path(&request.marked_path(), &mut target),
        false => uri::encode_path(path, &mut target),
    }
    if let Some(query) = request.head.query() {
        target.push(b'?');
        target.extend_from_slice(query);
    }
    request.head.set_target(&target);
    request.path = path.to_vec();
}

fn install_target(lua: &Lua, native: &Table) -> mlua::Result<()> {
    native.set(
        "method",
        native_function(lua, |lua, ()| {
            lua.create_string(current::read(|request| request.head.method.as_bytes().to_vec())?)
        })?,
    )?;
    native.set(
        "set_method",
        native_function(lua, |_, method: LuaString| {
            current::write(method.as_bytes().len())?;
            let method = tidegate_protocol::Method::of(&method.as_bytes());
            current::edit(|request| request.edits.method = Some(method))
        })?,
    )?;
    native.set(
        "uri_args",
        native_function(lua, |lua, most: Option<i64>| {
            let query = current::read(|request| request.head.query().unwrap_or_default().to_vec())?;
            arguments(lua, &query, most)
        })?,
    )?;
    native.set(
        "decode_args",
        native_function(lua, |lua, (text, most): (LuaString, Option<i64>)| {
            arguments(lua, &text.as_bytes(), most)
        })?,
    )?;
    native.set(
        "set_args",
        native_function(lua, |_, query: LuaString| {
            current::write(query.as_bytes().len())?;
            let query = query.as_bytes().to_vec();
            current::edit(|request| set_query(request, &query))
        })?,
    )?;
    native.set(
        "set_uri",
        native_function(lua, |_, path: LuaString| {
            current::write(path.as_bytes().len())?;
            let path = path.as_bytes().to_vec();
            if path.is_empty() || path.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
                return Err(mlua::Error::runtime("unsafe uri"));
            }
            current::edit(|request| set_path(request, &path))
        })?,
    )?;
    native.set(
        "http_version",
        native_function(lua, |_, ()| {
            let text = current::read(|request| request.head.version.as_str())?;
            Ok(text.rsplit('/').next().and_then(|number| number.parse::<f64>().ok()))
        })?,
    )?;
    native.set(
        "start_time",
        native_function(lua, |_, ()| {
            let ago = current::read(|request| request.started.elapsed().as_secs_f64())?;
            Ok(text::now() - ago)
        })?,
    )
}

/// A query or form as a table: repeated names become lists, names without `=` are `true`. At most `most`
/// of them, 100 by default, any number for 0; where there are more, `"truncated"` says so.
fn arguments(lua: &Lua, query: &[u8], most: Option<i64>) -> mlua::Result<(Table, Option<&'static str>)> {
    if query.len() > clock::scaled(MAX_ARGUMENTS_BYTES) {
        return Err(mlua::Error::runtime(format!("arguments of {} bytes are too long", query.len())));
    }
    let table = lua.create_table()?;
    let most = match usize::try_from(most.unwrap_or(DEFAULT_ARGUMENTS)) {
        Ok(most) if most > 0 => most,
        _ => usize::MAX,
    };
    for (at, (name, value)) in uri::query_pairs(query).enumerate() {
        if at == most {
            return Ok((table, Some("truncated")));
        }
        if at % LOOK_EVERY == 0 {
            clock::check_time()?;
        }
        let name = lua.create_string(uri::percent_decode(name, true))?;
        let value = match value {
            None => Value::Boolean(true),
            Some(value) => Value::String(lua.create_string(uri::percent_decode(value, true))?),
        };
        match table.raw_get::<Value>(&name)? {
            Value::Nil => table.raw_set(name, value)?,
            Value::Table(list) => list.push(value)?,
            first => table.raw_set(name, lua.create_sequence_from([first, value])?)?,
        }
    }
    Ok((table, None))
}

fn install_body(lua: &Lua, native: &Table) -> mlua::Result<()> {
    native.set(
        "body",
        native_function(lua, |lua, ()| {
            let body = current::read(|request| match &request.body {
                RequestBody::Collected(bytes) if !bytes.is_empty() => Some(bytes.clone()),
                _ => None,
            })?;
            bounds::given(|| body.map(|body| lua.create_string(&body)).transpose())
        })?,
    )?;
    native.set(
        "body_unread",
        native_function(lua, |_, ()| {
            let may_wait = current::call(|call| call.may_wait.get());
            Ok(may_wait && current::read(|request| matches!(request.body, RequestBody::Unread { .. }))?)
        })?,
    )?;
    native.set(
        "set_body",
        native_function(lua, |_, body: LuaString| {
            let body = body.as_bytes().to_vec();
            current::edit(|request| {
                // The one before it is given back first.
                request.body = RequestBody::Collected(Bytes::new());
                let body = memory::hold(body, request.remote_addr)
                    .map_err(|memory::Spent| mlua::Error::runtime("there is no memory left for bodies"))?;
                request.head.headers.set("Content-Length", body.len().to_string());
                request.head.headers.remove_known(HeaderId::TransferEncoding);
                request.body = RequestBody::Collected(body);
                Ok(())
            })?
        })?,
    )?;
    native.set(
        "chunk_get",
        native_function(lua, |lua, index: i64| match index {
            1 => match current::chunk(|chunk| chunk.data.clone()) {
                Some(data) => bounds::given(|| lua.create_string(data)).map(Value::String),
                None => Ok(Value::Nil),
            },
            2 => Ok(current::chunk(|chunk| chunk.last).map_or(Value::Nil, Value::Boolean)),
            _ => Ok(Value::Nil),
        })?,
    )?;
    native.set(
        "chunk_set",
        native_function(lua, |_, (index, value): (i64, Value)| {
            let mut data = Vec::new();
            match (index, &value) {
                (1, Value::Nil) => {}
                (1, value) => values::append(value, &mut data, 0)?,
                // Ending a body early is not offered: the upstream's framing stays.
                _ => return Ok(()),
            }
            hold_chunk(data.len())?;
            current::chunk(|chunk| chunk.data = data);
            Ok(())
        })?,
    )
}

/// What the chunks of an answer grow to: a client may take its time to read them.
struct HeldChunk(memory::Lease);

fn hold_chunk(bytes: usize) -> mlua::Result<()> {
    if bytes <= memory::UNCOUNTED {
        return Ok(());
    }
    current::edit(|request| {
        if request.extensions.get::<HeldChunk>().is_none() {
            request.extensions.insert(HeldChunk(memory::Lease::new(request.remote_addr)));
        }
        let Some(HeldChunk(lease)) = request.extensions.get_mut::<HeldChunk>() else { return Ok(()) };
        lease
            .grow_to(bytes)
            .map_err(|memory::Spent| mlua::Error::runtime("there is no memory left for bodies"))
    })?
}

/// What the router found, under the names of APISIX's router.
fn matched(request: &tidegate_plugin_api::Request) -> serde_json::Value {
    let text = |bytes: &[u8]| serde_json::Value::from(String::from_utf8_lossy(bytes));
    let matched = &request.matched;
    let mut fields = serde_json::Map::new();
    for (name, value) in &matched.parameters {
        fields.insert(name.to_string(), text(value));
    }
    if request.route.is_some() {
        fields.insert("_path".into(), text(matched.uri.as_bytes()));
        fields.insert("_method".into(), text(request.head.method.as_bytes()));
    }
    if !matched.host.is_empty() {
        fields.insert("_host".into(), text(matched.host.as_bytes()));
    }
    fields.into()
}

fn install_context(lua: &Lua, native: &Table) -> mlua::Result<()> {
    native.set(
        "context_get",
        native_function(lua, |lua, name: Value| {
            let Some(name) = short_name(&name) else { return Ok(Value::Nil) };
            match name.as_str() {
                "route_id" | "service_id" | "consumer_name" | "consumer_group_id" | "route_name"
                | "service_name" => match current::read(|request| request.variable_by_name(&name))? {
                    Some(value) => lua.create_string(value).map(Value::String),
                    None => Ok(Value::Nil),
                },
                "matched_route" => {
                    let route =
                        current::read(|request| request.route.as_ref().map(|route| route.document.value()))?;
                    wrapped(lua, route)
                }
                "curr_req_matched" => {
                    let matched = current::read(matched)?;
                    crate::lua::json::to_lua(lua, &matched)
                }
                "matched_upstream" => {
                    let upstream =
                        current::read(|request| request.upstream().map(|upstream| upstream.value()))?;
                    upstream.map_or(Ok(Value::Nil), |value| crate::lua::json::to_lua(lua, &value))
                }
                "jwt_auth_payload" => {
                    let payload = current::read(|request| {
                        request.extensions.get().map(|JwtPayload(verified)| verified.payload.clone())
                    })?;
                    payload.map_or(Ok(Value::Nil), |value| crate::lua::json::to_lua(lua, &value))
                }
                "consumer" => {
                    let consumer = current::read(|request| {
                        request.consumer.as_ref().map(|consumer| consumer.document.value())
                    })?;
                    consumer.map_or(Ok(Value::Nil), |value| crate::lua::json::to_lua(lua, &value))
                }
                _ => Ok(Value::Nil),
            }
        })?,
    )?;
    native.set(
        "has_response",
        native_function(lua, |_, ()| {
            let phase = current::call(|call| call.phase.get());
            Ok(phase.is_of_chunks() || phase == Phase::Log)
        })?,
    )
}

/// `{value = ...}`, as APISIX keeps resources.
fn wrapped(lua: &Lua, value: Option<std::sync::Arc<serde_json::Value>>) -> mlua::Result<Value> {
    let Some(value) = value else { return Ok(Value::Nil) };
    let table = lua.create_table()?;
    table.raw_set("value", crate::lua::json::to_lua(lua, &value)?)?;
    Ok(Value::Table(table))
}
