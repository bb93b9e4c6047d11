//! Patterns of schemas are PCRE without UTF mode: bytes in, ASCII classes. `$` is the very end, as JSON Schema has it: to PCRE a
//! name may end with a line feed, which no request has.

use std::fmt;

use tidegate_backtrack::{Expression, SearchTime};

pub(crate) struct Pattern {
    pub source: String,
    expression: Expression,
}

/// Bytes that a pattern looks at for one step of a check; their time is counted beside.
const BYTES_PER_STEP: usize = 16;

impl Pattern {
    pub(crate) fn compile(source: &str) -> Result<Pattern, String> {
        let expression =
            Expression::new(source, false).map_err(|why| format!("invalid pattern \"{source}\": {why}"))?;
        Ok(Pattern { source: source.to_owned(), expression })
    }

    /// Whether the text matches; `None`: the search ran into a limit, its own, that of `time`, or that of `spend`, which is
    /// asked for steps before they are taken.
    pub(crate) fn find(
        &self,
        text: &str,
        time: &SearchTime,
        spend: &mut dyn FnMut(usize) -> bool,
    ) -> Option<bool> {
        let may = spend(text.len() / BYTES_PER_STEP);
        may.then(|| self.expression.is_match_to_the_end(text.as_bytes(), Some(time)).ok())?
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "/{}/", self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn pcre_classes_are_understood() {
        for (pattern, text, expected) in [
            (r"^[0-9a-zA-Z-._\[\]:]+$", "[::1]", true),
            (r"^[a-zA-Z0-9-_]+$", "a-b_c", true),
            (r"^[a-zA-Z0-9-_]+$", "a b", false),
            (r"^[^[]+$", "a[", false),
            (r"^[]a]+$", "a]", true),
            (r"^(?!admin).*$", "admin", false),
            (r"^(?!admin).*$", "user", true),
            (r"^\w+$", "\u{e9}", false),
            (r"^[a&&b]+$", "&", true),
            ("^ad$", "ad\n", false),
            (r"^[^\p{L}]+$", "\u{e9}", false),
        ] {
            let compiled = Pattern::compile(pattern).unwrap();
            assert_eq!(
                compiled.find(text, &tidegate_backtrack::SearchTime::default(), &mut |_| true),
                Some(expected),
                "{pattern} on {text}"
            );
        }
        assert!(Pattern::compile("(").is_err());
    }
}
