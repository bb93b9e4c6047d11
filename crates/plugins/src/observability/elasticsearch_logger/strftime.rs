//! C's `strftime`, as far as names of indices need it. A leading `!` (UTC) is accepted; times are in UTC anyway.

use tidegate_telemetry::clock;

/// Those of C that depend on no locale.
const ESCAPES: &str = "YymdeHIMSpjWUVuwAaBbhFTDszZ%";

/// An unknown escape stays unchanged.
pub(super) fn format(text: &str, unix_ms: i64) -> String {
    let mut out = String::new();
    let mut chars = text.strip_prefix('!').unwrap_or(text).chars();
    while let Some(char) = chars.next() {
        match chars.clone().next().filter(|_| char == '%') {
            Some(escape) if ESCAPES.contains(escape) => {
                out.push_str(&clock::utc(unix_ms, &format!("%{escape}")));
                chars.next();
            }
            _ => out.push(char),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes() {
        let cases = [
            ("%Y.%m.%d", "2023.11.14"),
            ("!%F %T", "2023-11-14 22:13:20"),
            ("%j %a %b %I%p %%", "318 Tue Nov 10PM %"),
            ("plain %", "plain %"),
            ("%Q", "%Q"),
        ];
        for (text, expected) in cases {
            assert_eq!(format(text, 1_700_000_000_000), expected, "{text}");
        }
    }
}
