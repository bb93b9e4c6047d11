//! What a call's results mean for its request: `return code, body`, `ngx.exit`, and what was said.

use std::net::IpAddr;

use mlua::{Lua, MultiValue, Value};
use tidegate_plugin_api::{Reply, memory, reply::FINAL_STATUSES};

use super::{api, current, json, program::Phase};

/// `ngx.DECLINED`.
const DECLINED: i32 = -5;

/// How a call ended.
pub(super) enum Ending {
    /// Nothing said: the next function runs.
    Next,
    Answer(Box<Reply>),
}

/// What a call's results, `ngx.exit` and `ngx.say` mean together.
pub(super) fn ending(
    lua: &Lua,
    result: mlua::Result<MultiValue>,
    phase: Phase,
    client: IpAddr,
) -> mlua::Result<Ending> {
    let exit = current::call(|call| call.exit.take());
    let output = current::call(|call| call.output.take());
    let status = current::call(|call| call.status.take());
    let returned = match (result, exit) {
        (Err(error), None) => return Err(error),
        (Err(_), Some(_)) => MultiValue::new(),
        (Ok(values), _) => values,
    };
    if !phase.may_answer() {
        return match exit {
            Some(code) if !matches!(code, 0 | DECLINED) => Err(mlua::Error::runtime(format!(
                "ngx.exit({code}) cannot end the request in phase {}",
                phase.name()
            ))),
            _ => Ok(Ending::Next),
        };
    }
    let output = Output { status, bytes: output, client };
    if let Some(code) = exit {
        return exited(code, output);
    }
    let code = returned.front().filter(|value| !value.is_nil());
    let body = returned.get(1).filter(|value| !value.is_nil());
    returned_values(lua, code, body, output)
}

/// What was said so far, and the status that was set.
struct Output {
    status: u16,
    bytes: Vec<u8>,
    client: IpAddr,
}

/// `return code, body`.
fn returned_values(
    lua: &Lua,
    code: Option<&Value>,
    body: Option<&Value>,
    mut output: Output,
) -> mlua::Result<Ending> {
    let code = match code {
        None => None,
        Some(code) => Some(
            number(code)
                .ok_or_else(|| mlua::Error::runtime("attempt to compare a status that is not a number"))?,
        ),
    };
    match body {
        Some(table @ Value::Table(_)) => {
            let text = json::from_lua(lua, table, false).and_then(|value| json::written(&value));
            let text =
                text.map_err(|reason| mlua::Error::runtime(format!("failed to encode data: {reason}")))?;
            output.bytes.extend_from_slice(&text);
            output.bytes.push(b'\n');
        }
        Some(value) => api::append(value, &mut output.bytes, 0)?,
        None => {}
    }
    if body.is_some() || !output.bytes.is_empty() {
        // Said something and continued: the answer is made, as nginx has sent it.
        output.status = code.map_or(Ok(output.status), final_status)?;
        return output.answer();
    }
    match code {
        // As `ngx.exit(ngx.OK)`.
        None | Some(0.0) => Ok(Ending::Next),
        Some(code) => Ok(page(final_status(code)?)),
    }
}

/// A status that ends a request; fractions are cut, as nginx-lua does.
pub(super) fn final_status(code: f64) -> mlua::Result<u16> {
    match code as u16 {
        0 if code == 0.0 => Ok(0),
        status if FINAL_STATUSES.contains(&status) => Ok(status),
        _ => Err(mlua::Error::runtime(format!("{code} is not a status that ends a request"))),
    }
}

/// `ngx.exit(code)`: `ngx.OK` and `ngx.DECLINED` end the function only.
fn exited(code: i32, mut output: Output) -> mlua::Result<Ending> {
    match code {
        0 | DECLINED if output.bytes.is_empty() => Ok(Ending::Next),
        0 | DECLINED => output.answer(),
        _ => {
            let status = final_status(code.into())?;
            if output.bytes.is_empty() {
                return Ok(page(status));
            }
            output.status = status;
            output.answer()
        }
    }
}

impl Output {
    /// Counted like a body that was gathered: the client may take its time to read it.
    fn answer(self) -> mlua::Result<Ending> {
        let status = if self.status == 0 { 200 } else { self.status };
        // The budget logs it.
        let Ok(body) = memory::hold(self.bytes, self.client) else { return Ok(page(503)) };
        Ok(Ending::Answer(Box::new(Reply::bytes(status, body))))
    }
}

pub(super) fn page(status: u16) -> Ending {
    Ending::Answer(Box::new(Reply::page(status)))
}

/// The interpreter hands whole numbers over as integers.
pub(super) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(value) => Some(*value as f64),
        Value::Number(value) => Some(*value),
        _ => None,
    }
}
