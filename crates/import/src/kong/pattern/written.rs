//! Rust's expressions written out: each character as its bytes.

use std::{collections::BTreeMap, fmt::Write};

use regex_syntax::{
    hir::{Capture, Class, ClassUnicode, Hir, HirKind, Look, Repetition},
    utf8::Utf8Sequences,
};
use tidegate_backtrack::Expression;

/// A pattern that is written out is refused above this: classes such as `\w` have hundreds of ranges.
const MAX_BYTES: usize = 24 << 10;

/// A pattern of Rust's as one on bytes.
pub(crate) fn bytes(pattern: &str) -> Result<String, String> {
    let hir = regex_syntax::parse(pattern).map_err(|_| format!("`{pattern}` is not supported"))?;
    let mut out = String::new();
    write(&hir, &mut out).map_err(|why| format!("`{pattern}`: {why}"))?;
    match Expression::new(&out, false) {
        Ok(_) => Ok(out),
        Err(_) => Err(format!("`{pattern}` is too large")),
    }
}

fn write(hir: &Hir, out: &mut String) -> Result<(), &'static str> {
    if out.len() > MAX_BYTES {
        return Err("it has too many characters beyond ASCII");
    }
    match hir.kind() {
        HirKind::Empty => {}
        HirKind::Literal(literal) => literal.0.iter().for_each(|byte| byte_into(*byte, out)),
        HirKind::Class(Class::Unicode(class)) => class_into(class, out),
        HirKind::Class(Class::Bytes(class)) => {
            let ranges: Vec<(u8, u8)> = class.iter().map(|range| (range.start(), range.end())).collect();
            ranges_into(&ranges, out);
        }
        HirKind::Look(Look::Start) => out.push('^'),
        HirKind::Look(Look::End) => out.push_str("\\z"),
        HirKind::Look(Look::WordAscii) => out.push_str("\\b"),
        HirKind::Look(Look::WordAsciiNegate) => out.push_str("\\B"),
        HirKind::Look(_) => return Err("ends of lines and words are not converted"),
        HirKind::Repetition(Repetition { min, max, greedy, sub }) => {
            out.push_str("(?:");
            write(sub, out)?;
            out.push(')');
            match (min, max) {
                (0, None) => out.push('*'),
                (1, None) => out.push('+'),
                (0, Some(1)) => out.push('?'),
                (min, None) => _ = write!(out, "{{{min},}}"),
                (min, Some(max)) => _ = write!(out, "{{{min},{max}}}"),
            }
            out.push_str(if *greedy { "" } else { "?" });
        }
        HirKind::Capture(Capture { sub, .. }) => {
            out.push('(');
            write(sub, out)?;
            out.push(')');
        }
        HirKind::Concat(parts) => parts.iter().try_for_each(|part| write(part, out))?,
        HirKind::Alternation(parts) => {
            for (index, part) in parts.iter().enumerate() {
                out.push_str(if index == 0 { "(?:" } else { "|" });
                write(part, out)?;
            }
            out.push(')');
        }
    }
    Ok(())
}

fn byte_into(byte: u8, out: &mut String) {
    match byte {
        b'!'..=b'~' => out.push_str(&regex::escape(&char::from(byte).to_string())),
        // Writing to a string does not fail.
        byte => _ = write!(out, "\\x{byte:02X}"),
    }
}

fn ranges_into(ranges: &[(u8, u8)], out: &mut String) {
    if let [(start, end)] = ranges
        && start == end
    {
        return byte_into(*start, out);
    }
    out.push('[');
    for (start, end) in ranges {
        let is_simple = |byte: &u8| byte.is_ascii_alphanumeric();
        let mut one = |byte: &u8| match is_simple(byte) {
            true => out.push(char::from(*byte)),
            false => _ = write!(out, "\\x{byte:02X}"),
        };
        one(start);
        if end > start {
            if *end > start.saturating_add(1) {
                out.push('-');
            }
            let mut one = |byte: &u8| match is_simple(byte) {
                true => out.push(char::from(*byte)),
                false => _ = write!(out, "\\x{byte:02X}"),
            };
            one(end);
        }
    }
    out.push(']');
}

/// Each character as its bytes; those with the same first ones are one way.
fn class_into(class: &ClassUnicode, out: &mut String) {
    let mut ways: BTreeMap<Vec<(u8, u8)>, Vec<(u8, u8)>> = BTreeMap::new();
    for range in class.iter() {
        for sequence in Utf8Sequences::new(range.start(), range.end()) {
            let mut bytes: Vec<(u8, u8)> =
                sequence.as_slice().iter().map(|one| (one.start, one.end)).collect();
            let last = bytes.pop().unwrap_or_default();
            ways.entry(bytes).or_default().push(last);
        }
    }
    if ways.is_empty() {
        // Nothing is one of no characters.
        return out.push_str("[^\\x00-\\xFF]");
    }
    let is_one = ways.len() == 1;
    for (index, (first, last)) in ways.into_iter().enumerate() {
        match index {
            0 if is_one => {}
            0 => out.push_str("(?:"),
            _ => out.push('|'),
        }
        first.iter().for_each(|one| ranges_into(&[*one], out));
        ranges_into(&last, out);
    }
    if !is_one {
        out.push(')');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Rust's on the same text.
    #[test]
    fn patterns_mean_the_same_on_bytes() {
        let texts = [
            "/api/x/admin",
            "/api/é/admin",
            "/api/éé/admin",
            "/api/ééé/admin",
            "/api/\u{212a}/admin",
            "/api/٠/admin",
            "/api//admin",
            "/pub/é",
            "/pub/\u{3000}",
            "/pub\n",
            "/pub",
            "/x/secret",
            "/admin",
            "/a😀b",
            "/a%40b",
            "/A/b-c.d",
            "",
        ];
        for pattern in [
            r"^/api/\w+/admin$",
            r"^(?i)/api/[a-z]+/admin$",
            "^/api/.{1,3}/admin$",
            "^/api/[^a]/admin",
            r"^/api/\d+/admin$",
            r"^/pub/\s$",
            r"^/pub/..$",
            r"^/pub/\W$",
            "^/pub$",
            "^/admin|/secret",
            "^/a[^/]b$",
            "^/(?:a|é)",
            "é",
            r"^/a(?:%40)?b",
            "[/.-]b",
            "^/[^é]*$",
            r"^/\S+\D$",
        ] {
            let rust = regex::Regex::new(pattern).expect("compiles");
            let ours = Expression::new(&bytes(pattern).expect("written out"), false).expect("compiles");
            for text in texts {
                assert_eq!(
                    ours.is_match(text.as_bytes(), None).ok(),
                    Some(rust.is_match(text)),
                    "{pattern} {text:?}"
                );
            }
        }
        assert!(bytes(r"^/\bx").is_err() && bytes("(?m)^/x").is_err() && bytes("(?!x)").is_err());
    }
}
