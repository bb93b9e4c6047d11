//! Texts with variables in them.

/// A part of a text.
#[derive(Debug, PartialEq)]
pub(crate) enum Part<'t> {
    Text(&'t str),
    Variable(&'t str),
    /// `$1`
    Capture(char),
}

/// Splits `a$b${c}$1`.
pub(crate) fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, after) = (rest.get(..at).unwrap_or_default(), rest.get(at + 1..).unwrap_or_default());
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let (name, next) = match after.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some((name, next)) => (name, next),
            None => {
                let end = after.find(|c| !is_name(c)).unwrap_or(after.len());
                let end = if after.starts_with(|c: char| c.is_ascii_digit()) { 1 } else { end };
                (after.get(..end).unwrap_or_default(), after.get(end..).unwrap_or_default())
            }
        };
        if !before.is_empty() {
            parts.push(Part::Text(before));
        }
        let mut letters = name.chars();
        match (letters.next(), letters.next()) {
            (None, _) => parts.push(Part::Text("$")),
            (Some(digit), None) if digit.is_ascii_digit() => parts.push(Part::Capture(digit)),
            _ => parts.push(Part::Variable(name)),
        }
        rest = next;
    }
    if !rest.is_empty() {
        parts.push(Part::Text(rest));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_texts() {
        use Part::{Capture, Text, Variable};
        for (text, wanted) in [
            ("a", vec![Text("a")]),
            ("$host/x", vec![Variable("host"), Text("/x")]),
            ("${a}b$1c", vec![Variable("a"), Text("b"), Capture('1'), Text("c")]),
            ("$10", vec![Capture('1'), Text("0")]),
            ("a$", vec![Text("a"), Text("$")]),
            ("$$a", vec![Text("$"), Variable("a")]),
        ] {
            assert_eq!(parts(text), wanted, "{text}");
        }
    }
}
