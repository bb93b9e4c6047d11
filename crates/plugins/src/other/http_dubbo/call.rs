//! A call in Dubbo's protocol (version 2), with fastjson: a head of 16 bytes, and lines of JSON.

use serde_json::Value;

use crate::common::dubbo::{self, Serialization};

pub(super) struct Call<'c> {
    pub service: &'c str,
    pub version: &'c str,
    pub method: &'c str,
    pub types: &'c str,
    /// Lines of JSON.
    pub parameters: Vec<u8>,
}

impl Call<'_> {
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut lines = Vec::new();
        for text in ["2.0.2", self.service, self.version, self.method, self.types] {
            lines.extend_from_slice(Value::from(text).to_string().as_bytes());
            lines.push(b'\n');
        }
        if !self.parameters.is_empty() {
            lines.extend_from_slice(&self.parameters);
            lines.push(b'\n');
        }
        lines.extend_from_slice(b"{}\n");
        dubbo::call(Serialization::Fastjson, &lines)
    }
}

/// As Java's `readLine` counts them, by which Dubbo reads: a carriage return ends a line, too.
pub(super) fn count_lines(lines: &[u8]) -> usize {
    let ends = (lines.iter().enumerate())
        .filter(|&(at, &byte)| byte == b'\n' || byte == b'\r' && lines.get(at + 1) != Some(&b'\n'));
    if lines.is_empty() { 0 } else { ends.count() + 1 }
}

/// Parameters as lines: the items of a list, or the members of an object in their order.
pub(super) fn lines(value: &Value) -> Vec<u8> {
    let lines: Vec<String> = match value {
        Value::Array(items) => items.iter().map(Value::to_string).collect(),
        Value::Object(members) => members.values().map(Value::to_string).collect(),
        single => vec![single.to_string()],
    };
    lines.join("\n").into_bytes()
}

/// How many parameters a method takes, by its types in the form of the JVM: `Ljava/lang/Long;[I`.
pub(super) fn parameters(types: &str) -> Result<usize, String> {
    let bad = || format!("params_type_desc {types:?} is not a list of types in the form of the JVM");
    let (mut count, mut rest) = (0, types);
    while !rest.is_empty() {
        rest = rest.trim_start_matches('[');
        rest = match rest.chars().next() {
            Some('L') => rest.split_once(';').map(|(_, rest)| rest).ok_or_else(bad)?,
            Some(sign) if "ZBCSIJFD".contains(sign) => rest.get(1..).unwrap_or_default(),
            _ => return Err(bad()),
        };
        count += 1;
    }
    Ok(count)
}

#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    Nothing,
    Value(Vec<u8>),
    Failed(String),
}

impl Answer {
    /// The first line says what follows, with attachments or without.
    pub(super) fn of(status: u8, data: &[u8]) -> Answer {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).chars().take(200).collect::<String>();
        if status != dubbo::OK {
            return Answer::Failed(format!("status {status}: {}", text(data)));
        }
        let mut lines = data.split(|&byte| byte == b'\n');
        match (lines.next().and_then(<[u8]>::first), lines.next()) {
            (Some(b'1' | b'4'), Some(value)) => {
                Answer::Value(value.strip_suffix(b"\r").unwrap_or(value).to_vec())
            }
            (Some(b'2' | b'5'), _) => Answer::Nothing,
            (_, reason) => Answer::Failed(format!("the method failed: {}", text(reason.unwrap_or_default()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn calls() {
        let call = Call {
            service: "a.B",
            version: "1.0.0",
            method: "m",
            types: "I",
            parameters: lines(&json!([1])),
        };
        let lines = b"\"2.0.2\"\n\"a.B\"\n\"1.0.0\"\n\"m\"\n\"I\"\n1\n{}\n";
        let head = [0xda, 0xbb, 0xc6, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, lines.len() as u8];
        assert_eq!(call.bytes(), [&head[..], lines].concat());
    }

    #[test]
    fn types_and_lines() {
        let cases = [
            ("", Some(0)),
            ("I", Some(1)),
            ("Ljava/lang/Long;[[JZ", Some(3)),
            ("X", None),
            ("La", None),
            ("[", None),
        ];
        for (types, expected) in cases {
            assert_eq!(parameters(types).ok(), expected, "{types}");
        }
        let text = |value: Value| String::from_utf8(lines(&value)).expect("text");
        assert_eq!(text(json!(["a\"\n", null, {"b": 1}])), "\"a\\\"\\n\"\nnull\n{\"b\":1}");
        assert_eq!(text(json!({"z": 1, "a": true})), "1\ntrue");
        assert_eq!(text(json!([])), "");
    }

    #[test]
    fn answers() {
        let value = |text: &str| Answer::Value(text.as_bytes().to_vec());
        let cases = [
            (dubbo::OK, "1\n{\"a\":1}\n", value("{\"a\":1}")),
            (dubbo::OK, "4\n\"x\"\n{}\n", value("\"x\"")),
            (dubbo::OK, "2\n", Answer::Nothing),
            (dubbo::OK, "5\n{}\n", Answer::Nothing),
            (
                dubbo::OK,
                "0\n{\"message\":\"no\"}\n",
                Answer::Failed("the method failed: {\"message\":\"no\"}".to_owned()),
            ),
            (dubbo::OK, "", Answer::Failed("the method failed: ".to_owned())),
            (40, "bad", Answer::Failed("status 40: bad".to_owned())),
        ];
        for (status, data, expected) in cases {
            assert_eq!(Answer::of(status, data.as_bytes()), expected, "{data}");
        }
        let answer = [0xda, 0xbb, 0x06, 20, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 2];
        assert_eq!(dubbo::head(answer), Ok((20, 258)));
        for (at, byte) in [(0, 1), (2, 0x86), (12, 0x7f)] {
            let mut other = answer;
            other[at] = byte;
            assert!(dubbo::head(other).is_err(), "{at}");
        }
    }
}
