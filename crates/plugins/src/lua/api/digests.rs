//! Digests, random texts and dates of `resty` and `os`.

use aws_lc_rs::{digest, hmac};
use chrono::{DateTime, Datelike, Timelike, Utc};
use mlua::{Lua, LuaString, Table};

use super::native::native_function;
use crate::lua::clock;

/// Bytes of one call.
const MAX_BYTES: usize = 8 << 20;
const MAX_RANDOM_BYTES: usize = 64 << 10;
const MAX_FORMAT_BYTES: usize = 256;

fn algorithm(name: &str) -> mlua::Result<&'static digest::Algorithm> {
    Ok(match name {
        "sha1" => &digest::SHA1_FOR_LEGACY_USE_ONLY,
        "sha256" => &digest::SHA256,
        "sha384" => &digest::SHA384,
        "sha512" => &digest::SHA512,
        other => return Err(mlua::Error::runtime(format!("unknown digest {other}"))),
    })
}

fn keyed(name: &str) -> mlua::Result<hmac::Algorithm> {
    Ok(match name {
        "sha1" => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        "sha256" => hmac::HMAC_SHA256,
        "sha384" => hmac::HMAC_SHA384,
        "sha512" => hmac::HMAC_SHA512,
        other => return Err(mlua::Error::runtime(format!("unknown digest {other}"))),
    })
}

fn short(text: &LuaString) -> mlua::Result<Vec<u8>> {
    let text = text.as_bytes();
    if text.len() > clock::scaled(MAX_BYTES) {
        return Err(mlua::Error::runtime(format!("text of {} bytes is too long", text.len())));
    }
    Ok(text.to_vec())
}

pub(super) fn install(lua: &Lua, native: &Table) -> mlua::Result<()> {
    native.set(
        "digest",
        native_function(lua, |lua, (name, text): (String, LuaString)| {
            lua.create_string(digest::digest(algorithm(&name)?, &short(&text)?))
        })?,
    )?;
    native.set(
        "hmac",
        native_function(lua, |lua, (name, key, text): (String, LuaString, LuaString)| {
            let key = hmac::Key::new(keyed(&name)?, &short(&key)?);
            lua.create_string(hmac::sign(&key, &short(&text)?))
        })?,
    )?;
    native.set(
        "random_bytes",
        native_function(lua, |lua, length: usize| {
            if length > MAX_RANDOM_BYTES {
                return Err(mlua::Error::runtime("too many random bytes"));
            }
            let mut bytes = vec![0; length];
            aws_lc_rs::rand::fill(&mut bytes)
                .map_err(|_| mlua::Error::runtime("cannot read random bytes"))?;
            lua.create_string(bytes)
        })?,
    )?;
    native.set(
        "date",
        native_function(lua, |lua, (format, seconds): (String, f64)| {
            let time = DateTime::<Utc>::from_timestamp(seconds as i64, 0)
                .ok_or_else(|| mlua::Error::runtime("time result cannot be represented"))?;
            if format.len() > MAX_FORMAT_BYTES {
                return Err(mlua::Error::runtime("format is too long"));
            }
            if format == "*t" {
                return Ok(mlua::Value::Table(parts(lua, &time)?));
            }
            let items: Vec<_> = chrono::format::StrftimeItems::new(&format).collect();
            if items.contains(&chrono::format::Item::Error) {
                return Err(mlua::Error::runtime("invalid conversion specification"));
            }
            let text = time.format_with_items(items.into_iter()).to_string();
            lua.create_string(text).map(mlua::Value::String)
        })?,
    )?;
    native.set(
        "seconds_of",
        native_function(lua, |_, parts: Table| {
            let part = |name: &str, default: Option<i64>| -> mlua::Result<i64> {
                let value = parts.raw_get::<Option<i64>>(name)?.or(default);
                value.ok_or_else(|| mlua::Error::runtime(format!("field '{name}' missing in date table")))
            };
            let (year, month, day) = (part("year", None)?, part("month", None)?, part("day", None)?);
            let first = chrono::NaiveDate::from_ymd_opt(i32::try_from(year).unwrap_or(i32::MAX), 1, 1)
                .ok_or_else(|| mlua::Error::runtime("time result cannot be represented"))?;
            let month = u32::try_from(month - 1).unwrap_or(u32::MAX);
            let begin = first.checked_add_months(chrono::Months::new(month));
            let begin = begin.ok_or_else(|| mlua::Error::runtime("time result cannot be represented"))?;
            let days = begin.and_time(chrono::NaiveTime::MIN).and_utc().timestamp();
            let clock = part("hour", Some(12))?
                .saturating_mul(3600)
                .saturating_add(part("min", Some(0))?.saturating_mul(60))
                .saturating_add(part("sec", Some(0))?);
            Ok(days.saturating_add((day - 1).saturating_mul(86_400)).saturating_add(clock))
        })?,
    )
}

/// As `os.date("*t")`, in UTC.
fn parts(lua: &Lua, time: &DateTime<Utc>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("year", time.year())?;
    table.raw_set("month", time.month())?;
    table.raw_set("day", time.day())?;
    table.raw_set("hour", time.hour())?;
    table.raw_set("min", time.minute())?;
    table.raw_set("sec", time.second())?;
    table.raw_set("wday", time.weekday().num_days_from_sunday() + 1)?;
    table.raw_set("yday", time.ordinal())?;
    table.raw_set("isdst", false)?;
    Ok(table)
}
