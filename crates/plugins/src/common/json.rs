//! JSON that clients sent, with errors in the words of lua-cjson, which APISIX shows.

use serde_json::Value;

/// Nesting is limited by the parser (128 levels).
pub fn decode(text: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(text).map_err(|error| {
        let at = position(text, error.line(), error.column());
        if error.is_eof() || text.get(at - 1..).is_none_or(<[u8]>::is_empty) {
            format!("Expected value but found T_END at character {}", text.len() + 1)
        } else {
            format!("Expected value but found invalid token at character {at}")
        }
    })
}

/// Line and column as a position in the text, from 1.
fn position(text: &[u8], line: usize, column: usize) -> usize {
    let before: usize =
        text.split_inclusive(|&byte| byte == b'\n').take(line.saturating_sub(1)).map(<[u8]>::len).sum();
    (before + column).max(1)
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn errors_name_the_place() {
        let cases = [
            ("foo", "Expected value but found invalid token at character 2"),
            ("", "Expected value but found T_END at character 1"),
            ("{\"a\":", "Expected value but found T_END at character 6"),
        ];
        for (text, expected) in cases {
            assert_eq!(decode(text.as_bytes()).unwrap_err(), expected, "{text}");
        }
    }
}
