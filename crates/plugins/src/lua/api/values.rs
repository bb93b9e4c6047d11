//! Values of Lua as bytes.

use mlua::Value;

use crate::{
    common::number,
    lua::{clock, current},
};

/// A value as `ngx.print` writes it; tables are lists of values. What is written has a limit, and lists in lists, which
/// can stand for far more than they hold, are under the clock.
pub(crate) fn append(value: &Value, out: &mut Vec<u8>, depth: usize) -> mlua::Result<()> {
    match value {
        Value::Nil => out.extend_from_slice(b"nil"),
        Value::LightUserData(_) => out.extend_from_slice(b"null"),
        Value::Boolean(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        Value::Integer(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Value::Number(value) => out.extend_from_slice(number::lua(*value).as_bytes()),
        Value::String(text) => {
            let text = text.as_bytes();
            if out.len() + text.len() > current::MAX_OUTPUT_BYTES {
                return Err(too_much_output());
            }
            out.extend_from_slice(&text);
        }
        Value::Table(items) if depth < 16 => {
            for (count, item) in items.sequence_values::<Value>().enumerate() {
                if count.is_multiple_of(256) {
                    clock::check_time()?;
                }
                append(&item?, out, depth + 1)?;
            }
        }
        other => {
            return Err(mlua::Error::runtime(format!(
                "bad argument: string, number, boolean, nil, ngx.null, or array table expected, but got {}",
                other.type_name()
            )));
        }
    }
    if out.len() > current::MAX_OUTPUT_BYTES {
        return Err(too_much_output());
    }
    Ok(())
}

pub(super) fn too_much_output() -> mlua::Error {
    mlua::Error::runtime("too much output")
}

/// The bytes of a text or number; `None` for anything else.
pub(super) fn bytes(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Integer(value) => Some(value.to_string().into_bytes()),
        Value::Number(value) => Some(number::lua(*value).into_bytes()),
        Value::Boolean(value) => Some(value.to_string().into_bytes()),
        _ => None,
    }
}
