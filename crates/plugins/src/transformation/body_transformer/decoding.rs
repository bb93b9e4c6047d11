//! Bodies as templates see them.

use std::collections::HashSet;

use serde_json::{Map, Value};
use tidegate_plugin_api::{
    document::{Allowance, TooLarge},
    multipart,
};

use super::{format::Format, xml};
use crate::{
    common::{
        form,
        json::{self, Undecoded},
    },
    lua::{Entries, Source},
};

pub(super) enum Document {
    Empty,
    Json(Value),
    Xml(xml::Element),
}

impl Document {
    /// What the template has names for; `None` where the body is a text or number.
    pub(super) fn names(&self) -> Option<Entries<'_>> {
        match self {
            Document::Empty => Some(Source::list(0, std::iter::empty())),
            Document::Xml(root) => Some(root.table()),
            Document::Json(value) => match Source::of_json(value) {
                Source::Table(entries) => Some(entries),
                _ => None,
            },
        }
    }
}

/// `only`: the members that the template can ask for.
pub(super) fn decode(
    format: Option<Format>,
    body: Option<&[u8]>,
    query: &[u8],
    content_type: &[u8],
    allowance: &Allowance,
    only: Option<&HashSet<Box<str>>>,
) -> Result<Document, Undecoded> {
    if format == Some(Format::Args) {
        return Ok(Document::Json(form::decode(query, allowance)?));
    }
    let Some(body) = body else { return Ok(Document::Empty) };
    match format {
        None | Some(Format::Plain | Format::Args) => Ok(Document::Empty),
        Some(Format::Json) => json::decode_members(body, allowance, only).map(Document::Json),
        Some(Format::Encoded) => Ok(Document::Json(form::decode(body, allowance)?)),
        Some(Format::Xml) => xml::parse(&String::from_utf8_lossy(body), allowance).map(Document::Xml),
        Some(Format::Multipart) => Ok(Document::Json(parts(body, content_type, allowance)?)),
    }
}

/// Name and value of each part; several of a name make an array.
fn parts(body: &[u8], content_type: &[u8], allowance: &Allowance) -> Result<Value, TooLarge> {
    let mut fields = Map::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    for (name, value) in multipart::fields(body, content_type).flatten() {
        allowance.take(form::FIELD_BYTES + name.len() + value.len())?;
        form::insert(&mut fields, text(name), Value::String(text(value)));
    }
    Ok(Value::Object(fields))
}
