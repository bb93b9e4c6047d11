//! The messages between the gateway and a plugin runner, as the schema of ext-plugin-proto numbers their fields.

use tidegate_protocol::Method;

use super::{
    frame::{Field, Frame},
    table::{Entry, Malformed, Read, Table},
};

/// Kinds of messages. An answer has the kind of its question, unless it is an error or asks back.
pub(super) mod kind {
    pub(in super::super) const ERROR: u8 = 0;
    pub(in super::super) const PREPARE_CONF: u8 = 1;
    pub(in super::super) const HTTP_REQ_CALL: u8 = 2;
    pub(in super::super) const EXTRA_INFO: u8 = 3;
    pub(in super::super) const HTTP_RESP_CALL: u8 = 4;

    pub(in super::super) fn name(kind: u8) -> &'static str {
        match kind {
            PREPARE_CONF => "RPC_PREPARE_CONF",
            HTTP_REQ_CALL => "RPC_HTTP_REQ_CALL",
            EXTRA_INFO => "RPC_EXTRA_INFO",
            HTTP_RESP_CALL => "RPC_HTTP_RESP_CALL",
            _ => "RPC_ERROR",
        }
    }
}

type Made = Result<Frame, usize>;

/// A configuration, to get its token. `key` names it: a runner that knows the key answers the same token.
pub(super) fn prepare_conf(key: &str, conf: &[(String, String)]) -> Made {
    let entries: Vec<Entry> = conf
        .iter()
        .map(|(name, value)| Entry { name: name.as_bytes(), value: Some(value.as_bytes()) })
        .collect();
    let conf = if entries.is_empty() { Field::Absent } else { Field::Entries(&entries) };
    Frame::new(kind::PREPARE_CONF, &[conf, Field::Text(key.as_bytes())])
}

pub(super) fn token(data: &[u8]) -> Read<u32> {
    Table::root(data)?.u32(0)
}

/// A request as the runner sees it.
pub(super) struct Asked<'a> {
    pub id: u32,
    pub address: &'a [u8],
    pub method: u8,
    pub path: &'a [u8],
    pub args: &'a [Entry<'a>],
    pub headers: &'a [Entry<'a>],
}

pub(super) fn request(asked: &Asked, token: u32) -> Made {
    let fields = [
        Field::U32(asked.id),
        Field::Bytes(asked.address),
        Field::U8(asked.method),
        Field::Text(asked.path),
        Field::Entries(asked.args),
        Field::Entries(asked.headers),
        Field::U32(token),
    ];
    Frame::new(kind::HTTP_REQ_CALL, &fields)
}

pub(super) fn response(id: u32, status: u16, headers: &[Entry], token: u32) -> Made {
    let fields = [Field::U32(id), Field::U16(status), Field::Entries(headers), Field::U32(token)];
    Frame::new(kind::HTTP_RESP_CALL, &fields)
}

/// The number of a method in the schema; it has no others.
pub(super) fn method(method: &Method) -> Option<u8> {
    const METHODS: [&str; 15] = [
        "GET",
        "HEAD",
        "POST",
        "PUT",
        "DELETE",
        "MKCOL",
        "COPY",
        "MOVE",
        "OPTIONS",
        "PROPFIND",
        "PROPPATCH",
        "LOCK",
        "UNLOCK",
        "PATCH",
        "TRACE",
    ];
    METHODS.iter().position(|name| name.as_bytes() == method.as_bytes()).and_then(|at| u8::try_from(at).ok())
}

/// What a runner wants of a request.
#[derive(Debug, PartialEq)]
pub(super) enum Action<'a> {
    /// It goes on as it is.
    Nothing,
    Stop(Changed<'a>),
    Rewrite(Rewrite<'a>),
}

/// A response, or what is changed of one. 0 and nothing: unchanged.
#[derive(Debug, PartialEq)]
pub(super) struct Changed<'a> {
    pub status: u16,
    pub headers: Vec<Entry<'a>>,
    /// Never empty.
    pub body: Option<&'a [u8]>,
}

#[derive(Debug, PartialEq)]
pub(super) struct Rewrite<'a> {
    pub path: Option<&'a [u8]>,
    pub headers: Vec<Entry<'a>>,
    pub args: Vec<Entry<'a>>,
    pub response_headers: Vec<Entry<'a>>,
    /// Never empty.
    pub body: Option<&'a [u8]>,
}

fn body<'a>(table: &Table<'a>, field: usize) -> Read<Option<&'a [u8]>> {
    Ok(table.bytes(field)?.filter(|body| !body.is_empty()))
}

pub(super) fn action(data: &[u8]) -> Read<Action<'_>> {
    const STOP: u8 = 1;
    const REWRITE: u8 = 2;
    let table = Table::root(data)?;
    match (table.u8(1)?, table.table(2)?) {
        (0, _) => Ok(Action::Nothing),
        (STOP, Some(stop)) => Ok(Action::Stop(Changed {
            status: stop.u16(0)?,
            headers: stop.entries(1)?,
            body: body(&stop, 2)?,
        })),
        (REWRITE, Some(rewrite)) => Ok(Action::Rewrite(Rewrite {
            path: rewrite.bytes(0)?,
            headers: rewrite.entries(1)?,
            args: rewrite.entries(2)?,
            response_headers: rewrite.entries(3)?,
            body: body(&rewrite, 4)?,
        })),
        _ => Err(Malformed),
    }
}

/// What a runner changes of a response.
pub(super) fn changed(data: &[u8]) -> Read<Changed<'_>> {
    let table = Table::root(data)?;
    Ok(Changed { status: table.u16(1)?, headers: table.entries(2)?, body: body(&table, 3)? })
}

/// What a runner asks back.
#[derive(Debug, PartialEq)]
pub(super) enum Info<'a> {
    Variable(&'a [u8]),
    RequestBody,
    ResponseBody,
    Unknown(u8),
}

pub(super) fn info(data: &[u8]) -> Read<Info<'_>> {
    let table = Table::root(data)?;
    Ok(match table.u8(0)? {
        1 => Info::Variable(table.table(1)?.ok_or(Malformed)?.bytes(0)?.unwrap_or_default()),
        2 => Info::RequestBody,
        3 => Info::ResponseBody,
        other => Info::Unknown(other),
    })
}

pub(super) fn info_answer(result: Option<&[u8]>) -> Made {
    Frame::new(kind::EXTRA_INFO, &[result.map_or(Field::Absent, Field::Bytes)])
}

/// Why a runner cannot do what it is asked.
#[derive(Debug, PartialEq)]
pub(super) enum Fault {
    /// It has lost the configuration, or never had it.
    UnknownToken,
    Said(String),
}

pub(super) fn fault(data: &[u8]) -> Read<Fault> {
    Ok(match Table::root(data)?.u8(0)? {
        0 => Fault::Said("bad request".to_owned()),
        1 => Fault::Said("service unavailable".to_owned()),
        2 => Fault::UnknownToken,
        code => Fault::Said(format!("unknown err {code}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_have_their_numbers() {
        for (name, number) in
            [("GET", Some(0)), ("PATCH", Some(13)), ("TRACE", Some(14)), ("CONNECT", None), ("get", None)]
        {
            assert_eq!(method(&Method::of(name.as_bytes())), number, "{name}");
        }
    }

    #[test]
    fn answers_without_fields_change_nothing() {
        let empty = Frame::new(2, &[]).expect("short");
        assert_eq!(action(&empty.bytes()[4..]), Ok(Action::Nothing));
        let nothing = Changed { status: 0, headers: Vec::new(), body: None };
        assert_eq!(changed(&empty.bytes()[4..]), Ok(nothing));
        assert_eq!(fault(&empty.bytes()[4..]), Ok(Fault::Said("bad request".to_owned())));
        assert_eq!(info(&empty.bytes()[4..]), Ok(Info::Unknown(0)));
        // A union without its table.
        let stop = Frame::new(2, &[Field::U32(1), Field::U8(1)]).expect("short");
        assert_eq!(action(&stop.bytes()[4..]), Err(Malformed));
        assert_eq!(action(b""), Err(Malformed));
    }
}
