//! Lua's `tonumber` for text: surrounding blanks, decimal with exponent, hexadecimal. Everything else is nil.

pub(super) fn parse(text: &[u8]) -> Option<f64> {
    let text = text.trim_ascii();
    let (negative, digits) = match text.split_first()? {
        (b'-', rest) => (true, rest),
        (b'+', rest) => (false, rest),
        _ => (false, text),
    };
    let magnitude = match digits {
        [b'0', b'x' | b'X', hexadecimal @ ..] => parse_hexadecimal(hexadecimal)?,
        // Rust would also take "inf", "nan" and a second sign.
        [b'0'..=b'9' | b'.', ..] => std::str::from_utf8(digits).ok()?.parse::<f64>().ok()?,
        _ => return None,
    };
    Some(if negative { -magnitude } else { magnitude })
}

fn parse_hexadecimal(digits: &[u8]) -> Option<f64> {
    if digits.is_empty() {
        return None;
    }
    digits
        .iter()
        .try_fold(0f64, |value, digit| Some(value * 16.0 + f64::from((*digit as char).to_digit(16)?)))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn as_lua_reads_numbers() {
        let check =
            |text: &str, expected: Option<f64>| assert_eq!(parse(text.as_bytes()), expected, "{text}");
        check("10", Some(10.0));
        check(" 10\t", Some(10.0));
        check("-1.5e3", Some(-1500.0));
        check(".5", Some(0.5));
        check("5.", Some(5.0));
        check("0x1F", Some(31.0));
        check("", None);
        check("-", None);
        check(".", None);
        check("0x", None);
        check("--1", None);
        check("1 2", None);
        check("10a", None);
        check("1_000", None);
    }
}
