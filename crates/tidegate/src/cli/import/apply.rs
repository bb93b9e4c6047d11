//! Objects into a running gateway, one PUT each.

use std::{
    net::{TcpStream, ToSocketAddrs},
    time::Duration,
};

use anyhow::{Context, bail};
use serde_json::Value;
use tidegate_import::Output;

use crate::cli::admin_api::answer_to;

const TIMEOUT: Duration = Duration::from_secs(10);

/// Stops at the first object that is refused; what was put before stays, and a second try puts it again.
pub fn apply(output: &Output, admin: &str, key: &str) -> anyhow::Result<()> {
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
    println!("objects put: {count}");
    Ok(())
}

/// The id goes into the path.
fn parts(object: &Value) -> Option<(String, String)> {
    let mut fields = object.as_object()?.clone();
    let id = fields.shift_remove("id").or_else(|| fields.get("username").cloned())?;
    let id = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
    Some((id, Value::Object(fields).to_string()))
}

/// HTTP/1.0, so that the answer ends where the connection does.
fn put(admin: &str, key: &str, path: &str, body: &str) -> anyhow::Result<(u16, String)> {
    let unreachable = || format!("cannot reach the Admin API at {admin}; is the gateway running?");
    let address = admin.to_socket_addrs().with_context(unreachable)?.next().with_context(unreachable)?;
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT).with_context(unreachable)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let length = body.len();
    let request = format!(
        "PUT {path} HTTP/1.0\r\nHost: {admin}\r\nX-API-KEY: {key}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    );
    let answer = answer_to(&mut stream, request.as_bytes()).with_context(unreachable)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("the Admin API's answer is cut off")?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.context("the Admin API's answer has no status")?, body.to_owned()))
}
