//! Encodings, digests and clocks of `ngx`.

use std::time::{Duration, SystemTime};

use aws_lc_rs::{digest, hmac};
use base64::{
    Engine,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};
use data_encoding::HEXLOWER;
use md5::{Digest, Md5};
use mlua::{Lua, LuaString, Table, Value};
use tidegate_model::random::random_fraction;
use tidegate_protocol::uri;
use tidegate_telemetry::clock::{HTTP_DATE, unix_ms, utc};

use super::{native::native_function, values::bytes};

use crate::{common::clock::cookie_time, lua::clock};

/// Seconds since 1970, with milliseconds as nginx keeps them.
pub(super) fn now() -> f64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    (since.as_secs_f64() * 1000.0).floor() / 1000.0
}

fn argument(value: &Value) -> mlua::Result<Vec<u8>> {
    match value {
        Value::Nil => Ok(Vec::new()),
        other => bytes(other)
            .ok_or_else(|| mlua::Error::runtime(format!("string expected, got {}", other.type_name()))),
    }
}

/// Texts that one call turns into others: some ten milliseconds of work.
const MAX_TEXT_BYTES: usize = 8 << 20;
/// Escaping takes longer, and no URI is that long.
const MAX_URI_BYTES: usize = 4 << 20;
/// Bytes of a digest between two looks at the clock.
const DIGESTED_PER_LOOK: usize = 1 << 20;

fn at_most(most: usize, text: &[u8]) -> mlua::Result<&[u8]> {
    let most = clock::scaled(most);
    if text.len() > most {
        return Err(mlua::Error::runtime(format!(
            "text of {} bytes is too long, at most {most}",
            text.len()
        )));
    }
    Ok(text)
}

/// A function from bytes to bytes.
fn mapping(
    lua: &Lua,
    native: &Table,
    name: &str,
    most: usize,
    map: fn(&[u8]) -> Vec<u8>,
) -> mlua::Result<()> {
    let function = native_function(lua, move |lua, value: Value| {
        lua.create_string(map(at_most(most, &argument(&value)?)?))
    })?;
    native.set(name, function)
}

/// As [`mapping`], `nil` when it cannot be done.
fn decoding(lua: &Lua, native: &Table, name: &str, map: fn(&[u8]) -> Option<Vec<u8>>) -> mlua::Result<()> {
    let function = native_function(lua, move |lua, value: Value| {
        map(at_most(MAX_TEXT_BYTES, &argument(&value)?)?)
            .map(|decoded| lua.create_string(decoded))
            .transpose()
    })?;
    native.set(name, function)
}

/// Feeds a digest, under the clock.
fn digested(data: &[u8], mut update: impl FnMut(&[u8])) -> mlua::Result<()> {
    data.chunks(DIGESTED_PER_LOOK).try_for_each(|part| {
        clock::check_time()?;
        update(part);
        Ok(())
    })
}

fn md5(data: &[u8]) -> mlua::Result<Vec<u8>> {
    let mut digest = Md5::new();
    digested(data, |part| digest.update(part))?;
    Ok(digest.finalize().to_vec())
}

fn sha1(data: &[u8]) -> mlua::Result<Vec<u8>> {
    let mut context = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    digested(data, |part| context.update(part))?;
    Ok(context.finish().as_ref().to_vec())
}

fn hmac_sha1(key: &[u8], data: &[u8]) -> mlua::Result<Vec<u8>> {
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, at_most(MAX_TEXT_BYTES, key)?);
    let mut context = hmac::Context::with_key(&key);
    digested(data, |part| context.update(part))?;
    Ok(context.sign().as_ref().to_vec())
}

pub(super) fn install(lua: &Lua, native: &Table) -> mlua::Result<()> {
    mapping(lua, native, "encode_base64", MAX_TEXT_BYTES, |data| STANDARD.encode(data).into_bytes())?;
    mapping(lua, native, "encode_base64_bare", MAX_TEXT_BYTES, |data| {
        STANDARD_NO_PAD.encode(data).into_bytes()
    })?;
    mapping(lua, native, "encode_base64url", MAX_TEXT_BYTES, |data| {
        URL_SAFE_NO_PAD.encode(data).into_bytes()
    })?;
    decoding(lua, native, "decode_base64", |text| {
        STANDARD.decode(text).or_else(|_| STANDARD_NO_PAD.decode(text)).ok()
    })?;
    decoding(lua, native, "decode_base64url", |text| URL_SAFE_NO_PAD.decode(text).ok())?;
    native.set(
        "md5",
        native_function(lua, |lua, data: Value| {
            lua.create_string(HEXLOWER.encode(&md5(&argument(&data)?)?))
        })?,
    )?;
    native.set(
        "md5_bin",
        native_function(lua, |lua, data: Value| lua.create_string(md5(&argument(&data)?)?))?,
    )?;
    native.set(
        "sha1_bin",
        native_function(lua, |lua, data: Value| lua.create_string(sha1(&argument(&data)?)?))?,
    )?;
    mapping(lua, native, "escape_uri", MAX_URI_BYTES, |text| {
        let mut out = Vec::with_capacity(text.len());
        uri::encode_component(text, &mut out);
        out
    })?;
    mapping(lua, native, "unescape_uri", MAX_URI_BYTES, |text| uri::percent_decode(text, true))?;
    native.set(
        "hmac_sha1",
        native_function(lua, |lua, (key, text): (LuaString, LuaString)| {
            lua.create_string(hmac_sha1(&key.as_bytes(), &text.as_bytes())?)
        })?,
    )?;
    native.set("now", native_function(lua, |_, ()| Ok(now()))?)?;
    native.set("localtime", native_function(lua, |_, ()| Ok(utc(unix_ms(), "%Y-%m-%d %H:%M:%S")))?)?;
    native.set("cookie_time", native_function(lua, |_, seconds: f64| Ok(cookie_time(seconds as i64)))?)?;
    native.set(
        "http_time",
        native_function(lua, |_, seconds: f64| Ok(utc(milliseconds(seconds), HTTP_DATE)))?,
    )?;
    native.set("random", native_function(lua, |_, ()| Ok(random_fraction()))?)?;
    native.set(
        "hostname",
        native_function(lua, |_, ()| {
            Ok(tidegate_plugin_api::host()
                .map_or_else(|| "localhost".to_owned(), |host| host.hostname.clone()))
        })?,
    )?;
    native.set(
        "worker_id",
        native_function(lua, |_, ()| Ok(crate::lua::current::read(|request| request.worker).unwrap_or(0)))?,
    )
}

/// Of the end of Lua's numbers the calendar has none.
fn milliseconds(seconds: f64) -> i64 {
    (seconds.trunc() * 1000.0) as i64
}
