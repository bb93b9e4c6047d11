//! JSON in Lua: `cjson`, `cjson.safe` and `core.json`, with cjson's rules for what is an array.

use std::{cell::Cell, io};

use mlua::{Lua, LuaString, Table, Value};
use serde_json::{Map, Number};
use tidegate_config::yaml;
use tidegate_plugin_api::document::{self, Allowance, Unread};

use super::{
    array, bounds, clock,
    making::{Making, Source},
};
use crate::common::number;

/// Nesting of tables and documents.
const MAX_DEPTH: usize = 256;

/// Values between two looks at the clock.
const VALUES_PER_LOOK: usize = 512;

/// Texts that `decode` reads: 20 ms.
const MAX_TEXT_BYTES: usize = 4 << 20;
/// YAML is read without a look at the clock.
const MAX_YAML_BYTES: usize = 64 << 10;

/// What a value may become as a document: tables can be in tables many times over.
const MAX_VALUES: usize = 1 << 18;
const MAX_DOCUMENT_BYTES: usize = 8 << 20;

/// Bytes between two looks at the clock.
const BYTES_PER_LOOK: usize = 256 << 10;

/// A document as Lua values; `null` is `ngx.null`.
pub(crate) fn to_lua(lua: &Lua, value: &serde_json::Value) -> mlua::Result<Value> {
    let mut making = Making::new(lua, Source::of_json(value))?;
    let made = making.advance(|| clock::check_time().and_then(|()| bounds::room()).map(|()| true))?;
    Ok(made.unwrap_or(Value::Nil))
}

/// A Lua value as a document; `lenient` (`core.json.encode(value, true)`) turns what JSON lacks into text.
pub(crate) fn from_lua(lua: &Lua, value: &Value, lenient: bool) -> Result<serde_json::Value, String> {
    let array = array::metatable(lua).map_err(|error| error.to_string())?;
    let (values, bytes, unseen) = (Cell::new(0), Cell::new(0), Cell::new(0));
    Reading { array: &array, lenient, values, bytes, unseen }.read(value, 0)
}

struct Reading<'a> {
    array: &'a Table,
    lenient: bool,
    values: Cell<usize>,
    bytes: Cell<usize>,
    /// Bytes since the last look at the clock.
    unseen: Cell<usize>,
}

impl Reading<'_> {
    fn count(&self, bytes: usize) -> Result<(), String> {
        let values = self.values.get() + 1;
        self.values.set(values);
        self.bytes.set(self.bytes.get() + bytes);
        if values > MAX_VALUES || self.bytes.get() > MAX_DOCUMENT_BYTES {
            return Err("Cannot serialise, the document is too large".to_owned());
        }
        self.unseen.set(self.unseen.get() + bytes);
        if values.is_multiple_of(VALUES_PER_LOOK) || self.unseen.get() > BYTES_PER_LOOK {
            self.unseen.set(0);
            if clock::expired() {
                return Err(clock::message());
            }
        }
        Ok(())
    }

    /// What is not UTF-8 takes longer, and grows.
    fn text(&self, text: &LuaString) -> Result<String, String> {
        let bytes = text.as_bytes();
        self.count(bytes.len())?;
        if let Ok(text) = std::str::from_utf8(&bytes) {
            return Ok(text.to_owned());
        }
        self.count(bytes.len().saturating_mul(7))?;
        Ok(text.to_string_lossy())
    }

    fn read(&self, value: &Value, depth: usize) -> Result<serde_json::Value, String> {
        if depth > MAX_DEPTH {
            return Err(format!("Cannot serialise, excessive depth ({depth})"));
        }
        self.count(0)?;
        match value {
            Value::Nil => Ok(serde_json::Value::Null),
            Value::LightUserData(pointer) if pointer.0.is_null() => Ok(serde_json::Value::Null),
            Value::Boolean(value) => Ok((*value).into()),
            Value::Integer(value) => Ok((*value).into()),
            Value::Number(value) => from_number(*value)
                .ok_or_else(|| "Cannot serialise number: must not be NaN or Inf".to_owned()),
            Value::String(text) => Ok(self.text(text)?.into()),
            Value::Table(table) => self.table(table, depth),
            other if self.lenient => Ok(format!("{}: {:p}", other.type_name(), other.to_pointer()).into()),
            other => Err(format!("Cannot serialise {}: type not supported", other.type_name())),
        }
    }

    fn table(&self, table: &Table, depth: usize) -> Result<serde_json::Value, String> {
        let marked = table.metatable().is_some_and(|metatable| metatable == *self.array);
        let Shape { entries, highest } = self.shape(table)?;
        if marked || highest.is_some_and(|highest| highest > 0) {
            let highest = highest.unwrap_or(0);
            if highest > 10 && highest > entries.saturating_mul(2) {
                return Err("Cannot serialise table: excessively sparse array".to_owned());
            }
            let mut items = vec![serde_json::Value::Null; highest];
            each(table, |key, value| {
                let Some(place) = index(&key).and_then(|at| items.get_mut(at - 1)) else { return Ok(()) };
                *place = self.read(&value, depth + 1)?;
                Ok(())
            })?;
            return Ok(serde_json::Value::Array(items));
        }
        let mut members = Map::new();
        each(table, |key, value| {
            let name = match key {
                Value::String(text) => self.text(&text)?,
                Value::Integer(value) => value.to_string(),
                Value::Number(value) => number::lua(value),
                _ => return Err("Cannot serialise table: table key must be a number or string".to_owned()),
            };
            members.insert(name, self.read(&value, depth + 1)?);
            Ok(())
        })?;
        Ok(serde_json::Value::Object(members))
    }

    fn shape(&self, table: &Table) -> Result<Shape, String> {
        let mut shape = Shape { entries: 0, highest: Some(0) };
        each(table, |key, _| {
            shape.entries += 1;
            if shape.entries > MAX_VALUES {
                return Err("Cannot serialise, the document is too large".to_owned());
            }
            if shape.entries.is_multiple_of(VALUES_PER_LOOK) && clock::expired() {
                return Err(clock::message());
            }
            shape.highest = shape.highest.and_then(|highest| Some(index(&key)?.max(highest)));
            Ok(())
        })?;
        Ok(shape)
    }
}

struct Shape {
    entries: usize,
    /// The largest index when every key is one; 0 for an empty table.
    highest: Option<usize>,
}

/// Visits the entries one at a time: there are only some thousands of places for values that Rust holds.
fn each(table: &Table, mut visit: impl FnMut(Value, Value) -> Result<(), String>) -> Result<(), String> {
    for entry in table.pairs::<Value, Value>() {
        let (key, value) = entry.map_err(|error| error.to_string())?;
        visit(key, value)?;
    }
    Ok(())
}

/// Whole numbers print without a fraction, others with 14 digits, as `%.14g` does.
fn from_number(value: f64) -> Option<serde_json::Value> {
    if value.fract() == 0.0 && value.abs() < 1e14 {
        return Some((value as i64).into());
    }
    let rounded: f64 = number::lua(value).parse().ok()?;
    Number::from_f64(rounded).map(Into::into)
}

fn index(key: &Value) -> Option<usize> {
    match key {
        Value::Integer(value) if *value > 0 => usize::try_from(*value).ok(),
        Value::Number(value) if *value > 0.0 && value.fract() == 0.0 && *value < 1e9 => Some(*value as usize),
        _ => None,
    }
}

/// A schema as Lua writes it: an empty table where a list belongs is a list.
pub(crate) fn as_schema(mut schema: serde_json::Value) -> serde_json::Value {
    const LISTS: [&str; 6] = ["required", "enum", "anyOf", "oneOf", "allOf", "encrypt_fields"];
    fn walk(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::Object(members) => {
                for (name, member) in members.iter_mut() {
                    match member {
                        serde_json::Value::Object(none)
                            if none.is_empty() && LISTS.contains(&name.as_str()) =>
                        {
                            *member = serde_json::Value::Array(Vec::new());
                        }
                        member => walk(member),
                    }
                }
            }
            serde_json::Value::Array(items) => items.iter_mut().for_each(walk),
            _ => {}
        }
    }
    walk(&mut schema);
    schema
}

/// `decode(text)`: the value, or `nil` and why. What others read and this reader does not is an error: a guard that gets `nil`
/// lets the request pass.
pub(super) fn decode(lua: &Lua, text: &LuaString) -> mlua::Result<(Value, Option<String>)> {
    let bytes = text.as_bytes();
    let (length, most) = (bytes.len(), clock::scaled(MAX_TEXT_BYTES));
    let refused = |reason: String| Err(mlua::Error::runtime(format!("cannot decode the text: {reason}")));
    if length > most {
        return refused(format!("it has {length} bytes, at most {most} are read"));
    }
    match document::parse(&bytes, &Allowance::of_a_body(None).until(clock::expired)) {
        Ok(value) => Ok((to_lua(lua, &value)?, None)),
        Err(error) => {
            clock::check_time()?;
            match error {
                Unread::TooLarge(error) => refused(error.to_string()),
                Unread::Syntax(_) if std::str::from_utf8(&bytes).is_err() => {
                    refused("it is not UTF-8".to_owned())
                }
                Unread::Syntax(error) if is_read_elsewhere(&error, &bytes) => refused(error.to_string()),
                Unread::Syntax(error) => Ok((Value::Nil, Some(error.to_string()))),
            }
        }
    }
}

/// `tinyyaml.parse(text)` and `lyaml.load(text)`: an error where it cannot be read, as there.
pub(super) fn decode_yaml(lua: &Lua, text: &LuaString) -> mlua::Result<Value> {
    let bytes = text.as_bytes();
    let (length, most) = (bytes.len(), clock::scaled(MAX_YAML_BYTES));
    let refused = |reason: String| mlua::Error::runtime(format!("cannot read the YAML: {reason}"));
    if length > most {
        return Err(refused(format!("it has {length} bytes, at most {most} are read")));
    }
    let text = std::str::from_utf8(&bytes).map_err(|_| refused("it is not UTF-8".to_owned()))?;
    let value = yaml::of_a_client(text).map_err(|fault| refused(fault.to_string()))?;
    clock::check_time()?;
    to_lua(lua, &value)
}

/// Deep nesting, odd numbers and lone surrogates, which lua-cjson, Python and others take.
fn is_read_elsewhere(error: &serde_json::Error, text: &[u8]) -> bool {
    let reason = error.to_string();
    let is_odd = ["recursion limit", "number out of range", "invalid number", "surrogate"];
    is_odd.iter().any(|word| reason.contains(word)) || has_odd_number(error, text)
}

/// Whether `NaN`, `Infinity` or a hexadecimal number is where the reader stopped.
fn has_odd_number(error: &serde_json::Error, text: &[u8]) -> bool {
    if error.is_eof() || !matches!(text.trim_ascii_start().first(), Some(b'{' | b'[')) {
        return false;
    }
    let mut lines = text.split(|&byte| byte == b'\n');
    let line = lines.nth(error.line().saturating_sub(1)).unwrap_or_default();
    // The last byte that was read may be any of the word's first two.
    let from = error.column().saturating_sub(3);
    let near = line.get(from..line.len().min(from + 5)).unwrap_or_default().to_ascii_lowercase();
    [&b"nan"[..], b"inf", b"0x"].iter().any(|word| near.windows(word.len()).any(|found| found == *word))
}

/// `encode(value, lenient)`: the text, or `nil` and why.
pub(super) fn encode(
    lua: &Lua,
    value: &Value,
    lenient: bool,
) -> mlua::Result<(Option<LuaString>, Option<String>)> {
    match from_lua(lua, value, lenient) {
        Ok(value) => match written(&value) {
            Ok(text) => Ok((Some(lua.create_string(text)?), None)),
            Err(reason) => Ok((None, Some(reason))),
        },
        Err(reason) => Ok((None, Some(reason))),
    }
}

/// The text of a document, under the clock: escaped, a text can take six times its length.
pub(super) fn written(value: &serde_json::Value) -> Result<Vec<u8>, String> {
    struct Bounded {
        text: Vec<u8>,
        looked: usize,
    }
    impl io::Write for Bounded {
        fn write(&mut self, part: &[u8]) -> io::Result<usize> {
            let length = self.text.len() + part.len();
            if length > 2 * MAX_DOCUMENT_BYTES {
                return Err(io::Error::other("Cannot serialise, the document is too large"));
            }
            if length - self.looked > BYTES_PER_LOOK {
                self.looked = length;
                if clock::expired() {
                    return Err(io::Error::other(clock::message()));
                }
            }
            self.text.extend_from_slice(part);
            Ok(part.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut bounded = Bounded { text: Vec::new(), looked: 0 };
    serde_json::to_writer(&mut bounded, value).map_err(|error| error.to_string())?;
    Ok(bounded.text)
}
