//! Encodings, digests and clocks of `ngx`.

use std::time::{Duration, SystemTime};

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};
use md5::{Digest, Md5};
use mlua::{Lua, LuaString, Table, Value};
use wire::uri;

use super::bytes;
use crate::common::hex;

/// Seconds since 1970, with milliseconds as nginx keeps them.
pub fn now() -> f64 {
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

/// A function from bytes to bytes.
fn mapping(lua: &Lua, native: &Table, name: &str, map: fn(&[u8]) -> Vec<u8>) -> mlua::Result<()> {
    let function =
        lua.create_function(move |lua, value: Value| lua.create_string(map(&argument(&value)?)))?;
    native.set(name, function)
}

/// As [`mapping`], `nil` when it cannot be done.
fn decoding(lua: &Lua, native: &Table, name: &str, map: fn(&[u8]) -> Option<Vec<u8>>) -> mlua::Result<()> {
    let function = lua.create_function(move |lua, value: Value| {
        map(&argument(&value)?).map(|decoded| lua.create_string(decoded)).transpose()
    })?;
    native.set(name, function)
}

pub fn install(lua: &Lua, native: &Table) -> mlua::Result<()> {
    mapping(lua, native, "encode_base64", |data| STANDARD.encode(data).into_bytes())?;
    mapping(lua, native, "encode_base64_bare", |data| STANDARD_NO_PAD.encode(data).into_bytes())?;
    mapping(lua, native, "encode_base64url", |data| URL_SAFE_NO_PAD.encode(data).into_bytes())?;
    decoding(lua, native, "decode_base64", |text| {
        STANDARD.decode(text).or_else(|_| STANDARD_NO_PAD.decode(text)).ok()
    })?;
    decoding(lua, native, "decode_base64url", |text| URL_SAFE_NO_PAD.decode(text).ok())?;
    mapping(lua, native, "md5", |data| hex::lower(&Md5::digest(data)).into_bytes())?;
    mapping(lua, native, "md5_bin", |data| Md5::digest(data).to_vec())?;
    mapping(lua, native, "sha1_bin", |data| {
        use aws_lc_rs::digest;
        digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, data).as_ref().to_vec()
    })?;
    mapping(lua, native, "escape_uri", |text| {
        let mut out = Vec::with_capacity(text.len());
        uri::encode_component(text, &mut out);
        out
    })?;
    mapping(lua, native, "unescape_uri", |text| uri::percent_decode(text, true))?;
    native.set(
        "hmac_sha1",
        lua.create_function(|lua, (key, text): (LuaString, LuaString)| {
            use aws_lc_rs::hmac;
            let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &key.as_bytes());
            lua.create_string(hmac::sign(&key, &text.as_bytes()))
        })?,
    )?;
    native.set("now", lua.create_function(|_, ()| Ok(now()))?)?;
    native.set("localtime", lua.create_function(|_, ()| Ok(local_time(now())))?)?;
    native.set("cookie_time", lua.create_function(|_, seconds: f64| Ok(cookie_time(seconds)))?)?;
    native.set("http_time", lua.create_function(|_, seconds: f64| Ok(http_time(seconds)))?)?;
    native.set(
        "random",
        lua.create_function(|_, ()| Ok((plugin::request::random_u64() >> 11) as f64 / (1u64 << 53) as f64))?,
    )?;
    native.set(
        "hostname",
        lua.create_function(|_, ()| {
            Ok(plugin::host().map_or_else(|| "localhost".to_owned(), |host| host.hostname.clone()))
        })?,
    )?;
    native.set(
        "worker_id",
        lua.create_function(|_, ()| Ok(crate::lua::current::read(|request| request.worker).unwrap_or(0)))?,
    )
}

fn at(seconds: f64) -> time::OffsetDateTime {
    time::OffsetDateTime::from_unix_timestamp(seconds as i64).unwrap_or(time::OffsetDateTime::UNIX_EPOCH)
}

fn local_time(seconds: f64) -> String {
    let format = time::macros::format_description!("[year]-[month]-[day] [hour]:[minute]:[second]");
    at(seconds).format(format).unwrap_or_default()
}

fn http_time(seconds: f64) -> String {
    let format = time::macros::format_description!(
        "[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT"
    );
    at(seconds).format(format).unwrap_or_default()
}

fn cookie_time(seconds: f64) -> String {
    let format = time::macros::format_description!(
        "[weekday repr:short], [day]-[month repr:short]-[year repr:last_two] [hour]:[minute]:[second] GMT"
    );
    at(seconds).format(format).unwrap_or_default()
}
