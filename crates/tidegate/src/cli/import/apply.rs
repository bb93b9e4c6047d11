//! Objects into a running gateway, one PUT each.

use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;
use tidegate_clients::verbatim::Excess;
use tidegate_import::Output;

use crate::cli::{
    exchange::{Bounds, exchange},
    stdout,
};

const BOUNDS: Bounds = Bounds { wait: Duration::from_secs(10), body_bytes: 1 << 20, excess: Excess::Cut };

/// Stops at the first object that is refused; what was put before stays, and a second try puts it again.
pub(super) fn apply(output: &Output, admin: &str, key: &str) -> anyhow::Result<()> {
    let mut count = 0;
    for (collection, objects) in output.lists() {
        for object in objects {
            let Some((id, body)) = parts(object) else {
                bail!("an object of {collection} has no id; the Admin API needs one")
            };
            let path = format!("/apisix/admin/{collection}/{id}");
            let (status, answer) = put(admin, key, &path, &body)?;
            if status != 200 && status != 201 {
                bail!("PUT {path} was answered {status}: {}", answer.trim());
            }
            count += 1;
        }
    }
    stdout::line(&format!("objects put: {count}"));
    Ok(())
}

/// The id goes into the path.
fn parts(object: &Value) -> Option<(String, String)> {
    let mut fields = object.as_object()?.clone();
    let id = fields.shift_remove("id").or_else(|| fields.get("username").cloned())?;
    let id = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
    Some((id, Value::Object(fields).to_string()))
}

fn put(admin: &str, key: &str, path: &str, body: &str) -> anyhow::Result<(u16, String)> {
    let length = body.len();
    let request = format!(
        "PUT {path} HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\nX-API-KEY: {key}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    let answer = exchange(admin, "PUT", request.as_bytes(), BOUNDS).with_context(|| {
        format!("cannot reach the Admin API at {admin}; is the gateway running? start it, or give --admin")
    })?;
    Ok((answer.head.status, String::from_utf8_lossy(&answer.body).into_owned()))
}
