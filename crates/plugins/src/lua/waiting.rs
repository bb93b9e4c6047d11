//! What a coroutine waits for: it yields what, and goes on with the result.

use std::time::Duration;

use mlua::{IntoLuaMulti, Lua, MultiValue, Value};
use tidegate_plugin_api::{Reply, Request};

use super::http;

/// Request bodies that Lua may look at.
pub(super) const MAX_BODY_BYTES: usize = 64 << 20;

/// How a wait ends.
pub(super) enum Woken {
    /// The coroutine goes on with these.
    With(MultiValue),
    /// The request ends: its body is too large, or not complete.
    Answered(Box<Reply>),
}

/// Waits for what was yielded: a mark, the kind, and what belongs to it.
pub(super) async fn wait(
    lua: &Lua,
    request: Option<&mut Request>,
    mut yielded: MultiValue,
) -> mlua::Result<Woken> {
    yielded.pop_front();
    let kind = yielded.pop_front().and_then(|kind| kind.as_string().map(|kind| kind.to_string_lossy()));
    let argument = yielded.pop_front().unwrap_or(Value::Nil);
    match (kind.as_deref(), request) {
        (Some("sleep"), _) => {
            tokio::time::sleep(duration(&argument)).await;
            Ok(Woken::With(MultiValue::new()))
        }
        (Some("body"), Some(request)) => match request.collect_body(MAX_BODY_BYTES).await {
            Ok(_) => Ok(Woken::With(MultiValue::new())),
            Err(reply) => Ok(Woken::Answered(reply)),
        },
        (Some("http"), request) => {
            let client = request.map(|request| request.remote_addr);
            match http::ask(lua, &argument, client).await {
                Ok(answer) => Ok(Woken::With(answer.into_lua_multi(lua)?)),
                Err(reason) => Ok(Woken::With((Value::Nil, reason).into_lua_multi(lua)?)),
            }
        }
        _ => Err(mlua::Error::runtime("attempt to yield from outside a coroutine")),
    }
}

/// An hour at most, a millisecond at least, so that a loop of sleeps is not a busy one.
fn duration(seconds: &Value) -> Duration {
    let seconds = match seconds {
        Value::Integer(seconds) => *seconds as f64,
        Value::Number(seconds) => *seconds,
        _ => 0.0,
    };
    Duration::try_from_secs_f64(seconds.clamp(0.001, 3600.0)).unwrap_or(Duration::from_millis(1))
}
