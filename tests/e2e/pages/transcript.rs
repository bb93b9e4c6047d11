//! What a page shows of an output, beside what is printed.

/// A command of a `console` block and the lines shown below it.
pub(crate) struct Shown<'a> {
    pub command: &'a str,
    /// As they stand; empty ones are for the eye.
    pub lines: Vec<&'a str>,
}

pub(crate) fn shown(console: &str) -> Vec<Shown<'_>> {
    let mut all: Vec<Shown> = Vec::new();
    for line in console.lines() {
        match (line.strip_prefix("$ "), all.last_mut()) {
            (Some(command), _) => all.push(Shown { command, lines: Vec::new() }),
            (None, Some(last)) => last.lines.push(line),
            _ => {}
        }
    }
    all
}

/// The first line that the output lacks, or does not have in its place.
pub(crate) fn missing<'a>(lines: &[&'a str], output: &str) -> Option<&'a str> {
    let mut actual = output.lines();
    lines
        .iter()
        .filter(|line| !line.is_empty())
        .find(|line| !actual.any(|actual| matches(&timeless(line), &timeless(actual.trim_end()))))
        .copied()
}

/// Whether an output has this JSON, however either is laid out.
pub(crate) fn has_json(json: &str, output: &str) -> bool {
    let plain = |text: &str| timeless(&text.split_whitespace().collect::<String>());
    matches(&format!("...{}...", plain(json)), &plain(output))
}

/// `...` stands for anything.
pub(crate) fn matches(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split("...");
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

/// The text with `TIME` for each time such as `2026-11-21T22:14:03.512Z`.
fn timeless(text: &str) -> String {
    let shape = "dddd-dd-ddTdd:dd:dd";
    let is_time = |text: &str| {
        text.len() >= shape.len()
            && text.chars().zip(shape.chars()).all(|(sign, wanted)| match wanted {
                'd' => sign.is_ascii_digit(),
                _ => sign == wanted,
            })
    };
    let (mut fresh, mut rest) = (String::new(), text);
    while let Some(sign) = rest.chars().next() {
        if is_time(rest) {
            fresh += "TIME";
            rest = rest[shape.len()..].trim_start_matches(|sign: char| sign == '.' || sign.is_ascii_digit());
            rest = rest.strip_prefix('Z').unwrap_or(rest);
        } else {
            fresh.push(sign);
            rest = &rest[sign.len_utf8()..];
        }
    }
    fresh
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_match_with_gaps() {
        for (pattern, line, expected) in [
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("a...c", "a and c", true),
            ("a...", "a", true),
            ("...c", "abc", true),
            ("a...c", "ab", false),
            ("a...c", "acbc", true),
            ("a...b...", "acb", true),
        ] {
            assert_eq!(matches(pattern, line), expected, "{pattern} {line}");
        }
    }

    #[test]
    fn lines_have_an_order_and_times_are_any_times() {
        assert_eq!(missing(&["a", "", "b"], "a\nx\nb\n"), None);
        assert_eq!(missing(&["b", "a"], "a\nb\n"), Some("a"));
        assert_eq!(missing(&["at 2026-11-21T22:14:03.512Z"], "at 2027-01-02T00:00:00Z\n"), None);
        assert!(has_json("{\"a\": [1,\n 2, ...]}", "200 {\"a\":[1,2,3]}"));
        assert!(!has_json("{\"a\": 2}", "{\"a\":1}"));
    }
}
