//! Fields of `multipart/form-data` bodies (RFC 7578).

use serde_json::{Map, Value};

use crate::common::form;

const MAX_PARTS: usize = 1000;

/// Name and value of each part; several of a name make an array. What is no part is skipped.
pub(super) fn decode(body: &[u8], content_type: &str) -> Value {
    let mut fields = Map::new();
    let boundary = content_type.split(';').map(str::trim).find_map(|part| {
        part.get(..9).filter(|start| start.eq_ignore_ascii_case("boundary="))?;
        part.get(9..).map(|value| value.trim_matches('"'))
    });
    let Some(boundary) = boundary.filter(|boundary| !boundary.is_empty()) else {
        return Value::Object(fields);
    };
    let delimiter = [b"--", boundary.as_bytes()].concat();
    for part in split(body, &delimiter).skip(1).take(MAX_PARTS) {
        if part.starts_with(b"--") {
            break;
        }
        let part = part.strip_prefix(b"\r\n").or_else(|| part.strip_prefix(b"\n")).unwrap_or(part);
        let Some((head, value)) = split_head(part) else { continue };
        let value = value.strip_suffix(b"\r\n").or_else(|| value.strip_suffix(b"\n")).unwrap_or(value);
        if let Some(name) = field_name(&String::from_utf8_lossy(head)) {
            form::insert(&mut fields, name, Value::String(String::from_utf8_lossy(value).into_owned()));
        }
    }
    Value::Object(fields)
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

fn split<'a>(text: &'a [u8], delimiter: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        match find(text, delimiter) {
            Some(at) => {
                rest = text.get(at + delimiter.len()..);
                text.get(..at)
            }
            None => rest.take(),
        }
    })
}

fn split_head(part: &[u8]) -> Option<(&[u8], &[u8])> {
    [&b"\r\n\r\n"[..], b"\n\n"].into_iter().find_map(|gap| {
        let at = find(part, gap)?;
        Some((part.get(..at)?, part.get(at + gap.len()..)?))
    })
}

/// `name` of `Content-Disposition`.
fn field_name(head: &str) -> Option<String> {
    let line = head.lines().find(|line| {
        line.split_once(':').is_some_and(|(name, _)| name.trim().eq_ignore_ascii_case("content-disposition"))
    })?;
    line.split(';').map(str::trim).find_map(|part| {
        let value = part.strip_prefix("name=")?;
        Some(value.trim_matches('"').to_owned())
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parts_of_bodies() {
        let body = "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--x\r\n\
                    content-disposition: form-data; filename=\"f\"; name=\"b\"\r\n\r\n2\r\n3\r\n--x--\r\n";
        let decoded = decode(body.as_bytes(), "multipart/form-data; boundary=x");
        assert_eq!(decoded, json!({"a": "1", "b": "2\r\n3"}));
        for content_type in
            ["multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=y"]
        {
            assert_eq!(decode(body.as_bytes(), content_type), json!({}), "{content_type}");
        }
    }
}
