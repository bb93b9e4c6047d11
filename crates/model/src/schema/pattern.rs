//! Patterns of schemas are PCRE without UTF mode: bytes in, ASCII classes.
//!
//! Most are the same to the `regex` crate once a few characters inside classes are escaped; look-around and
//! back-references go to `fancy-regex`.

use std::fmt;

pub(crate) struct Pattern {
    pub source: String,
    program: Program,
}

enum Program {
    Bytes(regex::bytes::Regex),
    Fancy(Box<fancy_regex::Regex>),
}

impl Pattern {
    pub fn compile(source: &str) -> Result<Pattern, String> {
        let adapted = adapt_pcre(source);
        let bytes = regex::bytes::RegexBuilder::new(&adapted)
            .unicode(false)
            .build()
            .or_else(|_| regex::bytes::Regex::new(&adapted));
        let program = match bytes {
            Ok(regex) => Program::Bytes(regex),
            Err(_) => match fancy_regex::Regex::new(&adapted) {
                Ok(regex) => Program::Fancy(Box::new(regex)),
                Err(error) => return Err(format!("invalid pattern \"{source}\": {error}")),
            },
        };
        Ok(Pattern { source: source.to_owned(), program })
    }

    /// Whether the text matches; `None`: the search ran into the back-tracking limit.
    pub fn find(&self, text: &str) -> Option<bool> {
        match &self.program {
            Program::Bytes(regex) => Some(regex.is_match(text.as_bytes())),
            Program::Fancy(regex) => regex.is_match(text).ok(),
        }
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "/{}/", self.source)
    }
}

/// Inside a class PCRE takes `[`, `&&`, `~~` and `--` literally, where `regex` sees sets and set operations.
pub fn adapt_pcre(source: &str) -> String {
    let mut out = String::with_capacity(source.len() + 8);
    let mut characters = source.chars().peekable();
    let mut class_position = None;
    while let Some(character) = characters.next() {
        match (character, class_position) {
            ('\\', position) => {
                out.push(character);
                if let Some(escaped) = characters.next() {
                    out.push(escaped);
                }
                class_position = position.map(|count| count + 1);
                continue;
            }
            ('[', None) => {
                class_position = Some(0);
                out.push(character);
                if characters.peek() == Some(&'^') {
                    characters.next();
                    out.push('^');
                }
                continue;
            }
            ('[', Some(_)) if characters.peek() != Some(&':') => out.push_str("\\["),
            ('[', Some(_)) => {
                out.push(character);
                for inner in characters.by_ref() {
                    out.push(inner);
                    if inner == ']' {
                        break;
                    }
                }
            }
            // A bracket right at the start of a class is a member of it.
            (']', Some(0)) => out.push_str("\\]"),
            (']', Some(_)) => {
                out.push(character);
                class_position = None;
                continue;
            }
            ('&' | '~', Some(_)) => {
                out.push('\\');
                out.push(character);
            }
            ('-', Some(_)) if characters.peek() == Some(&'-') => out.push_str("\\-"),
            _ => out.push(character),
        }
        class_position = class_position.map(|count| count + 1);
    }
    out
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
        ] {
            let compiled = Pattern::compile(pattern).unwrap();
            assert_eq!(compiled.find(text), Some(expected), "{pattern} on {text}");
        }
        assert!(Pattern::compile("(").is_err());
    }
}
