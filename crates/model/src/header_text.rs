//! Names and values of header fields in configurations. A line break in one would start another field, or another
//! message; a name with other bytes than a token's (RFC 9110 section 5.6.2) is read in as many ways as there are
//! readers.
//!
//! A plugin or resource declares where it has such texts; this is the only function that checks them.

use serde_json::Value;

/// The kind of text at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// The name of a field that is sent.
    Name,
    /// A value, a name that is only looked for, or a list of them.
    Value,
    /// An object: names and values.
    Fields,
    /// A list of `Name: value`.
    Lines,
    /// `add`, `set` and `remove` of the above, or [`Text::Fields`].
    Edits,
}

/// A path and what is there: `headers`, `rules[].header_prefix`, `levels.*.request_headers`.
pub type HeaderField = (&'static str, Text);

/// The error names the place and what is wrong there.
pub fn check(conf: &Value, places: &[HeaderField]) -> Result<(), String> {
    places.iter().try_for_each(|(path, text)| {
        at(conf, path, &mut |value| text.check(value))
            .map_err(|reason| format!("property \"{path}\": {reason}"))
    })
}

/// Every value that a path leads to.
fn at(value: &Value, path: &str, visit: &mut dyn FnMut(&Value) -> Result<(), String>) -> Result<(), String> {
    let (step, rest) = path.split_once('.').map_or((path, None), |(step, rest)| (step, Some(rest)));
    let mut go = |value: &Value| match rest {
        Some(rest) => at(value, rest, visit),
        None => visit(value),
    };
    if step == "*" {
        return value.as_object().into_iter().flatten().try_for_each(|(_, member)| go(member));
    }
    let (name, each) = step.strip_suffix("[]").map_or((step, false), |name| (name, true));
    match value.get(name) {
        None => Ok(()),
        Some(list) if each => list.as_array().into_iter().flatten().try_for_each(go),
        Some(member) => go(member),
    }
}

impl Text {
    fn check(self, value: &Value) -> Result<(), String> {
        match self {
            Text::Name => texts(value, check_name),
            Text::Value => texts(value, check_value),
            Text::Lines => texts(value, check_line),
            Text::Fields => check_fields(value),
            Text::Edits if !has_operations(value) => check_fields(value),
            Text::Edits => ["add", "set"]
                .iter()
                .filter_map(|name| value.get(name))
                .try_for_each(|edits| match edits {
                    Value::Array(_) => texts(edits, check_line),
                    _ => check_fields(edits),
                })
                .and_then(|()| value.get("remove").map_or(Ok(()), |names| texts(names, check_name))),
        }
    }
}

/// Whether `headers` has the form with `add`, `set` and `remove` instead of a plain object of fields.
pub fn has_operations(headers: &Value) -> bool {
    ["add", "set", "remove"]
        .iter()
        .any(|name| headers.get(name).is_some_and(|value| value.is_object() || value.is_array()))
}

/// One text or a list of them; the schema refuses anything else.
fn texts(value: &Value, check: fn(&str) -> Result<(), String>) -> Result<(), String> {
    match value {
        Value::String(text) => check(text),
        Value::Array(items) => items.iter().filter_map(Value::as_str).try_for_each(check),
        _ => Ok(()),
    }
}

fn check_fields(value: &Value) -> Result<(), String> {
    value.as_object().into_iter().flatten().try_for_each(|(name, value)| {
        check_name(name)?;
        texts(value, check_value).map_err(|reason| format!("{name}: {reason}"))
    })
}

/// `Name: value`; the schema refuses one without a colon.
fn check_line(line: &str) -> Result<(), String> {
    match line.split_once(':') {
        Some((name, value)) => check_name(name.trim()).and_then(|()| check_value(value)),
        None => check_value(line),
    }
}

/// RFC 9110 section 5.6.2.
pub(crate) fn is_token(text: &str) -> bool {
    let of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(of_token)
}

fn check_name(name: &str) -> Result<(), String> {
    match is_token(name) {
        true => Ok(()),
        false => Err(format!("invalid header name {name:?}; use letters, digits and -")),
    }
}

fn check_value(value: &str) -> Result<(), String> {
    match value.bytes().any(|byte| (byte < b' ' && byte != b'\t') || byte == 0x7f) {
        false => Ok(()),
        true => Err(format!("{value:?} contains a control character")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn line_breaks_are_found_wherever_a_header_is_written() {
        let places: &[HeaderField] = &[
            ("name", Text::Name),
            ("realm", Text::Value),
            ("names", Text::Name),
            ("abort.headers", Text::Fields),
            ("headers", Text::Edits),
            ("rules[].prefix", Text::Name),
            ("levels.*.headers", Text::Edits),
            ("checks.lines", Text::Lines),
        ];
        let good = json!({
            "name": "X-A_b", "realm": "a\tb é", "names": ["A", "B"], "abort": {"headers": {"A": "b", "C": 1}},
            "headers": {"add": {"A": ["b", "c"]}, "set": {"A": "$x"}, "remove": ["B"]},
            "rules": [{"prefix": "P"}, {}], "levels": {"a": {"headers": {"A": "b"}}}, "checks": {"lines": ["A: b"]},
        });
        assert_eq!(check(&good, places), Ok(()));
        assert_eq!(check(&json!({}), places), Ok(()));
        for (bad, place) in [
            (json!({"name": "A\r\nB"}), "name"),
            (json!({"name": "A B"}), "name"),
            (json!({"name": ""}), "name"),
            (json!({"realm": "a\nb"}), "realm"),
            (json!({"names": ["A", "B:"]}), "names"),
            (json!({"abort": {"headers": {"A": "b\r\nSet-Cookie: x"}}}), "abort.headers"),
            (json!({"abort": {"headers": {"A\n": "b"}}}), "abort.headers"),
            (json!({"headers": {"A": "b\r"}}), "headers"),
            (json!({"headers": {"add": {"A": ["b", "c\n"]}}}), "headers"),
            (json!({"headers": {"add": ["A: b\r\nC: d"]}}), "headers"),
            (json!({"headers": {"remove": ["A\r\n"]}}), "headers"),
            (json!({"rules": [{"prefix": "P\n"}]}), "rules[].prefix"),
            (json!({"levels": {"a": {"headers": {"set": {"A\u{7f}": "b"}}}}}), "levels.*.headers"),
            (json!({"checks": {"lines": ["A: b\r\nC: d"]}}), "checks.lines"),
        ] {
            let reason = check(&bad, places).unwrap_err();
            assert!(reason.starts_with(&format!("property \"{place}\": ")), "{bad}: {reason}");
            assert!(!reason.contains(['\r', '\n']), "{reason:?}");
        }
    }
}
