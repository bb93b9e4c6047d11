//! A header value with variables and with `$1`, what `regex_uri` caught.

use std::{borrow::Cow, convert::Infallible};

use serde_json::Value;
use tidegate_plugin_api::{
    Request, Template,
    template::pieces::{Piece, cut},
};

use super::captures::Captures;
use crate::common::header_edits;

pub(super) struct HeaderValue(Vec<Part>);

enum Part {
    Text(Template),
    Capture(usize),
}

impl HeaderValue {
    /// One value, or several of an array.
    pub(super) fn list(value: &Value) -> Vec<HeaderValue> {
        let values = match value {
            Value::Array(values) => values.as_slice(),
            one => std::slice::from_ref(one),
        };
        values.iter().filter_map(header_edits::text).map(|text| HeaderValue::new(&text)).collect()
    }

    fn new(text: &str) -> HeaderValue {
        let Ok(pieces) = cut::<_, Infallible>(text, true, |rest| Ok(capture(rest)));
        let part = |piece| match piece {
            Piece::Literal(text) => Part::Text(Template::compile(text)),
            Piece::Reference(index) => Part::Capture(index),
        };
        HeaderValue(pieces.into_iter().map(part).collect())
    }

    pub(super) fn render(&self, request: &Request, captures: &Captures) -> Cow<'_, [u8]> {
        if let [Part::Text(template)] = self.0.as_slice() {
            return template.render_or_borrow(request);
        }
        let mut out = Vec::new();
        for part in &self.0 {
            match part {
                Part::Text(template) => {
                    template.render_into(request, &mut out);
                }
                Part::Capture(index) => out.extend_from_slice(captures.get(*index)),
            }
        }
        Cow::Owned(out)
    }
}

/// `$1` or `${1}` at the start of `text`: the group's number, and the length.
fn capture(text: &str) -> Option<(usize, usize)> {
    let rest = text.strip_prefix('$')?;
    let (rest, mut used) = match rest.strip_prefix('{') {
        Some(rest) => (rest, 2),
        None => (rest, 1),
    };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let index = rest.get(..digits)?.parse().ok()?;
    used += digits;
    if rest.as_bytes().get(digits) == Some(&b'}') {
        used += 1;
    }
    Some((index, used))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_to_groups() {
        let cases = [
            ("$1", Some((1, 2))),
            ("${12}x", Some((12, 5))),
            ("$1abc", Some((1, 2))),
            ("$a", None),
            ("${a}", None),
            ("$", None),
        ];
        for (text, expected) in cases {
            assert_eq!(capture(text), expected, "{text}");
        }
        let shape = |text: &str| HeaderValue::new(text).0.len();
        assert_eq!([shape(""), shape("a"), shape("a$1"), shape("$1$2b"), shape("a\\$1")], [0, 1, 2, 3, 1]);
    }
}
