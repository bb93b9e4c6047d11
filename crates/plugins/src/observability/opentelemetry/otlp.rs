//! The protobuf form of a trace export (opentelemetry-proto, `ExportTraceServiceRequest`), written by hand: a dozen
//! fields do not need generated code.

use data_encoding::HEXLOWER_PERMISSIVE;
use tidegate_clients::batch::Weigh;

use crate::common::protobuf::{fixed, message, number, text};

/// Values that attributes have here.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Attribute {
    Text(String),
    Bool(bool),
    Int(i64),
    Double(f64),
}

pub(super) struct Span {
    pub(crate) trace_id: String,
    pub(crate) span_id: String,
    pub(crate) parent_span_id: Option<String>,
    pub(crate) trace_state: String,
    pub name: String,
    /// Nanoseconds since 1970.
    pub start: u64,
    pub end: u64,
    pub attributes: Vec<(String, Attribute)>,
    /// The message of a failed span.
    pub error: Option<String>,
}

impl Weigh for Span {
    fn held(&self) -> usize {
        let texts = [&self.trace_id, &self.span_id, &self.trace_state, &self.name];
        let optional = [&self.parent_span_id, &self.error].into_iter().flatten();
        let attributes = self.attributes.iter().map(|(name, value)| {
            let text = if let Attribute::Text(text) = value { text.len() } else { 0 };
            size_of::<(String, Attribute)>() + name.len() + text
        });
        size_of::<Span>()
            + texts.into_iter().chain(optional).map(String::len).sum::<usize>()
            + attributes.sum::<usize>()
    }
}

const KIND_SERVER: u64 = 2;
const STATUS_ERROR: u64 = 2;
const SCOPE: &str = "opentelemetry-lua";

/// All spans under one resource.
pub(super) fn export(resource: &[(String, Attribute)], spans: &[Span]) -> Vec<u8> {
    let mut attributes = Vec::new();
    for (key, value) in resource {
        message(1, &key_value(key, value), &mut attributes);
    }
    let mut scope = Vec::new();
    text(1, SCOPE, &mut scope);
    let mut scope_spans = Vec::new();
    message(1, &scope, &mut scope_spans);
    for span in spans {
        message(2, &encode(span), &mut scope_spans);
    }
    let mut resource_spans = Vec::new();
    message(1, &attributes, &mut resource_spans);
    message(2, &scope_spans, &mut resource_spans);
    let mut out = Vec::new();
    message(1, &resource_spans, &mut out);
    out
}

fn encode(span: &Span) -> Vec<u8> {
    let mut out = Vec::new();
    message(1, &from_hex(&span.trace_id), &mut out);
    message(2, &from_hex(&span.span_id), &mut out);
    if !span.trace_state.is_empty() {
        text(3, &span.trace_state, &mut out);
    }
    if let Some(parent) = &span.parent_span_id {
        message(4, &from_hex(parent), &mut out);
    }
    text(5, &span.name, &mut out);
    number(6, KIND_SERVER, &mut out);
    fixed(7, span.start, &mut out);
    fixed(8, span.end, &mut out);
    for (key, value) in &span.attributes {
        message(9, &key_value(key, value), &mut out);
    }
    if let Some(error) = &span.error {
        let mut status = Vec::new();
        text(2, error, &mut status);
        number(3, STATUS_ERROR, &mut status);
        message(15, &status, &mut out);
    }
    out
}

fn key_value(key: &str, value: &Attribute) -> Vec<u8> {
    let mut any = Vec::new();
    match value {
        Attribute::Text(value) => text(1, value, &mut any),
        Attribute::Bool(value) => number(2, u64::from(*value), &mut any),
        Attribute::Int(value) => number(3, *value as u64, &mut any),
        Attribute::Double(value) => fixed(4, value.to_bits(), &mut any),
    }
    let mut out = Vec::new();
    text(1, key, &mut out);
    message(2, &any, &mut out);
    out
}

/// An id that is not one is empty.
fn from_hex(digits: &str) -> Vec<u8> {
    HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_an_attribute() {
        let text = key_value("k", &Attribute::Text("v".to_owned()));
        assert_eq!(text, [0x0a, 1, b'k', 0x12, 3, 0x0a, 1, b'v']);
        let int = key_value("k", &Attribute::Int(300));
        assert_eq!(int, [0x0a, 1, b'k', 0x12, 3, 0x18, 0xac, 0x02]);
        assert_eq!(from_hex("0aff"), [0x0a, 0xff]);
    }
}
