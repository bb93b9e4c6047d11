//! Text of others on a terminal: names of objects and what clients sent may hold escape sequences, and characters that
//! turn the direction of a line, so that it reads as something else.

use std::{borrow::Cow, fmt::Write};

/// For a name or a value: control, bidirectional and invisible characters as `\u202e`, as JSON writes them.
pub(super) fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, is_unsafe)
}

/// For several lines, which stay lines.
pub(super) fn printable_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |letter| letter != '\n' && is_unsafe(letter))
}

fn escaped(text: &str, is_unsafe: fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if !is_unsafe(letter) {
            out.push(letter);
            continue;
        }
        for unit in letter.encode_utf16(&mut [0; 2]) {
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    Cow::Owned(out)
}

/// The bidirectional controls of Unicode (UAX #9), line separators, and characters of no width.
fn is_unsafe(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_act_on_is_escaped() {
        let cases = [
            ("plain", "plain"),
            ("héllo 水", "héllo 水"),
            ("a\u{1b}[2Jb", "a\\u001b[2Jb"),
            ("a\r\nb\t", "a\\u000d\\u000ab\\u0009"),
            ("\u{7f}\u{9b}31m", "\\u007f\\u009b31m"),
            ("user\u{202e}nimda", "user\\u202enimda"),
            ("\u{2066}x\u{2069}\u{200b}", "\\u2066x\\u2069\\u200b"),
            ("\u{e0041}", "\\udb40\\udc41"),
        ];
        for (text, expected) in cases {
            assert_eq!(printable(text), expected, "{text:?}");
        }
        assert_eq!(printable_lines("a\n\u{1b}b\n"), "a\n\\u001bb\n");
    }
}
