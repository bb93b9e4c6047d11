//! Times and sizes as nginx writes them.

use std::time::Duration;

/// `60s`, `500ms`, `1h 30m`; a bare number is seconds.
pub fn duration(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        let number: u64 = rest.get(..digits)?.parse().ok()?;
        rest = rest.get(digits..)?;
        let letters = rest.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(rest.len());
        let milliseconds = match rest.get(..letters)? {
            "ms" => 1,
            "" | "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 604_800_000,
            "M" => 2_592_000_000,
            "y" => 31_536_000_000,
            _ => return None,
        };
        total = total.checked_add(Duration::from_millis(number.checked_mul(milliseconds)?))?;
        rest = rest.get(letters..)?.trim_start();
    }
    Some(total)
}

/// `16k`, `1m`, `1g` in bytes; a bare number is bytes.
pub fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text.get(..digits)?.parse().ok()?;
    let factor = match text.get(digits..)? {
        "" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, expected) in [
            ("60s", Some(60_000)),
            ("60", Some(60_000)),
            ("1m", Some(60_000)),
            ("500ms", Some(500)),
            ("1h 30m", Some(5_400_000)),
            ("1h30m", Some(5_400_000)),
            ("0", Some(0)),
            ("", None),
            ("s", None),
            ("5x", None),
            ("-1", None),
            ("99999999999999999999", None),
            ("99999999999999999y", None),
        ] {
            assert_eq!(duration(text), expected.map(Duration::from_millis), "{text}");
        }
    }

    #[test]
    fn sizes() {
        for (text, expected) in [
            ("16k", Some(16_384)),
            ("1m", Some(1_048_576)),
            ("1G", Some(1_073_741_824)),
            ("0", Some(0)),
            ("", None),
            ("k", None),
            ("1t", None),
            ("99999999999999g", None),
        ] {
            assert_eq!(size(text), expected, "{text}");
        }
    }
}
