//! `resty.http`: requests of functions to other services. The worker goes on with other requests meanwhile.

use std::{net::IpAddr, time::Duration};

use bytes::Bytes;
use mlua::{FromLua, Lua, Table, Value};
use tidegate_clients::http::{self, Body, ClientOptions, Endpoint, HeaderMap, Method, Outgoing, TlsWanted};

use super::bounds;

/// The body of an answer.
const MAX_ANSWER_BYTES: usize = 8 << 20;
/// The body of a request.
const MAX_BODY_BYTES: usize = 8 << 20;
const MAX_FIELDS: usize = 256;
/// The longest that an answer is waited for.
const MAX_TIME: Duration = Duration::from_secs(600);
/// nginx's `lua_socket_connect_timeout`.
const TIME: Duration = Duration::from_secs(60);
const KEPT: usize = 5;

/// Sends what the prelude put together, and gives the answer as a table.
pub(super) async fn ask(lua: &Lua, question: &Value, client: Option<IpAddr>) -> Result<Value, String> {
    let Value::Table(question) = question else { return Err("a table is needed".to_owned()) };
    let (outgoing, options) = read(question, client)?;
    let answer = http::send(outgoing, &options).await.map_err(|error| error.to_string())?;
    let made = || -> mlua::Result<Table> {
        let table = lua.create_table()?;
        table.raw_set("status", answer.status)?;
        table.raw_set("body", bounds::given(|| lua.create_string(&answer.body))?)?;
        table.raw_set("headers", headers(lua, &answer.headers)?)?;
        Ok(table)
    };
    made().map(Value::Table).map_err(|error| error.to_string())
}

fn read(question: &Table, client: Option<IpAddr>) -> Result<(Outgoing, ClientOptions), String> {
    let bytes = |name: &str| -> Option<Vec<u8>> {
        Some(question.raw_get::<Value>(name).ok()?.as_string()?.as_bytes().to_vec())
    };
    let number = |name: &str| field::<f64>(question, name);
    let text = |name: &str| bytes(name).map(|text| String::from_utf8_lossy(&text).into_owned());
    let body = bytes("body").unwrap_or_default();
    if body.len() > MAX_BODY_BYTES {
        return Err(format!("the body has {} bytes, at most {MAX_BODY_BYTES} are sent", body.len()));
    }
    let method = text("method").unwrap_or_else(|| "GET".to_owned());
    let outgoing = Outgoing {
        method: Method::from_bytes(method.as_bytes()).map_err(|_| format!("bad method {method:?}"))?,
        endpoint: Endpoint::parse(&text("url").unwrap_or_default())?,
        headers: fields(question)?,
        body: Bytes::from(body),
        client,
    };
    let milliseconds = |name: &str| number(name).filter(|time| *time > 0.0);
    let duration = |time: f64| Duration::try_from_secs_f64(time / 1000.0).unwrap_or(MAX_TIME).min(MAX_TIME);
    let options = ClientOptions {
        timeout: milliseconds("timeout").map_or(TIME, duration),
        tls: TlsWanted { verify: field::<bool>(question, "ssl_verify").unwrap_or(true), client: None },
        keepalive: field::<bool>(question, "keepalive").unwrap_or(true),
        keepalive_timeout: milliseconds("keepalive_timeout").map_or(TIME, duration),
        keepalive_pool: number("keepalive_pool").map_or(KEPT, |pool| pool.clamp(0.0, 64.0) as usize),
        body: Body::Whole(MAX_ANSWER_BYTES),
        // What a service does twice is not the same as what it does once.
        repeats: false,
        proxies: None,
    };
    Ok((outgoing, options))
}

fn field<T: FromLua>(table: &Table, name: &str) -> Option<T> {
    table.raw_get::<Option<T>>(name).ok().flatten()
}

/// Names and values as a list, one after the other.
fn fields(question: &Table) -> Result<Vec<(String, Vec<u8>)>, String> {
    let Some(list) = field::<Table>(question, "headers") else { return Ok(Vec::new()) };
    let texts: Vec<Vec<u8>> = list
        .sequence_values::<mlua::LuaString>()
        .take(2 * MAX_FIELDS + 1)
        .map(|text| text.map(|text| text.as_bytes().to_vec()).map_err(|error| error.to_string()))
        .collect::<Result<_, _>>()?;
    if texts.len() > 2 * MAX_FIELDS {
        return Err(format!("there are more than {MAX_FIELDS} headers"));
    }
    let pairs = texts.chunks_exact(2);
    Ok(pairs.map(|pair| (String::from_utf8_lossy(&pair[0]).into_owned(), pair[1].clone())).collect())
}

/// `Content-Type` in place of `content-type`; several values of a name are a list.
fn headers(lua: &Lua, headers: &HeaderMap) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for name in headers.keys() {
        let mut values = headers.get_all(name).iter().map(|value| lua.create_string(value.as_bytes()));
        let Some(first) = values.next() else { continue };
        let shown = capitals(name.as_str());
        match values.next() {
            None => table.raw_set(shown, first?)?,
            Some(second) => {
                let list = lua.create_sequence_from([first?, second?])?;
                values.try_for_each(|value| list.push(value?))?;
                table.raw_set(shown, list)?;
            }
        }
    }
    Ok(table)
}

fn capitals(name: &str) -> String {
    let parts = name.split('-').map(|part| {
        let mut signs = part.chars();
        signs.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(signs).collect::<String>()
    });
    parts.collect::<Vec<_>>().join("-")
}
