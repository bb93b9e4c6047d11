//! Request bodies as lua-cjson takes them, and its words for what is wrong with them.
//!
//! Beyond JSON it takes raw control characters inside of strings (people send protobuf texts with line breaks) and
//! bytes that are not UTF-8. Not taken over: hexadecimal numbers, `NaN`, `Infinity`, keys that an object has twice.

use std::fmt::Write;

use serde_json::{Value, error::Category};
use tidegate_model::{json, schema::lua};

/// A line break becomes six bytes. A text in which so many are raw that it grows by more has no lines, but noise.
const MOST_GROWTH: usize = 3;

pub(super) fn parse(bytes: &[u8]) -> Result<Value, String> {
    let parsed = json::parse(bytes).or_else(|fault| {
        let json::Fault::Syntax(error) = fault else { return Err(fault.to_string()) };
        // The position of a mistake is meant for the text as it was sent.
        let text = String::from_utf8_lossy(bytes);
        let most = bytes.len().saturating_mul(MOST_GROWTH);
        let lenient = Some(text).filter(|text| text.len() <= most).and_then(|text| with_escapes(&text, most));
        let lenient = lenient.ok_or_else(|| describe(&error, bytes))?;
        json::parse(lenient.as_bytes()).map_err(|fault| match fault {
            json::Fault::Syntax(_) => describe(&error, bytes),
            json::Fault::Twice { .. } | json::Fault::TooMany(_) => fault.to_string(),
        })
    });
    parsed.map(|mut value| {
        lua::whole_numbers(&mut value);
        value
    })
}

/// Escapes the control characters inside of strings; `None` if the text becomes longer than `most`.
fn with_escapes(text: &str, most: usize) -> Option<String> {
    let mut escaped = String::with_capacity(text.len() + 64);
    let (mut inside, mut after_backslash) = (false, false);
    for character in text.chars() {
        match character {
            '"' if !after_backslash => inside = !inside,
            '\u{0}'..='\u{1f}' if inside => {
                if escaped.len() > most {
                    return None;
                }
                // Writing to a string cannot fail.
                let _ = write!(escaped, "\\u{:04x}", u32::from(character));
                after_backslash = false;
                continue;
            }
            _ => {}
        }
        after_backslash = character == '\\' && inside && !after_backslash;
        escaped.push(character);
    }
    (escaped.len() <= most).then_some(escaped)
}

fn describe(error: &serde_json::Error, bytes: &[u8]) -> String {
    let lines = bytes.split(|byte| *byte == b'\n').take(error.line().saturating_sub(1));
    let before: usize = lines.map(|line| line.len() + 1).sum();
    let position =
        if error.classify() == Category::Eof { bytes.len() } else { before + error.column().max(1) - 1 };
    let token = match bytes.get(position) {
        None => "T_END",
        Some(b'"') => "T_STRING",
        Some(b'{') => "T_OBJ_BEGIN",
        Some(b'}') => "T_OBJ_END",
        Some(b'[') => "T_ARR_BEGIN",
        Some(b']') => "T_ARR_END",
        Some(b':') => "T_COLON",
        Some(b',') => "T_COMMA",
        Some(b'0'..=b'9') => "T_NUMBER",
        Some(_) => "invalid token",
    };
    let text = error.to_string();
    let after_comma = if token == "T_OBJ_END" { "object key string" } else { "value" };
    let wanted = [
        ("key must be a string", "object key string"),
        ("trailing comma", after_comma),
        ("expected `:`", "colon"),
        ("expected `,` or `}`", "comma or object end"),
        ("expected `,` or `]`", "comma or array end"),
        ("trailing characters", "the end"),
        ("while parsing an object", "comma or object end"),
        ("while parsing a list", "comma or array end"),
    ];
    let wanted = wanted.iter().find(|(words, _)| text.contains(words)).map_or("value", |(_, wanted)| wanted);
    format!("Expected {wanted} but found {token} at character {}", position + 1)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn mistakes_are_told_in_cjsons_words() {
        for (body, message) in [
            ("{invalid}", "Expected object key string but found invalid token at character 2"),
            ("", "Expected value but found T_END at character 1"),
            ("{\n\"a\" 1}", "Expected colon but found T_NUMBER at character 7"),
            ("[1,]", "Expected value but found T_ARR_END at character 4"),
            ("{} x", "Expected the end but found invalid token at character 4"),
            ("{\"a\":1", "Expected comma or object end but found T_END at character 7"),
        ] {
            let error = parse(body.as_bytes()).expect_err(body);
            assert_eq!(error, message, "{body}");
        }
        assert_eq!(parse(b"\"a\nb\"").expect("lenient"), "a\nb");
        assert!(parse(format!("\"{}\"", "\u{1}".repeat(100)).as_bytes()).is_err(), "it grows sixfold");
        assert_eq!(parse(b"{\"k\\\\\":\"\t\"}").expect("lenient")["k\\"], "\t");
    }
}
